"""CUDA for attention of 16-bit operands: scores and softmax weights of a warp never leave its registers."""

from __future__ import annotations

CHUNK = 64  # queries and keys of which a causal kernel asks at once whether it may skip

TILE_CHOICE = f"""\
def padded(size):
    return ceil(size, 16) * 16


def attention_tile(head, wide):
    # Rows of a warp in pieces of 16, and keys of a step: what registers hold, and shared memory for two steps.
    tall = 2 if max(head, wide) <= 128 else 1

    def room(keys):
        return 2 * ({CHUNK} * tall * (head + 8) + 2 * (max(keys * (head + 8), head * (keys + 8))
                                                      + max(keys * (wide + 8), wide * (keys + 8))))

    return tall, 64 if tall == 2 and room(64) <= kw.device.shared_per_block else 32
"""

_PAIRS = {"bfloat16": ("__nv_bfloat162", "__floats2bfloat162_rn"), "float16": ("__half2", "__floats2half2_rn")}
# The least magnitude, as bits, with which a sum of 256 products need not be finite, and that of infinity.
_LIMITS = {"bfloat16": ("0x5380", "0x7f80"), "float16": ("0x7c00", "0x7c00")}


def narrow_attention(dtype: str) -> str:
    kind, made = _PAIRS[dtype]
    products, values = _LIMITS[dtype]
    return (
        f"""\
constexpr unsigned short MOST_FACTOR = {products}, MOST_VALUE = {values};
__device__ __forceinline__ unsigned packed(const float one, const float other) {{
  const {kind} both = {made}(one, other);
  return *reinterpret_cast<const unsigned*>(&both);
}}
"""
        + _NARROW_ATTENTION
    )


_NARROW_ATTENTION = """\
__device__ __forceinline__ float power_of_two(const float x) {
  float made;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(x));
  return made;
}

// A panel of an operand that is guarded nowhere. Where a round of threads copies whole lines, rounds are a constant
// distance apart.
template <class Operand, int Rows, int Deep, int All, int Depth, int Threads>
struct Streamed : Gathered<Operand, Rows, Deep, All, Depth, 1> {
  using Base = Gathered<Operand, Rows, Deep, All, Depth, 1>;
  using Element = typename Base::Element;
  static constexpr int LINES = Base::LINES, EACH = Base::EACH, WIDTH = Base::WIDTH, PIECES = LINES * EACH;
  static constexpr int ROUNDS = (PIECES + Threads - 1) / Threads;
  static constexpr bool EVEN = Threads % EACH == 0;

  static __device__ __forceinline__ void fetch(
      float* const room, const Operand& operand, const int first, const int start) {
    Element* const to = reinterpret_cast<Element*>(room);
    const int own = threadIdx.x;
#pragma unroll(EVEN && WIDTH > 2 ? ROUNDS : 4)
    for (int i = 0; i < ROUNDS; ++i) {
      const int t = i * Threads + own, line = EVEN ? i * (Threads / EACH) + own / EACH : t / EACH;
      const int at = (EVEN ? own : t) % EACH * WIDTH;
      if (PIECES % Threads != 0 && line >= LINES) break;
      const auto* const from = operand.template at<Base::WHOLE>(
          first + (Base::ALONG_DEPTH ? line : at), start + (Base::ALONG_DEPTH ? at : line));
      const bool inside = Base::WHOLE || from;
      copy_piece<WIDTH>(to + line * Base::STRIDE + at, inside ? from : operand.from, inside);
    }
  }
};

template <bool Pair>
struct WordOf { using type = unsigned; };
template <>
struct WordOf<false> { using type = unsigned short; };
// Whether an element at `Count` places from `first` on, of rows or of the depth, has as much as `limit`.
template <bool Rows, int Count, int Threads, class Operand>
__device__ __forceinline__ bool reaches(const Operand& operand, const int first, const unsigned short limit) {
  constexpr bool ALONG = Rows == Operand::ALONG_DEPTH;  // a line is a place
  constexpr int OTHERS = Rows ? Operand::DEPTH : Operand::ROWS, WIDTH = Operand::WIDTH;
  constexpr int LINES = ALONG ? Count : OTHERS, EACH = ((ALONG ? OTHERS : Count) + WIDTH - 1) / WIDTH;
  using Word = typename WordOf<(WIDTH > 1)>::type;
  unsigned found = 0;
#pragma unroll 4
  for (int t = threadIdx.x; t < LINES * EACH; t += Threads) {
    const int line = t / EACH, at = t % EACH * WIDTH;
    const int place = first + (ALONG ? line : at), other = ALONG ? at : line;
    const auto* const from = Rows ? operand.template at<false>(place, other) : operand.template at<false>(other, place);
    struct __align__(2 * WIDTH) { Word all[(WIDTH + 1) / 2]; } raw = {};
    if (from) raw = *reinterpret_cast<const decltype(raw)*>(from);
    // The sign's bit is set by a magnitude of the limit and above, in both halves of a word.
#pragma unroll
    for (int i = 0; i < (WIDTH + 1) / 2; ++i) found |= (raw.all[i] & 0x7fff7fff) + (0x8000 - limit) * 0x10001;
  }
  return (found & (WIDTH > 1 ? 0x80008000 : 0x8000)) != 0;
}

// Says of every chunk of queries and keys whether a hidden key may matter: -inf added to NaN or to infinity is NaN, and
// so is a weight of zero times either.
template <class Shape, int Chunk, int Threads, class Query, class Key, class Value>
__device__ __forceinline__ void look_for_wild(
    const int block, Query query, Key key, Value value, unsigned* const wild) {
  const int batch = block / Shape::CHUNKS, first = block % Shape::CHUNKS * Chunk;
  query.move(batch), key.move(batch), value.move(batch);
  const bool one = reaches<true, Chunk, Threads>(query, first, MOST_FACTOR);
  const bool two = reaches<true, Chunk, Threads>(key, first, MOST_FACTOR);
  const bool found = __syncthreads_or(one || two || reaches<false, Chunk, Threads>(value, first, MOST_VALUE));
  if (threadIdx.x == 0) wild[block] = found;
}

// Weights are relative to a score that is the largest but for this power of two, so that sums need not be corrected
// whenever a larger score comes; 16 bits hold them as well.
constexpr float MOST_POWER = 8.0f;

// A warp has TALL * 16 queries, a block four warps. While a step is computed, keys and values of the next one come.
template <class Shape, class Query, class Key, class Value, class Score, class Last>
__device__ __forceinline__ void attention(
    const int block, Query query, Key key, Value value, const Score& score, const unsigned* const wild,
    const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int TALL = Shape::TALL, WARPS = 4, THREADS = WARPS * 32, QUERIES = THREADS / 2 * TALL;
  constexpr int KEYS = Shape::KEYS_EACH, HEAD = Shape::HEAD, WIDE = Shape::WIDE;
  constexpr int ACROSS = (Shape::QUERIES + QUERIES - 1) / QUERIES, STEPS = (Shape::KEYS + KEYS - 1) / KEYS;
  constexpr bool HELD = HEAD <= 64;  // queries stay in registers
  using Queries = Streamed<Query, QUERIES, HEAD, Shape::QUERIES, Query::DEPTH, THREADS>;
  using Keys = Streamed<Key, KEYS, HEAD, Shape::KEYS, Key::DEPTH, THREADS>;
  using Values = Streamed<Value, WIDE, KEYS, Value::ROWS, Shape::KEYS, THREADS>;
  // The last queries come first: with a causal mask they have the most to do.
  const int batch = block / ACROSS, first = (ACROSS - 1 - block % ACROSS) * QUERIES;
  const int lane = threadIdx.x % 32, top = threadIdx.x / 32 * 16 * TALL, above = first + top;
  query.move(batch), key.move(batch), value.move(batch);
  const auto staged = [&](const int step) {
    return room + Queries::FLOATS + step % 2 * (Keys::FLOATS + Values::FLOATS);
  };
  const auto fetch = [&](const int step) {
    Keys::fetch(staged(step), key, step * KEYS, 0);
    Values::fetch(staged(step) + Keys::FLOATS, value, 0, step * KEYS);
    close_copies();
  };
  Queries::fetch(room, query, first, 0);
  fetch(0);
  bool skips = false;
  if constexpr (Shape::CAUSAL) {
    unsigned found = 0;
    for (int i = threadIdx.x; i < Shape::CHUNKS; i += THREADS) found |= wild[batch * Shape::CHUNKS + i];
    skips = !__syncthreads_or(found != 0);
  }
  const int steps = skips ? min(STEPS, (min(first + QUERIES, Shape::QUERIES) + KEYS - 1) / KEYS) : STEPS;
  unsigned held[HELD ? HEAD / 16 : 1][TALL][4];
  float out[TALL][WIDE / 8][4] = {}, largest[TALL][2], sum[TALL][2] = {};
#pragma unroll
  for (int i = 0; i < TALL; ++i) largest[i][0] = largest[i][1] = -INF;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<0>();
    __syncthreads();
    if (HELD && step == 0) {
#pragma unroll
      for (int k = 0; k < (HELD ? HEAD : 0); k += 16)
#pragma unroll
        for (int i = 0; i < TALL; ++i) read_narrow<Queries>(held[k / 16][i], room, top + i * 16, k, true);
    }
    if (step + 1 < steps) fetch(step + 1);
    const int start = step * KEYS;
    if (skips && start >= above + TALL * 16) continue;
    const float* const keys = staged(step);
    const float* const values = keys + Keys::FLOATS;
    float scores[TALL][KEYS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < HEAD; k += 16) {
      unsigned own[TALL][4];
#pragma unroll
      for (int i = 0; i < TALL; ++i) {
        if constexpr (HELD) {
#pragma unroll
          for (int e = 0; e < 4; ++e) own[i][e] = held[k / 16][i][e];
        } else {
          read_narrow<Queries>(own[i], room, top + i * 16, k, true);
        }
      }
#pragma unroll
      for (int j = 0; j < KEYS / 8; j += 2) {
        unsigned raw[4];
        read_narrow<Keys>(raw, keys, j * 8, k, false);
        const unsigned one[2] = {raw[0], raw[1]}, other[2] = {raw[2], raw[3]};
#pragma unroll
        for (int i = 0; i < TALL; ++i) {
          multiply_narrow(scores[i][j], own[i], one, typename Key::Element());
          multiply_narrow(scores[i][j + 1], own[i], other, typename Key::Element());
        }
      }
    }
    const bool across = Shape::KEYS % KEYS != 0 && start + KEYS > Shape::KEYS;  // some keys are none
    if (!Shape::SCALED || across || (Shape::CAUSAL && start + KEYS > above)) {
#pragma unroll
      for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < KEYS / 2; ++j) {
          const int t = above + i * 16 + j % 4 / 2 * 8 + lane / 4, s = start + j / 4 * 8 + lane % 4 * 2 + j % 2;
          float& one = scores[i][j / 4][j % 4];
          if (across && s >= Shape::KEYS)
            one = -INF;
          else if constexpr (!Shape::SCALED)
            one = score.at(one, batch, min(t, Shape::QUERIES - 1), s);
          else if (Shape::CAUSAL && s > t)
            one += -INF;
        }
    }
    float now[TALL][2];
    bool grows = false;
#pragma unroll
    for (int i = 0; i < TALL; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Not NaN, if there is one: that makes weights NaN.
        float most = largest[i][half];
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
          most = fmaxf(most, fmaxf(scores[i][j][half * 2], scores[i][j][half * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        now[i][half] = most;
        grows |= (most - largest[i][half]) * Shape::scale() > MOST_POWER;
      }
    }
    if (__any_sync(0xffffffffu, grows)) {
#pragma unroll
      for (int i = 0; i < TALL; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float from = now[i][half] == -INF ? 0.0f : now[i][half];
          const float scale = power_of_two((largest[i][half] - from) * Shape::scale());
          largest[i][half] = now[i][half], sum[i][half] *= scale;
#pragma unroll
          for (int j = 0; j < WIDE / 4; ++j) out[i][j / 2][half * 2 + j % 2] *= scale;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < TALL; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float from = largest[i][half] == -INF ? 0.0f : largest[i][half];
        float more = 0.0f;
#pragma unroll
        for (int j = 0; j < KEYS / 4; ++j) {
          float& one = scores[i][j / 2][half * 2 + j % 2];
          one = power_of_two((one - from) * Shape::scale());
          more += one;
        }
        sum[i][half] += more;
      }
    }
#pragma unroll
    for (int k = 0; k < KEYS; k += 16) {
      unsigned own[TALL][4];
#pragma unroll
      for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          own[i][e] = packed(scores[i][k / 8 + e / 2][e % 2 * 2], scores[i][k / 8 + e / 2][e % 2 * 2 + 1]);
#pragma unroll
      for (int j = 0; j < WIDE / 8; j += 2) {
        unsigned raw[4];
        read_narrow<Values>(raw, values, j * 8, k, false);
        const unsigned one[2] = {raw[0], raw[1]}, other[2] = {raw[2], raw[3]};
#pragma unroll
        for (int i = 0; i < TALL; ++i) {
          multiply_narrow(out[i][j], own[i], one, typename Value::Element());
          multiply_narrow(out[i][j + 1], own[i], other, typename Value::Element());
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < TALL; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float whole = sum[i][half];
      whole += __shfl_xor_sync(0xffffffffu, whole, 1);
      whole += __shfl_xor_sync(0xffffffffu, whole, 2);
      // Zero if all scores are -inf: the largest has a weight of one.
      const float share = whole != 0.0f ? 1.0f / whole : Shape::SAFE ? 1.0f : __int_as_float(0x7fc00000);
      const int t = above + i * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int j = 0; j < WIDE / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; e += Last::RUN) {
          const int n = j * 8 + lane % 4 * 2 + e;
          long long row, c;
          if (t < Shape::QUERIES && n < Value::ROWS && last.place(batch, t, n, row, c)) {
            float some[Last::RUN];
            decltype(last.extra(0, 0)) extras[Last::RUN];
#pragma unroll
            for (int r = 0; r < Last::RUN; ++r)
              some[r] = out[i][j][half * 2 + e + r] * share, extras[r] = last.extra(row, c + r);
            last.finish(some, row, c, extras);
          }
        }
    }
}
"""
