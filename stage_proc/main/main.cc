// omnistage-stage: see stage_options.cc for its command line.
#include <signal.h>

#include <iostream>
#include <thread>

#include "shm/base/log.h"
#include "stage_proc/main/control_loop.h"
#include "stage_proc/main/data_loop.h"
#include "stage_proc/main/model_factory.h"
#include "stage_proc/main/stage_options.h"
#include "stage_proc/supervisor/pipeline_graph.h"
#include "stage_proc/supervisor/process.h"
#include "stage_proc/supervisor/process_log.h"

namespace omnistage {
namespace {

// Slabs come on demand; above this an allocation is an error of the request that needs it.
constexpr uint64_t kPoolBytesMax = 512ull << 20;

int fail(const Status& status, int code) {
  std::cerr << "omnistage-stage: " << status.message() << "\n";
  return code;
}

// The data thread: load, then serve.
void load_and_serve(const config::DeployConfig& config, const config::StageConfig& stage,
                    shm::TensorPool& pool, ControlLoop& control, DataLoop& data) {
  Result<std::unique_ptr<engine::StageCore>> core = make_core(config, stage, pool);
  Status status = core.ok() ? warm_up(stage, **core) : core.status();
  if (!status.ok()) return control.fail(status, kExitModel);
  data.set_core(std::move(*core));
  control.send_ready();
  data.run();
}

int serve(const StageOptions& options) {
  UniqueFd socket(kStageControlFd);
  Result<config::DeployConfig> config = config::load_deploy(options.deploy);
  Status status = config.ok() ? check_runnable(*config) : config.status();
  const config::StageConfig* stage = config.ok() ? config->stage(options.stage) : nullptr;
  if (status.ok() && stage == nullptr) {
    status = invalid(options.deploy + " has no stage " + std::to_string(options.stage));
  }
  if (!status.ok()) return fail(status, kExitUsage);
  start_process_log(stage->name);
  auto pool = shm::TensorPool::create(kPoolBytesMax);
  Result<std::unique_ptr<ControlLoop>> control =
      ControlLoop::create(std::move(socket), *config, *stage, options.epoch);
  if (!control.ok()) return fail(control.status(), kExitFailure);
  DataLoop::Events events;
  events.edge_removed = [&](std::shared_ptr<shm::Link> link) {
    (*control)->release(std::move(link));
  };
  events.became_busy = [&] { (*control)->became_busy(); };
  events.drained = [] { ControlLoop::end(kExitOk); };
  DataLoop data(*config, *stage, pool, std::move(events));
  (*control)->set_data_loop(&data);
  std::thread([&] { load_and_serve(*config, *stage, *pool, **control, data); }).detach();
  (*control)->run();
}

int main_program(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  Result<StageOptions> options =
      parse_stage_options(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.ok()) return fail(options.status(), kExitUsage);
  if (options->help) {
    std::cout << kStageHelp;
    return kExitOk;
  }
  return serve(*options);
}

}  // namespace
}  // namespace omnistage

int main(int argc, char** argv) {
  return omnistage::main_program(argc, argv);
}
