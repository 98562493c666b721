// Vectors of W elements of any storage type as floats, and back.
template <class E>
inline V take(const E* from, int64_t count) {
  if constexpr (std::is_same_v<E, float>) return count >= W ? load(from, All{}) : load(from, upto(count));
  V v{};
  if (count >= W) {
    for (int i = 0; i < W; ++i) v[i] = static_cast<float>(from[i]);
  } else {
    for (int i = 0; i < count; ++i) v[i] = static_cast<float>(from[i]);
  }
  return v;
}
#if defined(__AVX512F__) && @WIDTH@ == 16
template <>
inline V take(const kw::bfloat16* from, int64_t count) {
  if (count >= W) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    return (V)_mm512_slli_epi32(bits, 16);
  }
  V v{};
  for (int i = 0; i < count; ++i) v[i] = static_cast<float>(from[i]);
  return v;
}
template <>
inline V take(const kw::float16* from, int64_t count) {
  if (count >= W) return (V)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  V v{};
  for (int i = 0; i < count; ++i) v[i] = static_cast<float>(from[i]);
  return v;
}
#endif
template <class E>
inline void put(E* to, V v, int64_t count) {
  if constexpr (std::is_same_v<E, float>) {
    if (count >= W) store(to, v, All{});
    else store(to, v, upto(count));
  } else {
    for (int i = 0; i < std::min<int64_t>(W, count); ++i) to[i] = static_cast<E>(v[i]);
  }
}

// W vectors of W become their transpose.
template <int Half>
inline void turn_by(V* v) {
  I low, high;
  for (int i = 0; i < W; ++i) {
    low[i] = i & Half ? W + i - Half : i;
    high[i] = i & Half ? W + i : i + Half;
  }
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i) {
    if (i & Half) continue;
    const V a = v[i], b = v[i + Half];
    v[i] = __builtin_shuffle(a, b, low);
    v[i + Half] = __builtin_shuffle(a, b, high);
  }
  if constexpr (Half > 1) turn_by<Half / 2>(v);
}
inline void turn(V* v) { turn_by<W / 2>(v); }

// Element (i, k) of an operand, i along its lanes: at outer * i + inner * k, or where tables say.
template <class E>
struct Strided {
  const E* data;
  int64_t outer, inner;
};
template <class E>
struct Spread {
  const E* data;
  int64_t outer;
  const int64_t* inner;
};
template <class E>
struct Indexed {
  const E* data;
  const int64_t *outer, *inner;
};
template <class E>
Strided(const E*, int64_t, int64_t) -> Strided<E>;
template <class E>
Spread(const E*, int64_t, const int64_t*) -> Spread<E>;
template <class E>
Indexed(const E*, const int64_t*, const int64_t*) -> Indexed<E>;

template <class E>
inline const E* place_of(const Strided<E>& from, int64_t i, int64_t k) {
  return from.data + i * from.outer + k * from.inner;
}
template <class E>
inline const E* place_of(const Spread<E>& from, int64_t i, int64_t k) {
  return from.data + i * from.outer + from.inner[k];
}
template <class E>
inline const E* place_of(const Indexed<E>& from, int64_t i, int64_t k) {
  return from.data + from.outer[i] + from.inner[k];
}

template <class O>
inline bool along_lanes(const O& from, int64_t i, int64_t count) {  // neighbours in memory are neighbours in a vector
  if constexpr (requires { from.outer[0]; }) return from.outer[i + count - 1] - from.outer[i] == count - 1;
  else return from.outer == 1;
}
template <class O>
inline bool along_depth(const O& from, int64_t k, int64_t count) {
  if constexpr (requires { from.inner[0]; }) return from.inner[k + count - 1] - from.inner[k] == count - 1;
  else return from.inner == 1;
}

// to[k * width + i] for `lanes` neighbours; what is missing up to `width` is zero. Vectors are written whole, those of
// later lanes first: what they write too much is overwritten, but for up to W floats behind the panel.
template <class O>
void pack(const O& from, int64_t i0, int64_t lanes, int64_t k0, int64_t depth, float* to, int64_t width) {
  for (int64_t g = (width - 1) / W * W; g >= 0; g -= W) {
    const int64_t here = std::clamp<int64_t>(lanes - g, 0, W);
    if (here <= 0) {
      for (int64_t k = 0; k < depth; ++k) store(to + k * width + g, V{}, All{});
    } else if (along_lanes(from, i0 + g, here)) {
      for (int64_t k = 0; k < depth; ++k) store(to + k * width + g, take(place_of(from, i0 + g, k0 + k), here), All{});
    } else {
      for (int64_t k = 0; k < depth; k += W) {
        const int64_t deep = std::min<int64_t>(W, depth - k);
        if (along_depth(from, k0 + k, deep)) {
          V v[W];
          if (here == W && deep == W) {
#pragma GCC unroll 16
            for (int i = 0; i < W; ++i) v[i] = take(place_of(from, i0 + g + i, k0 + k), W);
          } else {
            for (int i = 0; i < W; ++i) v[i] = i < here ? take(place_of(from, i0 + g + i, k0 + k), deep) : V{};
          }
          turn(v);
          if (deep == W) {
#pragma GCC unroll 16
            for (int l = 0; l < W; ++l) store(to + (k + l) * width + g, v[l], All{});
          } else {
            for (int64_t l = 0; l < deep; ++l) store(to + (k + l) * width + g, v[l], All{});
          }
          continue;
        }
        for (int64_t l = k; l < k + deep; ++l) {
          V v{};
          for (int64_t i = 0; i < here; ++i) v[i] = static_cast<float>(*place_of(from, i0 + g + i, k0 + l));
          store(to + l * width + g, v, All{});
        }
      }
    }
  }
}
inline float* scratch(std::vector<float>& memory, size_t count) {
  if (memory.size() < count + 32) memory.resize(count + 32);
  return aligned(memory.data());
}
