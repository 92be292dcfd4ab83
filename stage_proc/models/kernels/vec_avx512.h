// Vec on AVX-512: sixteen floats.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;

  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec set(float x) { return {_mm512_set1_ps(x)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
};

inline Vec operator+(Vec a, Vec b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Vec operator-(Vec a, Vec b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Vec operator/(Vec a, Vec b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Vec vmax(Vec a, Vec b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Vec vmin(Vec a, Vec b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline Vec madd(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec vround(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec vabs(Vec a) {
  return {_mm512_abs_ps(a.v)};
}
inline Vec pow2(Vec n) {
  const __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(e, 23))};
}
inline Vec keep_from(Vec value, Vec x, Vec limit) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_GE_OQ), value.v)};
}
inline Vec swap_pairs(Vec a) {
  return {_mm512_permute_ps(a.v, 0xB1)};
}
inline __m256 upper_half(__m512 v) {
  return _mm512_extractf32x8_ps(v, 1);
}
inline float lane_sum(Vec a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper_half(a.v));
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  s = _mm_add_ss(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(s);
}
inline float lane_max(Vec a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper_half(a.v));
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  s = _mm_max_ss(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(s);
}

}  // namespace
