// A transposed copy through tiles in shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T> __global__ void run(const T* x, T* out, int rows, int cols) {
  __shared__ T tile[16][17];
  const int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)r * cols + c];
  __syncthreads();
  const int to_r = blockIdx.x * 16 + threadIdx.y, to_c = blockIdx.y * 16 + threadIdx.x;
  if (to_r < cols && to_c < rows) out[(size_t)to_r * rows + to_c] = tile[threadIdx.x][threadIdx.y];
}

/* plan.py
import kw

TYPES = {"float64": "double", "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}


def plan(x, out):
    rows, cols = x.shape
    grid = ((cols + 15) // 16, (rows + 15) // 16)
    return kw.plan(kw.launch(f"run<{TYPES[x.dtype]}>", grid, (16, 16), x, out, kw.i32(rows), kw.i32(cols)))
*/
