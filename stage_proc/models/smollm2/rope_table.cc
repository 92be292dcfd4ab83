#include "stage_proc/models/smollm2/rope_table.h"

#include <cmath>

namespace omnistage::models::smollm2 {

RopeTable::RopeTable(int32_t positions, int32_t head_dim, double base)
    : head_dim_(head_dim),
      values_(static_cast<size_t>(positions) * 2 * static_cast<size_t>(head_dim)) {
  std::vector<double> speed(static_cast<size_t>(head_dim) / 2);
  for (size_t i = 0; i < speed.size(); ++i) {
    speed[i] = std::pow(base, -2.0 * static_cast<double>(i) / head_dim);
  }
  float* out = values_.data();
  for (int32_t p = 0; p < positions; ++p, out += 2 * head_dim) {
    for (size_t i = 0; i < speed.size(); ++i) {
      const double angle = p * speed[i];
      out[2 * i] = out[2 * i + 1] = static_cast<float>(std::cos(angle));
      const float s = static_cast<float>(std::sin(angle));
      out[head_dim + 2 * i] = -s;
      out[head_dim + 2 * i + 1] = s;
    }
  }
}

}  // namespace omnistage::models::smollm2
