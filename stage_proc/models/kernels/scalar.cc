// The portable table: plain C++, the reference the vector tables are tested against.
#include "stage_proc/models/kernels/half.h"
#include "stage_proc/models/kernels/tables.h"

#include "stage_proc/models/kernels/vec_scalar.h"

// After the Vec it is written over.
#include "stage_proc/models/kernels/float_ops.h"

namespace omnistage::kernels {
namespace {

void quantize(const float* x, const QuantRows& out) {
  for (int32_t g = 0; g < out.k / kGroup; ++g, x += kGroup) {
    const float scale = group_max(x) / 127.0f;
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    int32_t sum = 0;
    for (int i = 0; i < kGroup; ++i) {
      float r = std::nearbyintf(x[i] * inverse);
      r = r < -127.0f ? -127.0f : (r < 127.0f ? r : 127.0f);
      const int8_t q = static_cast<int8_t>(r);
      out.q[g * kGroup + i] = q;
      sum += q;
    }
    out.scale[g] = scale;
    out.scaled_sum[g] = scale * static_cast<float>(sum);
    out.sum[g] = sum;
  }
}

void quantize_rest(const float* x, const QuantRows& first, const QuantRows& out) {
  rest_of_row(x, first, out, quantize);
}

constexpr int kRowBlock = 16;  // rows that share the unpacking of a tile

// One group of a tile as [input][output], the order in which plain loops vectorise.
struct Group {
  int16_t w[kGroup][kTileRows];
};

void unpack_q4(const uint8_t* q, Group* out) {
  for (int i = 0; i < 16; ++i) {
    const uint8_t* from = q + i / 4 * 64 + i % 4;
    for (int n = 0; n < kTileRows; ++n) {
      out->w[i][n] = from[n * 4] & 15;
      out->w[16 + i][n] = from[n * 4] >> 4;
    }
  }
}

void unpack_q8(const uint8_t* q, Group* out) {
  for (int i = 0; i < kGroup; ++i) {
    const uint8_t* from = q + i / 4 * 64 + i % 4;
    for (int n = 0; n < kTileRows; ++n) out->w[i][n] = static_cast<int16_t>(from[n * 4] - 128);
  }
}

// Sixteen products of 4-bit weights stay below 2^15, so half a group is summed in 16 bits.
void sums_q4(const Group& group, const int8_t* x, int32_t* sums) {
  int16_t half[2][kTileRows] = {};
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < 16; ++i) {
      const int16_t value = x[h * 16 + i];
      const int16_t* w = group.w[h * 16 + i];
      for (int n = 0; n < kTileRows; ++n)
        half[h][n] = static_cast<int16_t>(half[h][n] + w[n] * value);
    }
  }
  for (int n = 0; n < kTileRows; ++n) sums[n] = half[0][n] + half[1][n];
}

void sums_q8(const Group& group, const int8_t* x, int32_t* sums) {
  for (int n = 0; n < kTileRows; ++n) sums[n] = 0;
  for (int i = 0; i < kGroup; ++i) {
    for (int n = 0; n < kTileRows; ++n) sums[n] += group.w[i][n] * int32_t{x[i]};
  }
}

// One tile for up to kRowBlock rows; kFour: 4-bit weights with an offset, else 8-bit ones.
template <bool kFour>
void tile(const uint8_t* q, const uint16_t* s, const QuantRows& x, int32_t rows, float* y,
          int64_t y_stride, bool add) {
  const int32_t groups = x.k / kGroup;
  float acc[kRowBlock][kTileRows] = {};
  for (int32_t g = 0; g < groups; ++g, q += kFour ? 256 : 512, s += kFour ? 32 : 16) {
    Group group;
    float d[kTileRows], low[kTileRows];
    kFour ? unpack_q4(q, &group) : unpack_q8(q, &group);
    for (int n = 0; n < kTileRows; ++n) {
      d[n] = half_to_float(s[n]);
      low[n] = kFour ? half_to_float(s[16 + n]) : 0.0f;
    }
    for (int32_t m = 0; m < rows; ++m) {
      int32_t sums[kTileRows];
      const int8_t* in = x.q + int64_t{m} * x.k + g * kGroup;
      kFour ? sums_q4(group, in, sums) : sums_q8(group, in, sums);
      const float scale = x.scale[int64_t{m} * groups + g];
      const float offset = x.scaled_sum[int64_t{m} * groups + g];
      for (int n = 0; n < kTileRows; ++n) {
        acc[m][n] += static_cast<float>(sums[n]) * (d[n] * scale);
        if (kFour) acc[m][n] += low[n] * offset;
      }
    }
  }
  for (int32_t m = 0; m < rows; ++m) {
    float* out = y + m * y_stride;
    for (int n = 0; n < kTileRows; ++n) out[n] = add ? out[n] + acc[m][n] : acc[m][n];
  }
}

template <bool kFour, typename Matrix>
void linear(const Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin, int32_t tile_end,
            float* y, int64_t y_stride, bool add) {
  const int64_t groups = w.k / kGroup;
  for (int32_t t = tile_begin; t < tile_end; ++t) {
    for (int32_t m = 0; m < rows; m += kRowBlock) {
      tile<kFour>(w.q + t * groups * (kFour ? 256 : 512), w.scales + t * groups * (kFour ? 32 : 16),
                  x.from_row(m), rows - m < kRowBlock ? rows - m : kRowBlock,
                  y + m * y_stride + int64_t{t - tile_begin} * kTileRows, y_stride, add);
    }
  }
}

void linear_q4(const Q4Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride, bool add) {
  linear<true>(w, x, rows, tile_begin, tile_end, y, y_stride, add);
}

void linear_q8(const Q8Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride) {
  linear<false>(w, x, rows, tile_begin, tile_end, y, y_stride, false);
}

}  // namespace

const KernelTable kScalarTable = {"scalar", quantize, quantize_rest, linear_q4, linear_q8,
                                  rms_norm, rope,     swiglu,        attention};

}  // namespace omnistage::kernels
