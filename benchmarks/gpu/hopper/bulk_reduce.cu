// Blocks add up the columns of some rows, and shared memory is added to memory by the copies.
extern "C" __global__ void bulk_reduce(const float* x, float* totals, int rows) {
  __shared__ __align__(128) float part[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) {
    float sum = 0.0f;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) sum += x[1024ll * row + i];
    part[i] = sum;
  }
  show_stores();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(totals),
                 "r"(in_shared(part)), "r"(4096)
                 : "memory");
    end_stores();
  }
}
extern "C" __global__ void keep(const float* totals, float* out) { out[threadIdx.x] = totals[threadIdx.x]; }
/* plan.py
import kw


def plan(x, out):
    rows, totals = x.shape[0], kw.scratch("totals", 4096, zero=True)
    blocks = min(rows, kw.device.multiprocessors)
    return kw.plan(
        kw.launch("bulk_reduce", blocks, 256, x, totals, kw.i32(rows)), kw.launch("keep", 1, 1024, totals, out)
    )
*/
