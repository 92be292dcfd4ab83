// Time: nanoseconds of CLOCK_MONOTONIC, comparable between processes of one machine. Code that is
// tested under a virtual clock takes `now_ns` as an argument or a Clock&; only shells call
// monotonic_ns().
#pragma once

#include <time.h>

#include <cstdint>

namespace omnistage {

inline int64_t monotonic_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() const = 0;
};

class MonotonicClock final : public Clock {
 public:
  int64_t now_ns() const override { return monotonic_ns(); }
};

}  // namespace omnistage
