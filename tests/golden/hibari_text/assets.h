// Where tests find the assets of the hibari model: ${OMNISTAGE_CACHE}/models/hibari, by default
// below
// ${XDG_CACHE_HOME} or ~/.cache.
#pragma once

#include <cstdlib>
#include <string>

namespace omnistage::hibari {

inline std::string asset_dir() {
  if (const char* cache = std::getenv("OMNISTAGE_CACHE"))
    return std::string(cache) + "/models/hibari";
  if (const char* cache = std::getenv("XDG_CACHE_HOME"))
    return std::string(cache) + "/omnistage/models/hibari";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.cache/omnistage/models/hibari";
}

// For failure messages of tests.
inline constexpr char kAssetHelp[] =
    "The assets of the hibari model are needed; scripts/setup fetches them.";

}  // namespace omnistage::hibari
