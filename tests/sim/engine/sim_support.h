// What the simulations share: seeds from the environment and a small random source.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

namespace omnistage::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // In [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  uint64_t word() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

inline uint64_t environment_number(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// Runs `one` for each seed and stops at the first that fails, naming it.
inline void for_each_seed(uint64_t count, const std::function<void(uint64_t)>& one) {
  const uint64_t first = environment_number("OMS_SIM_FIRST_SEED", 1);
  count = environment_number("OMS_SIM_SEEDS", count);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    one(seed);
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << "; repeat with OMS_SIM_FIRST_SEED=" << seed
                    << " OMS_SIM_SEEDS=1";
      return;
    }
  }
}

}  // namespace omnistage::testing
