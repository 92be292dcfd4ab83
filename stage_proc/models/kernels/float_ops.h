// The float kernels, written once over Vec. Included by each variant's file after its Vec header,
// in an unnamed namespace: the same source becomes three sets of functions, and no function
// compiled for a newer CPU can be picked by the linker for an older one.
#pragma once

#include "stage_proc/models/kernels/kernels.h"

namespace {

namespace kn = omnistage::kernels;

// exp(x), relative error about 1e-7; exactly 0 below -87.3, capped above 88.
inline Vec vexp(Vec x) {
  const Vec low = Vec::set(-87.3f);
  const Vec c = vmin(vmax(x, low), Vec::set(88.0f));
  const Vec n = vround(c * Vec::set(1.44269504f));
  Vec r = madd(n, Vec::set(-0.693359375f), c);
  r = madd(n, Vec::set(2.12194440e-4f), r);
  Vec p = Vec::set(1.0f / 720);
  p = madd(p, r, Vec::set(1.0f / 120));
  p = madd(p, r, Vec::set(1.0f / 24));
  p = madd(p, r, Vec::set(1.0f / 6));
  p = madd(p, r, Vec::set(0.5f));
  p = madd(p, r, Vec::set(1.0f));
  p = madd(p, r, Vec::set(1.0f));
  return keep_from(p * pow2(n), x, low);
}

void rms_norm(const float* x, const float* weight, int32_t n, float eps, float* y) {
  Vec sum = Vec::set(0);
  for (int32_t i = 0; i < n; i += Vec::kLanes) {
    const Vec v = Vec::load(x + i);
    sum = madd(v, v, sum);
  }
  const float mean = lane_sum(sum) / static_cast<float>(n);
  const Vec scale = Vec::set(1.0f / __builtin_sqrtf(mean + eps));
  for (int32_t i = 0; i < n; i += Vec::kLanes) {
    (Vec::load(x + i) * scale * Vec::load(weight + i)).store(y + i);
  }
}

void rope(float* x, const float* cos, const float* sin, int32_t heads, int32_t head_dim) {
  for (int32_t h = 0; h < heads; ++h, x += head_dim) {
    for (int32_t d = 0; d < head_dim; d += Vec::kLanes) {
      const Vec v = Vec::load(x + d);
      madd(v, Vec::load(cos + d), swap_pairs(v) * Vec::load(sin + d)).store(x + d);
    }
  }
}

void swiglu(const float* gate, const float* up, int32_t n, float* out) {
  const Vec one = Vec::set(1.0f);
  const Vec zero = Vec::set(0.0f);
  for (int32_t i = 0; i < n; i += Vec::kLanes) {
    const Vec g = Vec::load(gate + i);
    (g / (one + vexp(zero - g)) * Vec::load(up + i)).store(out + i);
  }
}

// Scores of P neighbouring position vectors for H heads: out[h * stride + place[p] ...].
template <int H, int P>
inline void score_block(const kn::KvView& kv, const float* q, const float* const* keys, Vec scale,
                        float* const* out, int64_t stride) {
  Vec acc[H][P];
  for (int h = 0; h < H; ++h) {
    for (int p = 0; p < P; ++p) acc[h][p] = Vec::set(0);
  }
  for (int32_t d = 0; d < kv.head_dim; ++d) {
    Vec key[P];
    for (int p = 0; p < P; ++p) key[p] = Vec::load(keys[p] + int64_t{d} * kv.key_stride);
    for (int h = 0; h < H; ++h) {
      const Vec x = Vec::set(q[h * kv.head_dim + d]);
      for (int p = 0; p < P; ++p) acc[h][p] = madd(x, key[p], acc[h][p]);
    }
  }
  // Ascending places: a vector that reaches over the end of its block is overwritten by the next.
  for (int p = 0; p < P; ++p) {
    for (int h = 0; h < H; ++h) (acc[h][p] * scale).store(out[p] + h * stride);
  }
}

template <int H>
inline void all_scores(const kn::KvView& kv, const float* q, int32_t length, Vec scale, float* out,
                       int64_t stride) {
  constexpr int kBatch = 4;
  const float* keys[kBatch];
  float* places[kBatch];
  int count = 0;
  for (int32_t first = 0; first < length; first += kv.block_size) {
    const float* block = kv.k + kv.table[first / kv.block_size] * kv.block_stride;
    const int32_t used = length - first < kv.block_size ? length - first : kv.block_size;
    for (int32_t i = 0; i < used; i += Vec::kLanes) {
      keys[count] = block + i;
      places[count] = out + first + i;
      if (++count < kBatch) continue;
      score_block<H, kBatch>(kv, q, keys, scale, places, stride);
      count = 0;
    }
  }
  for (int i = 0; i < count; ++i) {
    score_block<H, 1>(kv, q, keys + i, scale, places + i, stride);
  }
}

// exp(score - max) in place, zero behind `length`; returns the sum.
inline float softmax_weights(float* scores, int32_t length) {
  const int32_t padded = (length + Vec::kLanes - 1) / Vec::kLanes * Vec::kLanes;
  for (int32_t i = length; i < padded; ++i) scores[i] = -3.0e38f;
  Vec top = Vec::load(scores);
  for (int32_t i = Vec::kLanes; i < padded; i += Vec::kLanes) {
    top = vmax(top, Vec::load(scores + i));
  }
  const Vec max = Vec::set(lane_max(top));
  Vec sum = Vec::set(0);
  for (int32_t i = 0; i < padded; i += Vec::kLanes) {
    const Vec e = vexp(Vec::load(scores + i) - max);
    e.store(scores + i);
    sum = sum + e;
  }
  return lane_sum(sum);
}

// out[h][dim .. dim + 4 vectors) = sum over positions, in order, of weight * value.
template <int H>
inline void mix_values(const kn::KvView& kv, const float* weights, int64_t stride, int32_t length,
                       int32_t dim, const float* inverse, float* out) {
  constexpr int kVectors = 4;
  Vec acc[H][kVectors];
  for (int h = 0; h < H; ++h) {
    for (int i = 0; i < kVectors; ++i) acc[h][i] = Vec::set(0);
  }
  for (int32_t first = 0; first < length; first += kv.block_size) {
    const float* value = kv.v + kv.table[first / kv.block_size] * kv.block_stride + dim;
    const int32_t end = length - first < kv.block_size ? length : first + kv.block_size;
    for (int32_t j = first; j < end; ++j, value += kv.head_dim) {
      Vec v[kVectors];
      for (int i = 0; i < kVectors; ++i) v[i] = Vec::load(value + i * Vec::kLanes);
      for (int h = 0; h < H; ++h) {
        const Vec w = Vec::set(weights[h * stride + j]);
        for (int i = 0; i < kVectors; ++i) acc[h][i] = madd(w, v[i], acc[h][i]);
      }
    }
  }
  for (int h = 0; h < H; ++h) {
    for (int i = 0; i < kVectors; ++i) {
      (acc[h][i] * Vec::set(inverse[h])).store(out + h * kv.head_dim + dim + i * Vec::kLanes);
    }
  }
}

template <int H>
inline void attend(const kn::KvView& kv, const float* q, int32_t length, float scale,
                   float* scratch, float* out) {
  const int64_t stride = kn::attention_scratch(length, 1);
  all_scores<H>(kv, q, length, Vec::set(scale), scratch, stride);
  float inverse[H];
  for (int h = 0; h < H; ++h) inverse[h] = 1.0f / softmax_weights(scratch + h * stride, length);
  for (int32_t dim = 0; dim < kv.head_dim; dim += 4 * Vec::kLanes) {
    mix_values<H>(kv, scratch, stride, length, dim, inverse, out);
  }
}

void attention(const kn::KvView& kv, const float* q, int32_t heads, int32_t length, float scale,
               float* scratch, float* out) {
  for (; heads >= 3; heads -= 3, q += 3 * kv.head_dim, out += 3 * kv.head_dim) {
    attend<3>(kv, q, length, scale, scratch, out);
  }
  if (heads == 2) attend<2>(kv, q, length, scale, scratch, out);
  if (heads == 1) attend<1>(kv, q, length, scale, scratch, out);
}

// Largest absolute value of one group, for the activation scale.
inline float group_max(const float* x) {
  Vec top = vabs(Vec::load(x));
  for (int i = Vec::kLanes; i < kn::kGroup; i += Vec::kLanes)
    top = vmax(top, vabs(Vec::load(x + i)));
  return lane_max(top);
}

template <typename Quantize>
inline void rest_of_row(const float* x, const kn::QuantRows& first, const kn::QuantRows& out,
                        const Quantize& quantize) {
  for (int32_t g = 0; g < first.k / kn::kGroup; ++g) {
    float rest[kn::kGroup];
    const int32_t at = g * kn::kGroup;
    for (int i = 0; i < kn::kGroup; ++i) {
      rest[i] = x[at + i] - first.scale[g] * static_cast<float>(first.q[at + i]);
    }
    quantize(rest, {kn::kGroup, out.q + at, out.scale + g, out.scaled_sum + g, out.sum + g});
  }
}

}  // namespace
