// Command line of omnistage-supervisor. Pure.
#pragma once

#include <string>
#include <vector>

#include "shm/base/status.h"

namespace omnistage {

struct SupervisorOptions {
  enum class Mode { kPrivate, kShared, kCheck, kHelp };
  Mode mode = Mode::kHelp;
  std::string deploy;
  std::string run_dir;
  int client_fd = -1;
};

// Errors: kInvalid, names the argument.
Result<SupervisorOptions> parse_supervisor_options(const std::vector<std::string>& arguments);

extern const char* const kSupervisorHelp;

}  // namespace omnistage
