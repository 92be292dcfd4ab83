#include "stage_proc/models/hibari/conv_stream.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "stage_proc/models/hibari/kernels.h"

namespace omnistage::hibari {

void linear_into(const LinearWeights& layer, const float* rows, int64_t stride, int64_t count,
                 float* out, int64_t out_stride, bool accumulate) {
  const Kernels& kernel = kernels();
  at::Tensor left = at::empty({count * layer.in}, at::kFloat);
  kernel.pack_left(rows, stride, count, layer.in, left.mutable_data_ptr<float>());
  const Product product{left.const_data_ptr<float>(),
                        layer.packed.const_data_ptr<float>(),
                        accumulate ? nullptr : layer.bias.const_data_ptr<float>(),
                        count,
                        layer.in,
                        layer.out,
                        out,
                        out_stride};
  const int64_t panels = (layer.out + kernel.panel - 1) / kernel.panel;
  at::parallel_for(0, panels, 4,
                   [&](int64_t from, int64_t to) { kernel.multiply(product, from, to); });
}

at::Tensor linear(const LinearWeights& layer, const at::Tensor& rows) {
  const at::Tensor input = rows.contiguous();
  at::Tensor out = at::empty({input.size(0), layer.out}, at::kFloat);
  linear_into(layer, input.const_data_ptr<float>(), layer.in, input.size(0),
              out.mutable_data_ptr<float>(), layer.out, false);
  return out;
}

at::Tensor RowWindow::push(const at::Tensor& rows, bool last) {
  std::vector<at::Tensor> parts;
  if (!started_ && radius_ > 0) parts.push_back(at::zeros({radius_, channels_}, at::kFloat));
  started_ = true;
  if (kept_.defined()) parts.push_back(kept_);
  if (rows.size(0) > 0) parts.push_back(rows);
  if (last && radius_ > 0) parts.push_back(at::zeros({radius_, channels_}, at::kFloat));
  if (parts.empty()) return {};
  at::Tensor all = parts.size() == 1 ? parts[0] : at::cat(parts);
  const int64_t outputs = all.size(0) - 2 * radius_;
  if (outputs <= 0) {
    kept_ = all;
    return {};
  }
  // A copy, so that a few rows do not keep a whole buffer alive.
  kept_ = radius_ > 0 ? all.narrow(0, outputs, 2 * radius_).clone() : at::Tensor();
  return all;
}

ConvBlockStream::ConvBlockStream(const BlockWeights& weights)
    : weights_(&weights), window_(weights.radius(), weights.depthwise.size(1)) {}

at::Tensor ConvBlockStream::push(const at::Tensor& rows, bool last) {
  const int64_t channels = weights_->depthwise.size(1);
  at::Tensor input = window_.push(rows, last);
  if (!input.defined()) return at::empty({0, channels}, at::kFloat);
  input = input.contiguous();
  const int64_t outputs = input.size(0) - 2 * weights_->radius();
  at::Tensor normed = at::empty({outputs, channels}, at::kFloat);
  at::Tensor result = at::empty({outputs, channels}, at::kFloat);
  kernels().depthwise_norm(weights_->kernel_arguments(), input.const_data_ptr<float>(), outputs,
                           normed.mutable_data_ptr<float>(), result.mutable_data_ptr<float>());
  at::Tensor hidden = linear(weights_->expand, normed);
  at::gelu_(hidden);
  linear_into(weights_->project, hidden.const_data_ptr<float>(), weights_->project.in, outputs,
              result.mutable_data_ptr<float>(), channels, true);
  return result;
}

ConvStackStream::ConvStackStream(std::span<const BlockWeights> blocks) {
  for (const BlockWeights& block : blocks) blocks_.emplace_back(block);
}

at::Tensor ConvStackStream::push(at::Tensor rows, bool last) {
  for (ConvBlockStream& block : blocks_) rows = block.push(rows, last);
  return rows;
}

DenseConvStream::DenseConvStream(const LinearWeights& weights, int64_t kernel, int64_t channels)
    : weights_(&weights), kernel_(kernel), channels_(channels), window_(kernel / 2, channels) {}

at::Tensor DenseConvStream::push(const at::Tensor& rows, bool last) {
  at::Tensor input = window_.push(rows, last);
  if (!input.defined()) return at::empty({0, weights_->out}, at::kFloat);
  input = input.contiguous();
  const int64_t outputs = input.size(0) - kernel_ + 1;
  at::Tensor out = at::empty({outputs, weights_->out}, at::kFloat);
  // What row i looks at, rows i .. i + kernel - 1, lies next to each other in memory.
  linear_into(*weights_, input.const_data_ptr<float>(), channels_, outputs,
              out.mutable_data_ptr<float>(), weights_->out, false);
  return out;
}

}  // namespace omnistage::hibari
