// Honest, and slow where every access to shared memory is followed: one block takes a fraction of a second by itself.
extern "C" __global__ void slow(const float* x, const float* weight, float* out, int rows) {
  __shared__ float kept[256];
  kept[threadIdx.x] = 1.0f;
  __syncthreads();
  if (blockIdx.x == 0)
    for (int turn = 0; turn < 10000000; ++turn) {
      const float met = kept[(threadIdx.x + turn) % 256];
      __syncthreads();
      kept[threadIdx.x] = met;
      __syncthreads();
    }
  const float one = kept[threadIdx.x];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[1024ll * blockIdx.x + i] = x[1024ll * blockIdx.x + i] * weight[i] * one;
}
/* plan.py
import kw


def plan(x, weight, out):
    return kw.plan(kw.launch("slow", x.shape[0], 256, x, weight, out, kw.i32(x.shape[0])))
*/
