// 64 x 128 sums of products by a warpgroup: both operands come by tensor maps in lines of 128 bytes, swizzled.
__device__ __forceinline__ u64 described(u32 address) {
  return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
__device__ __forceinline__ void multiply(float (&sum)[64], u64 left, u64 right) {
  asm volatile(
      "{ .reg .pred more; setp.ne.b32 more, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, more, 1, 1, 0, 0; }"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
        "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),
        "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]),
        "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]), "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]),
        "+f"(sum[40]), "+f"(sum[41]), "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
        "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]), "+f"(sum[54]), "+f"(sum[55]),
        "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]), "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
      : "l"(left), "l"(right), "r"(1));
}
extern "C" __global__ void __launch_bounds__(128)
    product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16* out, int rows) {
  extern __shared__ char room[];
  __shared__ u64 full;
  constexpr int LEFT = 64 * 128, RIGHT = 128 * 128, PARTS = 4;
  char* const whole = room + (1024 - in_shared(room) % 1024) % 1024;
  if (threadIdx.x == 0) {
    init(full, 1);
    show_barriers();
    expect(full, PARTS * (LEFT + RIGHT));
    for (int part = 0; part < PARTS; ++part) {
      load_box(whole + part * LEFT, a, 64 * part, 64 * blockIdx.x, full);
      load_box(whole + PARTS * LEFT + part * RIGHT, b, 64 * part, 0, full);
    }
  }
  __syncthreads();
  wait(full, 0);
  float sum[64] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < 4 * PARTS; ++k) {
    const u32 within = k % 4 * 32;
    multiply(sum, described(in_shared(whole + k / 4 * LEFT) + within),
             described(in_shared(whole + PARTS * LEFT + k / 4 * RIGHT) + within));
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(sum[i])::"memory");
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int row = 64 * blockIdx.x + threadIdx.x / 32 * 16 + i % 4 / 2 * 8 + threadIdx.x % 32 / 4;
    if (row < rows) out[128ll * row + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = __float2bfloat16(sum[i]);
  }
}
/* plan.py
import kw


def plan(a, b, out):
    rows = a.shape[0]
    maps = kw.tensor_map(a, (64, 64), swizzle="128b"), kw.tensor_map(b, (128, 64), swizzle="128b")
    return kw.plan(
        kw.launch("product", (rows + 63) // 64, 128, *maps, out, kw.i32(rows), shared=1024 + 4 * (64 + 128) * 128)
    )
*/
