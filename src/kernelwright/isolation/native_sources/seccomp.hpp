// System-call filters. The runner's is a list of what an honest kernel needs: everything else fails with EPERM.
//
// An allow-list, because the calls that matter are the surprising ones: a POSIX timer or an fcntl(F_SETSIG)
// that delivers SIGCONT would wake a runner that the warden has stopped, and would let it compute ahead of the clock.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>
#include <vector>

namespace kw {

#if defined(__x86_64__)
constexpr unsigned kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArch = AUDIT_ARCH_AARCH64;
#else
#error "the sandbox knows x86-64 and arm64"
#endif

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArch, 1, 0));
    code_.push_back(ret(SECCOMP_RET_KILL_PROCESS));
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1));  // the x32 twin of every call
    code_.push_back(ret(SECCOMP_RET_KILL_PROCESS));
#endif
  }

  void allow(long call) { on(call, SECCOMP_RET_ALLOW); }
  void fail(long call, int error) { on(call, SECCOMP_RET_ERRNO | error); }

  // Allowed if an argument, both halves of it, is one of `values`; EPERM otherwise.
  void allow_values(long call, int argument, std::initializer_list<unsigned> values) {
    std::vector<sock_filter> body = small(argument);
    body.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg(argument)));
    for (unsigned value : values) {
      body.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
      body.push_back(ret(SECCOMP_RET_ALLOW));
    }
    body.push_back(ret(SECCOMP_RET_ERRNO | EPERM));
    block(call, body);
  }

  // Allowed if one argument is `value` and another is one of `values`.
  void allow_pair(long call, int first, unsigned value, int second, std::initializer_list<unsigned> values) {
    std::vector<sock_filter> body = small(first);
    body.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg(first)));
    body.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    body.push_back(ret(SECCOMP_RET_ERRNO | EPERM));
    body.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg(second)));
    for (unsigned allowed : values) {
      body.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed, 0, 1));
      body.push_back(ret(SECCOMP_RET_ALLOW));
    }
    body.push_back(ret(SECCOMP_RET_ERRNO | EPERM));
    block(call, body);
  }

  // Allowed if all of `required` and none of `forbidden` are set in the low half of an argument.
  void allow_bits(long call, int argument, unsigned required, unsigned forbidden) {
    block(call, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg(argument)),
                 BPF_STMT(BPF_ALU | BPF_AND | BPF_K, required | forbidden),
                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, required, 0, 1), ret(SECCOMP_RET_ALLOW),
                 ret(SECCOMP_RET_ERRNO | EPERM)});
  }

  bool install(unsigned otherwise) {
    code_.push_back(ret(otherwise));
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
  }

 private:
  static sock_filter ret(unsigned action) { return BPF_STMT(BPF_RET | BPF_K, action); }
  // Refuses an argument that does not fit into 32 bits: a pointer may have a low half of zero.
  static std::vector<sock_filter> small(int argument) {
    return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg(argument) + 4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
            ret(SECCOMP_RET_ERRNO | EPERM)};
  }
  static unsigned arg(int index) { return offsetof(seccomp_data, args) + 8u * static_cast<unsigned>(index); }
  void load(unsigned offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }

  void on(long call, unsigned action) { block(call, {ret(action)}); }

  // Every body ends in a return, so the loaded call number is intact for the next comparison.
  void block(long call, const std::vector<sock_filter>& body) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0,
                             static_cast<unsigned char>(body.size())));
    code_.insert(code_.end(), body.begin(), body.end());
  }

  std::vector<sock_filter> code_;
};

constexpr unsigned kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
// Calls that an older system's headers have no name for. The numbers are the same on all processors.
constexpr int kMountSetattr = 442, kOpenTreeAttr = 467;

// For a runner, installed by the runner itself just before it loads the candidate. The sanitizers' run time reads
// its own maps and limits with a few more calls, none of which starts a process or reaches another one.
inline bool confine_runner(bool sanitizer) {
  Filter filter;
  for (long call :
       {SYS_read,        SYS_write,       SYS_readv,      SYS_writev,        SYS_pread64,      SYS_close,
        SYS_lseek,       SYS_fstat,       SYS_newfstatat, SYS_openat,        SYS_munmap,       SYS_mprotect,
        SYS_mremap,      SYS_brk,         SYS_futex,      SYS_sched_yield,   SYS_nanosleep,    SYS_clock_nanosleep,
        SYS_gettid,      SYS_getpid,      SYS_exit,       SYS_exit_group,    SYS_rt_sigaction, SYS_rt_sigprocmask,
        SYS_rt_sigreturn, SYS_sigaltstack, SYS_sched_getaffinity, SYS_clock_gettime, SYS_clock_getres,
        SYS_gettimeofday, SYS_getrandom,  SYS_set_robust_list, SYS_rseq,     SYS_getcpu,       SYS_getrusage,
        SYS_sysinfo,     SYS_uname,       SYS_restart_syscall, SYS_getuid,     SYS_geteuid,
        SYS_getgid,      SYS_getegid,     SYS_faccessat,  SYS_set_tid_address})
    filter.allow(call);
#if defined(__x86_64__)
  filter.allow(SYS_arch_prctl);
  filter.allow(SYS_access);
  filter.allow(SYS_time);
#endif
  if (sanitizer)
    for (long call : {SYS_readlinkat, SYS_getppid, SYS_getdents64, SYS_pipe2}) filter.allow(call);
#if defined(__x86_64__)
  if (sanitizer)
    for (long call : {SYS_readlink, SYS_open, SYS_stat, SYS_pipe}) filter.allow(call);
#endif
  // abort() and no other signal: a storm of SIGCONT would cancel every stop.
  filter.allow_pair(SYS_tgkill, 0, static_cast<unsigned>(getpid()), 2, {0, SIGABRT});
  filter.allow_values(SYS_fcntl, 1, {F_GETFD, F_SETFD, F_GETFL});
  filter.allow_values(SYS_madvise, 2, {0, 1, 2, 3, 4, 8, 14, 15, 16, 22, 23});
  // Memory of its own only: pages of a shared mapping stay when they are unmapped in part, where no watch counts them.
  filter.allow_bits(SYS_mmap, 3, MAP_PRIVATE, MAP_SHARED);
  filter.allow_values(SYS_prctl, 0, {15u, 16u, 0x53564d41u});      // names of threads and of mappings
  filter.allow_values(SYS_prlimit64, 2, {0});                      // reading a limit, not setting one
  filter.allow_bits(SYS_clone, 0, CLONE_VM | CLONE_THREAD,  // CLONE_VFORK would wait where no stop reaches it
                    CLONE_VFORK | kNewNamespaces);
  filter.fail(SYS_clone3, ENOSYS);  // its flags lie in memory, out of a filter's sight; libc falls back to clone
  return filter.install(SECCOMP_RET_ERRNO | EPERM);
}

// For a builder: compilers start processes, so this only denies what no compiler needs. In a namespace of users of its
// own a process could mount what it likes; System V's shared memory stays when nobody has it mapped, beyond any limit.
inline bool confine_builder() {
  Filter filter;
  for (long call : {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_io_uring_setup, SYS_userfaultfd,
                    SYS_perf_event_open, SYS_bpf, SYS_socket, SYS_socketpair, SYS_keyctl, SYS_add_key, SYS_request_key,
                    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_unshare, SYS_setns, SYS_kexec_load, SYS_init_module,
                    SYS_finit_module, SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_pidfd_getfd,
                    SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_move_mount, SYS_open_tree, kMountSetattr,
                    kOpenTreeAttr, SYS_shmget})
    filter.fail(call, EPERM);
  filter.allow_bits(SYS_clone, 0, 0, kNewNamespaces);
  filter.fail(SYS_clone3, ENOSYS);  // as for a runner
  return filter.install(SECCOMP_RET_ALLOW);
}

// For a process with a GPU, under a tool or not: the driver needs sockets and a tool looks into the process that it
// watches, so this denies only what none of them needs. Both are alone in their namespaces.
inline bool confine_driver() {
  Filter filter;
  for (long call : {SYS_io_uring_setup, SYS_bpf, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_mount, SYS_umount2,
                    SYS_pivot_root, SYS_unshare, SYS_setns, SYS_kexec_load, SYS_init_module, SYS_finit_module,
                    SYS_open_by_handle_at, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_move_mount,
                    SYS_open_tree, kMountSetattr, kOpenTreeAttr})
    filter.fail(call, EPERM);
  filter.allow_bits(SYS_clone, 0, 0, kNewNamespaces);
  filter.fail(SYS_clone3, ENOSYS);  // as for a runner
  return filter.install(SECCOMP_RET_ALLOW);
}

// On top of the builder's, for a program that needs no other process. Limits of memory hold for each process, and files in memory
// are outside of them.
inline bool confine_to_one_process() {
  Filter filter;
  for (long call : {SYS_clone, SYS_memfd_create}) filter.fail(call, EPERM);
#if defined(__x86_64__)
  for (long call : {SYS_fork, SYS_vfork}) filter.fail(call, EPERM);
#endif
  filter.fail(SYS_clone3, ENOSYS);
  return filter.install(SECCOMP_RET_ALLOW);
}

}  // namespace kw
