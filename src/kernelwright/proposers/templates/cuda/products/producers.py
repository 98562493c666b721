"""Writes a large product on Hopper for warps with two trades: some bring operands to shared memory, others multiply.

Also two products with the same left operand at once, where only the second is stored and needs the first (SwiGLU).
"""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import KernelBody, KernelWriter
from kernelwright.proposers.templates.cuda.products import padding
from kernelwright.proposers.templates.cuda.products.barriers import BARRIERS
from kernelwright.proposers.templates.cuda.products.blocked import BLOCKED, CHOICE, COPIES
from kernelwright.proposers.templates.cuda.products.cores import GROUPS, TENSORS
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep

SHAPES = ("128x64", "128x128", "256x64", "256x128")
THREADS = 384  # two warpgroups that multiply, and one that brings
MOST_SHARED = 227 << 10  # of a block on Hopper
DEEP = 32  # of a step
LEAST_DEPTH, LEAST_WORK = 512, 29  # of products, in multiplications as a power of two
PATCH = 16 * 36 * 4  # bytes of 16 rows and 32 columns that a warp puts in order
PRODUCER_CHOICE = f"""\
def produced_tile_for(rows, cols, steps):
    # The one that takes the least time: a step costs the elements of its tile, and as much as 32 columns for its rows;
    # to put tiles of several blocks together costs as much as 12 columns of depth 1 for each column.
    def time(high, wide):
        tiles = ceil(rows, high) * ceil(cols, wide)
        waves = tiles / kw.device.multiprocessors
        if sharers(steps) == 1 or waves > 0.9 * ceil(tiles, kw.device.multiprocessors):
            return ceil(tiles, kw.device.multiprocessors) * high * (wide + 32) * steps
        rounds = tiles / min(kw.device.multiprocessors, tiles * sharers(steps))
        return rounds * high * ((wide + 32) * steps + 12 * wide)

    # Large tiles use what they load more often, but leave more to put together where blocks have few steps.
    many = ceil(rows, 256) * ceil(cols, 128) * steps >= 32 * kw.device.multiprocessors
    return min((*(((256, 128),) if many else ()), (128, 128), (128, 64)), key=lambda tile: time(*tile))


def produced_stages(wanted, high, wide, bytes_of_left, more):
    # As many as there is room for beside `more` bytes. A step of a large tile lasts so long that two are enough.
    room = ({MOST_SHARED} - 2048 - more) // (256 * wide + bytes_of_left)
    return min(wanted or (2 if high > 128 else 4), room)
"""


def describe(genes: Genes) -> str:
    size = genes["block"] if genes["block"] != "0" else "chosen by size"
    stages = f"{genes['stages']} stages or what there is room for" if genes["stages"] else "stages by tile"
    return f"on Hopper tiles {size} that producer warps feed, {stages}{padding.describe(genes)}"


def is_large(n: int) -> str:
    """In Python: whether a pipeline is filled for long, in tiles that are not mostly empty."""
    return f"min(m_{n}, n_{n}) > 64 and k_{n} >= {LEAST_DEPTH} and m_{n} * n_{n} * k_{n} >= 2**{LEAST_WORK}"


def choice(genes: Genes, n: int, cols: str) -> tuple[str, tuple[str, ...]]:
    """Rows and columns of a tile, in Python, and the functions of the plan that it takes."""
    return tile(str(genes["block"]), n, cols), (CHOICE, PRODUCER_CHOICE)


def tile(given: str, n: int, cols: str) -> str:
    """Rows and columns, in Python; other methods have other shapes."""
    if given == "0":
        return f"produced_tile_for(m_{n}, {cols}, ceil(k_{n}, {DEEP}))"
    high, wide = map(int, given.split("x"))
    return str((max(high, 128), wide))


def written(step: MatmulStep, code: KernelWriter, other: str | None = None) -> KernelBody:
    """With `other`, the right operand of another product, the first half of a tile's columns are that one's."""
    n, genes = code.step, code.genes
    cols = f"2 * n_{n}" if other else f"n_{n}"
    along = not step.left_transposed
    code.setup.append(f"steps_{n} = ceil(k_{n}, {DEEP})")
    code.setup.append(f"high_{n}, wide_{n} = {tile(str(genes['block']), n, cols)}")
    code.setup.append(f"across_{n} = ceil({cols}, wide_{n})")
    code.setup.append(f"pieces_{n} = ceil(m_{n}, high_{n}) * across_{n}")
    left_bytes = f"high_{n} * 144" if along else f"(high_{n} + 8) * 128"
    run = f"2 - n_{n} % 2" if not code.dynamic else f"1 + even_{n}"
    patches = f"{PATCH * (16 if other else 8)} * (2 - ({run}))"
    code.setup.append(f"patches_{n} = {patches}")
    code.setup.append(f"stages_{n} = produced_stages({genes['stages']}, high_{n}, wide_{n}, {left_bytes}, patches_{n})")
    room = f"{min(1, int(genes['split']))} * kw.device.multiprocessors"
    if code.dynamic:
        code.setup.append(f"streams_{n} = streams(pieces_{n}, steps_{n}, {room})")
        code.define(f"STREAMS_{n}", f"int(bool(streams_{n} > 0))")
    else:
        code.set("streams", f"streams(pieces_{n}, steps_{n}, {room})")
    for name in ("high", "wide", "stages"):
        code.define(f"{name.upper()}_{n}", f"{name}_{n}")
    for side, deep, size in (("left", along, "m"), ("right", step.right_transposed, "n")):
        width, pads = code.widest(4, f"{'k' if deep else size}_{n}"), f"pads_{side}_{n}"
        tiles = f"m_{n} % high_{n}" if side == "left" else f"{cols} % wide_{n}"
        whole = "False" if code.dynamic else f"{tiles} == 0 and k_{n} % {DEEP} == 0"
        code.define(f"{side.upper()}_WIDTH_{n}", f"4 if {pads} else {width}")
        code.define(f"WHOLE_{side.upper()}_{n}", f"int(bool({pads} or {whole}))")
    code.define(f"RUN_{n}", run)
    parts, arrived = f"parts_{n}", f"arrived_{n}"
    code.setup.append(f'{parts} = kw.scratch("{parts}", 4 * max(1, 2 * streams_{n} * high_{n} * wide_{n}))')
    code.setup.append(f'{arrived} = kw.workspace("{arrived}", 4 * pieces_{n})')
    sums, came = code.pointer(parts, written=True), code.pointer(arrived, written=True, kind="unsigned")
    left, right = (str(value).lower() for value in (along, step.right_transposed))
    first, given, second = (padding.pointer(code, *one) for one in padding.operands(step, code, other))
    lines = [
        f"using Core = ProducedCore<{left}, LEFT_WIDTH_{n}, {right}, RIGHT_WIDTH_{n}, HIGH_{n}, WIDE_{n}, STAGES_{n}, "
        f"{str(other is not None).lower()}, WHOLE_LEFT_{n}, WHOLE_RIGHT_{n}>;",
        f"produced<Core, (STREAMS_{n} > 0), RUN_{n}>(",
        f"    {'shape' if code.dynamic else f'Shape_{n}()'}, block, blocks, {first}, {given}, {second}, "
        f"{sums}, {came}, last);",
    ]
    return KernelBody(
        lines,
        f"streams_{n} or pieces_{n}",
        str(THREADS),
        f"2048 + patches_{n} + stages_{n} * (256 * wide_{n} + {left_bytes})",
        "1",
        heavy=True,
        needs=(COPIES, BLOCKED, TENSORS, GROUPS, BARRIERS, PRODUCED),
        helpers=(CHOICE, PRODUCER_CHOICE),
    )


PRODUCED = """\
// A tile of float32 products, as three TF32 products. Producers copy the left operand to shared memory as it is, and
// part the right one on its way there; consumers, two warpgroups, part what they read of the left one. With `Pair` a
// tile has half of its columns of each of two right operands.
template <
    bool LeftAlongDepth, int LeftWidth, bool RightAlongDepth, int RightWidth, int High, int Wide, int Stages, bool Pair,
    bool WholeLeft, bool WholeRight>
struct ProducedCore {
  static constexpr int ROWS = High, COLS = Pair ? Wide / 2 : Wide, DEEP = 32, STAGES = Stages;
  static constexpr int CONSUMERS = 256, PRODUCERS = 128, UNITS = High / 128, PART = Wide * DEEP;
  // Consumers keep sums, fresh sums, and factors of some of the four products of a step. Producers have what is left.
  static constexpr int TOGETHER = UNITS == 2 ? 2 : 4, KEPT = UNITS == 2 ? 216 : 200, LEFT_OVER = 504 - 2 * KEPT;
  static constexpr int COUNT = UNITS * Wide / 2;
  static constexpr bool PAIR = Pair;
  using Left = Panel<High, DEEP, LeftAlongDepth, LeftWidth, PRODUCERS>;
  static constexpr int STAGE = 2 * PART + Left::FLOATS;
  static_assert(STAGE % 256 == 0, "the right operand of every stage begins where the tensor cores may read");

  // Rows of an operand of whole tiles are a whole number of them, also where it is a copy of one that is not.
  static __device__ __forceinline__ long long length(const bool whole, const int size, const int tile) {
    return whole ? (size + tile - 1) / tile * tile : size;
  }

  // Places of one thread are numbers apart that the compiler knows, so that one address in a register serves all.
  static __device__ __forceinline__ int producer() { return static_cast<int>(threadIdx.x % PRODUCERS); }
  template <class Shape>
  static __device__ __forceinline__ void copy_left(
      const Shape& shape, float* const to, const float* const from, const int top, const int start) {
    constexpr int EACH = Left::LENGTH / LeftWidth, COPIES = Left::LINES * EACH / PRODUCERS;
    const int line = producer() / EACH, at = producer() % EACH * LeftWidth;
    const long long length = LeftAlongDepth ? ProducedCore::length(WholeLeft, shape.DEPTH, DEEP)
                                            : ProducedCore::length(WholeLeft, shape.ROWS, ROWS);
    const float* const begin =
        from + ((LeftAlongDepth ? top : start) + line) * length + (LeftAlongDepth ? start : top) + at;
    float* const own = to + line * Left::STRIDE + at;
#pragma unroll(WholeLeft ? COPIES : 2)
    for (int i = 0; i < COPIES; ++i) {
      const int lines = i * PRODUCERS / EACH, along = i * PRODUCERS % EACH * LeftWidth;
      const int row = top + (LeftAlongDepth ? line + lines : at + along);
      const int k = start + (LeftAlongDepth ? at + along : line + lines);
      const bool inside = WholeLeft || (row < shape.ROWS && k < shape.DEPTH);
      const float* const place = begin + lines * length + along;
      copy_async<LeftWidth>(own + lines * Left::STRIDE + along, inside ? place : from, inside);
    }
  }

  // What a producer has of the right operand: neighbours along the depth, loaded together where they lie so. Where it
  // has few registers, half of them at a time.
  static constexpr int WIDTH = RightAlongDepth ? RightWidth : 4, PIECES = PART / WIDTH / PRODUCERS / UNITS;
  static constexpr int EACH = DEEP / WIDTH;  // pieces of a line
  // Of piece 0 of this thread, and how far away piece i is.
  static __device__ __forceinline__ int line() { return RightAlongDepth ? producer() / EACH : producer() % 32; }
  static __device__ __forceinline__ int deep() {
    return RightAlongDepth ? producer() % EACH * WIDTH : producer() / 32 / (Wide / 32) * 4;
  }
  static __device__ __forceinline__ int line(const int i) {
    return RightAlongDepth ? i * (PRODUCERS / EACH) : (i * 4 + producer() / 32) % (Wide / 32) * 32;
  }
  static __device__ __forceinline__ int deep(const int i) { return RightAlongDepth ? 0 : i * 4 / (Wide / 32) * 4; }
  template <class Shape>
  static __device__ __forceinline__ void read_right(
      const Shape& shape, float (&to)[PIECES][WIDTH], const float* const right, const float* const other,
      int first, const int start, const int begin) {
    // Or addresses of all rows would stay in registers from step to step.
    if (!WholeRight) asm volatile("" : "+r"(first));
    const long long length = RightAlongDepth ? ProducedCore::length(WholeRight, shape.DEPTH, DEEP)
                                             : ProducedCore::length(WholeRight, shape.COLS, COLS);
    const long long place = RightAlongDepth ? (first + line()) * length + start + deep()
                                            : (start + deep()) * length + first + line();
#pragma unroll
    for (int j = 0; j < PIECES; ++j) {
      const bool second = Pair && line(begin + j) >= COLS;
      const int lines = line(begin + j) - (second ? COLS : 0), more = deep(begin + j);
      const int k = start + deep() + more, col = first + line() + lines;
      const float* const from =
          (second ? other : right) + place + (RightAlongDepth ? lines * length + more : more * length + lines);
      alignas(16) float v[WIDTH] = {};
      if (RightAlongDepth) {
        if (WholeRight || (k < shape.DEPTH && col < shape.COLS)) load(v, from);
      } else {
#pragma unroll
        for (int e = 0; e < WIDTH; ++e)
          if (WholeRight || (k + e < shape.DEPTH && col < shape.COLS)) v[e] = from[e * length];
      }
      copy(to[j], v);
    }
  }
  static __device__ __forceinline__ void write_right(
      float* const to, const float (&v)[PIECES][WIDTH], const int begin) {
#pragma unroll
    for (int j = 0; j < PIECES; ++j) {
      alignas(16) float big[WIDTH], small[WIDTH];
#pragma unroll
      for (int e = 0; e < WIDTH; ++e) {
        unsigned parts[2];
        parted(v[j][e], parts[0], parts[1]);
        big[e] = __uint_as_float(parts[0]), small[e] = __uint_as_float(parts[1]);
      }
      float* const place = to + swizzled(line() + line(begin + j), deep() + deep(begin + j));
      store(place, big);
      store(place + PART, small);
    }
  }

  // Tensor cores round sums towards zero, so small parts come first, each step starts from nothing, and the float units
  // add the steps up.
  static __device__ __forceinline__ void multiply(float (&sum)[COUNT], const float* const stage) {
    const float* const panel = stage + 2 * PART;
    const unsigned long long big_r = described(stage), small_r = described(stage + PART);
    const int above = static_cast<int>(threadIdx.x) / 128 * 64 * UNITS + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
      float fresh[Wide / 2];
#pragma unroll
      for (int i = 0; i < Wide / 2; ++i) fresh[i] = 0.0f;
#pragma unroll
      for (int from = 0; from < 4; from += TOGETHER) {
        unsigned big[TOGETHER][4], small[TOGETHER][4];
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
          unsigned raw[4];
          read_quarters<Left>(raw, panel, above + u * 64, 8 * (from + k), true);
#pragma unroll
          for (int e = 0; e < 4; ++e) parted(__uint_as_float(raw[e]), big[k][e], small[k][e]);
        }
        open_products();
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
          Products<Wide>::add(fresh, small[k], big_r + 2 * (from + k), from + k > 0);
          Products<Wide>::add(fresh, big[k], small_r + 2 * (from + k), 1);
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) Products<Wide>::add(fresh, big[k], big_r + 2 * (from + k), 1);
        close_products();
        wait_for_products(fresh);
      }
#pragma unroll
      for (int i = 0; i < Wide / 2; ++i) sum[u * Wide / 2 + i] += fresh[i];
    }
  }
  static __device__ __forceinline__ int row(const int i) {
    return static_cast<int>(threadIdx.x) / 128 * 64 * UNITS + i / (Wide / 2) * 64 +
           static_cast<int>(threadIdx.x) % 128 / 32 * 16 + i % 4 / 2 * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
  }
  static __device__ __forceinline__ int col(const int i) {
    return i % (Wide / 2) / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
  }
};

template <class Core, bool Shared, int Run, class Shape, class Last>
__device__ __forceinline__ void produced(
    const Shape& shape, const int block, const int blocks, const float* const left, const float* const right,
    const float* const other, float* const sums, unsigned* const came, const Last& last) {
  extern __shared__ __align__(16) float room[];
  float* const whole = for_tensors(room);
  float* const patches = whole + Core::STAGES * Core::STAGE;
  constexpr int PATCHES = Run == 1 ? (Core::PAIR ? 2 : 1) * Core::CONSUMERS / 32 * 16 * 36 : 0;
  auto* const full = reinterpret_cast<unsigned long long*>(patches + PATCHES);
  unsigned long long* const empty = full + Core::STAGES;
  auto* const flag = reinterpret_cast<volatile int*>(empty + Core::STAGES);
  if (threadIdx.x == 0)
#pragma unroll
    for (int s = 0; s < Core::STAGES; ++s) {
      set_barrier(full + s, 2 * Core::PRODUCERS);  // everyone's copies, and what everyone has parted
      set_barrier(empty + s, Core::CONSUMERS / 32);
    }
  __syncthreads();
  const Shares<Core, Shared, Shape> shares(shape, block, blocks);
  Ring<Core::STAGES> ring;
  if (threadIdx.x >= Core::CONSUMERS) {
    leave_registers<Core::LEFT_OVER>();
    shares.visit([&](const int tile, const int from, const int to) {
      int top, first;
      shares.place(tile, top, first);
      float v[Core::PIECES][Core::WIDTH];
      Core::read_right(shape, v, right, other, first, from * Core::DEEP, 0);
      for (int step = from; step < to; ++step) {
        float* const stage = whole + ring.stage * Core::STAGE;
        wait_at(empty + ring.stage, ring.round ^ 1);
#pragma unroll
        for (int unit = 0; unit < Core::UNITS; ++unit) {
          Core::write_right(stage, v, unit * Core::PIECES);
          const int next = unit + 1 < Core::UNITS ? unit + 1 : 0;
          if (next || step + 1 < to)
            Core::read_right(
                shape, v, right, other, first, (next ? step : step + 1) * Core::DEEP, next * Core::PIECES);
          if (unit == 0) {
            Core::copy_left(shape, stage + 2 * Core::PART, left, top, step * Core::DEEP);
            arrive_with_copies(full + ring.stage);
          }
        }
        show_to_tensors();
        arrive_at(full + ring.stage);
        ring.go_on();
      }
    });
    wait_for_copies<0>();
  } else {
    take_registers<Core::KEPT>();
    shares.visit([&](int tile, const int from, const int to) {
      float sum[Core::COUNT];
#pragma unroll
      for (int i = 0; i < Core::COUNT; ++i) sum[i] = 0.0f;
      for (int count = to - from; count; --count) {
        wait_at(full + ring.stage, ring.round);
        Core::multiply(sum, whole + ring.stage * Core::STAGE);
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive_at(empty + ring.stage);
        ring.go_on();
      }
      asm volatile("" : "+r"(tile));  // places are computed now, for which registers were short before
      int top, first;
      shares.place(tile, top, first);
      if (Shared && to - from < shares.STEPS && !shares.template joined<Core::CONSUMERS>(sum, tile, sums, came, flag))
        return;
      constexpr int HALF = Core::COLS / 2;  // of the sums of a row that a thread has, those of the first operand
      if constexpr (Run == 1) {
        // Where rows are odd, what a thread has would be stored one by one with gaps. By way of shared memory, where
        // a warp has room of its own for 16 rows and 32 columns, neighbours go to neighbours.
        constexpr int STRIDE = 36, PATCH = 16 * STRIDE;
        const int lane = threadIdx.x % 32;
        float* const patch = patches + threadIdx.x / 32 * PATCH * (Core::PAIR ? 2 : 1);
#pragma unroll
        for (int i = 0; i < Core::COUNT; i += 16) {
          if (Core::PAIR && i % (2 * HALF) >= HALF) continue;
          __syncwarp();
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            float* const to = patch + (j % 4 / 2 * 8 + lane / 4) * STRIDE + j / 4 * 8 + lane % 4 * 2 + j % 2;
            *to = sum[i + j];
            if constexpr (Core::PAIR) to[PATCH] = sum[i + HALF + j];
          }
          __syncwarp();
          const long long above = top + Core::row(i) - lane / 4, c = first + Core::col(i) - lane % 4 * 2 + lane;
#pragma unroll 4
          for (int down = 0; down < 16; ++down)
            if (above + down < shape.ROWS && c < shape.COLS) {
              const float* const from = patch + down * STRIDE + lane;
              if constexpr (Core::PAIR) {
                const decltype(last.extra(0, 0)) extras[1] = {last.extra(above + down, c, from[0])};
                const float one[1] = {from[PATCH]};
                last.finish(one, above + down, c, extras);
              } else {
                const decltype(last.extra(0, 0)) extras[1] = {last.extra(above + down, c)};
                const float one[1] = {from[0]};
                last.finish(one, above + down, c, extras);
              }
            }
        }
      } else {
#pragma unroll
        for (int i = 0; i < Core::COUNT; i += Run) {
          if (Core::PAIR && i % (2 * HALF) >= HALF) continue;
          const long long row = top + Core::row(i), c = first + Core::col(i);
          if (row < shape.ROWS && c < shape.COLS) {
            float run[Run];
            decltype(last.extra(0, 0)) extras[Run];
#pragma unroll
            for (int j = 0; j < Run; ++j) {
              if constexpr (Core::PAIR) {
                run[j] = sum[i + HALF + j], extras[j] = last.extra(row, c + j, sum[i + j]);
              } else {
                run[j] = sum[i + j], extras[j] = last.extra(row, c + j);
              }
            }
            last.finish(run, row, c, extras);
          }
        }
      }
    });
  }
}
"""
