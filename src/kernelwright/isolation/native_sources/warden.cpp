// The warden starts one process, confined or not, and holds the clock. It runs no candidate code.
//
//   warden probe                           which parts of the sandbox this machine offers, as JSON
//   warden run [options] -- program args   runs a program to its end (a builder)
//   warden trial [options] -- program args runs a program that answers go with done (a runner, a baseline)
//
// In trial mode the process is stopped, every thread of it, whenever no trial is under way, and the time of a trial
// goes from before it is continued until after it is confirmed to be stopped again. Commands come on standard input:
//   trial OP MICROSECONDS     continue it, send the byte OP, wait for done at most so long
// and each is answered by one line: `ok NANOSECONDS CPU_NANOSECONDS`, `exited CODE`, `killed SIGNAL`, `timeout`,
// `ran-while-stopped`, `taken BYTES` where somebody else killed the process, which had used so much memory, or
// `failed WHY` where the warden itself is at fault. The first line has the same form.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>

#include "rehearsal.hpp"
#include "sandbox.hpp"
#include "seccomp.hpp"

extern char** environ;

namespace {

using kw::die;
using kw::Policy;

struct Options {
  Policy policy;
  std::vector<int> keep;
  std::vector<char*> program;
  int log = -1;            // where standard output and error of the process go
  int output = -1;         // run: where the produced file is copied
  std::string output_path; // run: the produced file, inside the sandbox
  long milliseconds = 10000;
  long resident = 0;       // trial: bytes of memory, page tables included, that the process may have; 0 for no limit
  int64_t modest = 0;      // bytes of memory up to which the process is not to blame where the machine has none left
  bool builder_filter = false;
  bool driver_filter = false;
  bool one_process = false;  // run: the program may start no other, and no thread
};

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void say(const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length > static_cast<int>(sizeof line) - 2) length = sizeof line - 2;
  line[length++] = '\n';
  if (write(1, line, static_cast<size_t>(length)) != length) _exit(1);  // nobody listens any more
}

// The warden's own misfortune, told to the controller as an answer.
[[noreturn]] void fail(const char* what) {
  say("failed %s: %s", what, strerror(errno));
  _exit(125);
}

std::vector<int> numbers(const char* text) {
  std::vector<int> list;
  for (char* rest = const_cast<char*>(text); *rest;) {
    list.push_back(static_cast<int>(strtol(rest, &rest, 10)));
    if (*rest == ',') ++rest;
  }
  return list;
}

Options parse(int argc, char** argv) {
  Options options;
  int at = 2;
  auto value = [&]() -> char* {
    if (at + 1 >= argc) { fprintf(stderr, "warden: %s needs a value\n", argv[at]); _exit(125); }
    return argv[++at];
  };
  for (; at < argc && strcmp(argv[at], "--") != 0; ++at) {
    std::string name = argv[at];
    if (name == "--namespaces") options.policy.namespaces = true;
    else if (name == "--landlock") options.policy.landlock = true;
    else if (name == "--procfs") options.policy.procfs = true;
    else if (name == "--dev-null") options.policy.dev_null = true;
    else if (name == "--builder-filter") options.builder_filter = true;
    else if (name == "--driver-filter") options.driver_filter = true;
    else if (name == "--one-process") options.one_process = true;
    else if (name == "--read-only") {
      std::string pair = value();
      size_t split = pair.find('\t');
      kw::Mount mount_point{pair.substr(0, split), split == std::string::npos ? pair : pair.substr(split + 1)};
      options.policy.read_only.push_back(mount_point);
    } else if (name == "--scratch") options.policy.scratch = value();
    else if (name == "--scratch-bytes") options.policy.scratch_bytes = strtoul(value(), nullptr, 10);
    else if (name == "--uid") options.policy.uid = static_cast<unsigned>(atoi(value()));
    else if (name == "--address-space") options.policy.address_space = strtoul(value(), nullptr, 10);
    else if (name == "--file-size") options.policy.file_size = strtoul(value(), nullptr, 10);
    else if (name == "--cpu-seconds") options.policy.cpu_seconds = strtoul(value(), nullptr, 10);
    else if (name == "--threads") options.policy.threads = strtoul(value(), nullptr, 10);
    else if (name == "--cpus") options.policy.cpus = numbers(value());
    else if (name == "--keep") options.keep = numbers(value());
    else if (name == "--log") options.log = atoi(value());
    else if (name == "--output") options.output = atoi(value());
    else if (name == "--output-path") options.output_path = value();
    else if (name == "--milliseconds") options.milliseconds = atol(value());
    else if (name == "--resident") options.resident = atol(value());
    else if (name == "--modest") options.modest = atol(value());
    else { fprintf(stderr, "warden: unknown option %s\n", argv[at]); _exit(125); }
  }
  for (++at; at < argc; ++at) options.program.push_back(argv[at]);
  if (options.program.empty()) { fprintf(stderr, "warden: no program\n"); _exit(125); }
  options.program.push_back(nullptr);
  return options;
}

void keep_only(std::vector<int> keep) {
  for (int fd : keep) fcntl(fd, F_SETFD, 0);
  for (unsigned fd = 3; fd < 1024; ++fd) {
    bool kept = false;
    for (int k : keep) kept |= static_cast<unsigned>(k) == fd;
    if (!kept) fcntl(static_cast<int>(fd), F_SETFD, FD_CLOEXEC);  // still needed until exec: mounts, the program
  }
  syscall(SYS_close_range, 1024u, ~0u, 0u);
}

[[noreturn]] void execute(Options& options, int program) {
  syscall(SYS_execveat, program, "", options.program.data(), environ, AT_EMPTY_PATH);
  die(options.program[0]);
}

void redirect(const Options& options) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  int log = options.log >= 0 ? options.log : null;
  if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) die("redirect");
}

// A fork whose child is the first process of its own namespaces, and whose parent is still its direct parent:
// only a direct parent can wait for a stop.
pid_t start(Options& options, std::vector<int> keep, int program, void (*body)(Options&, int)) {
  unsigned uid = getuid(), gid = getgid();
  unsigned long flags = SIGCHLD | (options.policy.namespaces ? kw::namespace_flags() : 0);
  pid_t pid = static_cast<pid_t>(syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
  if (pid != 0) return pid;
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  redirect(options);
  keep_only(keep);
  options.policy.program = program;
  kw::confine(options.policy, uid, gid);
  body(options, program);
  _exit(125);
}

int open_program(const char* path) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) fail(path);
  return fd;
}

// True if one more event of the process was seen; a stop leaves it waitable, so that it can be asked again.
bool await(pid_t pid, siginfo_t& info, int how) {
  info = {};
  return waitid(P_PID, static_cast<id_t>(pid), &info, how) == 0 && info.si_pid == pid;
}

bool killed_outright(const siginfo_t& info) { return info.si_code == CLD_KILLED && info.si_status == SIGKILL; }

void say_end(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) say("exited %d", info.si_status);
  else say("killed %d", info.si_status);
}

// The most memory that a process, which has ended and was not collected, or one that it waited for had at a time.
int64_t peak_bytes(pid_t pid) {
  siginfo_t info;
  rusage usage{};
  syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT, &usage);  // libc's waitid gives no usage
  return usage.ru_maxrss * 1024ll;
}

// When the machine's memory ends, whoever used it up, the kernel takes confined processes first (see confine). One that
// had little of it is not to blame; a candidate that had a lot may have wanted this end.
void say_killed_outright(pid_t pid, const siginfo_t& info, int64_t modest) {
  int64_t peak = peak_bytes(pid);
  if (peak <= modest) say("taken %lld", static_cast<long long>(peak));
  else say_end(info);
}

// How many processes the kernel has killed for want of memory since the machine started.
long killed_for_memory() {
  FILE* events = fopen("/proc/vmstat", "re");
  if (!events) return 0;
  char line[128];
  long count = 0;
  while (fgets(line, sizeof line, events) && sscanf(line, "oom_kill %ld", &count) != 1) {
  }
  fclose(events);
  return count;
}

kw::Rehearsal rehearsal;

[[noreturn]] void finish(pid_t pid) {
  rehearsal.end();
  kill(pid, SIGKILL);
  siginfo_t info;
  while (await(pid, info, WEXITED) && info.si_code != CLD_EXITED && info.si_code != CLD_KILLED &&
         info.si_code != CLD_DUMPED) {
  }
  _exit(0);
}

// --- run -----------------------------------------------------------------------------------------------------------

void copy_output(const Options& options) {
  int from = open(options.output_path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (from < 0) _exit(124);
  static char buffer[1 << 16];
  ssize_t count;
  while ((count = read(from, buffer, sizeof buffer)) > 0)
    for (ssize_t done = 0; done < count;) {
      ssize_t wrote = write(options.output, buffer + done, static_cast<size_t>(count - done));
      if (wrote <= 0) _exit(124);
      done += wrote;
    }
}

// The first process of the sandbox: starts the program, collects orphans, copies what the program made.
void builder_body(Options& options, int program) {
  if (options.builder_filter && !kw::confine_builder()) die("seccomp");
  if (options.driver_filter && !kw::confine_driver()) die("seccomp");
  pid_t pid = fork();
  if (pid == 0) {
    if (options.one_process && !kw::confine_to_one_process()) die("seccomp");
    execute(options, program);
  }
  int status = 0;
  for (pid_t ended = 0; ended != pid;) {
    ended = wait(&status);
    if (ended < 0) _exit(125);
  }
  if (WIFSIGNALED(status)) _exit(128 + WTERMSIG(status));
  if (WEXITSTATUS(status) == 0 && options.output >= 0) copy_output(options);
  _exit(WEXITSTATUS(status));
}

int run(Options options) {
  int program = open_program(options.program[0]);
  long taken_before = killed_for_memory();
  std::vector<int> keep = options.keep;
  if (options.output >= 0) keep.push_back(options.output);
  pid_t pid = start(options, keep, program, builder_body);
  if (pid < 0) fail("clone");
  int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd watch[2] = {{pidfd, POLLIN, 0}, {0, POLLIN, 0}};  // standard input closes when the controller is gone
  int64_t until = now() + options.milliseconds * 1000000ll;
  for (;;) {
    int64_t left = (until - now()) / 1000000;
    int count = poll(watch, 2, left > 0 ? static_cast<int>(left) : 0);
    if (count < 0 && errno == EINTR) continue;
    if (watch[0].revents) break;
    if (count == 0) say("timeout");
    kill(-pid, SIGKILL);
    finish(pid);
  }
  siginfo_t info;
  await(pid, info, WEXITED | WNOWAIT);
  kill(-pid, SIGKILL);  // whatever stayed behind where there is no process namespace
  bool failed = info.si_code != CLD_EXITED || info.si_status != 0;
  // A program fails in its own way when one of its processes is taken, so the kernel's count has to tell.
  if (failed && killed_for_memory() != taken_before) say_killed_outright(pid, info, options.modest);
  else say_end(info);
  return 0;
}

// --- trial ---------------------------------------------------------------------------------------------------------

struct Warded {
  pid_t pid;
  int go, done;
  clockid_t cpu;
  long resident_limit;
  int64_t modest;
  kw::OneCore core;
  int64_t cpu_at_stop = 0;

  // Where no limit of address space is possible (the sanitizers reserve terabytes), memory is watched from outside,
  // out of the reach of the process. Page tables count: reading a little of terabytes takes gigabytes of them, and not
  // a page of its own.
  bool too_large() const {
    if (resident_limit == 0) return false;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", static_cast<int>(pid));
    FILE* status = fopen(path, "re");
    if (!status) return false;
    char line[256];
    long kilobytes = 0, found;
    while (fgets(line, sizeof line, status))
      if (sscanf(line, "VmRSS: %ld", &found) == 1 || sscanf(line, "VmPTE: %ld", &found) == 1 ||
          sscanf(line, "VmSwap: %ld", &found) == 1)
        kilobytes += found;
    fclose(status);
    return kilobytes > resident_limit / 1024;
  }

  int64_t cpu_time() const {
    timespec t{};
    clock_gettime(cpu, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
  }
};

// A stop is reported when the last thread has taken it, a moment before that thread leaves its core. It runs no code
// of its own any more, but what it spends on leaving is still charged to it, and on a loaded or virtual machine it may
// be interrupted there for a long time. Asking the kernel which system call a stopped thread is in makes the kernel
// wait until the thread is off its core, after which its processor time is final.
constexpr int64_t kLeaving = 200000;

enum class Core { kLeft, kRunning, kUnknown };

Core core_of(const char* thread_directory, const char* thread) {
  char path[96], answer[8];
  snprintf(path, sizeof path, "%s/%s/syscall", thread_directory, thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? Core::kLeft : Core::kUnknown;  // it has ended
  ssize_t length = read(file, answer, sizeof answer);
  int error = errno;
  close(file);
  if (length <= 0) return error == ESRCH ? Core::kLeft : error == EAGAIN ? Core::kRunning : Core::kUnknown;
  return strncmp(answer, "running", 7) == 0 ? Core::kRunning : Core::kLeft;
}

Core all_cores(pid_t pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR* directory = opendir(path);
  if (!directory) return Core::kUnknown;
  Core worst = Core::kLeft;
  while (dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    worst = std::max(worst, core_of(path, entry->d_name));
  }
  closedir(directory);
  return worst;
}

// A thread that was ending when the others stopped is not stopped: it goes on ending, and is waited for.
int64_t settled_cpu_time(const Warded& subject) {
  int64_t before = subject.cpu_time();
  for (int round = 0; round < 10000; ++round) {
    Core cores = all_cores(subject.pid);
    int64_t after = subject.cpu_time();
    if (cores == Core::kLeft) return after;
    if (cores == Core::kUnknown && round > 0 && after == before) return after;  // all that can be told
    before = after;
    timespec moment{0, 50000};
    nanosleep(&moment, nullptr);
  }
  return before;
}

enum class Wait { kDone, kGone, kTimeout, kTooLarge };

constexpr int64_t kLook = 20000000;  // how often memory is looked at where it is limited

Wait wait_for_done(const Warded& subject, int64_t until) {
  pollfd watch[2] = {{subject.done, POLLIN, 0}, {0, 0, 0}};
  for (;;) {
    int64_t left = until - now();
    if (left <= 0) return Wait::kTimeout;
    if (subject.too_large()) return Wait::kTooLarge;
    if (subject.resident_limit != 0 && left > kLook) left = kLook;
    timespec limit{left / 1000000000, left % 1000000000};
    int count = ppoll(watch, 2, &limit, nullptr);
    if (count < 0 && errno == EINTR) continue;
    if (watch[1].revents & POLLHUP) finish(subject.pid);
    char bytes[64];
    if (watch[0].revents & POLLIN) return read(subject.done, bytes, sizeof bytes) > 0 ? Wait::kDone : Wait::kGone;
    if (watch[0].revents) return Wait::kGone;
  }
}

void drain(int fd) {  // a runner may have said done more often than asked; old words must not answer a new go
  char bytes[4096];
  while (read(fd, bytes, sizeof bytes) > 0) {
  }
}

// A process may try to evade its stop; the alarm ends the wait for it.
constexpr long kStopSeconds = 5;

void on_alarm(int) {}

void set_alarm(long seconds) {
  itimerval timer{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// Sends a signal that stops or ends the process, and waits for that. False if it evades.
bool halt(pid_t pid, int signal, siginfo_t& info) {
  kill(pid, signal);
  set_alarm(kStopSeconds);
  bool seen = await(pid, info, WSTOPPED | WEXITED | WNOWAIT);  // a stop is reported once every thread has stopped
  set_alarm(0);
  return seen;
}

// Stops the process and says how long the trial took since `begin`. False if it is gone.
bool conclude(Warded& subject, Wait outcome, int64_t begin, int64_t cpu_begin) {
  bool too_much = outcome == Wait::kTimeout || outcome == Wait::kTooLarge;
  subject.core.hold(subject.pid);
  siginfo_t info;
  if (!halt(subject.pid, too_much ? SIGKILL : SIGSTOP, info)) {
    outcome = Wait::kTimeout;  // it could not be stopped
    kill(subject.pid, SIGKILL);
  }
  int64_t end = now();
  if (info.si_code != CLD_STOPPED || outcome != Wait::kDone) {
    if (outcome == Wait::kTimeout) say("timeout");
    else if (info.si_code == CLD_STOPPED) say("exited 0");  // alive, but it closed the only channel it had
    else if (outcome == Wait::kTooLarge || !killed_outright(info)) say_end(info);
    else say_killed_outright(subject.pid, info, subject.modest);  // not by us, and no runner can send this signal
    return false;
  }
  subject.cpu_at_stop = settled_cpu_time(subject);
  say("ok %lld %lld", static_cast<long long>(end - begin), static_cast<long long>(subject.cpu_at_stop - cpu_begin));
  return true;
}

// The process is not as it was left. A stopped process runs nothing, so one that was killed since was killed by
// somebody else, perhaps a moment ago: it is neither stopped nor gone while it dies. Any other one went on.
void say_restless(const Warded& subject) {
  siginfo_t info;
  bool killed = halt(subject.pid, SIGSTOP, info) && killed_outright(info);
  if (killed) say_killed_outright(subject.pid, info, subject.modest);
  else say("ran-while-stopped 0");
}

bool one_trial(Warded& subject, char op, int64_t microseconds) {
  siginfo_t info;
  if (!await(subject.pid, info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) || info.si_code != CLD_STOPPED) {
    say_restless(subject);
    return false;
  }
  int64_t since = subject.cpu_time() - subject.cpu_at_stop;
  if (since > kLeaving) {
    say("ran-while-stopped %lld", static_cast<long long>(since));
    return false;
  }
  drain(subject.done);
  rehearsal.play(subject.core);
  subject.core.hold(subject.pid);
  int64_t begin = now();
  kill(subject.pid, SIGCONT);
  subject.core.release(subject.pid);  // before go: threads that a kernel starts inherit where it may run
  bool told = write(subject.go, &op, 1) == 1;
  Wait outcome = told ? wait_for_done(subject, begin + microseconds * 1000) : Wait::kGone;
  return conclude(subject, outcome, begin, subject.cpu_at_stop);
}

void trial_body(Options& options, int program) { execute(options, program); }

int trial(Options options) {
  rehearsal.start();
  int go[2], done[2];
  if (pipe2(go, O_CLOEXEC) != 0 || pipe2(done, O_CLOEXEC) != 0) fail("pipe");
  std::string go_text = std::to_string(go[0]), done_text = std::to_string(done[1]);
  for (char*& argument : options.program) {
    if (argument && strcmp(argument, "{go}") == 0) argument = go_text.data();
    else if (argument && strcmp(argument, "{done}") == 0) argument = done_text.data();
  }
  int program = open_program(options.program[0]);
  std::vector<int> keep = options.keep;
  keep.push_back(go[0]);
  keep.push_back(done[1]);
  int64_t begin = now();
  pid_t pid = start(options, keep, program, trial_body);
  if (pid < 0) fail("clone");
  close(go[0]);
  close(done[1]);
  fcntl(done[0], F_SETFL, O_NONBLOCK);
  fcntl(go[1], F_SETFL, O_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = on_alarm;  // without SA_RESTART, so that it interrupts a wait
  sigaction(SIGALRM, &action, nullptr);
  Warded subject{pid, go[1], done[0], 0, options.resident, options.modest, kw::OneCore(options.policy.cpus)};
  if (clock_getcpuclockid(pid, &subject.cpu) != 0) fail("clock_getcpuclockid");
  if (!conclude(subject, wait_for_done(subject, begin + options.milliseconds * 1000000ll), begin, 0)) finish(pid);
  char line[128];
  while (fgets(line, sizeof line, stdin)) {
    char op;
    long long microseconds;
    if (sscanf(line, "trial %c %lld", &op, &microseconds) != 2) fail("a command that is not a trial");
    if (!one_trial(subject, op, microseconds)) break;
  }
  finish(pid);
}

// --- probe ---------------------------------------------------------------------------------------------------------

void probe_body(Options&, int) { _exit(0); }

bool namespaces_work(bool procfs) {
  Options options;
  options.policy.namespaces = true;
  options.policy.procfs = procfs;
  options.policy.uid = 65533;
  options.policy.read_only.push_back({"/usr", "/usr"});
  pid_t pid = start(options, {}, -1, probe_body);
  siginfo_t info;
  return pid > 0 && await(pid, info, WEXITED) && info.si_code == CLD_EXITED && info.si_status == 0;
}

bool seccomp_works() {
  pid_t pid = fork();
  if (pid == 0) _exit(kw::confine_builder() ? 0 : 1);
  siginfo_t info;
  return pid > 0 && await(pid, info, WEXITED) && info.si_code == CLD_EXITED && info.si_status == 0;
}

int probe() {
  printf("{\"seccomp\": %s, \"landlock\": %d, \"namespaces\": %s, \"private_proc\": %s, \"root\": %s}\n",
         seccomp_works() ? "true" : "false", kw::landlock_abi() > 0 ? kw::landlock_abi() : 0,
         namespaces_work(false) ? "true" : "false", namespaces_work(true) ? "true" : "false",
         geteuid() == 0 ? "true" : "false");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  signal(SIGPIPE, SIG_IGN);
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "probe") return probe();
  if (mode == "run") return run(parse(argc, argv));
  if (mode == "trial") return trial(parse(argc, argv));
  fprintf(stderr, "usage: warden probe | run | trial\n");
  return 125;
}
