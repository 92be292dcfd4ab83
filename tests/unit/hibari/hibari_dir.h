// Where the tests find the voice that scripts/setup has fetched.
#pragma once

#include <string>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::hibari::testing {

inline std::string model_dir() {
  return config::default_cache_dir() + "/models/hibari";
}

}  // namespace omnistage::hibari::testing
