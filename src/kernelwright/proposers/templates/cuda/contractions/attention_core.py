"""CUDA for attention in float32: tiles of scores stay in registers, and a softmax that is corrected as keys go by."""

from __future__ import annotations

ATTENTION = """\
// What a warp has of a tile: 16 rows. Lanes that differ in their last two bits share two rows, 8 apart.
__device__ __forceinline__ float over_four(const float v, const bool sum) {
  const float one = __shfl_xor_sync(0xffffffffu, v, 1), w = sum ? v + one : most(v, one);
  const float two = __shfl_xor_sync(0xffffffffu, w, 2);
  return sum ? w + two : most(w, two);
}

// 16 x Count * 8 sums of products of 16 rows of a panel and all rows of another, over Deep columns.
template <class L, class R, int Deep, int Count>
__device__ __forceinline__ void multiply_panels(
    float (&sums)[Count][4], const float* const left, const float* const right, const int top) {
#pragma unroll
  for (int start = 0; start < Deep; start += 16) {  // tensor cores round towards zero: few sums at a time
    float fresh[Count][4] = {};
#pragma unroll
    for (int k = start; k < start + 16; k += 8) {
      unsigned raw[4], big[4], small[4];
      read_quarters<L>(raw, left, top, k, true);
#pragma unroll
      for (int e = 0; e < 4; ++e) parted(__uint_as_float(raw[e]), big[e], small[e]);
#pragma unroll
      for (int j = 0; j < Count; j += 2) {
        unsigned big_r[2][2], small_r[2][2];
        read_quarters<R>(raw, right, j * 8, k, false);
#pragma unroll
        for (int e = 0; e < 4; ++e) parted(__uint_as_float(raw[e]), big_r[e / 2][e % 2], small_r[e / 2][e % 2]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          multiply_tf32(fresh[j + e], small, big_r[e]);
          multiply_tf32(fresh[j + e], big, small_r[e]);
          multiply_tf32(fresh[j + e], big, big_r[e]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < Count * 4; ++i) sums[i / 4][i % 4] += fresh[i / 4][i % 4];
  }
}

// Adds to `out` the product of weights, which lie in registers as the tensor cores left them, and of values.
template <class V, int Keys, int Count>
__device__ __forceinline__ void add_values(
    float (&out)[Count][4], const float (&weights)[Keys / 8][4], const float* const values) {
  unsigned big[Keys / 8][4], small[Keys / 8][4];
#pragma unroll
  for (int i = 0; i < Keys / 8; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e)  // lane c has keys 2 c and 2 c + 1, which take the places c and c + 4
      parted(weights[i][e % 2 * 2 + e / 2], big[i][e], small[i][e]);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < Count; ++j) {
    float fresh[4] = {};
#pragma unroll
    for (int i = 0; i < Keys / 8; ++i) {
      unsigned big_r[2], small_r[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float v = *V::place(values, j * 8 + lane / 4, i * 8 + lane % 4 * 2 + e);
        parted(v, big_r[e], small_r[e]);
      }
      multiply_tf32(fresh, small[i], big_r);
      multiply_tf32(fresh, big[i], small_r);
      multiply_tf32(fresh, big[i], big_r);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) out[j][e] += fresh[e];
  }
}

// A block has 64 queries of one batch, a warp 16 of them. While scores are made, values are on their way, and the next
// keys while weights meet the values.
template <class Shape, class Query, class Key, class Value, class Score, class Last>
__device__ __forceinline__ void attention(
    const int block, Query query, Key key, Value value, const Score& score, const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int QUERIES = 64, KEYS = Shape::KEYS_EACH, HEAD = Shape::HEAD, WIDE = Shape::WIDE, THREADS = 128;
  constexpr int ACROSS = (Shape::QUERIES + QUERIES - 1) / QUERIES;
  using Queries = Gathered<Query, QUERIES, HEAD, Shape::QUERIES, Query::DEPTH, THREADS>;
  using Keys = Gathered<Key, KEYS, HEAD, Shape::KEYS, Key::DEPTH, THREADS>;
  using Values = Gathered<Value, WIDE, KEYS, Value::ROWS, Shape::KEYS, THREADS>;
  float* const keys = room + Queries::FLOATS;
  float* const values = keys + Keys::FLOATS;
  // The last queries come first: with a causal mask they have the most to do.
  const int batch = block / ACROSS, first = (ACROSS - 1 - block % ACROSS) * QUERIES;
  const int lane = threadIdx.x % 32, top = threadIdx.x / 32 * 16;
  query.move(batch), key.move(batch), value.move(batch);
  Queries::fetch(room, query, first, 0);
  Keys::fetch(keys, key, 0, 0);
  close_copies();
  float out[WIDE / 8][4] = {}, largest[2] = {-INF, -INF}, sum[2] = {};
  for (int start = 0; start < Shape::KEYS; start += KEYS) {
    wait_for_copies<0>();
    __syncthreads();
    Values::fetch(values, value, 0, start);
    close_copies();
    float scores[KEYS / 8][4] = {};
    multiply_panels<Queries, Keys, HEAD>(scores, room, keys, top);
    __syncthreads();
    if (start + KEYS < Shape::KEYS) Keys::fetch(keys, key, start + KEYS, 0);
    close_copies();
    float now[2] = {largest[0], largest[1]};
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i) {
      const int half = i % 4 / 2, t = first + top + half * 8 + lane / 4, s = start + i / 4 * 8 + lane % 4 * 2 + i % 2;
      float& one = scores[i / 4][i % 4];
      one = t < Shape::QUERIES && s < Shape::KEYS ? score.at(one, batch, t, s) : -INF;
      now[half] = most(now[half], one);
    }
    float scale[2], from[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      now[half] = over_four(now[half], false);
      from[half] = now[half] == -INF ? 0.0f : now[half];
      scale[half] = expf(largest[half] - from[half]);
      largest[half] = now[half];
      sum[half] *= scale[half];
    }
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i) {
      const int half = i % 4 / 2;
      float& one = scores[i / 4][i % 4];
      one = expf(one - from[half]);
      sum[half] += one;
    }
#pragma unroll
    for (int i = 0; i < WIDE / 2; ++i) out[i / 4][i % 4] *= scale[i % 4 / 2];
    wait_for_copies<1>();
    __syncthreads();
    add_values<Values, KEYS>(out, scores, values);
    __syncthreads();
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float whole = over_four(sum[half], true);
    const bool none = largest[half] == -INF;
    const int t = first + top + half * 8 + lane / 4;
#pragma unroll
    for (int i = 0; i < WIDE / 8; ++i) {
      float run[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float v = out[i][half * 2 + e] / whole;
        run[e] = none ? (Shape::SAFE ? 0.0f : __int_as_float(0x7fc00000)) : v;
      }
#pragma unroll
      for (int e = 0; e < 2; e += Last::RUN) {
        const int n = i * 8 + lane % 4 * 2 + e;
        long long row, c;
        if (t < Shape::QUERIES && n < Value::ROWS && last.place(batch, t, n, row, c)) {
          float some[Last::RUN];
          decltype(last.extra(0, 0)) extras[Last::RUN];
#pragma unroll
          for (int j = 0; j < Last::RUN; ++j) some[j] = run[e + j], extras[j] = last.extra(row, c + j);
          last.finish(some, row, c, extras);
        }
      }
    }
  }
}
"""
