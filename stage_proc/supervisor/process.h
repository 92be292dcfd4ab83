// What supervisor and stage processes have in common.
#pragma once

#include <string>

#include "shm/base/status.h"

namespace omnistage {

constexpr int kStageControlFd = 3;  // where a stage finds its control socket

// Exit codes of omnistage-stage and omnistage-supervisor.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,      // something failed while running
  kExitUsage = 2,        // arguments or configuration
  kExitModel = 3,        // the model could not be loaded
  kExitAlreadyRuns = 4,  // another supervisor owns the run directory
};

// The folder this executable lies in.
Result<std::string> own_folder();

}  // namespace omnistage
