// AcousticWeights: the acoustic network's parameters in the layout its loops want. Linear layers
// are dequantised once (weight = q * scale) and packed for the product kernels, convolutions are
// turned to [tap][in][out], and the residual gain of each block is folded into its second linear
// layer.
//
// Owns everything (about 31 MB of fp32); immutable after load, so any thread may read.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/kernels.h"

namespace omnistage::hibari {

// y = x W + b, packed for the kernels of this process.
struct LinearWeights {
  at::Tensor packed;
  at::Tensor bias;  // [out], zeros behind it up to a whole panel
  int64_t in = 0, out = 0;
};

struct NormWeights {
  at::Tensor weight, bias;
};

// One ConvNeXt block: x + gamma * pw2(gelu(pw1(norm(depthwise(x))))).
struct BlockWeights {
  at::Tensor depthwise;  // [kernel, channels]
  at::Tensor depthwise_bias;
  NormWeights norm;
  LinearWeights expand;
  LinearWeights project;  // gamma folded in; its bias is added to the skip path
  int64_t dilation = 1;

  DepthwiseNorm kernel_arguments() const;
  int64_t radius() const { return depthwise.size(0) / 2 * dilation; }
};

struct TextEncoderWeights {
  at::Tensor embedding;  // [symbols, D]
  std::array<BlockWeights, 2> blocks;
  NormWeights norm1, norm2, final_norm;
  LinearWeights in_proj, out_proj, linear1, linear2;
  int64_t turns = 0;  // how often the one attention layer is applied
};

struct AcousticWeights {
  static constexpr int64_t kSymbols = 178;
  static constexpr int64_t kTextChannels = 128;
  static constexpr int64_t kProsodyChannels = 192;
  static constexpr int64_t kDecoderChannels = 256;
  static constexpr int64_t kDecoderInput = kTextChannels + 2;

  TextEncoderWeights text;          // what is said
  TextEncoderWeights prosody_text;  // how it is said: durations, F0, energy
  LinearWeights duration_hidden;    // kernel 3 as [3 * 192, 192]
  LinearWeights duration_out;       // [192, 1]
  LinearWeights prosody_in, prosody_out;
  std::array<BlockWeights, 6> prosody;
  LinearWeights decoder_in;  // kernel 7 as [7 * 130, 256]
  std::array<BlockWeights, 8> decoder;
  NormWeights decoder_norm;
  LinearWeights head;  // [256, 3005]

  // NOT_FOUND or INVALID with file and tensor name.
  static Result<AcousticWeights> load(const std::string& path);
};

}  // namespace omnistage::hibari
