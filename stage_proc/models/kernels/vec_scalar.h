// Vec for machines without a known vector unit: eight floats in plain loops.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

struct Vec {
  static constexpr int kLanes = 8;
  float v[kLanes];

  static Vec load(const float* p) {
    Vec r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static Vec set(float x) {
    Vec r;
    for (float& lane : r.v) lane = x;
    return r;
  }
  void store(float* p) const { std::memcpy(p, v, sizeof v); }
};

template <typename F>
inline Vec map2(const Vec& a, const Vec& b, F f) {
  Vec r;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = f(a.v[i], b.v[i]);
  return r;
}
inline Vec operator+(const Vec& a, const Vec& b) {
  return map2(a, b, [](float x, float y) { return x + y; });
}
inline Vec operator-(const Vec& a, const Vec& b) {
  return map2(a, b, [](float x, float y) { return x - y; });
}
inline Vec operator*(const Vec& a, const Vec& b) {
  return map2(a, b, [](float x, float y) { return x * y; });
}
inline Vec operator/(const Vec& a, const Vec& b) {
  return map2(a, b, [](float x, float y) { return x / y; });
}
inline Vec vmax(const Vec& a, const Vec& b) {
  return map2(a, b, [](float x, float y) { return x > y ? x : y; });
}
inline Vec vmin(const Vec& a, const Vec& b) {
  return map2(a, b, [](float x, float y) { return x < y ? x : y; });
}
// a * b + c; rounded twice here, once in the vector variants.
inline Vec madd(const Vec& a, const Vec& b, const Vec& c) {
  return a * b + c;
}
inline Vec vround(const Vec& a) {
  return map2(a, a, [](float x, float) { return std::nearbyintf(x); });
}
inline Vec vabs(const Vec& a) {
  return map2(a, a, [](float x, float) { return std::fabs(x); });
}
// 2^n for whole n in [-126, 127].
inline Vec pow2(const Vec& n) {
  return map2(n, n, [](float x, float) {
    const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(x) + 127) << 23;
    float r;
    std::memcpy(&r, &bits, sizeof r);
    return r;
  });
}
// value where x >= limit, else 0.
inline Vec keep_from(const Vec& value, const Vec& x, const Vec& limit) {
  Vec r;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = x.v[i] >= limit.v[i] ? value.v[i] : 0.0f;
  return r;
}
// Neighbours swapped: (1,0,3,2,...).
inline Vec swap_pairs(const Vec& a) {
  Vec r;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = a.v[i ^ 1];
  return r;
}
inline float lane_sum(const Vec& a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}
inline float lane_max(const Vec& a) {
  float r = a.v[0];
  for (int i = 1; i < Vec::kLanes; ++i) r = a.v[i] > r ? a.v[i] : r;
  return r;
}

}  // namespace
