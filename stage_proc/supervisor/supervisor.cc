#include "stage_proc/supervisor/supervisor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "shm/base/clock.h"
#include "shm/base/log.h"
#include "stage_proc/supervisor/pipeline_graph.h"

namespace omnistage {

using wire::StageState;

Result<std::unique_ptr<Supervisor>> Supervisor::create(SupervisorSetup setup) {
  OMS_ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::create());
  std::unique_ptr<Supervisor> supervisor(new Supervisor(std::move(setup), std::move(loop)));
  // Whatever a stage leaves behind when it is killed comes to us and is collected.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return Status::from_errno("become subreaper");
  OMS_RETURN_IF_ERROR(supervisor->watch_signals());
  return supervisor;
}

Supervisor::Supervisor(SupervisorSetup setup, std::unique_ptr<EventLoop> loop)
    : config_(std::move(setup.config)),
      stage_executable_(std::move(setup.stage_executable)),
      private_client_(std::move(setup.client)),
      run_dir_(std::move(setup.run_dir)),
      loop_(std::move(loop)) {
  for (const config::StageConfig& stage : config_.stages) {
    auto process = std::make_unique<StageProcess>();
    process->config = &stage;
    process->restarts = std::make_unique<RestartPolicy>(stage.restart);
    control::Stage& info = process->info;
    info.index = static_cast<uint32_t>(stage.stage_id);
    info.name = stage.name;
    info.entry = stage.input_sources.empty();
    info.final_output = final_output_bits(stage);
    for (int source : stage.input_sources) {
      info.input_sources.push_back(static_cast<uint32_t>(source));
    }
    stages_.push_back(std::move(process));
  }
}

Supervisor::~Supervisor() = default;

Status Supervisor::watch_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return Status::from_errno("block signals");
  ::signal(SIGPIPE, SIG_IGN);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return Status::from_errno("signalfd");
  return loop_->watch(signals_.get(), EPOLLIN, [this](uint32_t) { on_signal(); });
}

void Supervisor::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo == SIGCHLD) continue;
    OMS_LOG(kInfo, "supervisor", "signal " + std::to_string(info.ssi_signo));
    if (stopping_) {
      kill_all();
    } else {
      begin_shutdown(false);
    }
  }
  // Stages first, so that their ends are not taken by the loop for orphans below.
  for (auto& stage : stages_) on_stage_exit(*stage);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

int Supervisor::run() {
  for (auto& stage : stages_) start_stage(*stage);
  Status status = watch_clients();
  if (status.ok()) status = loop_->run();
  if (!status.ok()) {
    OMS_LOG(kError, "supervisor", status.message());
    kill_all();
    exit_code_ = kExitFailure;
  }
  return exit_code_;
}

Status Supervisor::watch_clients() {
  if (private_mode()) {
    add_client(std::move(private_client_));
    return {};
  }
  return loop_->watch(run_dir_->listen_fd(), EPOLLIN, [this](uint32_t) { accept_clients(); });
}

void Supervisor::begin_shutdown(bool drain) {
  if (stopping_) {
    if (!drain && draining_) {  // no more patience
      draining_ = false;
      for (auto& stage : stages_) stop_stage(*stage, false);
    }
    return;
  }
  stopping_ = true;
  draining_ = drain;
  if (run_dir_ != nullptr) {
    loop_->unwatch(run_dir_->listen_fd());
    run_dir_->stop_listening();
  }
  for (auto& stage : stages_) {
    loop_->cancel(stage->restart_timer);
    if (!stage->child.running() && stage->info.state != StageState::Failed) {
      set_state(*stage, StageState::Stopped, "");
    }
  }
  if (drain) {
    stop_stages_without_live_sources();
  } else {
    for (auto& stage : stages_) stop_stage(*stage, false);
  }
  loop_->after(config_.shutdown_timeout_s * kSecond, [this] { kill_all(); });
  finish_if_done();
}

// Draining goes along the graph: a stage is told to finish when nobody feeds it any more.
void Supervisor::stop_stages_without_live_sources() {
  for (auto& stage : stages_) {
    bool fed = false;
    for (int source : stage->config->input_sources) {
      StageProcess* from = find_stage(source);
      fed = fed || (from != nullptr && from->child.running());
    }
    if (!fed && !stage->told_to_stop) stop_stage(*stage, true);
  }
}

void Supervisor::kill_all() {
  for (auto& stage : stages_) {
    if (!stage->child.running()) continue;
    OMS_LOG(kWarn, "supervisor",
            "stage '" + stage->info.name + "' did not end in time, killing it");
    stage->child.kill(SIGKILL);
  }
}

void Supervisor::finish_if_done() {
  if (!stopping_) return;
  for (auto& stage : stages_) {
    if (stage->child.running()) return;
  }
  loop_->stop();
}

}  // namespace omnistage
