// Rotation angles of every position, for pairs of neighbouring values (the GGUF order). Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace omnistage::models::smollm2 {

class RopeTable {
 public:
  RopeTable(int32_t positions, int32_t head_dim, double base);

  // head_dim values: the cosine of each pair, twice.
  const float* cos(int32_t position) const { return row(position); }
  // head_dim values: minus and plus the sine of each pair.
  const float* sin(int32_t position) const { return row(position) + head_dim_; }

 private:
  const float* row(int32_t position) const {
    return values_.data() + static_cast<size_t>(position) * 2 * static_cast<size_t>(head_dim_);
  }

  int32_t head_dim_;
  std::vector<float> values_;
};

}  // namespace omnistage::models::smollm2
