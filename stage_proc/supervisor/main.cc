// omnistage-supervisor: see options.cc for its command line.
#include <fcntl.h>
#include <sys/socket.h>

#include <cstdio>
#include <iostream>

#include "stage_proc/supervisor/options.h"
#include "stage_proc/supervisor/pipeline_graph.h"
#include "stage_proc/supervisor/process_log.h"
#include "stage_proc/supervisor/supervisor.h"

namespace omnistage {
namespace {

int fail(const Status& status, int code) {
  std::cerr << "omnistage-supervisor: " << status.message() << "\n";
  return code;
}

int check(const SupervisorOptions& options) {
  Result<config::DeployConfig> config = config::load_deploy(options.deploy);
  if (!config.ok()) return fail(config.status(), kExitUsage);
  Status runnable = check_runnable(*config);
  if (!runnable.ok()) return fail(runnable, kExitUsage);
  std::cout << config::to_yaml(*config) << std::flush;
  if (!std::cout) return fail(internal_error("cannot write the configuration"), kExitFailure);
  return kExitOk;
}

// The inherited socket must not reach our children.
Result<UniqueFd> take_client(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
    return invalid("--client-fd " + std::to_string(fd) + " is not an open SOCK_SEQPACKET socket");
  }
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return Status::from_errno("fcntl --client-fd");
  return UniqueFd(fd);
}

int serve(const SupervisorOptions& options) {
  SupervisorSetup setup;
  if (options.mode == SupervisorOptions::Mode::kPrivate) {
    Result<UniqueFd> client = take_client(options.client_fd);
    if (!client.ok()) return fail(client.status(), kExitUsage);
    setup.client = std::move(*client);
  }
  Result<config::DeployConfig> config = config::load_deploy(options.deploy);
  Status status = config.ok() ? check_runnable(*config) : config.status();
  if (!status.ok()) {
    // A waiting client learns the reason in place of a welcome, and says it in its own way.
    control::ControlSocket client(std::move(setup.client));
    const bool told = client.send(control::make_refused(status)).ok();
    return told ? kExitUsage : fail(status, kExitUsage);
  }
  setup.config = std::move(*config);
  Result<std::string> folder = own_folder();
  if (!folder.ok()) return fail(folder.status(), kExitFailure);
  setup.stage_executable = *folder + "/omnistage-stage";
  if (options.mode == SupervisorOptions::Mode::kShared) {
    Result<std::unique_ptr<RunDir>> run_dir = RunDir::open(options.run_dir);
    if (!run_dir.ok()) {
      const bool busy = run_dir.status().code() == StatusCode::kBusy;
      return fail(run_dir.status(), busy ? kExitAlreadyRuns : kExitFailure);
    }
    setup.run_dir = std::move(*run_dir);
  }
  Result<std::unique_ptr<Supervisor>> supervisor = Supervisor::create(std::move(setup));
  if (!supervisor.ok()) return fail(supervisor.status(), kExitFailure);
  return (*supervisor)->run();
}

int main_program(int argc, char** argv) {
  Result<SupervisorOptions> options =
      parse_supervisor_options(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.ok()) return fail(options.status(), kExitUsage);
  start_process_log("supervisor");
  switch (options->mode) {
    case SupervisorOptions::Mode::kHelp:
      std::cout << kSupervisorHelp;
      return kExitOk;
    case SupervisorOptions::Mode::kCheck:
      return check(*options);
    default:
      return serve(*options);
  }
}

}  // namespace
}  // namespace omnistage

int main(int argc, char** argv) {
  return omnistage::main_program(argc, argv);
}
