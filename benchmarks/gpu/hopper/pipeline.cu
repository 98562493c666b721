// Blocks that stay: one warp fetches rows into a ring of four, four warps multiply and give places back.
extern "C" __global__ void pipeline(const float* x, const float* weight, float* out, int rows) {
  constexpr int STAGES = 4, WORKERS = 128;
  __shared__ __align__(128) float ring[STAGES][1024];
  __shared__ u64 full[STAGES], empty[STAGES];
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) init(full[s], 1), init(empty[s], WORKERS);
    show_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= WORKERS) {
    if (threadIdx.x == WORKERS)
      for (int row = blockIdx.x, n = 0; row < rows; row += gridDim.x, ++n) {
        const int s = n % STAGES, turn = n / STAGES;
        if (turn > 0) wait(empty[s], (turn - 1) % 2);
        expect(full[s], 4096);
        load_bulk(ring[s], x + 1024ll * row, 4096, full[s]);
      }
    return;
  }
  for (int row = blockIdx.x, n = 0; row < rows; row += gridDim.x, ++n) {
    const int s = n % STAGES;
    wait(full[s], n / STAGES % 2);
    for (int i = threadIdx.x; i < 1024; i += WORKERS) out[1024ll * row + i] = ring[s][i] * weight[i];
    arrive(empty[s]);
  }
}
/* plan.py
import kw


def plan(x, weight, out):
    blocks = min(x.shape[0], 2 * kw.device.multiprocessors)
    return kw.plan(kw.launch("pipeline", blocks, 160, x, weight, out, kw.i32(x.shape[0])))
*/
