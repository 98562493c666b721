"""Writes a large product of 16-bit operands on Hopper for warps that bring operands and others that only multiply."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.contractions import narrow
from kernelwright.proposers.templates.cuda.contractions.loop import COPY_PIECE, GATHERED
from kernelwright.proposers.templates.cuda.contractions.operands import ProductForm
from kernelwright.proposers.templates.cuda.kernels import KernelBody, KernelWriter
from kernelwright.proposers.templates.cuda.products.barriers import BARRIERS
from kernelwright.proposers.templates.cuda.products.blocked import BLOCKED, CHOICE, COPIES
from kernelwright.proposers.templates.cuda.products.cores import GROUPS, TENSORS
from kernelwright.proposers.templates.cuda.products.producers import PATCH, THREADS

HIGH, WIDE, STAGES = 128, 256, 4
LEAST_STEPS = 32  # of tiles, for each multiprocessor


def is_large(form: ProductForm, code: KernelWriter) -> str:
    """In Python: whether there is work for long, and 16 bytes of either operand lie together."""
    n = code.step
    steps = f"batches_{n} * ceil(m_{n}, {HIGH}) * ceil(n_{n}, {WIDE}) * ceil(k_{n}, {narrow.DEEP})"
    wide = f"{form.left.width} == 8 and {form.right.width} == 8"
    return f"min(m_{n}, n_{n}) > 64 and {steps} >= {LEAST_STEPS} * kw.device.multiprocessors and {wide}"


def written(form: ProductForm, code: KernelWriter) -> KernelBody:
    """The kernel's lines use `last` and the structures of writing.py; the plan has set `produced`."""
    n, split = code.step, min(1, int(code.genes["split"]))
    code.setup.append(f"fed_tiles_{n} = batches_{n} * ceil(m_{n}, {HIGH}) * ceil(n_{n}, {WIDE})")
    room = f"{split} * kw.device.multiprocessors"
    code.set("fed_streams", f"produced_{n} * streams(fed_tiles_{n}, ceil(k_{n}, {narrow.DEEP}), {room})")
    parts, arrived = f"fed_parts_{n}", f"fed_arrived_{n}"
    code.setup.append(f'{parts} = kw.scratch("{parts}", 4 * max(1, 2 * fed_streams_{n} * {HIGH * WIDE}))')
    code.setup.append(f'{arrived} = kw.workspace("{arrived}", 4 * (fed_tiles_{n} if fed_streams_{n} else 1))')
    sums, came = code.pointer(parts, written=True), code.pointer(arrived, written=True, kind="unsigned")
    left, right = code.pointer(form.left.tensor), code.pointer(form.right.tensor)
    lines = [
        f"using Core = ProducedNarrowCore<Left_{n}, Right_{n}, Shape_{n}, {STAGES}>;",
        f"produced_narrow<Core, (FED_STREAMS_{n} > 0)>(",
        f"    Shape_{n}(), block, blocks, Left_{n}{{{left}}}, Right_{n}{{{right}}}, {sums}, {came}, last);",
    ]
    return KernelBody(
        lines,
        f"fed_streams_{n} or fed_tiles_{n}",
        str(THREADS),
        f"2048 + {STAGES * (HIGH + WIDE) * 128} + (0 if paired_{n} else {8 * PATCH})",
        "1",
        heavy=True,
        needs=(
            *(COPIES, BLOCKED, TENSORS, COPY_PIECE, GATHERED, GROUPS),
            *(narrow.groups(form.left.panel), narrow.GROUP_CORE, BARRIERS, PRODUCED_NARROW),
        ),
        helpers=(CHOICE,),
    )


PRODUCED_NARROW = (
    f"""\
// A tile of {HIGH} x {WIDE} elements: one warpgroup copies both operands to where tensor cores read them, two multiply
// {HIGH // 2} rows each.
template <class LeftOperand, class RightOperand, class Shape, int Stages>
struct ProducedNarrowCore {{
  static constexpr int ROWS = {HIGH}, COLS = {WIDE}, DEEP = {narrow.DEEP}, STAGES = Stages, COUNT = COLS / 2;
  static constexpr int CONSUMERS = 256, PRODUCERS = 128, KEPT = 216, LEFT_OVER = 504 - 2 * KEPT;
  using Left = LeftOperand;
  using Right = RightOperand;
  using Lefts = Lined<Left, ROWS, Shape::ROWS, Shape::DEPTH, PRODUCERS>;
  using Rights = Lined<Right, COLS, Shape::COLS, Shape::DEPTH, PRODUCERS>;
  static constexpr int STAGE = Lefts::FLOATS + Rights::FLOATS;

  static __device__ __forceinline__ void multiply(float (&sum)[COUNT], const float* const stage) {{
    open_products();
#pragma unroll
    for (int part = 0; part < DEEP / 16; ++part)
      NarrowProducts<COLS>::template add<!Lefts::ALONG_DEPTH, !Rights::ALONG_DEPTH>(
          sum, Lefts::describe(stage, threadIdx.x / 128 * 64, part), Rights::describe(stage + Lefts::FLOATS, 0, part));
    close_products();
  }}
}};
"""
    + """\

template <class Core, bool Shared, class Shape, class Last>
__device__ __forceinline__ void produced_narrow(
    const Shape& shape, const int block, const int blocks, const typename Core::Left& left,
    const typename Core::Right& right, float* const sums, unsigned* const came, const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int STRIDE = 36, PATCH = 16 * STRIDE, PATCHES = Last::RUN == 1 ? Core::CONSUMERS / 32 * PATCH : 0;
  float* const whole = for_tensors(room);
  float* const patches = whole + Core::STAGES * Core::STAGE;
  auto* const full = reinterpret_cast<unsigned long long*>(patches + PATCHES);
  unsigned long long* const empty = full + Core::STAGES;
  auto* const flag = reinterpret_cast<volatile int*>(empty + Core::STAGES);
  if (threadIdx.x == 0)
#pragma unroll
    for (int s = 0; s < Core::STAGES; ++s) {
      set_barrier(full + s, Core::PRODUCERS);
      set_barrier(empty + s, Core::CONSUMERS / 32);
    }
  __syncthreads();
  const Shares<Core, Shared, Shape> shares(shape, block, blocks, Shape::BATCHES);
  Ring<Core::STAGES> ring;
  if (threadIdx.x >= Core::CONSUMERS) {
    leave_registers<Core::LEFT_OVER>();
    // Copies of some stages are on their way. Who has waited for its own shows them to the tensor cores, which read
    // past the usual ways, and only then arrives. Consumers give a stage back one step late.
    constexpr int OPEN = Core::STAGES - 2;
    Ring<Core::STAGES> behind;
    int open = 0;
    shares.visit([&](const int tile, const int from, const int to) {
      int top, first;
      shares.place(tile, top, first);
      typename Core::Left lefts = left;
      typename Core::Right rights = right;
      lefts.move(shares.batch(tile)), rights.move(shares.batch(tile));
      for (int step = from; step < to; ++step) {
        float* const stage = whole + ring.stage * Core::STAGE;
        wait_at(empty + ring.stage, ring.round ^ 1);
        Core::Lefts::fetch(stage, lefts, top, step * Core::DEEP);
        Core::Rights::fetch(stage + Core::Lefts::FLOATS, rights, first, step * Core::DEEP);
        close_copies();
        ring.go_on();
        if (open < OPEN) {
          ++open;
        } else {
          wait_for_copies<OPEN>();
          show_to_tensors();
          arrive_at(full + behind.stage);
          behind.go_on();
        }
      }
    });
    wait_for_copies<0>();
    show_to_tensors();
    for (; open; --open, behind.go_on()) arrive_at(full + behind.stage);
  } else {
    take_registers<Core::KEPT>();
    shares.visit([&](const int tile, const int from, const int to) {
      float sum[Core::COUNT];
#pragma unroll
      for (int i = 0; i < Core::COUNT; ++i) sum[i] = 0.0f;
      const int lane = threadIdx.x % 32;
      int before = -1;
      for (int count = to - from; count; --count) {
        wait_at(full + ring.stage, ring.round);
        Core::multiply(sum, whole + ring.stage * Core::STAGE);
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (before >= 0 && lane == 0) arrive_at(empty + before);
        before = ring.stage;
        ring.go_on();
      }
      wait_for_products(sum);
      if (lane == 0) arrive_at(empty + before);
      int top, first;
      shares.place(tile, top, first);
      if (Shared && to - from < shares.STEPS && !shares.template joined<Core::CONSUMERS>(sum, tile, sums, came, flag))
        return;
      const int batch = shares.batch(tile), above = top + static_cast<int>(threadIdx.x) / 32 * 16;
      long long row, c;
      if constexpr (Last::RUN == 1) {
        // Neighbours go to neighbours by way of shared memory, where a warp has room of its own.
        float* const patch = patches + threadIdx.x / 32 * PATCH;
#pragma unroll
        for (int i = 0; i < Core::COUNT; i += 16) {
          __syncwarp();
#pragma unroll
          for (int j = 0; j < 16; ++j)
            patch[(j % 4 / 2 * 8 + lane / 4) * STRIDE + j / 4 * 8 + lane % 4 * 2 + j % 2] = sum[i + j];
          __syncwarp();
          const int n = first + i * 2 + lane;
#pragma unroll 4
          for (int down = 0; down < 16; ++down)
            if (above + down < shape.ROWS && n < shape.COLS && last.place(batch, above + down, n, row, c)) {
              const float one[1] = {patch[down * STRIDE + lane]};
              const decltype(last.extra(0, 0)) extras[1] = {last.extra(row, c)};
              last.finish(one, row, c, extras);
            }
        }
      } else {
#pragma unroll
        for (int i = 0; i < Core::COUNT; i += 2) {
          const int m = above + i % 4 / 2 * 8 + lane / 4, n = first + i / 4 * 8 + lane % 4 * 2;
          if (m < shape.ROWS && n < shape.COLS && last.place(batch, m, n, row, c)) {
            const float run[2] = {sum[i], sum[i + 1]};
            const decltype(last.extra(0, 0)) extras[2] = {last.extra(row, c), last.extra(row, c + 1)};
            last.finish(run, row, c, extras);
          }
        }
      }
    });
  }
}
"""
)
