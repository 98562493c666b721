// Online softmax: each thread of a warp has its own maximum and sum, which are joined at the end.

extern "C" __global__ void run(const float* x, float* out, int cols) {
  const float none = __int_as_float(0xff800000);
  const float* row = x + (size_t)blockIdx.x * cols;
  float* to = out + (size_t)blockIdx.x * cols;
  float most = none, sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += 32) {
    const float value = row[i], more = value > most || value != value ? value : most;
    if (more == none) continue;
    sum = (most == none ? 0.f : sum * expf(most - more)) + expf(value - more);
    most = more;
  }
  for (int d = 16; d; d >>= 1) {
    const float other = __shfl_xor_sync(~0u, most, d), part = __shfl_xor_sync(~0u, sum, d);
    const float more = other > most || other != other ? other : most;
    if (more == none) continue;
    sum = (most == none ? 0.f : sum * expf(most - more)) + (other == none ? 0.f : part * expf(other - more));
    most = more;
  }
  for (int i = threadIdx.x; i < cols; i += 32) to[i] = expf(row[i] - most) / sum;
}

/* plan.py
import kw


def plan(x, out):
    rows, cols = x.shape
    return kw.plan(kw.launch("run", rows, 32, x, out, kw.i32(cols)))
*/
