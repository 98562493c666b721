// unet_linear: each warp gets its 16 rows of x as one flat bulk copy (rows need no alignment), reads them from shared memory
// without conflicts by a permuted depth, and its warpgroup multiplies them (three TF32 sums) by the weight, split once.
constexpr int STEPS = (DEPTH + 7) / 8, CHUNKS = (STEPS + 3) / 4, LAST = STEPS - 4 * (CHUNKS - 1);
constexpr int GROUPS = 2, TILES = (ROWS + 63) / 64;
// Results whose rows are not aligned go out through the slab, as one flat run, where a block has whole rows.
constexpr bool FLAT = UNITS % 4 != 0 && SLICES == 1;
constexpr int SLAB = 16 * (FLAT && UNITS > DEPTH ? UNITS : DEPTH) + 32;

// 64 x WIDE products of depth 8 by a warpgroup: the left operand in registers, the right one in shared memory.
template <int Cols>
struct Products;
template <>
struct Products<32> {
  static __device__ __forceinline__ void add(
      float (&c)[16], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, {%16, %17, %18, %19}, %20, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<40> {
  static __device__ __forceinline__ void add(
      float (&c)[20], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %25, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n40k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19"
        "}, {%20, %21, %22, %23}, %24, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<48> {
  static __device__ __forceinline__ void add(
      float (&c)[24], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23"
        "}, {%24, %25, %26, %27}, %28, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<56> {
  static __device__ __forceinline__ void add(
      float (&c)[28], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %33, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n56k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27"
        "}, {%28, %29, %30, %31}, %32, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<64> {
  static __device__ __forceinline__ void add(
      float (&c)[32], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<72> {
  static __device__ __forceinline__ void add(
      float (&c)[36], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %41, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n72k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35"
        "}, {%36, %37, %38, %39}, %40, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<80> {
  static __device__ __forceinline__ void add(
      float (&c)[40], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %45, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n80k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39"
        "}, {%40, %41, %42, %43}, %44, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<88> {
  static __device__ __forceinline__ void add(
      float (&c)[44], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %49, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n88k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43"
        "}, {%44, %45, %46, %47}, %48, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<96> {
  static __device__ __forceinline__ void add(
      float (&c)[48], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %53, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, {%48, %49, %50, %51}, %52, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<104> {
  static __device__ __forceinline__ void add(
      float (&c)[52], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %57, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n104k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51"
        "}, {%52, %53, %54, %55}, %56, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
          "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<112> {
  static __device__ __forceinline__ void add(
      float (&c)[56], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %61, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n112k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55"
        "}, {%56, %57, %58, %59}, %60, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
          "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<120> {
  static __device__ __forceinline__ void add(
      float (&c)[60], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %65, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n120k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59"
        "}, {%60, %61, %62, %63}, %64, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
          "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
          "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};
template <>
struct Products<128> {
  static __device__ __forceinline__ void add(
      float (&c)[64], const unsigned a0, const unsigned a1, const unsigned a2, const unsigned a3,
      const unsigned long long b, const int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, {%64, %65, %66, %67}, %68, p, 1, 1;\n}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
          "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
          "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
  }
};

__device__ __forceinline__ void open_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void close_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// Rows of 128 bytes with the 128-byte swizzle, eight of them 1024 bytes apart.
__device__ __forceinline__ unsigned long long described(const float* const from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(from));
  return static_cast<unsigned long long>((address & 0x3FFFFu) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// Two TF32 numbers whose sum is a float to its last bit or two.
__device__ __forceinline__ void parted(const float v, unsigned& big, unsigned& small) {
  big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(v - __uint_as_float(big));
}
__device__ __forceinline__ float load1(const float* const from) {
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(from));
  return v;
}

// Three sums of products of one chunk of the depth, the small ones first. The unit rounds towards zero, so a chunk
// starts from nothing and ordinary additions join the chunks.
template <int Steps>
__device__ __forceinline__ void begin_chunk(
    float (&part)[WIDE / 2], unsigned (&big)[16], unsigned (&small)[16], const unsigned long long big_w,
    const unsigned long long small_w) {
#pragma unroll
  for (int i = 0; i < 4 * Steps; ++i) asm volatile("" : "+r"(big[i]), "+r"(small[i])::"memory");
  open_products();
#pragma unroll
  for (int s = 0; s < Steps; ++s)
    Products<WIDE>::add(
        part, small[4 * s], small[4 * s + 1], small[4 * s + 2], small[4 * s + 3], big_w + 2 * s, s > 0);
#pragma unroll
  for (int s = 0; s < Steps; ++s)
    Products<WIDE>::add(part, big[4 * s], big[4 * s + 1], big[4 * s + 2], big[4 * s + 3], small_w + 2 * s, 1);
#pragma unroll
  for (int s = 0; s < Steps; ++s)
    Products<WIDE>::add(part, big[4 * s], big[4 * s + 1], big[4 * s + 2], big[4 * s + 3], big_w + 2 * s, 1);
  close_products();
}
__device__ __forceinline__ void end_chunk(float (&part)[WIDE / 2]) {
  wait_for_products();
#pragma unroll
  for (int i = 0; i < WIDE / 2; ++i) asm volatile("" : "+f"(part[i])::"memory");
}

// Rows `row` and `row + 8` of a warp's results, straight from registers.
__device__ __forceinline__ void write_out(
    float* const out, const float (&sum)[WIDE / 2], const int row, const int first, const int t) {
  float* const top = out + row * UNITS;
  float* const low = top + 8 * UNITS;
  const bool has_top = row < ROWS, has_low = row + 8 < ROWS;
  constexpr int PAIRS = UNITS % 4 == 0 ? WIDE / 16 : 0;
  // Neighbouring lanes swap halves of two groups of eight columns, so that each has four columns of one.
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) {
    const float* const a = sum + 8 * p;
    const float* const b = a + 4;
    const bool odd = t & 1;
    const float x0 = __shfl_xor_sync(0xffffffffu, odd ? a[0] : b[0], 1);
    const float x1 = __shfl_xor_sync(0xffffffffu, odd ? a[1] : b[1], 1);
    const float x2 = __shfl_xor_sync(0xffffffffu, odd ? a[2] : b[2], 1);
    const float x3 = __shfl_xor_sync(0xffffffffu, odd ? a[3] : b[3], 1);
    const int c = first + 16 * p + (odd ? 8 : 0) + 2 * (t & 2);
    if (c < UNITS) {
      if (has_top)
        *reinterpret_cast<float4*>(top + c) = odd ? make_float4(x0, x1, b[0], b[1]) : make_float4(a[0], a[1], x0, x1);
      if (has_low)
        *reinterpret_cast<float4*>(low + c) = odd ? make_float4(x2, x3, b[2], b[3]) : make_float4(a[2], a[3], x2, x3);
    }
  }
#pragma unroll
  for (int j = 2 * PAIRS; j < WIDE / 8; ++j) {
    const int c = first + 8 * j + 2 * t;
    if constexpr (UNITS % 2 == 0) {
      if (c < UNITS) {
        if (has_top) *reinterpret_cast<float2*>(top + c) = make_float2(sum[4 * j], sum[4 * j + 1]);
        if (has_low) *reinterpret_cast<float2*>(low + c) = make_float2(sum[4 * j + 2], sum[4 * j + 3]);
      }
    } else {
      if (c < UNITS) {
        if (has_top) top[c] = sum[4 * j];
        if (has_low) low[c] = sum[4 * j + 2];
      }
      if (c + 1 < UNITS) {
        if (has_top) top[c + 1] = sum[4 * j + 1];
        if (has_low) low[c + 1] = sum[4 * j + 3];
      }
    }
  }
}

// A lane's values of a chunk of `Steps` products: 2 * Steps neighbours of each of two rows, `e` as the products want them.
template <int Steps>
__device__ __forceinline__ void read_chunk(
    unsigned (&big)[16], unsigned (&small)[16], const float* const slab, const int chunk, const int g, const int t) {
  const int start = 32 * chunk + 2 * Steps * t;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* const from = slab + (g + 8 * half) * DEPTH + start;
    float v[2 * Steps];
    if constexpr (DEPTH % 8 == 0 && Steps == 4) {
      // Odd rows the other way round: the lanes that read together are in different banks.
      const bool odd = g & 1;
      const float4 a = *reinterpret_cast<const float4*>(from + (odd ? 4 : 0));
      const float4 b = *reinterpret_cast<const float4*>(from + (odd ? 0 : 4));
      v[0] = odd ? b.x : a.x, v[1] = odd ? b.y : a.y, v[2] = odd ? b.z : a.z, v[3] = odd ? b.w : a.w;
      v[4] = odd ? a.x : b.x, v[5] = odd ? a.y : b.y, v[6] = odd ? a.z : b.z, v[7] = odd ? a.w : b.w;
    } else if constexpr (DEPTH % 4 == 0 && Steps % 2 == 0) {
#pragma unroll
      for (int i = 0; i < 2 * Steps; i += 4) {
        const float4 a = *reinterpret_cast<const float4*>(from + i);
        v[i] = a.x, v[i + 1] = a.y, v[i + 2] = a.z, v[i + 3] = a.w;
      }
    } else if constexpr (DEPTH % 2 == 0) {
#pragma unroll
      for (int i = 0; i < 2 * Steps; i += 2) {
        const float2 a = *reinterpret_cast<const float2*>(from + i);
        v[i] = a.x, v[i + 1] = a.y;
      }
    } else {
#pragma unroll
      for (int i = 0; i < 2 * Steps; ++i) v[i] = from[i];
    }
#pragma unroll
    for (int i = 0; i < 2 * Steps; ++i) {
      if (32 * chunk + 8 * Steps > DEPTH) v[i] = start + i < DEPTH ? v[i] : 0.0f;
      parted(v[i], big[i / 2 * 4 + i % 2 * 2 + half], small[i / 2 * 4 + i % 2 * 2 + half]);
    }
  }
}

// Asks for the rows of a tile that are a warp's; all lanes come here.
__device__ __forceinline__ void request(
    float* const slab, const unsigned barrier, const float* const x, const int row, const int lane) {
  if (row >= ROWS) return;
  const int floats = min(16, ROWS - row) * DEPTH, whole = floats & ~3;
  const float* const from = x + row * DEPTH;
  if (lane == 0) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(slab)), bytes = 4u * whole;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
  }
  if (whole + lane < floats) slab[whole + lane] = from[whole + lane];
}
__device__ __forceinline__ void wait_for(const unsigned barrier, const unsigned phase) {
  asm volatile("{\n.reg .pred done;\nWAIT%=:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra WAIT%=;\n}"
               ::"r"(barrier), "r"(phase) : "memory");
}

extern "C" __global__ void __launch_bounds__(128 * GROUPS, 1) linear(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ out) {
  extern __shared__ __align__(1024) unsigned char room[];
  const unsigned begin = static_cast<unsigned>(__cvta_generic_to_shared(room));
  float* const big_w = reinterpret_cast<float*>(room + ((1024u - (begin & 1023u)) & 1023u));
  float* const small_w = big_w + CHUNKS * WIDE * 32;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  float* const slab = small_w + CHUNKS * WIDE * 32 + warp * SLAB;
  float* const biases = small_w + CHUNKS * WIDE * 32 + 4 * GROUPS * SLAB;
  const int g = lane / 4, t = lane % 4;
  const int first = blockIdx.x % SLICES * WIDE, place = blockIdx.x / SLICES;
  const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(biases + WIDE + 2 * warp));
  if (lane == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncwarp();

  int tile = place + PLACES * (warp / 4);
  unsigned phase = 0;

  // The weight's slice, a row and 32 of its depth a warp at a time; x is asked for behind the first of it.
  {
    constexpr int EACH = WIDE / 8, PER = 64 / EACH < 1 ? 1 : 64 / EACH < CHUNKS ? 64 / EACH : CHUNKS;
    // Where a lane's element of the depth goes among the 32 of a chunk, and in the last one, which may be shorter.
    const int inner = (lane >> 1 & 3) * 8 + (lane >> 3) + (lane & 1) * 4;
    const int within = lane % (2 * LAST);
    const int inner_last = within / 2 * 8 + lane / (2 * LAST) + within % 2 * 4;
    const int swizzled = warp * 32 + (((inner >> 2) ^ (warp & 7)) << 2) + (inner & 3);
    const int swizzled_last = warp * 32 + (((inner_last >> 2) ^ (warp & 7)) << 2) + (inner_last & 3);
    const float* const from = weight + (first + warp) * DEPTH + lane;
#pragma unroll
    for (int c0 = 0; c0 < CHUNKS; c0 += PER) {
      float w[PER * EACH];
#pragma unroll
      for (int c = 0; c < PER; ++c)
        if (c0 + c < CHUNKS) {
#pragma unroll
          for (int i = 0; i < EACH; ++i) {
            const bool inside = (SLICES * WIDE == UNITS || first + warp + 8 * i < UNITS) &&
                                (32 * (c0 + c) + 32 <= DEPTH || 32 * (c0 + c) + lane < DEPTH);
            w[c * EACH + i] = load1(inside ? from + (8 * i * DEPTH + 32 * (c0 + c)) : weight);
          }
        }
      if (c0 == 0) {
        request(slab, barrier, x, tile * 64 + warp % 4 * 16, lane);
      }
#pragma unroll
      for (int c = 0; c < PER; ++c)
        if (c0 + c < CHUNKS && (c0 + c < CHUNKS - 1 || lane < 8 * LAST)) {
          const int to = c0 + c < CHUNKS - 1 ? swizzled : swizzled_last;
#pragma unroll
          for (int i = 0; i < EACH; ++i) {
            const bool inside = (SLICES * WIDE == UNITS || first + warp + 8 * i < UNITS) &&
                                (32 * (c0 + c) + 32 <= DEPTH || 32 * (c0 + c) + lane < DEPTH);
            unsigned big, small;
            parted(inside ? w[c * EACH + i] : 0.0f, big, small);
            big_w[to + (c0 + c) * WIDE * 32 + 8 * i * 32] = __uint_as_float(big);
            small_w[to + (c0 + c) * WIDE * 32 + 8 * i * 32] = __uint_as_float(small);
          }
        }
    }
    if (threadIdx.x < WIDE)
      biases[threadIdx.x] = first + static_cast<int>(threadIdx.x) < UNITS ? bias[first + threadIdx.x] : 0.0f;
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();

  const unsigned long long big_b = described(big_w), small_b = described(small_w);
  for (; tile < TILES; tile += PLACES * GROUPS) {
    const int row = tile * 64 + warp % 4 * 16, next = row + PLACES * GROUPS * 64;
    float sum[WIDE / 2], part[WIDE / 2];
#pragma unroll
    for (int j = 0; j < WIDE / 8; ++j) {
      const float2 b = *reinterpret_cast<const float2*>(biases + 8 * j + 2 * t);
      sum[4 * j] = sum[4 * j + 2] = b.x;
      sum[4 * j + 1] = sum[4 * j + 3] = b.y;
    }
    if (row < ROWS) wait_for(barrier, phase);
    phase ^= 1;
    __syncwarp();
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      unsigned big[16], small[16];
      if (c < CHUNKS - 1) {
        read_chunk<4>(big, small, slab, c, g, t);
        begin_chunk<4>(part, big, small, big_b + c * WIDE * 8, small_b + c * WIDE * 8);
      } else {
        read_chunk<LAST>(big, small, slab, c, g, t);
        begin_chunk<LAST>(part, big, small, big_b + c * WIDE * 8, small_b + c * WIDE * 8);
      }
      end_chunk(part);
      if (!FLAT && c == CHUNKS - 1) {
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncwarp();
        request(slab, barrier, x, next, lane);
      }
#pragma unroll
      for (int i = 0; i < WIDE / 2; ++i) sum[i] += part[i];
    }
    if constexpr (!FLAT) {
      write_out(out, sum, row + g, first, t);
    } else {
      __syncwarp();
#pragma unroll
      for (int j = 0; j < WIDE / 8; ++j) {
        const int c = 8 * j + 2 * t;
        float* const to = slab + g * UNITS + c;
        if (c < UNITS) to[0] = sum[4 * j], to[8 * UNITS] = sum[4 * j + 2];
        if (c + 1 < UNITS) to[1] = sum[4 * j + 1], to[8 * UNITS + 1] = sum[4 * j + 3];
      }
      __syncwarp();
      if (row < ROWS) {
        const int floats = min(16, ROWS - row) * UNITS, whole = floats & ~3;
        float* const to = out + row * UNITS;
#pragma unroll 4
        for (int i = 4 * lane; i < whole; i += 128)
          *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(slab + i);
        if (whole + lane < floats) to[whole + lane] = slab[whole + lane];
      }
      asm volatile("fence.proxy.async;" ::: "memory");
      __syncwarp();
      request(slab, barrier, x, next, lane);
    }
  }
}

/* plan.py
import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    rows, depth, units = x.size(0) * x.size(1), x.size(2), weight.size(0)
    chunks, tiles = ceil(depth, 32), ceil(rows, 64)
    best = None
    for slices in range(1, 9):
        wide = 8 * ceil(ceil(units, slices), 8)
        slab = 16 * (max(units, depth) if units % 4 and slices == 1 else depth) + 32
        shared = 256 * chunks * wide + 8 * slab * 4 + 1024 + 4 * wide + 64
        if wide < 32 or wide > 128 or shared > kw.device.shared_per_block:
            continue
        places = min(tiles, kw.device.multiprocessors // slices)
        cost = ceil(tiles, places) * (wide + 16)
        if best is None or cost < best[0]:
            best = (cost, slices, wide, shared, places)
    cost, slices, wide, shared, places = best
    return kw.plan(
        kw.launch("linear", slices * places, 256, x, weight, bias, out, shared=shared),
        definitions={"ROWS": rows, "DEPTH": depth, "UNITS": units, "WIDE": wide, "SLICES": slices, "PLACES": places})
*/
