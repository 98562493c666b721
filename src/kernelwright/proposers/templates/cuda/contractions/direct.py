"""A contraction with few rows, or a small one: threads sum up results by themselves, a few rows and columns each."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.contractions.operands import ProductForm
from kernelwright.proposers.templates.cuda.kernels import KernelBody, KernelWriter

DIRECT = """\
// A thread has Tall rows and Each columns; columns of neighbouring threads are neighbours. Long sums are added up from
// stretches of 128 terms, as accurate as their parts.
template <class Shape, int Threads, int Tall, int Each, class Left, class Right, class Last>
__device__ __forceinline__ void summed(const int block, Left left, Right right, const Last& last) {
  constexpr int ACROSS = (Shape::COLS + Threads * Each - 1) / (Threads * Each), STRETCH = 128;
  constexpr int DOWN = (Shape::ROWS + Tall - 1) / Tall;
  constexpr int UNROLL = Shape::DEPTH <= 32 ? Shape::DEPTH : 4;
  const int batch = block / ACROSS / DOWN, top = block / ACROSS % DOWN * Tall;
  const int first = block % ACROSS * Threads * Each + threadIdx.x;
  left.move(batch), right.move(batch);
  float sum[Tall][Each] = {};
  for (int start = 0; start < Shape::DEPTH; start += STRETCH) {
    const int end = Shape::DEPTH - start < STRETCH ? Shape::DEPTH : start + STRETCH;
    float part[Tall][Each] = {};
#pragma unroll UNROLL
    for (int k = start; k < end; ++k) {
      float l[Tall], r[Each];
      bool met[Each];
#pragma unroll
      for (int j = 0; j < Each; ++j) {
        const auto* const from = right.template at<false>(first + j * Threads, k);
        met[j] = from != nullptr, r[j] = from ? static_cast<float>(*from) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < Tall; ++i) {
        const auto* const from = left.template at<Shape::ROWS % Tall == 0>(top + i, k);
        l[i] = from ? static_cast<float>(*from) : 0.0f;
#pragma unroll
        for (int j = 0; j < Each; ++j)
          if (from && met[j]) part[i][j] += l[i] * r[j];
      }
    }
#pragma unroll
    for (int i = 0; i < Tall * Each; ++i) sum[i / Each][i % Each] += part[i / Each][i % Each];
  }
#pragma unroll
  for (int i = 0; i < Tall * Each; ++i) {
    const int m = top + i / Each, n = first + i % Each * Threads;
    long long row, c;
    if (m < Shape::ROWS && n < Shape::COLS && last.place(batch, m, n, row, c)) {
      const float one[1] = {sum[i / Each][i % Each]};
      const decltype(last.extra(0, 0)) extras[1] = {last.extra(row, c)};
      last.finish(one, row, c, extras);
    }
  }
}
"""
THREADS = 128


def written(form: ProductForm, code: KernelWriter) -> KernelBody:
    n = code.step
    code.set("thread_rows", f"min(m_{n}, 4)")
    code.set("thread_cols", f"1 if n_{n} * batches_{n} * m_{n} < 1024 * kw.device.multiprocessors else 4")
    left, right = code.pointer(form.left.tensor), code.pointer(form.right.tensor)
    lines = [
        f"const Left_{n} left{{{left}}};",
        f"const Right_{n} right{{{right}}};",
        f"summed<Shape_{n}, {THREADS}, THREAD_ROWS_{n}, THREAD_COLS_{n}>(block, left, right, last);",
    ]
    blocks = f"batches_{n} * ceil(m_{n}, thread_rows_{n}) * ceil(n_{n}, {THREADS} * thread_cols_{n})"
    return KernelBody(lines, blocks, str(THREADS), needs=(DIRECT,))
