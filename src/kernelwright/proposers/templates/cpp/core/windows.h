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

// Results of a convolution with filters along the vectors: every tile is some neighbouring places of a line by N vectors
// of filters, places are read where they lie. `Out` is the storage type of the result, which has its channels apart by
// its places; `last(row, from, to)` follows every finished stretch of a row.
template <int R, int N, int Step, class E, class K, class Out, class L>
void slide_filters(const Windows& w, const E* image, const K* weight, Out* result, int64_t chunk, int64_t grain,
                   const L& last) {
  constexpr int T = N * W;
  std::vector<Phases> all = phases_of(w);
  const Shape3 step{w.z.step, w.y.step, w.x.step};
  const int64_t plane = w.z.size * w.y.size * w.x.size, places = w.z.out * w.y.out * w.x.out;
  const int64_t panels = (w.filters + T - 1) / T, pitch = (w.filters + W - 1) / W * W;
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
                with_rows<R>(rows, [&](auto r_) {
                  const Taps<Step> a{at + x * Step, p.away.data() + k0};
                  if (N > 1 && w.filters - j <= W) tile<r_, 1>(here, a, b, c, pitch, W, k0 == 0);
                  else tile<r_, N>(here, a, b, c, pitch, pitch - j, k0 == 0);
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

template <int R, int N, int Step, class E, class K, class Out, class L>
void slide_windows(const Windows& w, const E* image, const K* weight, Out* result, int64_t chunk, int64_t grain,
                   const L& last) {
  slide_filters<R, N, Step>(w, image, weight, result, chunk, grain, last);
}
