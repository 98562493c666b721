// Sends SIGKILL to its parent and to everybody it can reach. Earns nothing: the call is denied, and in a namespace
// of its own there is nobody else.
#include <kernelwright.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

void kernel(kw::Tensor<const float, 2>, kw::Tensor<const float, 1>, double, kw::Tensor<float, 2>) {
  kill(getppid(), SIGKILL);
  kill(-1, SIGKILL);
  for (int pid = 2; pid < 4096; ++pid) syscall(SYS_tgkill, pid, pid, SIGKILL);
}
