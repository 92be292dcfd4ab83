// Where the tests find the voice that scripts/setup has fetched.
#pragma once

#include <cstdlib>
#include <string>

namespace omnistage::hibari::testing {

inline std::string model_dir() {
  const auto env = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string cache = env("OMNISTAGE_CACHE");
  if (cache.empty() && !env("XDG_CACHE_HOME").empty()) cache = env("XDG_CACHE_HOME") + "/omnistage";
  if (cache.empty()) cache = env("HOME") + "/.cache/omnistage";
  return cache + "/models/hibari";
}

}  // namespace omnistage::hibari::testing
