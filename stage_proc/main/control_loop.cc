#include "stage_proc/main/control_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/base/log.h"
#include "stage_proc/supervisor/pipeline_graph.h"
#include "stage_proc/supervisor/process.h"

namespace omnistage {

using wire::ControlBody;

Result<std::unique_ptr<ControlLoop>> ControlLoop::create(UniqueFd socket,
                                                         const config::DeployConfig& config,
                                                         const config::StageConfig& stage,
                                                         uint32_t epoch) {
  OMS_ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::create());
  std::unique_ptr<ControlLoop> control(
      new ControlLoop(std::move(socket), config, stage, epoch, std::move(loop)));
  OMS_RETURN_IF_ERROR(control->start());
  return control;
}

ControlLoop::ControlLoop(UniqueFd socket, const config::DeployConfig& config,
                         const config::StageConfig& stage, uint32_t epoch,
                         std::unique_ptr<EventLoop> loop)
    : supervisor_(std::move(socket)),
      config_(config),
      stage_(stage),
      epoch_(epoch),
      loop_(std::move(loop)) {}

Status ControlLoop::start() {
  posted_event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!posted_event_.valid()) return Status::from_errno("eventfd");
  OMS_RETURN_IF_ERROR(
      loop_->watch(posted_event_.get(), EPOLLIN, [this](uint32_t) { run_posted(); }));
  OMS_RETURN_IF_ERROR(
      loop_->watch(supervisor_.fd(), EPOLLIN, [this](uint32_t events) { on_supervisor(events); }));
  control::Hello hello;
  hello.role = wire::Role::Stage;
  hello.pid = ::getpid();
  hello.stage = static_cast<uint32_t>(stage_.stage_id);
  hello.epoch = epoch_;
  return supervisor_.send(control::make_hello(hello));
}

void ControlLoop::run() {
  Status status = loop_->run();
  OMS_LOG(kError, "stage", "control thread: " + status.message());
  end(kExitFailure);
}

// Not exit(): tearing down model libraries takes long and everything shared belongs to the kernel's
// clean-up.
void ControlLoop::end(int exit_code) {
  ::_exit(exit_code);
}

void ControlLoop::post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const uint64_t one = 1;
  (void)!::write(posted_event_.get(), &one, sizeof(one));
}

void ControlLoop::run_posted() {
  uint64_t count = 0;
  (void)!::read(posted_event_.get(), &count, sizeof(count));
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (auto& item : work) item();
}

void ControlLoop::send_ready() {
  post([this] {
    OMS_LOG(kInfo, "stage", "ready");
    send(control::make_stage_ready());
  });
}

void ControlLoop::fail(const Status& status, int exit_code) {
  OMS_LOG(kInfo, "stage", status.to_string());
  post([this, status, exit_code] {
    send(control::make_stage_failed(status));
    end(exit_code);
  });
}

void ControlLoop::release(std::shared_ptr<shm::Link> link) {
  post([this, link = std::move(link)] { forget(link); });
}

void ControlLoop::became_busy() {
  post([this] {
    if (!beating_) heartbeat();
  });
}

// Only while there is work, so that an idle stage makes no wake-ups.
void ControlLoop::heartbeat() {
  const bool busy = data_->busy();
  send(control::make_heartbeat(data_->steps(), busy));
  beating_ = busy;
  if (busy) loop_->after(kHeartbeatNs, [this] { heartbeat(); });
}

void ControlLoop::send(control::Bytes message) {
  Status status = supervisor_.send(std::move(message));
  if (!status.ok()) end(kExitOk);  // no supervisor, no stage
  if (supervisor_.wants_write()) loop_->set_events(supervisor_.fd(), EPOLLIN | EPOLLOUT);
}

void ControlLoop::on_supervisor(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    if (!supervisor_.flush().ok()) end(kExitOk);
    if (!supervisor_.wants_write()) loop_->set_events(supervisor_.fd(), EPOLLIN);
  }
  for (;;) {
    Result<control::Message> message = supervisor_.recv();
    if (message.status().code() == StatusCode::kAgain) return;
    if (!message.ok()) {
      OMS_LOG(kInfo, "stage", "the supervisor is gone: " + message.status().message());
      end(kExitOk);
    }
    on_message(*message);
  }
}

void ControlLoop::on_message(control::Message& message) {
  const wire::Control& body = message.control();
  if (message.type() == ControlBody::Connect) {
    const control::Connect connect = control::read_connect(*body.body_as_Connect());
    Status status = on_connect(connect, std::move(message.fds()[0]));
    if (!status.ok()) {
      OMS_LOG(kError, "stage", "no link to " + connect.peer_name + ": " + status.message());
    }
    return;
  }
  if (message.type() == ControlBody::Shutdown) {
    if (!body.body_as_Shutdown()->drain()) end(kExitOk);
    data_->drain();
    return;
  }
  OMS_LOG(kWarn, "stage", std::string("ignored a ") + wire::EnumNameControlBody(message.type()));
}

Status ControlLoop::on_connect(const control::Connect& connect, UniqueFd socket) {
  auto edge = std::make_unique<Edge>();
  const bool from_client = connect.peer_role == wire::Role::Client;
  edge->kind = from_client          ? EdgeKind::kClient
               : connect.downstream ? EdgeKind::kDownstream
                                    : EdgeKind::kUpstream;
  edge->index = connect.peer_index;
  edge->name = connect.peer_name;
  using Identity = shm::LinkIdentity;
  const Identity self{Identity::Role::kStage, static_cast<uint32_t>(stage_.stage_id), epoch_,
                      stage_.name};
  const Identity peer{from_client ? Identity::Role::kClient : Identity::Role::kStage,
                      connect.peer_index, connect.peer_epoch, connect.peer_name};
  OMS_ASSIGN_OR_RETURN(edge->link,
                       shm::Link::create(std::move(socket), self, peer, link_options(*edge)));
  std::shared_ptr<shm::Link> link = edge->link;
  links_[link.get()] = link;
  OMS_RETURN_IF_ERROR(
      loop_->watch(link->socket_fd(), EPOLLIN,
                   [this, link, name = edge->name](uint32_t) { on_link(link, name); }));
  OMS_LOG(kDebug, "stage", "link to " + edge->name);
  data_->add_edge(std::move(edge));
  return {};
}

shm::LinkOptions ControlLoop::link_options(const Edge& edge) const {
  shm::LinkOptions options;
  if (edge.kind == EdgeKind::kClient) {
    options.data_ring_bytes =
        final_output_bits(stage_) != 0 ? kClientRingBytes : kSmallClientRingBytes;
  } else if (edge.kind == EdgeKind::kUpstream) {
    options.data_ring_bytes = 0;
  } else if (const config::EdgeConfig* config =
                 config_.edge(stage_.stage_id, static_cast<int>(edge.index))) {
    options.data_ring_bytes = static_cast<uint32_t>(config->connector.ring_bytes);
  }
  return options;
}

void ControlLoop::on_link(const std::shared_ptr<shm::Link>& link, const std::string& name) {
  Status status = link->on_socket();
  if (!status.ok()) OMS_LOG(kWarn, "stage", "link to " + name + ": " + status.message());
  if (!status.ok() || link->peer_dead()) {
    forget(link);
    data_->wake();
  }
}

void ControlLoop::forget(const std::shared_ptr<shm::Link>& link) {
  auto found = links_.find(link.get());
  if (found == links_.end()) return;
  loop_->unwatch(link->socket_fd());
  links_.erase(found);
}

}  // namespace omnistage
