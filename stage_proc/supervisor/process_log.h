// Log set-up of our processes: lines of the log facade go through spdlog to stderr, with the
// process's name. The level is read from OMNISTAGE_LOG (trace, debug, info, warn, error, off;
// default warn). Call once, first thing.
#pragma once

#include <string>

namespace omnistage {

void start_process_log(const std::string& process_name);

}  // namespace omnistage
