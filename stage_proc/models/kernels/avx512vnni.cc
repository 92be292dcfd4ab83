// The AVX-512 VNNI table. A tile of 16 outputs fills one vector: each byte dot product instruction
// adds four inputs to all 16 outputs at once.
#include <immintrin.h>

#include "stage_proc/models/kernels/tables.h"

#include "stage_proc/models/kernels/vec_avx512.h"

// After the Vec it is written over.
#include "stage_proc/models/kernels/float_ops.h"

namespace omnistage::kernels {
namespace {

constexpr int kRowBlock = 8;  // rows that share one pass over a tile: accumulators fit registers

inline __m512 load_halves(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

void quantize(const float* x, const QuantRows& out) {
  for (int32_t g = 0; g < out.k / kGroup; ++g, x += kGroup) {
    const float scale = group_max(x) / 127.0f;
    const __m512 inverse = _mm512_set1_ps(scale > 0 ? 1.0f / scale : 0.0f);
    const __m512i limit = _mm512_set1_epi32(127);
    const __m512i low = _mm512_set1_epi32(-127);
    __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inverse));
    __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), inverse));
    a = _mm512_max_epi32(_mm512_min_epi32(a, limit), low);
    b = _mm512_max_epi32(_mm512_min_epi32(b, limit), low);
    int8_t* q = out.q + g * kGroup;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), _mm512_cvtepi32_epi8(b));
    const int32_t sum = _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
    out.scale[g] = scale;
    out.scaled_sum[g] = scale * static_cast<float>(sum);
    out.sum[g] = sum;
  }
}

void quantize_rest(const float* x, const QuantRows& first, const QuantRows& out) {
  rest_of_row(x, first, out, quantize);
}

inline __m512i dot(__m512i acc, __m512i w, const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(four));
}

template <int M>
inline void tile_q4(const Q4Matrix& w, const QuantRows& x, int32_t t, float* y, int64_t y_stride,
                    bool add) {
  const int32_t groups = w.k / kGroup;
  const uint8_t* q = w.q + int64_t{t} * groups * 256;
  const uint16_t* s = w.scales + int64_t{t} * groups * 32;
  const __m512i nibble = _mm512_set1_epi8(15);
  __m512 acc[M];
  for (int m = 0; m < M; ++m) acc[m] = _mm512_setzero_ps();
  for (int32_t g = 0; g < groups; ++g, q += 256, s += 32) {
    __m512i v[8];
    for (int j = 0; j < 4; ++j) {
      const __m512i two = _mm512_loadu_si512(q + j * 64);
      v[j] = _mm512_and_si512(two, nibble);
      v[4 + j] = _mm512_and_si512(_mm512_srli_epi16(two, 4), nibble);
    }
    const __m512 d = load_halves(s);
    const __m512 low = load_halves(s + 16);
    for (int m = 0; m < M; ++m) {
      const int8_t* row = x.q + int64_t{m} * x.k + g * kGroup;
      __m512i a = _mm512_setzero_si512();
      __m512i b = _mm512_setzero_si512();
      for (int j = 0; j < 8; j += 2) {
        a = dot(a, v[j], row + j * 4);
        b = dot(b, v[j + 1], row + j * 4 + 4);
      }
      const __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(a, b));
      const int64_t at = int64_t{m} * groups + g;
      acc[m] = _mm512_fmadd_ps(sum, _mm512_mul_ps(d, _mm512_set1_ps(x.scale[at])), acc[m]);
      acc[m] = _mm512_fmadd_ps(low, _mm512_set1_ps(x.scaled_sum[at]), acc[m]);
    }
  }
  for (int m = 0; m < M; ++m) {
    float* out = y + m * y_stride;
    if (add) acc[m] = _mm512_add_ps(_mm512_loadu_ps(out), acc[m]);
    _mm512_storeu_ps(out, acc[m]);
  }
}

template <int M>
inline void tile_q8(const Q8Matrix& w, const QuantRows& x, int32_t t, float* y, int64_t y_stride) {
  const int32_t groups = w.k / kGroup;
  const uint8_t* q = w.q + int64_t{t} * groups * 512;
  const uint16_t* s = w.scales + int64_t{t} * groups * 16;
  __m512 acc[M];
  for (int m = 0; m < M; ++m) acc[m] = _mm512_setzero_ps();
  for (int32_t g = 0; g < groups; ++g, q += 512, s += 16) {
    const __m512 d = load_halves(s);
    __m512i v[8];
    for (int j = 0; j < 8; ++j) v[j] = _mm512_loadu_si512(q + j * 64);
    for (int m = 0; m < M; ++m) {
      const int8_t* row = x.q + int64_t{m} * x.k + g * kGroup;
      const int64_t at = int64_t{m} * groups + g;
      // Weights are stored as q + 128, so the sum starts at -128 * (sum of x).
      __m512i a = _mm512_set1_epi32(-128 * x.sum[at]);
      __m512i b = _mm512_setzero_si512();
      for (int j = 0; j < 8; j += 2) {
        a = dot(a, v[j], row + j * 4);
        b = dot(b, v[j + 1], row + j * 4 + 4);
      }
      const __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(a, b));
      acc[m] = _mm512_fmadd_ps(sum, _mm512_mul_ps(d, _mm512_set1_ps(x.scale[at])), acc[m]);
    }
  }
  for (int m = 0; m < M; ++m) {
    _mm512_storeu_ps(y + m * y_stride, acc[m]);
  }
}

// Runs one tile over all rows in blocks; the tile stays in the first-level cache meanwhile.
template <typename Tile>
inline void over_rows(const QuantRows& x, int32_t rows, float* y, int64_t y_stride,
                      const Tile& tile) {
  int32_t row = 0;
  for (; row + kRowBlock <= rows; row += kRowBlock) {
    tile.template run<kRowBlock>(x.from_row(row), y + row * y_stride);
  }
  const QuantRows rest = x.from_row(row);
  float* out = y + row * y_stride;
  switch (rows - row) {
    case 7:
      return tile.template run<7>(rest, out);
    case 6:
      return tile.template run<6>(rest, out);
    case 5:
      return tile.template run<5>(rest, out);
    case 4:
      return tile.template run<4>(rest, out);
    case 3:
      return tile.template run<3>(rest, out);
    case 2:
      return tile.template run<2>(rest, out);
    case 1:
      return tile.template run<1>(rest, out);
    default:
      return;
  }
}

struct TileQ4 {
  const Q4Matrix& w;
  int32_t tile;
  int64_t y_stride;
  bool add;
  template <int M>
  void run(const QuantRows& x, float* y) const {
    tile_q4<M>(w, x, tile, y, y_stride, add);
  }
};

struct TileQ8 {
  const Q8Matrix& w;
  int32_t tile;
  int64_t y_stride;
  template <int M>
  void run(const QuantRows& x, float* y) const {
    tile_q8<M>(w, x, tile, y, y_stride);
  }
};

void linear_q4(const Q4Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride, bool add) {
  for (int32_t t = tile_begin; t < tile_end; ++t) {
    over_rows(x, rows, y + int64_t{t - tile_begin} * kTileRows, y_stride,
              TileQ4{w, t, y_stride, add});
  }
}

void linear_q8(const Q8Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride) {
  for (int32_t t = tile_begin; t < tile_end; ++t) {
    over_rows(x, rows, y + int64_t{t - tile_begin} * kTileRows, y_stride, TileQ8{w, t, y_stride});
  }
}

}  // namespace

const KernelTable kAvx512VnniTable = {"avx512vnni", quantize, quantize_rest, linear_q4, linear_q8,
                                      rms_norm,     rope,     swiglu,        attention};

}  // namespace omnistage::kernels
