// Command line of omnistage-stage. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/base/status.h"

namespace omnistage {

struct StageOptions {
  bool help = false;
  std::string deploy;
  int stage = -1;      // stage_id
  uint32_t epoch = 0;  // incarnation, from 1
};

// Errors: kInvalid, names the argument.
Result<StageOptions> parse_stage_options(const std::vector<std::string>& arguments);

extern const char* const kStageHelp;

}  // namespace omnistage
