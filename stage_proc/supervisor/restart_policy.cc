#include "stage_proc/supervisor/restart_policy.h"

#include <algorithm>

#include "shm/base/clock.h"

namespace omnistage {

std::optional<int64_t> RestartPolicy::next_delay_ns(int64_t now_ns) {
  const int64_t window = budget_.window_s * kSecond;
  while (!starts_.empty() && now_ns - starts_.front() > window) starts_.pop_front();
  if (starts_.size() >= static_cast<size_t>(std::max(budget_.max_restarts, 0))) return std::nullopt;
  int64_t delay = budget_.backoff_ms * kMillisecond;
  for (size_t i = 0; i < starts_.size() && delay < kDelayMaxNs; ++i) delay *= 2;
  starts_.push_back(now_ns);
  return std::min(delay, kDelayMaxNs);
}

}  // namespace omnistage
