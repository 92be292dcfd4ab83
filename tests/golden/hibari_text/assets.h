// Where tests find the assets of the hibari model: below the cache folder of scripts/setup.
#pragma once

#include <string>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::hibari {

inline std::string asset_dir() {
  return config::default_cache_dir() + "/models/hibari";
}

// For failure messages of tests.
inline constexpr char kAssetHelp[] =
    "The assets of the hibari model are needed; scripts/setup fetches them.";

}  // namespace omnistage::hibari
