// Identities that cross process borders. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace omnistage {

// One request as every stage knows it. `client` is given by the supervisor, `request` by the client
// library (never used twice by one client), `generation` counts replays of the same request.
struct RequestKey {
  uint32_t client = 0;
  uint32_t generation = 0;
  uint64_t request = 0;

  friend bool operator==(const RequestKey&, const RequestKey&) = default;
  friend auto operator<=>(const RequestKey&, const RequestKey&) = default;
};

inline std::string to_string(const RequestKey& key) {
  return std::to_string(key.client) + "/" + std::to_string(key.request) + "#" +
         std::to_string(key.generation);
}

struct RequestKeyHash {
  size_t operator()(const RequestKey& key) const {
    uint64_t x = key.request * 0x9E3779B97F4A7C15ull;
    x ^= (static_cast<uint64_t>(key.client) << 32 | key.generation) * 0xC2B2AE3D27D4EB4Full;
    return static_cast<size_t>(x ^ (x >> 29));
  }
};

}  // namespace omnistage
