// The AVX2 table. A tile of 16 outputs is two vectors of eight 4-byte words. Products of a byte
// pair stay below 2^15 (4-bit weights: a whole group does), so 16-bit sums are exact.
#include <immintrin.h>

#include "stage_proc/models/kernels/tables.h"

#include "stage_proc/models/kernels/vec_avx2.h"

// After the Vec it is written over.
#include "stage_proc/models/kernels/float_ops.h"

namespace omnistage::kernels {
namespace {

inline __m256 load_halves(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline __m256i load_bytes(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

void quantize(const float* x, const QuantRows& out) {
  const __m256i limit = _mm256_set1_epi32(127);
  const __m256i low = _mm256_set1_epi32(-127);
  for (int32_t g = 0; g < out.k / kGroup; ++g, x += kGroup) {
    const float scale = group_max(x) / 127.0f;
    const __m256 inverse = _mm256_set1_ps(scale > 0 ? 1.0f / scale : 0.0f);
    __m256i r[4];
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i * 8), inverse));
      r[i] = _mm256_max_epi32(_mm256_min_epi32(r[i], limit), low);
    }
    const __m256i all =
        _mm256_add_epi32(_mm256_add_epi32(r[0], r[1]), _mm256_add_epi32(r[2], r[3]));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
    const int32_t sum = _mm_cvtsi128_si32(s);
    // The packs work within 128-bit halves; the permutation puts the 4-byte words back in order.
    const __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(r[0], r[1]), _mm256_packs_epi32(r[2], r[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q + g * kGroup),
                        _mm256_permutevar8x32_epi32(packed, order));
    out.scale[g] = scale;
    out.scaled_sum[g] = scale * static_cast<float>(sum);
    out.sum[g] = sum;
  }
}

void quantize_rest(const float* x, const QuantRows& first, const QuantRows& out) {
  rest_of_row(x, first, out, quantize);
}

inline __m256i four_inputs(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm256_set1_epi32(four);
}

// One half tile (8 outputs) of M rows.
template <int M>
inline void half_q4(const Q4Matrix& w, const QuantRows& x, int32_t t, int half, float* y,
                    int64_t y_stride, bool add) {
  const int32_t groups = w.k / kGroup;
  const uint8_t* q = w.q + int64_t{t} * groups * 256 + half * 32;
  const uint16_t* s = w.scales + int64_t{t} * groups * 32 + half * 8;
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 acc[M];
  for (int m = 0; m < M; ++m) acc[m] = _mm256_setzero_ps();
  for (int32_t g = 0; g < groups; ++g, q += 256, s += 32) {
    __m256i sums[M];
    for (int m = 0; m < M; ++m) sums[m] = _mm256_setzero_si256();
    for (int j = 0; j < 4; ++j) {
      const __m256i two = load_bytes(q + j * 64);
      const __m256i lo = _mm256_and_si256(two, nibble);
      const __m256i hi = _mm256_and_si256(_mm256_srli_epi16(two, 4), nibble);
      for (int m = 0; m < M; ++m) {
        const int8_t* row = x.q + int64_t{m} * x.k + g * kGroup + j * 4;
        sums[m] = _mm256_add_epi16(sums[m], _mm256_maddubs_epi16(lo, four_inputs(row)));
        sums[m] = _mm256_add_epi16(sums[m], _mm256_maddubs_epi16(hi, four_inputs(row + 16)));
      }
    }
    const __m256 d = load_halves(s);
    const __m256 low = load_halves(s + 16);
    for (int m = 0; m < M; ++m) {
      const __m256 sum = _mm256_cvtepi32_ps(_mm256_madd_epi16(sums[m], ones));
      const int64_t at = int64_t{m} * groups + g;
      acc[m] = _mm256_fmadd_ps(sum, _mm256_mul_ps(d, _mm256_set1_ps(x.scale[at])), acc[m]);
      acc[m] = _mm256_fmadd_ps(low, _mm256_set1_ps(x.scaled_sum[at]), acc[m]);
    }
  }
  for (int m = 0; m < M; ++m) {
    float* out = y + m * y_stride + half * 8;
    if (add) acc[m] = _mm256_add_ps(_mm256_loadu_ps(out), acc[m]);
    _mm256_storeu_ps(out, acc[m]);
  }
}

template <int M>
inline void half_q8(const Q8Matrix& w, const QuantRows& x, int32_t t, int half, float* y,
                    int64_t y_stride) {
  const int32_t groups = w.k / kGroup;
  const uint8_t* q = w.q + int64_t{t} * groups * 512 + half * 32;
  const uint16_t* s = w.scales + int64_t{t} * groups * 16 + half * 8;
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i offset = _mm256_set1_epi8(-128);
  __m256 acc[M];
  for (int m = 0; m < M; ++m) acc[m] = _mm256_setzero_ps();
  for (int32_t g = 0; g < groups; ++g, q += 512, s += 16) {
    __m256i sums[M];
    for (int m = 0; m < M; ++m) sums[m] = _mm256_setzero_si256();
    for (int j = 0; j < 8; ++j) {
      const __m256i weight = _mm256_xor_si256(load_bytes(q + j * 64), offset);
      const __m256i magnitude = _mm256_abs_epi8(weight);
      for (int m = 0; m < M; ++m) {
        // |w| * (x with the sign of w): unsigned times signed, as the instruction wants it.
        const __m256i in = four_inputs(x.q + int64_t{m} * x.k + g * kGroup + j * 4);
        const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(in, weight));
        sums[m] = _mm256_add_epi32(sums[m], _mm256_madd_epi16(pairs, ones));
      }
    }
    const __m256 d = load_halves(s);
    for (int m = 0; m < M; ++m) {
      const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(x.scale[int64_t{m} * groups + g]));
      acc[m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[m]), scale, acc[m]);
    }
  }
  for (int m = 0; m < M; ++m) {
    _mm256_storeu_ps(y + m * y_stride + half * 8, acc[m]);
  }
}

void linear_q4(const Q4Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride, bool add) {
  for (int32_t t = tile_begin; t < tile_end; ++t) {
    float* out = y + int64_t{t - tile_begin} * kTileRows;
    for (int half = 0; half < 2; ++half) {
      int32_t m = 0;
      for (; m + 4 <= rows; m += 4) {
        half_q4<4>(w, x.from_row(m), t, half, out + m * y_stride, y_stride, add);
      }
      for (; m < rows; ++m) {
        half_q4<1>(w, x.from_row(m), t, half, out + m * y_stride, y_stride, add);
      }
    }
  }
}

void linear_q8(const Q8Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride) {
  for (int32_t t = tile_begin; t < tile_end; ++t) {
    float* out = y + int64_t{t - tile_begin} * kTileRows;
    for (int half = 0; half < 2; ++half) {
      int32_t m = 0;
      for (; m + 4 <= rows; m += 4) {
        half_q8<4>(w, x.from_row(m), t, half, out + m * y_stride, y_stride);
      }
      for (; m < rows; ++m) {
        half_q8<1>(w, x.from_row(m), t, half, out + m * y_stride, y_stride);
      }
    }
  }
}

}  // namespace

const KernelTable kAvx2Table = {"avx2",   quantize, quantize_rest, linear_q4, linear_q8,
                                rms_norm, rope,     swiglu,        attention};

}  // namespace omnistage::kernels
