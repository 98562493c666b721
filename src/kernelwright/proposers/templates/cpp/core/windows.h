// What slides over an image, by one dimension: result o reads at (o * step + t * gap + constant) / divisor, if that is
// a whole number and inside. A divisor splits the results into as many phases, each with the taps that reach it.
struct Sliding {
  int64_t out, size, kernel, step, gap, constant, divisor;
};
struct Phase {
  int64_t first, apart;  // result q of this phase is result first + q * apart of all
  int64_t count, size;
  std::vector<int64_t> taps, away;  // tap and where it reads: q * step + away
  int64_t low = 0, high = 0;        // the least and the most of `away`
};
inline Phase phase(const Sliding& s, int64_t residue) {
  Phase p{residue, s.divisor, (s.out - residue + s.divisor - 1) / s.divisor, s.size, {}, {}};
  for (int64_t t = 0; t < s.kernel; ++t) {
    const int64_t at = residue * s.step + t * s.gap + s.constant;
    if ((at % s.divisor + s.divisor) % s.divisor) continue;
    p.taps.push_back(t);
    p.away.push_back((at - (at % s.divisor)) / s.divisor);
  }
  if (!p.away.empty()) {
    p.low = *std::min_element(p.away.begin(), p.away.end());
    p.high = *std::max_element(p.away.begin(), p.away.end());
  }
  return p;
}
struct Shape3 {
  int64_t z, y, x;
};
// One choice of a phase in each dimension: the depth of its product, as tables.
struct Phases {
  Phase z, y, x;
  std::vector<int64_t> weight, away;  // for each k: where its weight lies, and where it reads in a plane of this pitch
  int64_t depth, packed = 0;
};

// The part of an image that a box of results reads, with zeros around the image.
template <class E>
void fill_slab(const E* image, int64_t channels, int64_t plane, const Phases& p, Shape3 step, Shape3 from, Shape3 slab,
               float* to) {
  const int64_t z0 = from.z * step.z + p.z.low, y0 = from.y * step.y + p.y.low, x0 = from.x * step.x + p.x.low;
  const int64_t begin = std::clamp<int64_t>(-x0, 0, slab.x), end = std::clamp<int64_t>(p.x.size - x0, begin, slab.x);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t z = z0; z < z0 + slab.z; ++z) {
      for (int64_t y = y0; y < y0 + slab.y; ++y, to += slab.x) {
        if (z < 0 || z >= p.z.size || y < 0 || y >= p.y.size) {
          std::fill(to, to + slab.x, 0.0f);
          continue;
        }
        const E* const line = image + c * plane + (z * p.y.size + y) * p.x.size + x0;
        for (int64_t x = 0; x < begin; ++x) to[x] = 0.0f;
        for (int64_t x = begin; x < end; x += W) put(to + x, take(line + x, end - x), end - x);
        for (int64_t x = end; x < slab.x; ++x) to[x] = 0.0f;
      }
    }
  }
}

struct Windows {
  int64_t batch, groups, channels, filters;  // of a group
  Sliding z, y, x;
  int64_t weight_group, weight_filter, weight_channel;  // strides of the weight
};
inline bool inside(const Phase& p, int64_t step) { return p.low >= 0 && (p.count - 1) * step + p.high < p.size; }
inline std::vector<Phases> phases_of(const Windows& w) {
  std::vector<Phases> all;
  for (int64_t z = 0; z < std::min(w.z.divisor, w.z.out); ++z)
    for (int64_t y = 0; y < std::min(w.y.divisor, w.y.out); ++y)
      for (int64_t x = 0; x < std::min(w.x.divisor, w.x.out); ++x)
        all.push_back({phase(w.z, z), phase(w.y, y), phase(w.x, x), {}, {}, 0});
  return all;
}
// `line(x)` tells where along a line of the slab the tap that reads `x` behind the lowest begins.
template <class F>
void tabulate(const Windows& w, Phases& p, Shape3 pitch, const F& line) {
  p.weight.clear(), p.away.clear();
  for (int64_t c = 0; c < w.channels; ++c)
    for (size_t z = 0; z < p.z.taps.size(); ++z)
      for (size_t y = 0; y < p.y.taps.size(); ++y)
        for (size_t x = 0; x < p.x.taps.size(); ++x) {
          p.weight.push_back(c * w.weight_channel + (p.z.taps[z] * w.y.kernel + p.y.taps[y]) * w.x.kernel + p.x.taps[x]);
          p.away.push_back(c * pitch.z + (p.z.away[z] - p.z.low) * pitch.y + (p.y.away[y] - p.y.low) * pitch.x +
                           line(p.x.away[x] - p.x.low));
        }
  p.depth = static_cast<int64_t>(p.away.size());
}
inline Shape3 reach(const Phases& p, Shape3 box, Shape3 step) {
  return {(std::min(box.z, p.z.count) - 1) * step.z + p.z.high - p.z.low + 1,
          (std::min(box.y, p.y.count) - 1) * step.y + p.y.high - p.y.low + 1,
          (std::min(box.x, p.x.count) - 1) * step.x + p.x.high - p.x.low + 1};
}
// A box of results for a task: as large as the caches allow and as small as the threads need.
template <class F>
Shape3 choose_box(const Windows& w, const std::vector<Phases>& all, int64_t tasks, int team, const F& floats) {
  const Phases& p = all[0];
  Shape3 box{p.z.count, p.y.count, p.x.count};
  const auto parts = [](int64_t count, int64_t size) { return (count + size - 1) / size; };
  const auto many = [&] { return tasks * parts(p.z.count, box.z) * parts(p.y.count, box.y) * parts(p.x.count, box.x); };
  while (floats(box) > 98304 || (team > 1 && many() < 2 * team)) {
    if (box.z > 1) box.z = (box.z + 1) / 2;
    else if (box.y > 1) box.y = (box.y + 1) / 2;
    else if (box.x > 56) box.x = (box.x / 2 + 13) / 14 * 14;
    else break;
  }
  return box;
}

// Turns sums, places by filters, into lines of the result.
template <class Out>
void write_places(const Windows& w, const Phases& p, Shape3 from, Shape3 n, const float* sum, int64_t pitch, Out* to) {
  const int64_t places = w.z.out * w.y.out * w.x.out;
  const bool joined = p.x.apart == 1 && p.y.apart == 1 && n.x == w.x.out;  // whole lines follow on one another
  const int64_t lines = joined ? n.z : n.z * n.y, wide_ = joined ? n.y * n.x : n.x;
  for (int64_t l = 0; l < lines; ++l, sum += wide_ * pitch) {
    const int64_t z = joined ? l : l / n.y, y = joined ? 0 : l % n.y;
    const int64_t at = ((p.z.first + (from.z + z) * p.z.apart) * w.y.out + p.y.first + (from.y + y) * p.y.apart) * w.x.out +
                       p.x.first + from.x * p.x.apart;
    for (int64_t f = 0; f < w.filters; f += W) {
      const int64_t rows = std::min<int64_t>(W, w.filters - f);
      for (int64_t x = 0; x < wide_; x += W) {
        const int64_t here = std::min<int64_t>(W, wide_ - x);
        V v[W];
        if (here == W) {
#pragma GCC unroll 16
          for (int i = 0; i < W; ++i) v[i] = load(sum + (x + i) * pitch + f, All{});
        } else {
          for (int i = 0; i < W; ++i) v[i] = i < here ? load(sum + (x + i) * pitch + f, All{}) : V{};
        }
        turn(v);
        Out* const line = to + f * places + at + x * p.x.apart;
        if (p.x.apart == 1 && rows == W && here == W) {
#pragma GCC unroll 16
          for (int i = 0; i < W; ++i) put(line + i * places, v[i], W);
        } else if (p.x.apart == 1) {
          for (int64_t i = 0; i < rows; ++i) put(line + i * places, v[i], here);
        } else {
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t x2 = 0; x2 < here; ++x2) line[i * places + x2 * p.x.apart] = static_cast<Out>(v[i][x2]);
        }
      }
    }
  }
}
struct NoRows {
  void operator()(int64_t, int64_t, int64_t) const {}
};
// The steps that follow, on each stretch of a row of the result that lies in a finished box.
template <class L>
void finish_box(const Windows& w, const Phases& p, Shape3 from, Shape3 box, int64_t which, const L& last) {
  if constexpr (std::is_same_v<L, NoRows>) return;
  const auto end = [](const Phase& d, const Sliding& s, int64_t q) { return std::min(s.out, q * d.apart); };
  const Shape3 a{from.z * p.z.apart, from.y * p.y.apart, from.x * p.x.apart};
  const Shape3 b{end(p.z, w.z, from.z + box.z), end(p.y, w.y, from.y + box.y), end(p.x, w.x, from.x + box.x)};
  const bool whole = b.x - a.x == w.x.out;
  for (int64_t f = which * w.filters; f < (which + 1) * w.filters; ++f)
    for (int64_t z = a.z; z < b.z; ++z) {
      if (whole) last(f, (z * w.y.out + a.y) * w.x.out, (z * w.y.out + b.y) * w.x.out);
      else
        for (int64_t y = a.y; y < b.y; ++y) last(f, (z * w.y.out + y) * w.x.out + a.x, (z * w.y.out + y) * w.x.out + b.x);
    }
}

// A forward window multiplies the zeros around an image with weights; the other way round, what is outside an image takes
// no part, which only shows where a weight is not finite. Such weights take this way.
template <class E, class K, class Out, class L>
void slide_exactly(const Windows& w, const E* image, const K* weight, Out* result, const L& last) {
  const int64_t plane = w.z.size * w.y.size * w.x.size, places = w.z.out * w.y.out * w.x.out;
  const auto reads = [](const Sliding& s, int64_t o, int64_t t) {
    const int64_t at = o * s.step + t * s.gap + s.constant;
    return at < 0 || at % s.divisor || at / s.divisor >= s.size ? -1 : at / s.divisor;
  };
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < w.batch * w.groups * w.filters; ++row) {
    const int64_t which = row / w.filters, f = row % w.filters;
    const K* const own = weight + which % w.groups * w.weight_group + f * w.weight_filter;
    for (int64_t o = 0; o < places; ++o) {
      float sum = 0;
      for (int64_t c = 0; c < w.channels; ++c)
        for (int64_t t = 0; t < w.z.kernel * w.y.kernel * w.x.kernel; ++t) {
          const int64_t z = reads(w.z, o / (w.y.out * w.x.out), t / (w.y.kernel * w.x.kernel));
          const int64_t y = reads(w.y, o / w.x.out % w.y.out, t / w.x.kernel % w.y.kernel);
          const int64_t x = reads(w.x, o % w.x.out, t % w.x.kernel);
          if (z < 0 || y < 0 || x < 0) continue;
          sum += static_cast<float>(image[(which * w.channels + c) * plane + (z * w.y.size + y) * w.x.size + x]) *
                 static_cast<float>(own[c * w.weight_channel + t]);
        }
      result[row * places + o] = static_cast<Out>(sum);
    }
    last(row, 0, places);
  }
}
template <class K>
bool must_be_exact(const Windows& w, const K* weight) {
  if (w.z.gap >= 0 && w.y.gap >= 0 && w.x.gap >= 0) return false;
  V none{};
  const int64_t count = w.groups * w.weight_group;
  for (int64_t i = 0; i < count; i += W) none += take(weight + i, count - i) * 0.0f;
  bool finite = true;
  for (int i = 0; i < W; ++i) finite = finite && none[i] == none[i];
  return !finite;
}

// Results of a convolution with filters along the vectors: every tile is some neighbouring places of a line by N vectors
// of filters, places are read where they lie. `Out` is the storage type of the result, which has its channels apart by
// its places; `last(row, from, to)` follows every finished stretch of a row.
template <int R, int N, int Step, class E, class K, class Out, class L>
void slide_filters(const Windows& w, const E* image, const K* weight, Out* result, int64_t chunk, int64_t grain,
                   const L& last) {
  constexpr int T = N * W;
  if (must_be_exact(w, weight)) return slide_exactly(w, image, weight, result, last);
  std::vector<Phases> all = phases_of(w);
  const Shape3 step{w.z.step, w.y.step, w.x.step};
  const int64_t plane = w.z.size * w.y.size * w.x.size, places = w.z.out * w.y.out * w.x.out;
  const int64_t panels = (w.filters + T - 1) / T, pitch = w.filters % T <= W && w.filters % T ? w.filters / T * T + W : panels * T;
  const double work = static_cast<double>(w.batch * w.groups) * places * w.filters * w.channels;
  const int team = work < grain ? 1 : omp_get_max_threads();
  bool read_in_place = std::is_same_v<E, float>;
  for (const Phases& p : all) read_in_place = read_in_place && inside(p.z, step.z) && inside(p.y, step.y) && inside(p.x, step.x);
  const Shape3 box = choose_box(w, all, w.batch * w.groups, team, [&](Shape3 b) {
    const Shape3 r = reach(all[0], b, step);
    return (read_in_place ? 0 : w.channels * r.z * r.y * r.x) + b.z * b.y * b.x * pitch;
  });
  int64_t room = 0, held = 0;
  for (Phases& p : all) {
    const Shape3 r = reach(p, box, step);
    if (read_in_place) tabulate(w, p, {plane, w.y.size * w.x.size, w.x.size}, [](int64_t x) { return x; });
    else tabulate(w, p, {r.z * r.y * r.x, r.y * r.x, r.x}, [](int64_t x) { return x; });
    room = std::max(room, read_in_place ? 0 : w.channels * r.z * r.y * r.x);
    p.packed = held;
    held += panels * T * p.depth;
  }
  const int64_t sums = box.z * box.y * box.x * pitch, each = (room + sums + 2 * T + 31) / 16 * 16;
  static std::vector<float> weights, memory;
  float* const packed = scratch(weights, held * w.groups + T);
  float* const own_rooms = scratch(memory, each * team);
  const int64_t nz = (all[0].z.count + box.z - 1) / box.z, ny = (all[0].y.count + box.y - 1) / box.y;
  const int64_t nx = (all[0].x.count + box.x - 1) / box.x, per = nz * ny * nx;
#pragma omp parallel num_threads(team)
  {
#pragma omp for schedule(dynamic, 1)
    for (int64_t t = 0; t < w.groups * panels; ++t) {
      const int64_t g = t / panels, j = t % panels * T;
      for (const Phases& p : all)
        pack(Spread{weight + g * w.weight_group, w.weight_filter, p.weight.data()}, j, std::min<int64_t>(T, w.filters - j),
             0, p.depth, packed + g * held + p.packed + j * p.depth, T);
    }
    float* const sum = own_rooms + omp_get_thread_num() * each;
    float* const slab = sum + (sums + T + 15) / 16 * 16;
#pragma omp for schedule(dynamic, 1)
    for (int64_t t = 0; t < w.batch * w.groups * per; ++t) {
      const int64_t which = t / per, g = which % w.groups;
      const Shape3 from{t % per / (ny * nx) * box.z, t % (ny * nx) / nx * box.y, t % nx * box.x};
      const E* const own = image + which * w.channels * plane;
      Out* const to = result + which * w.filters * places;
      for (const Phases& p : all) {
        const Shape3 n{std::min(box.z, p.z.count - from.z), std::min(box.y, p.y.count - from.y),
                       std::min(box.x, p.x.count - from.x)};
        if (n.z <= 0 || n.y <= 0 || n.x <= 0) continue;
        const Shape3 r = reach(p, box, step);
        const float* base = slab;
        Shape3 line{r.z * r.y * r.x, r.y * r.x, r.x};
        if constexpr (std::is_same_v<E, float>) {
          if (read_in_place) {
            line = {plane, w.y.size * w.x.size, w.x.size};
            base = own + (from.z * step.z + p.z.low) * line.y + (from.y * step.y + p.y.low) * line.x +
                   from.x * step.x + p.x.low;
          }
        }
        if (!read_in_place && p.depth) fill_slab(own, w.channels, plane, p, step, from, r, slab);
        const int64_t tiles = (n.x + R - 1) / R;
        for (int64_t k0 = 0; k0 == 0 || k0 < p.depth; k0 += chunk) {
          const int64_t here = std::min(chunk, p.depth - k0);
          for (int64_t j = 0; j < w.filters; j += T) {
            const Vectors b{packed + g * held + p.packed + j * p.depth + k0 * T, T};
            for (int64_t zy = 0; zy < n.z * n.y; ++zy) {
              const float* const at = base + zy / n.y * step.z * line.y + zy % n.y * step.y * line.x;
              for (int64_t s = 0; s < tiles; ++s) {
                const int64_t x = cut(n.x, tiles, s), rows = cut(n.x, tiles, s + 1) - x;
                float* const c = sum + (zy * n.x + x) * pitch + j;
                with_rows<R, 1>(rows, [&](auto r_) {
                  const Taps<Step> a{at + x * Step, p.away.data() + k0};
                  if (N > 1 && w.filters - j <= W) tile<r_, 1, false>(here, a, b, c, pitch, k0 == 0);
                  else tile<r_, N, false>(here, a, b, c, pitch, k0 == 0);
                });
              }
            }
          }
        }
        write_places(w, p, from, n, sum, pitch, to);
      }
      finish_box(w, all[0], from, box, which, last);
    }
  }
}

// Every Step-th element after the other, `share` for each residue.
template <int Step>
inline void deal_out(const float* from, int64_t count, float* to, int64_t share) {
  int64_t x = 0;
  if constexpr (Step == 2) {
    I even, odd;
    for (int i = 0; i < W; ++i) even[i] = 2 * i, odd[i] = 2 * i + 1;
    for (; x + 2 * W <= count; x += 2 * W) {
      const V a = load(from + x, All{}), b = load(from + x + W, All{});
      store(to + x / 2, __builtin_shuffle(a, b, even), All{});
      store(to + share + x / 2, __builtin_shuffle(a, b, odd), All{});
    }
  }
  for (; x < count; ++x) to[x % Step * share + x / Step] = from[x];
}

// The same with neighbouring places along the vectors, for groups of few filters. A slab's lines lie dealt out by the
// step, so that what a tap reads for neighbouring places is one vector.
template <int R, int N, int Step, class E, class K, class Out, class L>
void slide_places(const Windows& w, const E* image, const K* weight, Out* result, int64_t, int64_t grain, const L& last) {
  constexpr int Rows = std::min(R, 4), Vectors_ = 4, T = Vectors_ * W;
  if (must_be_exact(w, weight)) return slide_exactly(w, image, weight, result, last);
  std::vector<Phases> all = phases_of(w);
  const Shape3 step{w.z.step, w.y.step, w.x.step};
  const int64_t plane = w.z.size * w.y.size * w.x.size, places = w.z.out * w.y.out * w.x.out;
  const double work = static_cast<double>(w.batch * w.groups) * places * w.filters * w.channels;
  const int team = work < grain ? 1 : omp_get_max_threads();
  const auto dealt = [](int64_t wide_) { return (wide_ + Step - 1) / Step; };
  const Shape3 box = choose_box(w, all, w.batch * w.groups, team, [&](Shape3 b) {
    const Shape3 r = reach(all[0], b, step);
    return w.channels * r.z * r.y * (r.x + Step);
  });
  int64_t room = 0, deepest = 0;
  for (Phases& p : all) {
    const Shape3 r = reach(p, box, step);
    const int64_t wide_ = dealt(r.x) * Step;
    tabulate(w, p, {r.z * r.y * wide_, r.y * wide_, wide_}, [&](int64_t x) { return x % Step * dealt(r.x) + x / Step; });
    room = std::max(room, w.channels * r.z * r.y * wide_ + r.x);
    deepest = std::max(deepest, p.depth);
  }
  const int64_t each = (room + 2 * T + deepest * Rows + Rows * T + 79) / 16 * 16;
  static std::vector<float> memory;
  float* const own_rooms = scratch(memory, each * team);
  const int64_t nz = (all[0].z.count + box.z - 1) / box.z, ny = (all[0].y.count + box.y - 1) / box.y;
  const int64_t nx = (all[0].x.count + box.x - 1) / box.x, per = nz * ny * nx;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (int64_t t = 0; t < w.batch * w.groups * per; ++t) {
    float* const slab = own_rooms + omp_get_thread_num() * each;
    float* const packed = slab + (room + 2 * T + 15) / 16 * 16;
    float* const made = packed + (deepest * Rows + W + 15) / 16 * 16;
    const int64_t which = t / per, g = which % w.groups;
    const Shape3 from{t % per / (ny * nx) * box.z, t % (ny * nx) / nx * box.y, t % nx * box.x};
    Out* const to = result + which * w.filters * places;
    for (const Phases& p : all) {
      const Shape3 n{std::min(box.z, p.z.count - from.z), std::min(box.y, p.y.count - from.y),
                     std::min(box.x, p.x.count - from.x)};
      if (n.z <= 0 || n.y <= 0 || n.x <= 0) continue;
      const Shape3 r = reach(p, box, step);
      const int64_t wide_ = dealt(r.x) * Step;
      if (p.depth) fill_slab(image + which * w.channels * plane, w.channels, plane, p, step, from, {r.z, r.y, r.x}, slab);
      if (Step > 1) {  // from the last line on, so that the wider lines do not cover what is still to be dealt
        float* const line = slab + w.channels * r.z * r.y * wide_;
        for (int64_t l = w.channels * r.z * r.y - 1; l >= 0; --l) {
          std::copy(slab + l * r.x, slab + (l + 1) * r.x, line);
          deal_out<Step>(line, r.x, slab + l * wide_, dealt(r.x));
        }
      }
      for (int64_t f = 0; f < w.filters; f += Rows) {
        const int64_t rows = std::min<int64_t>(Rows, w.filters - f);
        pack(Spread{weight + g * w.weight_group, w.weight_filter, p.weight.data()}, f, rows, 0, p.depth, packed, rows);
        for (int64_t zy = 0; zy < n.z * n.y; ++zy) {
          const int64_t z = zy / n.y, y = zy % n.y;
          const float* const at = slab + (z * step.z * r.y + y * step.y) * wide_;
          Out* const line = to + f * places + p.x.first + from.x * p.x.apart +
                            ((p.z.first + (from.z + z) * p.z.apart) * w.y.out + p.y.first + (from.y + y) * p.y.apart) * w.x.out;
          with_rows<Rows, 1>(rows, [&](auto r_) {
            for (int64_t x = 0; x < n.x; x += T) {
              const TapVectors b{at + x, p.away.data()};
              const int64_t cols = std::min<int64_t>(T, n.x - x);
              if constexpr (std::is_same_v<Out, float>) {
                if (p.x.apart == 1) {
                  tile<r_, Vectors_, true>(p.depth, Panel<r_>{packed}, b, line + x, places, true, r_, cols);
                  continue;
                }
              }
              tile<r_, Vectors_, true>(p.depth, Panel<r_>{packed}, b, made, T, true, r_, cols);
              for (int64_t i = 0; i < r_; ++i)
                for (int64_t j = 0; j < cols; ++j) line[i * places + (x + j) * p.x.apart] = static_cast<Out>(made[i * T + j]);
            }
          });
        }
      }
    }
    finish_box(w, all[0], from, box, which, last);
  }
}

// The gradient of a weight: a channel of `still` meets one of `moved` at each place of the window, summed over images
// and places. What is padded is copied once; packing does the rest.
struct Meeting {
  int64_t batch, groups, own, other;  // channels of a group
  Sliding z, y, x;                    // from a place of `still` to one of `moved`
};
template <int R, int N, class E, class K, class Out>
void meet_windows(const Meeting& m, const E* still, const K* moved, Out* result, int64_t tall, int64_t broad,
                  int64_t chunk, int64_t grain) {
  struct Reach {
    int64_t low, wide_;
  };
  const auto reach_of = [](const Sliding& s) {
    return Reach{s.constant + std::min<int64_t>(0, (s.kernel - 1) * s.gap),
                 (s.out - 1) * s.step + (s.kernel - 1) * std::abs(s.gap) + 1};
  };
  const Reach z = reach_of(m.z), y = reach_of(m.y), x = reach_of(m.x);
  const auto fits = [](const Reach& r, const Sliding& s) { return r.low >= 0 && r.low + r.wide_ <= s.size; };
  const int64_t planes = m.batch * m.groups * m.other, plane = m.z.size * m.y.size * m.x.size;
  const int64_t places = m.z.out * m.y.out * m.x.out, taps = m.z.kernel * m.y.kernel * m.x.kernel;
  std::vector<int64_t> outer, inner, given;
  const auto tables = [&](int64_t start, int64_t pitch_c, int64_t pitch_z, int64_t pitch_y) {
    for (int64_t c = 0; c < m.other; ++c)
      for (int64_t a = 0; a < m.z.kernel; ++a)
        for (int64_t b = 0; b < m.y.kernel; ++b)
          for (int64_t d = 0; d < m.x.kernel; ++d)
            outer.push_back(c * pitch_c + (m.z.constant - z.low + a * m.z.gap) * pitch_z +
                            (m.y.constant - y.low + b * m.y.gap) * pitch_y + m.x.constant - x.low + d * m.x.gap);
    for (int64_t i = 0; i < m.batch; ++i)
      for (int64_t a = 0; a < m.z.out; ++a)
        for (int64_t b = 0; b < m.y.out; ++b)
          for (int64_t d = 0; d < m.x.out; ++d) {
            inner.push_back(start + i * m.groups * m.other * pitch_c + a * m.z.step * pitch_z + b * m.y.step * pitch_y +
                            d * m.x.step);
            given.push_back(i * m.groups * m.own * places + (a * m.y.out + b) * m.x.out + d);
          }
  };
  const auto run = [&](const auto* from, int64_t pitch_c) {
    const auto operands = [&](int64_t g) {
      Out* const to = result + g * m.own * m.other * taps;
      const auto written = [&] {
        if constexpr (std::is_same_v<Out, float>) return to;
        else return stored_as(to, m.other * taps);
      }();
      return Operands{Spread{still + g * m.own * places, places, given.data()},
                      Indexed{from + g * m.other * pitch_c, outer.data(), inner.data()}, written, m.other * taps};
    };
    products<R, N>(m.groups, m.own, m.other * taps, m.batch * places, tall, broad, chunk, grain, operands, Nothing{});
  };
  if (fits(z, m.z) && fits(y, m.y) && fits(x, m.x)) {
    tables((z.low * m.y.size + y.low) * m.x.size + x.low, plane, m.y.size * m.x.size, m.x.size);
    return run(moved, plane);
  }
  static std::vector<float> memory;
  const int64_t slab = z.wide_ * y.wide_ * x.wide_;
  float* const padded = scratch(memory, planes * slab);
  Phases p{};
  p.z.low = z.low, p.y.low = y.low, p.x.low = x.low;
  p.z.size = m.z.size, p.y.size = m.y.size, p.x.size = m.x.size;
#pragma omp parallel for schedule(static) if (planes * slab >= 65536)
  for (int64_t c = 0; c < planes; ++c)
    fill_slab(moved + c * plane, 1, plane, p, {1, 1, 1}, {0, 0, 0}, {z.wide_, y.wide_, x.wide_}, padded + c * slab);
  tables(0, slab, y.wide_ * x.wide_, x.wide_);
  run(static_cast<const float*>(padded), slab);
}
