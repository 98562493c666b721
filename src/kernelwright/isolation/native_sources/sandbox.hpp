// What a confined process can see and reach: namespaces, an empty root with chosen read-only mounts, Landlock,
// another user, limits. Each part is optional, and the caller learns which parts took hold.
#pragma once
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace kw {

struct Mount {
  std::string source;
  std::string target;  // inside the new root
  int fd = -1;         // the source, opened before the root changes but inside the mount namespace
};

struct Policy {
  bool namespaces = false;
  bool landlock = false;
  bool procfs = false;
  bool dev_null = false;
  std::vector<Mount> read_only;
  std::string scratch;  // a directory inside the new root for temporary files; empty for none
  unsigned long scratch_bytes = 0;
  int program = -1;  // the program to execute, which may lie outside of everything else that is visible
  unsigned uid = 0;  // 0: stay who we are
  unsigned long address_space = 0;
  unsigned long file_size = 0;
  unsigned long cpu_seconds = 0;
  unsigned long threads = 0;
  std::vector<int> cpus;
};

[[noreturn]] inline void die(const char* what) {
  fprintf(stderr, "sandbox: %s: %s\n", what, strerror(errno));
  _exit(125);
}

inline int landlock_abi() {
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

inline unsigned long namespace_flags() {
  unsigned long flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  return geteuid() == 0 ? flags : flags | CLONE_NEWUSER;
}

inline bool write_file(const char* path, const std::string& text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return whole;
}

// An unprivileged user is nobody inside; the maps have to be written before anything else needs an identity.
inline void become_nobody_inside(unsigned uid, unsigned gid) {
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // the warden is not dumpable, and such a process does not own its own maps
  if (!write_file("/proc/self/setgroups", "deny")) die("setgroups");
  if (!write_file("/proc/self/uid_map", "65534 " + std::to_string(uid) + " 1")) die("uid_map");
  if (!write_file("/proc/self/gid_map", "65534 " + std::to_string(gid) + " 1")) die("gid_map");
}

inline void make_parents(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0755);
}

inline void bind_read_only(const Mount& mount_point, const std::string& root) {
  std::string target = root + mount_point.target;
  std::string source = "/proc/self/fd/" + std::to_string(mount_point.fd);
  struct stat info;
  if (fstat(mount_point.fd, &info) != 0) die(mount_point.source.c_str());
  make_parents(target);
  if (S_ISDIR(info.st_mode)) {
    mkdir(target.c_str(), 0755);
  } else {
    int fd = open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) die(target.c_str());
    close(fd);
  }
  if (mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) die(target.c_str());
  struct statvfs state;
  unsigned long kept = 0;  // flags that the kernel does not let an unprivileged remount drop
  if (statvfs(target.c_str(), &state) == 0) kept = state.f_flag & (ST_NOEXEC | ST_NOATIME | ST_NODIRATIME | ST_RELATIME);
  unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | kept;
  if (!S_ISCHR(info.st_mode)) flags |= MS_NODEV;
  if (mount(nullptr, target.c_str(), nullptr, flags, nullptr) != 0) die("remount read-only");
}

// A source that does not exist on this machine (/lib64, say) is left out.
inline void open_sources(Policy& policy) {
  if (policy.dev_null) policy.read_only.push_back({"/dev/null", "/dev/null"});
  std::vector<Mount> present;
  for (Mount& mount_point : policy.read_only) {
    mount_point.fd = open(mount_point.source.c_str(), O_PATH | O_CLOEXEC);
    if (mount_point.fd >= 0) present.push_back(mount_point);
  }
  policy.read_only = present;
}

inline void mount_memory(const std::string& target, unsigned long bytes) {
  make_parents(target);
  mkdir(target.c_str(), 0777);
  std::string options = "mode=1777,size=" + std::to_string(bytes);
  if (mount("scratch", target.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) die("scratch");
}

inline void enter_root(Policy& policy) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) die("private mounts");
  open_sources(policy);
  const std::string root = "/tmp";  // exists everywhere; what is there is reached through descriptors opened before
  if (mount("kernelwright", root.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=755") != 0) die("tmpfs");
  if (!policy.scratch.empty()) mount_memory(root + policy.scratch, policy.scratch_bytes);
  // Behind the scratch, which would hide those that lie below it: an environment or a checkout in /tmp.
  for (const Mount& mount_point : policy.read_only) bind_read_only(mount_point, root);
  if (policy.procfs) {
    mkdir((root + "/proc").c_str(), 0755);
    if (mount("proc", (root + "/proc").c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) die("proc");
  }
  mkdir((root + "/.old").c_str(), 0700);
  if (syscall(SYS_pivot_root, root.c_str(), (root + "/.old").c_str()) != 0) die("pivot_root");
  if (chdir("/") != 0) die("chdir");
  if (umount2("/.old", MNT_DETACH) != 0) die("umount");
  rmdir("/.old");
  if (mount(nullptr, "/", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) != 0) die("root");
}

inline bool restrict_with_landlock(const Policy& policy) {
  int abi = landlock_abi();
  if (abi < 1) return false;
  const uint64_t read = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  uint64_t all = (1ull << 13) - 1;  // version 1
  if (abi >= 2) all |= 1ull << 13;  // refer
  if (abi >= 3) all |= 1ull << 14;  // truncate
  if (abi >= 5) all |= 1ull << 15;  // ioctl on devices
  struct {
    uint64_t fs, net, scoped;
  } attributes{all, abi >= 4 ? 3ull : 0ull, abi >= 6 ? 3ull : 0ull};  // no TCP; no signals or sockets outside
  size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0));
  if (rules < 0) return false;
  auto permit_open = [&](int fd, uint64_t access) {
    struct stat info;
    if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode))
      access &= LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
    landlock_path_beneath_attr rule{access, fd};
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  };
  auto permit = [&](const std::string& path, uint64_t access) {
    int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (fd < 0) return;
    permit_open(fd, access);
    close(fd);
  };
  if (policy.program >= 0) permit_open(policy.program, read);
  for (const Mount& mount_point : policy.read_only)
    permit(policy.namespaces ? mount_point.target : mount_point.source, read);
  if (!policy.scratch.empty()) permit(policy.scratch, all);
  if (policy.dev_null) permit("/dev/null", read | LANDLOCK_ACCESS_FS_WRITE_FILE);
  if (policy.procfs) permit("/proc", read);
  bool held = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return held;
}

inline void limit(int what, unsigned long value) {
  if (value == 0) return;
  rlimit bound{value, value};
  if (setrlimit(static_cast<__rlimit_resource>(what), &bound) != 0) die("setrlimit");
}

// Runs in the new process, before its program is executed. `outer_uid`/`outer_gid` are the caller's.
inline void confine(Policy& policy, unsigned outer_uid, unsigned outer_gid) {
  if (!policy.read_only.empty()) write_file("/proc/self/oom_score_adj", "1000");  // if memory ends, it goes first
  if (policy.namespaces) {
    if (outer_uid != 0) become_nobody_inside(outer_uid, outer_gid);
    enter_root(policy);
  }
  rlimit no_core{1, 1};  // with 0 the kernel would still start a handler for core dumps, outside, as root
  setrlimit(RLIMIT_CORE, &no_core);
  limit(RLIMIT_AS, policy.address_space);
  limit(RLIMIT_FSIZE, policy.file_size);
  limit(RLIMIT_CPU, policy.cpu_seconds);
  limit(RLIMIT_NPROC, policy.threads);
  if (!policy.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : policy.cpus) CPU_SET(static_cast<size_t>(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity");
  }
  // Before the change of user, who may not be allowed to walk to the paths that it may read.
  if (policy.landlock && !restrict_with_landlock(policy)) die("landlock");
  if (policy.uid != 0 && outer_uid == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(policy.uid, policy.uid, policy.uid) != 0 ||
        setresuid(policy.uid, policy.uid, policy.uid) != 0)
      die("setresuid");
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of user, which clears it
}

}  // namespace kw
