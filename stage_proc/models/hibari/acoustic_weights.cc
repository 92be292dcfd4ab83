#include "stage_proc/models/hibari/acoustic_weights.h"

#include <ATen/ATen.h>

#include <cstring>
#include <vector>

#include "stage_proc/models/hibari/frame_format.h"
#include "stage_proc/models/safetensors.h"

namespace omnistage::hibari {
namespace {

LinearWeights pack_linear(const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t in = weight.size(0), out = weight.size(1);
  const int64_t panel = kernels().panel;
  const int64_t padded = (out + panel - 1) / panel * panel;
  LinearWeights linear{at::empty({in * padded}, at::kFloat),
                       at::constant_pad_nd(bias, {0, padded - out}), in, out};
  kernels().pack_right(weight.contiguous().const_data_ptr<float>(), in, out,
                       linear.packed.mutable_data_ptr<float>());
  return linear;
}

// Reads tensors by name and remembers the first error, so that the list of layers below stays a
// list.
class Reader {
 public:
  explicit Reader(const SafetensorsFile& file) : file_(file) {}
  const Status& status() const { return status_; }

  at::Tensor floats(const std::string& name, std::vector<int64_t> shape) {
    return copy(name, Dtype::kF32, at::kFloat, shape);
  }

  // The outputs are multiplied by `gain`, when there is one.
  LinearWeights quantised(const std::string& layer, int64_t in, int64_t out,
                          const at::Tensor& gain = {}) {
    at::Tensor q = copy(layer + ".weight.q", Dtype::kI8, at::kChar, {in, out});
    at::Tensor scale = floats(layer + ".weight.scale", {});
    at::Tensor bias = floats(layer + ".bias", {out});
    if (!status_.ok()) return {};
    at::Tensor weight = q.to(at::kFloat).mul_(scale);
    if (gain.defined()) return pack_linear(weight.mul_(gain), bias.mul_(gain));
    return pack_linear(weight, bias);
  }

  // A convolution stored [out, in, kernel] as one matrix [kernel * in, out].
  LinearWeights convolution(const std::string& layer, int64_t in, int64_t out, int64_t kernel) {
    at::Tensor weight = floats(layer + ".weight", {out, in, kernel});
    at::Tensor bias = floats(layer + ".bias", {out});
    if (!status_.ok()) return {};
    return pack_linear(weight.permute({2, 1, 0}).contiguous().view({kernel * in, out}), bias);
  }

  NormWeights norm(const std::string& name, int64_t n) {
    return {floats(name + ".weight", {n}), floats(name + ".bias", {n})};
  }

  BlockWeights block(const std::string& name, int64_t channels, int64_t hidden, int64_t kernel,
                     int64_t dilation) {
    BlockWeights b;
    at::Tensor depthwise = floats(name + ".dw.weight", {channels, 1, kernel});
    b.depthwise_bias = floats(name + ".dw.bias", {channels});
    b.norm = norm(name + ".norm", channels);
    b.expand = quantised(name + ".pw1", channels, hidden);
    at::Tensor gamma = floats(name + ".gamma", {channels});
    b.project = quantised(name + ".pw2", hidden, channels, gamma);
    b.dilation = dilation;
    if (!status_.ok()) return {};
    b.depthwise = depthwise.view({channels, kernel}).t().contiguous();
    return b;
  }

  TextEncoderWeights text_encoder(const std::string& name, int64_t width, int64_t turns) {
    TextEncoderWeights t;
    t.embedding = floats(name + ".emb.weight", {AcousticWeights::kSymbols, width});
    for (size_t i = 0; i < t.blocks.size(); ++i)
      t.blocks[i] = block(name + ".convs." + std::to_string(i), width, 2 * width, 5, 1);
    const std::string layer = name + ".attn";
    t.norm1 = norm(layer + ".norm1", width);
    t.norm2 = norm(layer + ".norm2", width);
    t.in_proj = quantised(layer + ".self_attn.in_proj", width, 3 * width);
    t.out_proj = quantised(layer + ".self_attn.out_proj", width, width);
    t.linear1 = quantised(layer + ".linear1", width, 2 * width);
    t.linear2 = quantised(layer + ".linear2", 2 * width, width);
    t.final_norm = norm(name + ".norm", width);
    t.turns = turns;
    return t;
  }

 private:
  at::Tensor copy(const std::string& name, Dtype dtype, at::ScalarType type,
                  const std::vector<int64_t>& shape) {
    if (!status_.ok()) return {};
    Result<TensorView> view = file_.get(name, dtype, shape);
    if (!view.ok()) {
      status_ = view.status();
      return {};
    }
    at::Tensor tensor = at::empty(shape, type);
    std::memcpy(tensor.data_ptr(), view->data, view->bytes);
    return tensor;
  }

  const SafetensorsFile& file_;
  Status status_;
};

}  // namespace

DepthwiseNorm BlockWeights::kernel_arguments() const {
  return {depthwise.const_data_ptr<float>(),
          depthwise_bias.const_data_ptr<float>(),
          norm.weight.const_data_ptr<float>(),
          norm.bias.const_data_ptr<float>(),
          project.bias.const_data_ptr<float>(),
          depthwise.size(1),
          depthwise.size(0),
          dilation};
}

Result<AcousticWeights> AcousticWeights::load(const std::string& path) {
  OMS_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::open(path));
  Reader read(file);
  AcousticWeights w;
  w.text = read.text_encoder("m.text", kTextChannels, 4);
  w.prosody_text = read.text_encoder("pn.text", kProsodyChannels, 6);
  w.duration_hidden = read.convolution("pn.dur.0", kProsodyChannels, kProsodyChannels, 3);
  w.duration_out = read.convolution("pn.dur.2", kProsodyChannels, 1, 1);
  w.prosody_in = read.convolution("pn.pro_in", kProsodyChannels, kProsodyChannels, 1);
  w.prosody_out = read.convolution("pn.pro_out", kProsodyChannels, 4, 1);
  constexpr std::array<int64_t, 6> kDilations = {1, 2, 4, 8, 1, 2};
  for (size_t i = 0; i < w.prosody.size(); ++i)
    w.prosody[i] =
        read.block("pn.pro." + std::to_string(i), kProsodyChannels, 384, 7, kDilations[i]);
  w.decoder_in = read.convolution("m.dec_in", kDecoderInput, kDecoderChannels, 7);
  for (size_t i = 0; i < w.decoder.size(); ++i)
    w.decoder[i] = read.block("m.dec." + std::to_string(i), kDecoderChannels, 768, 7, 1);
  w.decoder_norm = read.norm("m.dec_norm", kDecoderChannels);
  w.head = read.quantised("m.head", kDecoderChannels, kSpectrumValues);
  OMS_RETURN_IF_ERROR(read.status());
  return w;
}

}  // namespace omnistage::hibari
