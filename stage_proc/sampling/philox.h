// Counter-based random numbers (Philox4x32, 10 rounds; Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3"). There is no state: a draw is a function of (seed, position) alone, so it
// cannot depend on what else runs, on preemption or on replay.
#pragma once

#include <array>
#include <cstdint>

namespace omnistage::sampling {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * counter[0];
    const uint64_t b = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Separate uses of one seed draw from separate streams.
enum class DrawStream : uint32_t { kToken = 0 };

// Uniform in [0, 1), 53 bits.
constexpr double uniform_draw(uint64_t seed, uint64_t position,
                              DrawStream stream = DrawStream::kToken) {
  const PhiloxCounter bits =
      philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                  static_cast<uint32_t>(stream), 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t word = static_cast<uint64_t>(bits[0]) << 32 | bits[1];
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

}  // namespace omnistage::sampling
