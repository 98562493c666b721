// Makes an empty trial cost the same in every process (docs/decisions/0034).
//
// What a trial costs beside the call in it is two switches from the warden to the process and back. They take three
// times as long where the two are on different cores, and twice as long where nothing of the kind has happened on the
// core for some milliseconds. So both ends of a trial happen on one core, and just before the clock is read the warden
// goes through the same motions with a process of its own, which does nothing.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <vector>

namespace kw {

// The core of both ends of every trial: the one on which the warden happens to be woken first, an idle one if there is
// any. The warden stays on it, since a change of cores costs a trial as much as a second core does, until another process
// keeps it busy. A process is held there while it is started and while it is stopped, and may run on all its cores in
// between. A refusal costs precision and nothing else, so it is not looked at.
class OneCore {
 public:
  explicit OneCore(const std::vector<int>& cpus) : cpus_(cpus) {}

  void choose() {
    if (cpus_.empty() || !core_.empty()) return;
    timespec moment{0, 50000};
    restrict_to(0, cpus_);
    nanosleep(&moment, nullptr);
    core_ = {sched_getcpu()};
    restrict_to(0, core_);
  }
  void leave() { core_.clear(); }

  void hold(pid_t pid) const {
    if (core_.empty()) return;
    restrict_to(pid, core_);
    schedule_as(pid, SCHED_BATCH);  // woken, it does not take the core from the warden, which goes on to its wait first
  }
  void release(pid_t pid) const {
    if (core_.empty()) return;
    restrict_to(pid, cpus_);
    schedule_as(pid, SCHED_OTHER);
  }

 private:
  static void restrict_to(pid_t pid, const std::vector<int>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
    (void)sched_setaffinity(pid, sizeof set, &set);
  }

  static void schedule_as(pid_t pid, int policy) {
    sched_param none{};
    (void)sched_setscheduler(pid, policy, &none);
  }

  std::vector<int> cpus_, core_;
};

// A process of the warden's own that answers every go with done. It holds nothing but its two pipes.
class Rehearsal {
 public:
  void start() {
    int go[2], done[2];
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(done, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) answer(go[0], done[1]);
    close(go[0]);
    close(done[1]);
    go_ = go[1];
    done_ = done[0];
    if (pid_ > 0) stop();
  }

  void play(OneCore& core) {
    core.choose();
    if (!motions(core)) {
      core.leave();
      core.choose();
      motions(core);
    }
  }

  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

 private:
  static constexpr int kTimes = 4, kMilliseconds = 1000;
  static constexpr long kMost = 1000000;  // ten times what they take; on a busy core they take longer, and warm nothing

  // Whether they were quick.
  bool motions(const OneCore& core) {
    long until = nanoseconds() + kMost;
    for (int time = 0; time < kTimes && pid_ > 0 && nanoseconds() < until; ++time) {
      core.hold(pid_);
      kill(pid_, SIGCONT);
      core.release(pid_);
      char word = 'r';
      pollfd answered{done_, POLLIN, 0};
      bool ok = write(go_, &word, 1) == 1 && poll(&answered, 1, kMilliseconds) == 1 && read(done_, &word, 1) == 1;
      core.hold(pid_);
      if (!ok || !stop()) end();
    }
    return nanoseconds() < until;
  }

  static long nanoseconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000l + t.tv_nsec;
  }

  bool stop() const {
    siginfo_t info{};
    kill(pid_, SIGSTOP);
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT) == 0 &&
           info.si_code == CLD_STOPPED;
  }

  [[noreturn]] static void answer(int go, int done) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) _exit(1);
    if (dup2(go, 3) < 0 || dup2(done, 4) < 0) _exit(1);
    syscall(SYS_close_range, 5u, ~0u, 0u);
    for (char word; read(3, &word, 1) == 1;)
      if (write(4, &word, 1) != 1) break;
    _exit(0);
  }

  pid_t pid_ = -1;
  int go_ = -1, done_ = -1;
};

}  // namespace kw
