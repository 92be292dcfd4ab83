// The stage side of the supervisor: processes, their control sockets, links between stages,
// restarts.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "shm/base/clock.h"
#include "shm/base/log.h"
#include "stage_proc/supervisor/pipeline_graph.h"
#include "stage_proc/supervisor/supervisor.h"

namespace omnistage {

using control::Message;
using wire::ControlBody;
using wire::StageState;

namespace {

Status socket_pair(UniqueFd& a, UniqueFd& b) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return Status::from_errno("socketpair");
  }
  a.reset(fds[0]);
  b.reset(fds[1]);
  return {};
}

}  // namespace

Supervisor::StageProcess* Supervisor::find_stage(int stage_id) {
  for (auto& stage : stages_) {
    if (stage->config->stage_id == stage_id) return stage.get();
  }
  return nullptr;
}

void Supervisor::start_stage(StageProcess& stage) {
  stage.restart_timer = 0;
  stage.said_hello = false;
  stage.last_words = Status();
  stage.killed_because.clear();
  ++stage.info.epoch;
  if (stage.info.epoch > 1) ++stage.info.restarts;
  Status status = spawn(stage);
  if (!status.ok()) return fail_stage(stage, status.message());
  set_state(stage, StageState::Starting, "");
  const int64_t limit_s = config_.stage_init_timeout_s;
  stage.init_timer = loop_->after(limit_s * kSecond, [this, &stage, limit_s] {
    kill_stage(stage,
               "it was not ready within " + std::to_string(limit_s) + " s (stage_init_timeout)");
  });
}

Status Supervisor::spawn(StageProcess& stage) {
  UniqueFd ours, theirs;
  OMS_RETURN_IF_ERROR(socket_pair(ours, theirs));
  ChildOptions options;
  options.executable = stage_executable_;
  options.arguments = {"--deploy", config_.path,
                       "--stage",  std::to_string(stage.config->stage_id),
                       "--epoch",  std::to_string(stage.info.epoch)};
  options.environment = stage.config->env;
  OMS_ASSIGN_OR_RETURN(stage.child, start_child(options, theirs.get()));
  stage.info.pid = stage.child.pid;
  stage.socket = control::ControlSocket(std::move(ours));
  OMS_LOG(kInfo, "supervisor",
          "stage '" + stage.info.name + "' started: pid " + std::to_string(stage.child.pid) +
              ", epoch " + std::to_string(stage.info.epoch));
  OMS_RETURN_IF_ERROR(loop_->watch(stage.child.pidfd.get(), EPOLLIN,
                                   [this, &stage](uint32_t) { on_stage_exit(stage); }));
  return loop_->watch(stage.socket.fd(), EPOLLIN,
                      [this, &stage](uint32_t events) { on_stage_socket(stage, events); });
}

void Supervisor::on_stage_socket(StageProcess& stage, uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    Status status = stage.socket.flush();
    if (!status.ok()) return kill_stage(stage, status.message());
    if (!stage.socket.wants_write()) loop_->set_events(stage.socket.fd(), EPOLLIN);
  }
  read_stage_socket(stage);
}

void Supervisor::read_stage_socket(StageProcess& stage) {
  while (stage.socket.valid()) {
    Result<Message> message = stage.socket.recv();
    if (message.status().code() == StatusCode::kAgain) return;
    Status status = message.ok() ? on_stage_message(stage, *message) : message.status();
    if (status.ok()) continue;
    close_stage_socket(stage);
    // Without its control socket a stage is lost; normally it is just ending by itself.
    if (status.code() != StatusCode::kClosed) kill_stage(stage, status.message());
    return;
  }
}

Status Supervisor::on_stage_message(StageProcess& stage, Message& message) {
  const wire::Control& body = message.control();
  if (message.type() == ControlBody::Hello) {
    return on_stage_hello(stage, control::read_hello(*body.body_as_Hello()));
  }
  if (!stage.said_hello) return Status(StatusCode::kProtocol, "it did not say hello first");
  switch (message.type()) {
    case ControlBody::StageReady:
      on_stage_ready(stage);
      return {};
    case ControlBody::Heartbeat:
      stage.steps = body.body_as_Heartbeat()->steps();
      return {};
    case ControlBody::StageFailed: {
      const auto* failed = body.body_as_StageFailed();
      stage.last_words = control::read_failure(failed->status(), failed->message());
      return {};
    }
    default:
      return Status(StatusCode::kProtocol, std::string("it sent an unexpected ") +
                                               wire::EnumNameControlBody(message.type()));
  }
}

Status Supervisor::on_stage_hello(StageProcess& stage, const control::Hello& hello) {
  OMS_RETURN_IF_ERROR(control::check_protocol(hello));
  if (stage.said_hello || hello.role != wire::Role::Stage || hello.stage != stage.info.index ||
      hello.epoch != stage.info.epoch) {
    return Status(StatusCode::kProtocol, "its hello does not fit");
  }
  stage.said_hello = true;
  if (stopping_) return {};
  connect_neighbours(stage);
  connect_clients(stage);
  return {};
}

void Supervisor::on_stage_ready(StageProcess& stage) {
  loop_->cancel(stage.init_timer);
  stage.init_timer = 0;
  stage.was_ready = true;
  set_state(stage, StageState::Ready, "");
}

bool Supervisor::can_connect(const StageProcess& stage) const {
  return stage.child.running() && stage.said_hello && stage.socket.valid() && !stopping_;
}

void Supervisor::connect_neighbours(StageProcess& stage) {
  for (int source : stage.config->input_sources) {
    if (StageProcess* from = find_stage(source)) connect_stages(*from, stage);
  }
  for (int consumer : config_.consumers_of(stage.config->stage_id)) {
    if (StageProcess* to = find_stage(consumer)) connect_stages(stage, *to);
  }
}

void Supervisor::connect_stages(StageProcess& from, StageProcess& to) {
  if (!can_connect(from) || !can_connect(to)) return;
  UniqueFd from_end, to_end;
  Status status = socket_pair(from_end, to_end);
  if (!status.ok()) return kill_stage(to, status.message());
  control::Connect connect;
  connect.peer_role = wire::Role::Stage;
  connect.peer_index = to.info.index;
  connect.peer_epoch = to.info.epoch;
  connect.peer_name = to.info.name;
  connect.downstream = true;
  send_to_stage(from, control::make_connect(connect), std::move(from_end));
  connect.peer_index = from.info.index;
  connect.peer_epoch = from.info.epoch;
  connect.peer_name = from.info.name;
  connect.downstream = false;
  connect.upstream = true;
  send_to_stage(to, control::make_connect(connect), std::move(to_end));
}

void Supervisor::send_to_stage(StageProcess& stage, control::Bytes message, UniqueFd fd) {
  Status status = stage.socket.send(std::move(message), std::move(fd));
  if (status.ok()) {
    if (stage.socket.wants_write()) loop_->set_events(stage.socket.fd(), EPOLLIN | EPOLLOUT);
    return;
  }
  // kClosed: it is ending; its pidfd tells.
  if (status.code() != StatusCode::kClosed) kill_stage(stage, status.message());
}

void Supervisor::kill_stage(StageProcess& stage, const std::string& why) {
  if (!stage.child.running()) return;
  OMS_LOG(kWarn, "supervisor", "killing stage '" + stage.info.name + "': " + why);
  if (stage.killed_because.empty()) stage.killed_because = why;
  stage.child.kill(SIGKILL);
}

void Supervisor::stop_stage(StageProcess& stage, bool drain) {
  if (!stage.child.running()) return;
  stage.told_to_stop = true;
  send_to_stage(stage, control::make_shutdown(drain));
}

void Supervisor::close_stage_socket(StageProcess& stage) {
  if (!stage.socket.valid()) return;
  loop_->unwatch(stage.socket.fd());
  stage.socket.reset();
}

void Supervisor::on_stage_exit(StageProcess& stage) {
  if (!stage.child.running()) return;
  const int pidfd = stage.child.pidfd.get();
  const pid_t pid = stage.child.pid;
  siginfo_t info{};
  // Peek: the messages it left must be read before its end is reported.
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == 0) {
    return;
  }
  // What it started itself lives in its process group. Not collected yet, so the number is still
  // its own.
  ::kill(-pid, SIGKILL);
  loop_->unwatch(pidfd);
  std::string how;
  int exit_code = -1;
  if (!collect_child(stage.child, how, exit_code)) return;
  read_stage_socket(stage);
  close_stage_socket(stage);
  loop_->cancel(stage.init_timer);
  stage.init_timer = 0;
  after_death(stage, own_words(stage, how), exit_code);
}

// The best explanation there is: why we killed it, what it said itself, how it ended.
std::string Supervisor::own_words(const StageProcess& stage, const std::string& how) const {
  if (!stage.killed_because.empty()) return "stopped by the supervisor: " + stage.killed_because;
  if (!stage.last_words.ok()) return stage.last_words.message();
  return how;
}

// A private client hears of it by message and tells its user; a second line would be noise.
void Supervisor::log_loss(const std::string& what) const {
  if (private_mode()) {
    OMS_LOG(kInfo, "supervisor", what);
  } else {
    OMS_LOG(kWarn, "supervisor", what);
  }
}

void Supervisor::after_death(StageProcess& stage, const std::string& how, int exit_code) {
  if (stopping_) {
    set_state(stage, StageState::Stopped, exit_code == kExitOk ? "" : how);
    if (draining_) stop_stages_without_live_sources();
    return finish_if_done();
  }
  log_loss("stage '" + stage.info.name + "': " + how);
  if (!stage.was_ready) return fail_stage(stage, how);
  set_state(stage, StageState::Dead, how);
  plan_restart(stage);
}

void Supervisor::plan_restart(StageProcess& stage) {
  const std::optional<int64_t> delay = stage.restarts->next_delay_ns(monotonic_ns());
  if (!delay.has_value()) {
    const config::RestartBudget& budget = stage.config->restart;
    return fail_stage(
        stage, stage.info.message + "; not started again: " + std::to_string(budget.max_restarts) +
                   " restarts in " + std::to_string(budget.window_s) + " s are used up");
  }
  stage.restart_timer = loop_->after(*delay, [this, &stage] { start_stage(stage); });
}

void Supervisor::fail_stage(StageProcess& stage, const std::string& why) {
  set_state(stage, StageState::Failed, why);
  log_loss("stage '" + stage.info.name + "' failed: " + why);
  // Nobody may be attached yet who could be told, and a pipeline that never was complete is of no
  // use.
  if (!private_mode() && !stage.was_ready) {
    exit_code_ = kExitFailure;
    begin_shutdown(false);
  }
}

void Supervisor::set_state(StageProcess& stage, StageState state, const std::string& message) {
  stage.info.state = state;
  stage.info.message = message;
  OMS_LOG(kInfo, "supervisor",
          "stage '" + stage.info.name + "' is " + control::to_string(state) +
              (message.empty() ? "" : ": " + message));
  broadcast(stage);
}

}  // namespace omnistage
