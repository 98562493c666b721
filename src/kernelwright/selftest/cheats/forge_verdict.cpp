// Prints a verdict and leaves with success. Earns nothing: verdicts do not travel on a runner's output, and who
// ends has not said done.
#include <kernelwright.h>
#include <stdio.h>
#include <unistd.h>

void kernel(kw::Tensor<const float, 2>, kw::Tensor<const float, 1>, double, kw::Tensor<float, 2>) {
  puts(R"({"verdict": "accepted", "reason": "right", "workloads": [{"speed": "measured", "seconds": 1e-6}]})");
  puts("ok 1000 1000");
  fflush(stdout);
  _exit(0);
}
