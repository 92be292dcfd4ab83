// The inner loops that a tensor library does slowly here: the depthwise convolution with layer norm
// of a ConvNeXt block, and the counter-based random words of the vocoder's noise. One source
// (kernels.inc) is compiled for three instruction sets; the best one the CPU has is chosen once per
// process.
//
// OMNISTAGE_CPU=base|avx2|avx512 forces a lower variant. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omnistage::hibari {

struct DepthwiseNorm {
  const float* weight;       // [kernel][channels]
  const float* bias;         // [channels]
  const float* norm_weight;  // [channels]
  const float* norm_bias;    // [channels]
  const float* skip_bias;    // [channels], added to the copy of the input
  int64_t channels;          // a multiple of 16
  int64_t kernel;            // 5 or 7
  int64_t dilation;
};

// out[rows, columns] = start + left[rows, depth] * right[depth, columns].
struct Product {
  const float* left;   // packed by pack_left
  const float* right;  // packed by pack_right
  const float* bias;   // [columns rounded up to panel], or null: start from what `out` holds
  int64_t rows, depth, columns;
  float* out;
  int64_t out_stride;
};

struct Kernels {
  const char* name;
  int64_t panel;  // columns that are computed together
  // Dense row-major [depth, columns] -> panels; columns beyond the end are zero.
  // Needs depth * round_up(columns, panel) floats.
  void (*pack_right)(const float* matrix, int64_t depth, int64_t columns, float* packed);
  // Rows of `depth` floats, `stride` apart (they may overlap) -> rows * depth floats.
  void (*pack_left)(const float* matrix, int64_t stride, int64_t rows, int64_t depth,
                    float* packed);
  // The panels [from, to) of a product; threads may share one by panels.
  void (*multiply)(const Product& product, int64_t from, int64_t to);
  // input [rows + (kernel - 1) * dilation, channels], output rows are dense.
  // normed = layer_norm(depthwise(input)); skip = the centre row of the input + skip_bias.
  void (*depthwise_norm)(const DepthwiseNorm& layer, const float* input, int64_t rows,
                         float* normed, float* skip);
  // Philox 4x32-10: words[4 * i ...] belong to counter {first + i, counter1, counter2, counter3}.
  void (*philox)(const uint32_t key[2], uint32_t first, const uint32_t counter[3], size_t blocks,
                 uint32_t* words);
};

const Kernels& kernels();

}  // namespace omnistage::hibari
