// Streaming forms of the convolutions: rows go in as they exist, rows come out as soon as their
// neighbourhood is complete, and no row is computed twice. Whatever the split into pushes, the
// output rows are the same: each layer keeps the last 2 * radius input rows and pads zeros only at
// the true ends.
//
// A stream refers to weights that must outlive it. One thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "stage_proc/models/hibari/acoustic_weights.h"

namespace omnistage::hibari {

// The rows a layer with a given radius has to look at next.
class RowWindow {
 public:
  RowWindow(int64_t radius, int64_t channels) : radius_(radius), channels_(channels) {}
  // Appends rows [n, channels] (n may be 0) and returns the rows that are to be convolved now:
  // [outputs + 2 * radius, channels], or an undefined tensor when no output is complete.
  at::Tensor push(const at::Tensor& rows, bool last);

 private:
  int64_t radius_, channels_;
  bool started_ = false;
  at::Tensor kept_;
};

class ConvBlockStream {
 public:
  explicit ConvBlockStream(const BlockWeights& weights);
  // [n, channels] -> [m, channels]; after `last` all outputs are out.
  at::Tensor push(const at::Tensor& rows, bool last);

 private:
  const BlockWeights* weights_;
  RowWindow window_;
};

// Blocks in a row.
class ConvStackStream {
 public:
  explicit ConvStackStream(std::span<const BlockWeights> blocks);
  at::Tensor push(at::Tensor rows, bool last);

 private:
  std::vector<ConvBlockStream> blocks_;
};

// A dense convolution as one matrix product over gathered rows.
class DenseConvStream {
 public:
  DenseConvStream(const LinearWeights& weights, int64_t kernel, int64_t channels);
  at::Tensor push(const at::Tensor& rows, bool last);

 private:
  const LinearWeights* weights_;
  int64_t kernel_, channels_;
  RowWindow window_;
};

// rows [n, in] -> [n, out]. The same row gives the same bits, whatever n is.
at::Tensor linear(const LinearWeights& layer, const at::Tensor& rows);
// The same for rows that start `stride` floats apart, written to rows of `out_stride` floats. With
// `accumulate` the product without bias is added to what `out` holds.
void linear_into(const LinearWeights& layer, const float* rows, int64_t stride, int64_t count,
                 float* out, int64_t out_stride, bool accumulate);

}  // namespace omnistage::hibari
