// RestartPolicy: when a dead stage may be started again. Pure; the supervisor gives the time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "stage_proc/config/deploy_config.h"

namespace omnistage {

class RestartPolicy {
 public:
  static constexpr int64_t kDelayMaxNs = 30'000'000'000;

  explicit RestartPolicy(config::RestartBudget budget) : budget_(budget) {}

  // The stage died at `now_ns`: how long to wait before it is started again, or nothing when
  // max_restarts starts were made within the last window. The n-th start within a window waits
  // backoff * 2^(n-1).
  std::optional<int64_t> next_delay_ns(int64_t now_ns);

 private:
  config::RestartBudget budget_;
  std::deque<int64_t> starts_;
};

}  // namespace omnistage
