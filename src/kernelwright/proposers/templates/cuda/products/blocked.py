"""Writes a large product: panels stream through shared memory, and tiles stay in the registers of a block.

The tile is multiplied by the float units (`sgemm`), or by the tensor cores as three products of TF32 parts: warp by
warp (`tf32x3`), or by four warps together where the GPU has that, which is Hopper (`wgmma`).
"""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import KernelBody, KernelWriter
from kernelwright.proposers.templates.cuda.products.cores import FLOATS, GROUPS, TENSORS, WIDTHS
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep

SHAPES = ("0", "64x64", "64x128", "128x64", "128x128")
# Rows and columns of a tile, what a thread (sgemm) or a warp (tf32x3) has of it, and blocks that fit a multiprocessor.
FORMS = {
    "sgemm": "{(128, 128): (8, 8, 1), (128, 64): (8, 8, 2), (64, 128): (8, 8, 2), (64, 64): (8, 4, 4)}",
    "tf32x3": "{(128, 128): (64, 32, 1), (128, 64): (64, 32, 2), (64, 128): (32, 64, 2), (64, 64): (32, 32, 4)}",
}
READING = 32  # what reading the rows of a step costs, in columns of a tile
CHOICE = """\
def tile_for(rows, cols, steps):
    # The largest that is not mostly empty, with tiles for all multiprocessors or a depth to share.
    if rows > 64 and cols > 64 and steps >= 16 and 8 * ceil(rows, 128) * ceil(cols, 128) >= kw.device.multiprocessors:
        return 128, 128
    return (128, 64) if rows > 64 and ceil(rows, 128) * ceil(cols, 64) >= kw.device.multiprocessors else (64, 64)


def sharers(steps):
    # Blocks that may share a tile: none of one that is done in a few steps, and not too many, since one adds it up.
    return min(32, steps // 4) if steps >= 8 else 1


def streams(tiles, steps, room):
    # Blocks that share the steps of all tiles; none where tiles come out even.
    waves = tiles / room if room else 1
    return 0 if sharers(steps) == 1 or waves > 0.9 * math.ceil(waves) else min(room, tiles * sharers(steps))
"""
GROUP_CHOICE = f"""\
def group_tile_for(rows, cols, steps):
    # The width that takes the least time: a step of a tile costs its columns, and as much as {READING} for its rows.
    high = 128 if rows > 64 else 64

    def rounds(tiles):
        if sharers(steps) == 1:
            return ceil(tiles, kw.device.multiprocessors)
        return tiles / min(kw.device.multiprocessors, tiles * sharers(steps))

    tiles = {{wide: ceil(rows, high) * ceil(cols, wide) for wide in {WIDTHS}}}
    return high, min(tiles, key=lambda wide: rounds(tiles[wide]) * (wide + {READING}))
"""

FEWER_GROUP_CHOICE = """\
def group_tile_for(rows, cols, steps):
    # As where sizes are known, of fewer choices: each is a build of its own.
    high = 128 if rows > 64 else 64
    return high, 128 if ceil(rows, high) * ceil(cols, 128) >= kw.device.multiprocessors else 64
"""


def describe(method: str, genes: Genes) -> str:
    units = {
        "sgemm": "the float units",
        "tf32x3": "tensor cores, as three TF32 products",
        "wgmma": "tensor cores, as three TF32 products, by warpgroups on Hopper",
    }
    size = genes["block"] if genes["block"] != "0" else "chosen by size"
    staged = f"{_stages(genes)} stages of {_deep(method, genes)} in shared memory"
    text = f"tiles {size} on {units[method]}, {'else ' if method == 'wgmma' else ''}{staged}"
    return text + (", blocks in equal shares of the depths of all tiles" if genes["split"] else "")


def written(method: str, step: MatmulStep, code: KernelWriter) -> KernelBody:
    n, genes = code.step, code.genes
    deep = _deep(method, genes)
    code.setup.append(f"steps_{n} = ceil(k_{n}, {deep})")
    if method == "wgmma":
        code.set("groups", 'int(kw.device.architecture == "sm_90a")')
    code.setup.append(f"high_{n}, wide_{n} = {_tile(method, n, str(genes['block']))}")
    code.setup.append(f"own_high_{n}, own_wide_{n}, fit_{n} = {_form(method, n)}")
    code.setup.append(f"pieces_{n} = ceil(m_{n}, high_{n}) * ceil(n_{n}, wide_{n})")
    room = f"{genes['split']} * fit_{n} * kw.device.multiprocessors"
    if code.dynamic:
        code.setup.append(f"streams_{n} = streams(pieces_{n}, steps_{n}, {room})")
        code.define(f"STREAMS_{n}", f"int(bool(streams_{n} > 0))")
    else:
        code.set("streams", f"streams(pieces_{n}, steps_{n}, {room})")
    for name in ("high", "wide", "own_high", "own_wide"):
        code.define(f"{name.upper()}_{n}", f"{name}_{n}")
    for name, along_depth, size in (("LEFT", not step.left_transposed, "m"), ("RIGHT", step.right_transposed, "n")):
        code.define(f"{name}_WIDTH_{n}", code.widest(4, f"{'k' if along_depth else size}_{n}"))
    parts, arrived = f"parts_{n}", f"arrived_{n}"
    code.setup.append(f'{parts} = kw.scratch("{parts}", 4 * max(1, 2 * streams_{n} * high_{n} * wide_{n}))')
    code.setup.append(f'{arrived} = kw.workspace("{arrived}", 4 * pieces_{n})')
    sums, came = code.pointer(parts, written=True), code.pointer(arrived, written=True, kind="unsigned")
    shape = "shape, " if code.dynamic else ""
    body = [
        f"constexpr int THREADS = THREADS_product_{n};",
        *_core(method, step, n, deep),
        f"blocked<Shape_{n}, Core, {_stages(genes)}, (STREAMS_{n} > 0)>(",
        f"    {shape}block, blocks, {code.pointer(step.left)}, {code.pointer(step.right)}, {sums}, {came}, last);",
    ]
    left = _floats(f"high_{n}", deep, along_depth=not step.left_transposed)
    right = _floats(f"wide_{n}", deep, along_depth=step.right_transposed)
    shared = f"4 * {_stages(genes)} * ({left} + {right})"
    threads = f"high_{n} * wide_{n} // (own_high_{n} * own_wide_{n})" + (" * 32" if method != "sgemm" else "")
    if method == "wgmma":
        shared = f"(1024 + 16 * {deep} * wide_{n}) if groups_{n} else ({shared})"  # four times GroupCore::PART
    if method != "sgemm":
        odd = f"(1 - even_{n})" if code.dynamic else f"(n_{n} % 2)"
        shared = f"max(4 * high_{n} * (wide_{n} + 4) * {odd}, {shared})"  # a tile that ends by way of it
    return KernelBody(
        body,
        f"streams_{n} or pieces_{n}",
        threads,
        shared,
        f"fit_{n}",
        heavy=True,
        needs=(COPIES, BLOCKED, *{"sgemm": (FLOATS,), "tf32x3": (TENSORS,), "wgmma": (TENSORS, GROUPS)}[method]),
        helpers=(CHOICE, *(((FEWER_GROUP_CHOICE if code.dynamic else GROUP_CHOICE),) if method == "wgmma" else ())),
    )


def _stages(genes: Genes) -> int:
    return int(genes["stages"]) or 3


def _deep(method: str, genes: Genes) -> int:
    return 32 if method == "wgmma" else max(16, int(genes["depth"]))


def _tile(method: str, n: int, given: str) -> str:
    if given != "0":
        high, wide = map(int, given.split("x"))
        return str((min(high, 128), wide))  # only producers feed higher ones
    chosen = f"tile_for(m_{n}, n_{n}, steps_{n})"
    return f"group_{chosen} if groups_{n} else {chosen}" if method == "wgmma" else chosen


def _form(method: str, n: int) -> str:
    """A warp of a warpgroup has 16 whole rows of the tile."""
    if method == "wgmma":
        return f"(16, wide_{n}, 128 // high_{n}) if groups_{n} else {_form('tf32x3', n)}"
    return f"{FORMS[method]}[high_{n}, wide_{n}]"


def _core(method: str, step: MatmulStep, n: int, deep: int) -> list[str]:
    left, right = str(not step.left_transposed).lower(), str(step.right_transposed).lower()
    core = "FloatCore" if method == "sgemm" else "TensorCore"
    staged = [
        f"using Left = Panel<HIGH_{n}, {deep}, {left}, LEFT_WIDTH_{n}, THREADS>;",
        f"using Right = Panel<WIDE_{n}, {deep}, {right}, RIGHT_WIDTH_{n}, THREADS>;",
        f"using Core = {core}<Left, Right, HIGH_{n}, WIDE_{n}, {deep}, OWN_HIGH_{n}, OWN_WIDE_{n}>;",
    ]
    if method != "wgmma":
        return staged
    group = f"using Core = GroupCore<{left}, LEFT_WIDTH_{n}, {right}, RIGHT_WIDTH_{n}, HIGH_{n}, WIDE_{n}>;"
    return [f"#if GROUPS_{n}", group, "(void)THREADS;", "#else", *staged, "#endif"]


def _floats(rows: str, deep: int, *, along_depth: bool) -> str:
    """As many as Panel::FLOATS."""
    return f"{rows} * {deep + 4}" if along_depth else f"{deep} * ({rows} + 8)"


COPIES = """\
// Copies `Width` floats to shared memory without passing through registers, or puts zeros there.
template <int Width>
__device__ inline void copy_async(float* to, const float* from, const bool inside) {
  const unsigned given = inside ? Width * 4 : 0;
  const auto place = __cvta_generic_to_shared(to);
  if constexpr (Width == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
  else if constexpr (Width == 2)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
}
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Open>
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory"); }
"""

BLOCKED = """\
// Rows x Deep elements of an operand in shared memory, line by line as they lie in memory. Lines are as far apart as
// keeps the lanes that read together in different banks.
template <int Rows, int Deep, bool AlongDepth, int Width, int Threads>
struct Panel {
  static constexpr bool ALONG_DEPTH = AlongDepth;
  static constexpr int LINES = AlongDepth ? Rows : Deep, LENGTH = AlongDepth ? Deep : Rows;
  static constexpr int STRIDE = AlongDepth ? Deep + 4 : Rows + 8, FLOATS = LINES * STRIDE;

  // Of All x Depth elements, those from (first, start) on. Where no panel reaches beyond them, nothing is compared.
  template <int All, int Depth>
  static __device__ __forceinline__ void fetch(
      float* const to, const float* const from, const int first, const int start) {
    constexpr int EACH = LENGTH / Width;
    constexpr bool WHOLE = All % Rows == 0 && Depth % Deep == 0;
    static_assert(LINES * EACH % Threads == 0, "every thread copies as much");
#pragma unroll
    for (int i = 0; i < LINES * EACH / Threads; ++i) {
      const int t = i * Threads + threadIdx.x, line = t / EACH, at = t % EACH * Width;
      const int row = first + (AlongDepth ? line : at), k = start + (AlongDepth ? at : line);
      const bool inside = WHOLE || (row < All && k < Depth);
      const long long place = AlongDepth ? 1ll * row * Depth + k : 1ll * k * All + row;
      copy_async<Width>(to + line * STRIDE + at, inside ? from + place : from, inside);
    }
  }
  static __device__ __forceinline__ const float* place(const float* const panel, const int row, const int k) {
    return panel + (AlongDepth ? row * STRIDE + k : k * STRIDE + row);
  }
};

// Steps of a tile whose panels stream through shared memory: while one is multiplied, others are on their way.
template <class Shape, int Stages, class Core>
__device__ __forceinline__ void through_stages(
    Core& core, const float* const left, const float* const right, const int top, const int first, const int from,
    const int to, float* const room) {
  using Left = typename Core::Left;
  using Right = typename Core::Right;
  const auto staged = [&](const int step) { return room + step % Stages * (Left::FLOATS + Right::FLOATS); };
  const auto fetch = [&](const int step) {
    if (step < to) {
      Left::template fetch<Shape::ROWS, Shape::DEPTH>(staged(step), left, top, step * Core::DEEP);
      Right::template fetch<Shape::COLS, Shape::DEPTH>(staged(step) + Left::FLOATS, right, first, step * Core::DEEP);
    }
    close_copies();
  };
#pragma unroll
  for (int s = 0; s < Stages - 1; ++s) fetch(from + s);
  for (int step = from; step < to; ++step) {
    wait_for_copies<Stages - 2>();
    __syncthreads();
    fetch(step + Stages - 1);
    core.step(staged(step), staged(step) + Left::FLOATS);
  }
}

// Blocks go over all steps of all tiles in equal shares. A tile that several of them have a part in is put together, in
// order, by the one that is done last.
template <class Shape, class Core, int Stages, bool Shared, class Last>
__device__ __forceinline__ void blocked(
    const int block, const int blocks, const float* const left, const float* const right, float* const sums,
    unsigned* const came, const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int ELEMENTS = Core::ROWS * Core::COLS, COUNT = ELEMENTS / Core::THREADS;
  constexpr int STEPS = (Shape::DEPTH + Core::DEEP - 1) / Core::DEEP, GROUP = 8;
  constexpr int DOWN = (Shape::ROWS + Core::ROWS - 1) / Core::ROWS;
  constexpr int ACROSS = (Shape::COLS + Core::COLS - 1) / Core::COLS;
  constexpr long long ALL = static_cast<long long>(DOWN) * ACROSS * STEPS;
  const long long end = Shared ? ALL * (block + 1) / blocks : (block + 1ll) * STEPS;
  for (long long at = Shared ? ALL * block / blocks : static_cast<long long>(block) * STEPS; at < end;) {
    const int tile = static_cast<int>(at / STEPS), from = static_cast<int>(at % STEPS);
    const int to = from + static_cast<int>(min(static_cast<long long>(STEPS - from), end - at));
    at += to - from;
    // Tiles that run at the same time share panels: eight rows of tiles at a time, column by column.
    const int high = min(GROUP, DOWN - tile / (GROUP * ACROSS) * GROUP), within = tile % (GROUP * ACROSS);
    const int top = (tile / (GROUP * ACROSS) * GROUP + within % high) * Core::ROWS, first = within / high * Core::COLS;
    Core core;
    core.template run<Shape, Stages>(left, right, top, first, from, to, room);
    __syncthreads();
    if (Shared && to - from < STEPS) {
      const long long begin = static_cast<long long>(tile) * STEPS;
      const auto owner = [&](const long long step) { return static_cast<int>(((step + 1) * blocks - 1) / ALL); };
      const int one = owner(begin), other = owner(begin + STEPS - 1);
      const auto part = [&](const int of) {  // a block leaves at most two tiles unfinished: its first and its last
        return sums + (2ll * of + (ALL * of / blocks > begin ? 0 : 1)) * ELEMENTS + 4 * threadIdx.x;
      };
      float* const mine = part(block);
#pragma unroll
      for (int i = 0; i < COUNT; i += 4)
        *reinterpret_cast<float4*>(mine + i * Core::THREADS) = *reinterpret_cast<const float4*>(core.sum + i);
      if (!last_to_come(came + tile, other - one + 1)) continue;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) core.sum[i] = 0.0f;
      for (int of = one; of <= other; ++of) {
        const float* const theirs = part(of);
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
          const float4 v = __ldcg(reinterpret_cast<const float4*>(theirs + i * Core::THREADS));
          core.sum[i] += v.x, core.sum[i + 1] += v.y, core.sum[i + 2] += v.z, core.sum[i + 3] += v.w;
        }
      }
    }
    // `Core::RUN` neighbouring elements of a row at a time, where all rows are aligned for it.
    constexpr int RUN = Shape::COLS % Core::RUN == 0 ? Core::RUN : 1;
    if constexpr (RUN == 1 && Core::RUN == 2) {
      // Two by two would be one by one with gaps: by way of shared memory neighbours go to neighbours.
      constexpr int STRIDE = Core::COLS + 4;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) room[Core::row(i) * STRIDE + Core::col(i)] = core.sum[i];
      __syncthreads();
#pragma unroll 8
      for (int t = threadIdx.x; t < ELEMENTS; t += Core::THREADS) {
        const int down = t / Core::COLS, across = t % Core::COLS;
        const long long row = top + down, c = first + across;
        if (row < Shape::ROWS && c < Shape::COLS) {
          const float one[1] = {room[down * STRIDE + across]};
          const decltype(last.extra(0, 0)) extras[1] = {last.extra(row, c)};
          last.finish(one, row, c, extras);
        }
      }
      __syncthreads();
    } else {
#pragma unroll
      for (int i = 0; i < COUNT; i += RUN) {
        const long long row = top + Core::row(i), c = first + Core::col(i);
        if (row < Shape::ROWS && c < Shape::COLS) {
          float run[RUN];
          decltype(last.extra(0, 0)) extras[RUN];
#pragma unroll
          for (int j = 0; j < RUN; ++j) run[j] = core.sum[i + j], extras[j] = last.extra(row, c + j);
          last.finish(run, row, c, extras);
        }
      }
    }
  }
}
"""
