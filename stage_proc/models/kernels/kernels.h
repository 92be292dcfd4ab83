// CPU kernels of the quantised language models: one table of functions per instruction set (scalar,
// avx2, avx512vnni), chosen once at load. All functions are pure over their arguments, allocate
// nothing and may be called from any thread.
//
// Numeric rule of a table: every output value is a function of its own row and of the weights only.
// Group sums are exact integers, float sums run in an order that depends on the matrix width alone;
// so neither the number of rows in a call, nor the split of tiles over threads, nor KV block
// numbers or sizes change a bit. Two tables may differ from each other in the last bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::kernels {

constexpr int32_t kGroup = 32;        // inputs that share one activation scale and one weight scale
constexpr int32_t kTileRows = 16;     // outputs that are interleaved in packed weights
constexpr int32_t kHeadDimStep = 64;  // attention works on whole steps of head dimensions

// 4-bit weights, w = d * q + m per group. n outputs of k inputs; n % 16 == 0, k % 32 == 0.
// q: [n/16][k/32][4][16 outputs][4 bytes]; byte b of word j holds input 4j+b (low nibble) and
// 16+4j+b (high nibble). scales: [n/16][k/32][d: 16, m: 16] as IEEE half.
struct Q4Matrix {
  int32_t n = 0;
  int32_t k = 0;
  const uint8_t* q = nullptr;
  const uint16_t* scales = nullptr;
};

// 8-bit weights, w = d * (q - 128). q: [n/16][k/32][8][16 outputs][4 bytes]; scales:
// [n/16][k/32][16] as IEEE half.
struct Q8Matrix {
  int32_t n = 0;
  int32_t k = 0;
  const uint8_t* q = nullptr;
  const uint16_t* scales = nullptr;
};

// Quantised activations, x = scale * q with q in [-127, 127]. Rows are contiguous: q [rows][k];
// scale, scaled_sum (scale * sum of q) and sum [rows][k/32].
struct QuantRows {
  int32_t k = 0;
  int8_t* q = nullptr;
  float* scale = nullptr;
  float* scaled_sum = nullptr;
  int32_t* sum = nullptr;

  QuantRows from_row(int64_t row) const {
    const int64_t groups = row * (k / kGroup);
    return {k, q + row * k, scale + groups, scaled_sum + groups, sum + groups};
  }
};

// Paged keys and values of one layer and one KV head. Block b of the sequence starts at
// k + table[b] * block_stride (values: v + ...). Keys are transposed, [head_dim][key_stride], so
// that one vector holds one dimension of neighbouring positions; values are [block_size][head_dim].
struct KvView {
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t block_stride = 0;  // floats
  const int32_t* table = nullptr;
  int32_t block_size = 0;
  int32_t key_stride = 0;  // block_size rounded up to 16
  int32_t head_dim = 0;    // multiple of kHeadDimStep
};

// Floats of scratch that attention needs for `length` positions and `heads` query heads.
constexpr int64_t attention_scratch(int64_t length, int32_t heads) {
  return heads * (((length + 15) / 16) * 16 + 64);
}

struct KernelTable {
  const char* name;

  // One row of k floats to int8 groups; writes row 0 of `out`.
  void (*quantize)(const float* x, const QuantRows& out);
  // The second term of a finer form: quantises what row 0 of `first` leaves of x, so that
  // W x is about W first + W out with the error of 15 bits instead of 8.
  void (*quantize_rest)(const float* x, const QuantRows& first, const QuantRows& out);
  // y = W x (or += when add) for tiles [tile_begin, tile_end); y is the place of the first output
  // of tile_begin of row 0.
  void (*linear_q4)(const Q4Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
                    int32_t tile_end, float* y, int64_t y_stride, bool add);
  void (*linear_q8)(const Q8Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
                    int32_t tile_end, float* y, int64_t y_stride);
  // y = x / sqrt(mean(x^2) + eps) * weight; n % 16 == 0.
  void (*rms_norm)(const float* x, const float* weight, int32_t n, float eps, float* y);
  // Rotates `heads` heads of head_dim floats in place, pairs (0,1), (2,3), ...; cos and sin hold
  // head_dim values with each pair's value doubled, sin negative at even places.
  void (*rope)(float* x, const float* cos, const float* sin, int32_t heads, int32_t head_dim);
  // out = silu(gate) * up; n % 16 == 0. out may be gate.
  void (*swiglu)(const float* gate, const float* up, int32_t n, float* out);
  // Causal attention of one query row: `heads` query heads q [heads][head_dim] that share the KV
  // head, over positions [0, length). out may not overlap q.
  void (*attention)(const KvView& kv, const float* q, int32_t heads, int32_t length, float scale,
                    float* scratch, float* out);
};

// "auto" takes the best table the CPU runs. Errors: kUnsupported when a named one needs
// instructions this CPU lacks, kInvalid for an unknown name.
Result<const KernelTable*> select_kernels(const std::string& name);
// Names of the tables this CPU can run, slowest first.
std::vector<std::string> available_kernels();

}  // namespace omnistage::kernels
