// check, up, status.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "omnistage/omnistage.hpp"
#include "options.h"
#include "paths.h"

namespace omnistage_cli {
namespace {

int exec_supervisor(const char* const* arguments) {
  const std::string program = supervisor_program();
  ::execv(program.c_str(), const_cast<char* const*>(arguments));
  std::fprintf(stderr, "omnistage: cannot run %s: %s; set OMNISTAGE_BIN_DIR to its folder\n",
               program.c_str(), std::strerror(errno));
  return kExitFailed;
}

const char* state_name(uint32_t state) {
  switch (state) {
    case OMS_STAGE_STARTING:
      return "starting";
    case OMS_STAGE_READY:
      return "ready";
    case OMS_STAGE_DEAD:
      return "dead";
    case OMS_STAGE_FAILED:
      return "failed";
    case OMS_STAGE_STOPPED:
      return "stopped";
  }
  return "unknown";
}

}  // namespace

int run_check(const std::string& deploy) {
  const char* arguments[] = {"omnistage-supervisor", "--check", deploy.c_str(), nullptr};
  return exec_supervisor(arguments);
}

int run_up(const std::string& deploy, const std::string& run_dir) {
  const char* arguments[] = {"omnistage-supervisor", "--deploy", deploy.c_str(), "--run-dir",
                             run_dir.c_str(),        nullptr};
  return exec_supervisor(arguments);
}

int run_status(const std::string& run_dir, bool json) {
  omnistage::Pipeline pipeline = omnistage::Pipeline::attach(run_dir);
  if (json) {
    std::printf("%s\n", pipeline.describe().c_str());
    return kExitOk;
  }
  for (uint32_t i = 0; i < pipeline.stage_count(); ++i) {
    const oms_stage_info info = pipeline.stage(i);
    std::printf("%u %-16s %-9s pid %d, %u restarts%s%s\n", i, info.name, state_name(info.state),
                info.pid, info.restarts, info.message[0] != '\0' ? ": " : "", info.message);
  }
  return kExitOk;
}

}  // namespace omnistage_cli
