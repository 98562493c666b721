"""The product of two matrices as C++: packed panels, a register tile, and a last step on each finished block.

Operands are anything whose element (i, k) lies at outer(i) + inner(k): plain and transposed matrices, and the windows
of a padded image, so that convolutions are products too.
"""

from __future__ import annotations

from kernelwright.proposers.templates.genes import Gene, GenePool, Genes

CORE = """
struct Strided {  // element (i, k) of an operand; for the right one i counts columns
  const float* data;
  int64_t outer, inner;
  float at(int64_t i, int64_t k) const { return data[i * outer + k * inner]; }
};
struct Indexed {
  const float* data;
  const int64_t *outer, *inner;
  float at(int64_t i, int64_t k) const { return data[outer[i] + inner[k]]; }
};
struct Nothing {
  void operator()(int64_t, int64_t, int64_t, int64_t, int64_t) const {}
};

// Panels of `T` neighbours, k after k; what is missing in the last panel is zero.
template <int T, class O>
void pack(const O& from, int64_t i0, int64_t count, int64_t k0, int64_t depth, float* to) {
  for (int64_t p = 0; p < count; p += T, to += T * depth) {
    const int64_t here = std::min<int64_t>(T, count - p);
    if (here < T) std::fill(to, to + T * depth, 0.0f);
    if constexpr (requires { from.outer + 1.5; }) {
      if (from.outer != 1) {
        // A few k at a time, so that the lines being written stay in the first cache.
        for (int64_t k = 0; k < depth; k += 16)
          for (int64_t i = 0; i < here; ++i)
            for (int64_t l = k; l < std::min(depth, k + 16); ++l) to[l * T + i] = from.at(i0 + p + i, k0 + l);
        continue;
      }
    }
    if (here == T) {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t i = 0; i < T; ++i) to[k * T + i] = from.at(i0 + p + i, k0 + k);
    } else {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t i = 0; i < here; ++i) to[k * T + i] = from.at(i0 + p + i, k0 + k);
    }
  }
}

// A tile of R rows and N vectors in registers.
template <int R, int N>
inline void tile(int64_t depth, const float* a, int64_t row, int64_t along, const float* b, float* c, int64_t pitch,
                 int64_t rows, int64_t cols, bool first) {
  V sum[R][N] = {};
  for (int64_t k = 0; k < depth; ++k) {
    V right[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) right[n] = load(b + (k * N + n) * W, All{});
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const V left = wide(a[r * row + k * along]);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[r][n] += left * right[n];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    if (r >= rows) break;
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float* const to = c + r * pitch + n * W;
      const int64_t left = cols - n * W;
      if (left >= W) {
        store(to, first ? sum[r][n] : load(to, All{}) + sum[r][n], All{});
      } else if (left > 0) {
        const Some some{static_cast<int>(left)};
        store(to, first ? sum[r][n] : load(to, some) + sum[r][n], some);
      }
    }
  }
}

// One block of the product, all of its depth; `room` holds the packed panels of both operands.
template <int R, int N, bool Direct, class L, class O>
void block(const L& left, const O& right, float* c, int64_t pitch, int64_t i0, int64_t rows, int64_t j0, int64_t cols,
           int64_t depth, int64_t chunk, float* room) {
  constexpr int T = N * W;
  float* const b = room;
  float* const a = room + (cols + T - 1) / T * T * chunk;
  for (int64_t k0 = 0; k0 < depth; k0 += chunk) {
    const int64_t here = std::min(chunk, depth - k0);
    pack<T>(right, j0, cols, k0, here, b);
    const int64_t whole = Direct ? rows / R * R : 0;
    pack<R>(left, i0 + whole, rows - whole, k0, here, a);
    for (int64_t j = 0; j < cols; j += T) {
      for (int64_t i = 0; i < rows; i += R) {
        float* const to = c + (i0 + i) * pitch + j0 + j;
        if constexpr (Direct) {
          if (i < whole) {
            const float* const from = left.data + (i0 + i) * left.outer + k0 * left.inner;
            tile<R, N>(here, from, left.outer, left.inner, b + j * here, to, pitch, R, cols - j, k0 == 0);
            continue;
          }
        }
        tile<R, N>(here, a + (i - whole) * here, 1, R, b + j * here, to, pitch, rows - i, cols - j, k0 == 0);
      }
    }
  }
}

// `count` products side by side, each with its operands and result. `last` follows every finished block and is told
// which product it is of, and its first and end row and column.
template <int R, int N, bool Direct, class F, class E>
void products(int64_t count, int64_t m, int64_t n, int64_t depth, int64_t tall, int64_t broad, int64_t chunk,
              int64_t grain, const F& operands, const E& last) {
  constexpr int T = N * W;
  const int team = count * m * n * depth < grain ? 1 : omp_get_max_threads();
  chunk = std::min(chunk, depth);
  tall = std::min((m + R - 1) / R * R, tall);
  broad = std::min((n + T - 1) / T * T, broad);
  const auto blocks = [&] { return count * ((m + tall - 1) / tall) * ((n + broad - 1) / broad); };
  while (team > 1 && blocks() < 3 * team && (broad > T || tall > 4 * R)) {
    if (broad > T) broad = std::max<int64_t>(T, broad / 2 / T * T);
    else tall = std::max<int64_t>(R, tall / 2 / R * R);
  }
  const int64_t across = (n + broad - 1) / broad, down = (m + tall - 1) / tall;
  const size_t each = static_cast<size_t>(((tall + R) + (broad + T)) * chunk + 64) / 16 * 16;
  static std::vector<float> memory;
  if (memory.size() < each * team + 16) memory.resize(each * team + 16);
  float* const room = aligned(memory.data());
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (int64_t t = 0; t < count * across * down; ++t) {
    const int64_t which = t / (across * down), j0 = t / down % across * broad, i0 = t % down * tall;
    const int64_t rows = std::min(tall, m - i0), cols = std::min(broad, n - j0);
    const auto [left, right, to] = operands(which);
    block<R, N, Direct>(left, right, to, n, i0, rows, j0, cols, depth, chunk, room + omp_get_thread_num() * each);
    last(which, i0, i0 + rows, j0, j0 + cols);
  }
}
template <class L, class O>
struct Operands {
  L left;
  O right;
  float* to;
};
template <class L, class O>
Operands(L, O, float*) -> Operands<L, O>;
"""


def gene_pool(*, plain: bool) -> GenePool:
    genes = [
        Gene("width", (8, 16), (16, 8)),
        Gene("grain", (4096, 16384, 65536, 262144), (65536, 16384, 262144)),
        Gene("tile_rows", (2, 4, 6, 8, 12), (8, 12, 6, 4)),
        Gene("tile_vectors", (1, 2, 3), (2, 3, 1)),
        Gene("block_rows", (24, 48, 96, 192, 384), (96, 192, 48)),
        Gene("block_cols", (96, 192, 384, 768), (384, 192, 768)),
        Gene("block_depth", (64, 128, 256, 512, 1024), (256, 512, 128)),
    ]
    if plain:
        genes.append(Gene("direct", (False, True), (True, False)))
        genes.append(Gene("swap", (False, True), (False, True)))
    return GenePool(tuple(genes))


def describe(genes: Genes) -> str:
    text = (
        f"tiles of {genes['tile_rows']} rows by {genes['tile_vectors']} vectors of {genes['width']}, blocks of "
        f"{genes['block_rows']}×{genes['block_cols']}×{genes['block_depth']}, "
        + ("right operand packed" if genes.get("direct") else "both operands packed")
    )
    return f"{text}, computed as the transpose" if genes.get("swap") else text


def call(genes: Genes, count: str, m: str, n: str, depth: str, operands: str, last: str) -> str:
    """A call of `products`; `operands` is a lambda from the number of a product to its Operands."""
    shape = f"{genes['tile_rows']}, {genes['tile_vectors']}, {'true' if genes.get('direct') else 'false'}"
    blocks = f"{genes['block_rows']}, {genes['block_cols']}, {genes['block_depth']}, {genes['grain']}"
    return f"products<{shape}>({count}, {m}, {n}, {depth}, {blocks}, {operands}, {last});\n"
