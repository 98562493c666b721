// The second kernel starts early and waits for the first where it reads what that wrote.
extern "C" __global__ void halved(const float* x, float* between, long long count) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) between[i] = 0.5f * x[i];
}
extern "C" __global__ void whole(const float* between, const float* weight, float* out, long long count) {
  const float twice = 2.0f * weight[(blockIdx.x * 256ll + threadIdx.x) % 1024];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) out[i] = between[i] * twice;
}
/* plan.py
import kw


def plan(x, weight, out):
    between, count = kw.scratch("between", 4 * x.numel()), x.numel()
    blocks = min(x.shape[0], 4 * kw.device.multiprocessors) * 4  # 256 threads each: a thread keeps its column
    return kw.plan(
        kw.launch("halved", blocks, 256, x, between, kw.i64(count)),
        kw.launch("whole", blocks, 256, between, weight, out, kw.i64(count), dependent=True),
    )
*/
