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

// Integer sums of one group for the 16 outputs of a tile.
void group_sums_q4(const uint8_t* q, const int8_t* x, int32_t* sums) {
  for (int n = 0; n < kTileRows; ++n) sums[n] = 0;
  for (int j = 0; j < 4; ++j) {
    for (int n = 0; n < kTileRows; ++n) {
      for (int b = 0; b < 4; ++b) {
        const uint8_t two = q[j * 64 + n * 4 + b];
        sums[n] += (two & 15) * x[j * 4 + b] + (two >> 4) * x[16 + j * 4 + b];
      }
    }
  }
}

void group_sums_q8(const uint8_t* q, const int8_t* x, int32_t* sums) {
  for (int n = 0; n < kTileRows; ++n) sums[n] = 0;
  for (int j = 0; j < 8; ++j) {
    for (int n = 0; n < kTileRows; ++n) {
      for (int b = 0; b < 4; ++b) sums[n] += (q[j * 64 + n * 4 + b] - 128) * x[j * 4 + b];
    }
  }
}

void linear_q4(const Q4Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride, bool add) {
  const int32_t groups = w.k / kGroup;
  for (int32_t t = tile_begin; t < tile_end; ++t) {
    for (int32_t m = 0; m < rows; ++m) {
      const uint8_t* q = w.q + int64_t{t} * groups * 256;
      const uint16_t* s = w.scales + int64_t{t} * groups * 32;
      float acc[kTileRows] = {};
      for (int32_t g = 0; g < groups; ++g, q += 256, s += 32) {
        int32_t sums[kTileRows];
        group_sums_q4(q, x.q + int64_t{m} * x.k + g * kGroup, sums);
        const float scale = x.scale[int64_t{m} * groups + g];
        const float offset = x.scaled_sum[int64_t{m} * groups + g];
        for (int n = 0; n < kTileRows; ++n) {
          acc[n] += static_cast<float>(sums[n]) * (half_to_float(s[n]) * scale);
          acc[n] += half_to_float(s[16 + n]) * offset;
        }
      }
      float* out = y + m * y_stride + int64_t{t - tile_begin} * kTileRows;
      for (int n = 0; n < kTileRows; ++n) out[n] = add ? out[n] + acc[n] : acc[n];
    }
  }
}

void linear_q8(const Q8Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
               int32_t tile_end, float* y, int64_t y_stride) {
  const int32_t groups = w.k / kGroup;
  for (int32_t t = tile_begin; t < tile_end; ++t) {
    for (int32_t m = 0; m < rows; ++m) {
      const uint8_t* q = w.q + int64_t{t} * groups * 512;
      const uint16_t* s = w.scales + int64_t{t} * groups * 16;
      float acc[kTileRows] = {};
      for (int32_t g = 0; g < groups; ++g, q += 512, s += 16) {
        int32_t sums[kTileRows];
        group_sums_q8(q, x.q + int64_t{m} * x.k + g * kGroup, sums);
        const float scale = x.scale[int64_t{m} * groups + g];
        for (int n = 0; n < kTileRows; ++n) {
          acc[n] += static_cast<float>(sums[n]) * (half_to_float(s[n]) * scale);
        }
      }
      float* out = y + m * y_stride + int64_t{t - tile_begin} * kTileRows;
      for (int n = 0; n < kTileRows; ++n) out[n] = acc[n];
    }
  }
}

}  // namespace

const KernelTable kScalarTable = {"scalar", quantize, quantize_rest, linear_q4, linear_q8,
                                  rms_norm, rope,     swiglu,        attention};

}  // namespace omnistage::kernels
