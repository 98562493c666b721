// A few rows by a right operand whose columns lie along the depth: nothing is packed, sums run along the vectors.
template <int R>
void dots(const float* left, int64_t row, const float* right, int64_t column, int64_t depth, float* c, int64_t pitch,
          int64_t cols) {
  constexpr int C = 4;
  for (int64_t j = 0; j < cols; j += C) {
    V sum[R][C] = {};
    const float* from[C];
    for (int n = 0; n < C; ++n) from[n] = right + std::min<int64_t>(j + n, cols - 1) * column;
    const auto step = [&](auto count, int64_t k) {
#pragma GCC unroll 4
      for (int n = 0; n < C; ++n) {
        const V own = load(from[n] + k, count);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sum[r][n] += load(left + r * row + k, count) * own;
      }
    };
    int64_t k = 0;
    for (; k + W <= depth; k += W) step(All{}, k);
    if (k < depth) step(upto(depth - k), k);
    for (int r = 0; r < R; ++r)
      for (int n = 0; n < C && j + n < cols; ++n)
        c[r * pitch + j + n] = across<W / 2>(sum[r][n], [](V a, V b) { return a + b; });
  }
}

// One block of a product, all of its depth. Panels of the right operand lie T wide, those of the left one as high as
// its rows divide evenly. A right operand that few rows use is read where it lies.
template <int R, int N, class L, class O>
void block(const L& left, const O& right, float* c, int64_t pitch, int64_t i0, int64_t rows, int64_t j0, int64_t cols,
           int64_t low, int64_t high, int64_t chunk, float* room) {
  constexpr int T = N * W;
  if constexpr (std::is_same_v<L, Strided<float>> && std::is_same_v<O, Strided<float>>) {
    if (rows <= 4 && left.inner == 1 && right.inner == 1 && right.outer != 1)
      return with_rows<4, 1>(rows, [&](auto r) {
        dots<r>(place_of(left, i0, low), left.outer, place_of(right, j0, low), right.outer, high - low, c, pitch, cols);
      });
  }
  const int64_t panels = (rows + R - 1) / R, whole = cols / T * T;
  bool direct = false;
  if constexpr (requires { right.outer + 1.5; right.inner + 1.5; static_cast<const float*>(right.data); })
    direct = right.outer == 1 && rows <= 3 * R;
  float* const b = room;
  float* const a = room + (cols + T - 1) / T * T * chunk;
  for (int64_t k0 = low; k0 == low || k0 < high; k0 += chunk) {
    const int64_t here = std::min(chunk, high - k0);
    for (int64_t j = direct ? whole : 0; j < cols; j += T) pack(right, j0 + j, std::min<int64_t>(T, cols - j), k0, here, b + j * here, T);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t i = panel_start(rows, panels, p), own = panel_start(rows, panels, p + 1) - i;
      pack(left, i0 + i, own, k0, here, a + i * here, (own + 1) / 2 * 2);
    }
    int64_t done = 0;
    if constexpr (requires { right.outer + 1.5; right.inner + 1.5; static_cast<const float*>(right.data); }) {
      if (direct && rows <= 2)  // memory is all that counts: long stretches of each line
        for (; done + 4 * T <= whole; done += 4 * T)
          tile<2, 4 * N, true>(here, Panel<2>{a}, Vectors{place_of(right, j0 + done, k0), right.inner}, c + done, pitch,
                               k0 == low, rows, 4 * T);
    }
    for (int64_t j = done; j < cols; j += T) {
      Vectors from{b + j * here, T};
      if constexpr (requires { right.outer + 1.5; right.inner + 1.5; static_cast<const float*>(right.data); })
        if (direct && j < whole) from = {place_of(right, j0 + j, k0), right.inner};
      for (int64_t p = 0; p < panels; ++p) {
        const int64_t i = panel_start(rows, panels, p), next = panel_start(rows, panels, p + 1);
        panel_tile<R, N>(next - i, here, a + i * here, from, c + i * pitch + j, pitch, cols - j, k0 == low);
      }
    }
  }
}

template <class L, class O, class F>
struct Operands {  // `to` is a matrix of floats with `pitch` from row to row, or a function that writes a finished block
  L left;
  O right;
  F to;
  int64_t pitch;
};
template <class L, class O, class F>
Operands(L, O, F, int64_t) -> Operands<L, O, F>;
struct Nothing {
  void operator()(int64_t, int64_t, int64_t, int64_t, int64_t) const {}
};

// `count` products side by side. `last` follows every finished block and is told which product it is of, and its first
// and end row and column. Where blocks are fewer than threads, the depth is shared too.
template <int R, int N, class F, class E>
void products(int64_t count, int64_t m, int64_t n, int64_t depth, int64_t tall, int64_t broad, int64_t chunk,
              int64_t grain, const F& operands, const E& last) {
  constexpr int T = N * W;
  using To = std::decay_t<decltype(operands(0).to)>;
  constexpr bool in_place = std::is_same_v<To, float*>;
  const int team = static_cast<double>(count) * m * n * depth < grain ? 1 : omp_get_max_threads();
  if (count * m * n == 0) return;
  int64_t down = (m + tall - 1) / tall, across = (n + broad - 1) / broad;
  const int64_t wanted = team > 1 ? 2 * team : 1;
  while (count * down * across < wanted) {  // the longer side of a block first
    const int64_t high = (m + down - 1) / down, wide_ = (n + across - 1) / across;
    if (wide_ > T && wide_ >= high) ++across;
    else if (high > R) ++down;
    else if (wide_ > T) ++across;
    else break;
  }
  broad = ((n + across - 1) / across + T - 1) / T * T;
  across = (n + broad - 1) / broad;
  const int64_t tasks = count * down * across;
  const int64_t slices = tasks >= team ? 1 : std::clamp<int64_t>(depth / 1024, 1, team / tasks);
  chunk = std::max<int64_t>(1, std::min(chunk, (depth + slices - 1) / slices));
  const int64_t high = (m + down - 1) / down;
  const size_t each = static_cast<size_t>((high + R + broad + T) * chunk + 64) / 16 * 16;
  const size_t held = in_place && slices == 1 ? 0 : static_cast<size_t>(high * broad + 16) / 16 * 16;
  static std::vector<float> memory, parts;
  float* const room = scratch(memory, (each + (slices == 1 ? held : 0)) * team);
  float* const part = scratch(parts, slices == 1 ? 0 : held * tasks * slices);
  const auto finish = [&](int64_t t, const float* own) {
    const int64_t which = t / (across * down), j0 = t / down % across * broad, cols = std::min(broad, n - j0);
    const int64_t i0 = cut(m, down, t % down), rows = cut(m, down, t % down + 1) - i0;
    if (own) {
      const auto with = operands(which);
      if constexpr (in_place) {
        for (int64_t i = 0; i < rows; ++i) std::copy(own + i * broad, own + i * broad + cols, with.to + (i0 + i) * with.pitch + j0);
      } else {
        with.to(i0, rows, j0, cols, own, broad);
      }
    }
    last(which, i0, i0 + rows, j0, j0 + cols);
  };
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (int64_t s = 0; s < tasks * slices; ++s) {
    const int64_t t = s / slices, slice = s % slices;
    const int64_t which = t / (across * down), j0 = t / down % across * broad, cols = std::min(broad, n - j0);
    const int64_t i0 = cut(m, down, t % down), rows = cut(m, down, t % down + 1) - i0;
    float* const own = room + omp_get_thread_num() * (each + (slices == 1 ? held : 0));
    const auto with = operands(which);
    float *c = slices == 1 ? own + each : part + s * held;
    int64_t pitch = broad;
    bool direct = false;
    if constexpr (in_place) {
      if (slices == 1) c = with.to + i0 * with.pitch + j0, pitch = with.pitch, direct = true;
    }
    block<R, N>(with.left, with.right, c, pitch, i0, rows, j0, cols, cut(depth, slices, slice),
                cut(depth, slices, slice + 1), chunk, own);
    if (slices == 1) finish(t, direct ? nullptr : c);
  }
  if (slices == 1) return;
#pragma omp parallel for schedule(static) num_threads(team)
  for (int64_t t = 0; t < tasks; ++t) {
    float* const sum = part + t * slices * held;
    for (int64_t s = 1; s < slices; ++s)
      for (int64_t i = 0; i < high * broad; ++i) sum[i] += sum[s * held + i];
    finish(t, sum);
  }
}

// Writes a finished block of the transpose: row i of the block is column i of `to`.
template <class E>
inline auto turned_into(E* to, int64_t pitch) {
  return [=](int64_t i0, int64_t rows, int64_t j0, int64_t cols, const float* from, int64_t wide_) {
    for (int64_t j = 0; j < cols; j += W) {
      const int64_t lines = std::min<int64_t>(W, cols - j);
      for (int64_t i = 0; i < rows; i += W) {
        const int64_t here = std::min<int64_t>(W, rows - i);
        V v[W];
        for (int l = 0; l < W; ++l) v[l] = l < here ? take(from + (i + l) * wide_ + j, lines) : V{};
        turn(v);
        for (int64_t l = 0; l < lines; ++l) put(to + (j0 + j + l) * pitch + i0 + i, v[l], here);
      }
    }
  };
}
// Writes a finished block in another storage type.
template <class E>
inline auto stored_as(E* to, int64_t pitch) {
  return [=](int64_t i0, int64_t rows, int64_t j0, int64_t cols, const float* from, int64_t wide_) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; j += W)
        put(to + (i0 + i) * pitch + j0 + j, take(from + i * wide_ + j, cols - j), cols - j);
  };
}
