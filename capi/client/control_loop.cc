#include "capi/client/control_loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "shm/base/clock.h"
#include "shm/base/log.h"

namespace omnistage::capi {
namespace {

constexpr int kEventsPerWait = 32;
// A correct supervisor says a few things per stage and restart; the data thread takes them at once.
constexpr size_t kPendingEventsMax = 4096;
// Rings towards a stage: requests and, on the control ring, aborts and credits.
constexpr shm::LinkOptions kLinkOptions{.data_ring_bytes = 256u << 10,
                                        .control_ring_bytes = 64u << 10};

StageNode to_node(const control::Stage& stage) {
  StageNode node;
  node.index = stage.index;
  node.state = static_cast<StageState>(stage.state);
  node.pid = stage.pid;
  node.epoch = stage.epoch;
  node.restarts = stage.restarts;
  node.message = stage.message;
  return node;
}

}  // namespace

std::thread start_quiet_thread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(body));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_setname_np(thread.native_handle(), name);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

ControlLoop::ControlLoop(SharedState& state, control::ControlSocket socket,
                         SupervisorProcess* supervisor)
    : state_(state), socket_(std::move(socket)), supervisor_(supervisor) {}

bool ControlLoop::watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Status ControlLoop::start() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return Status::from_errno("epoll_create1");
  stop_event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event_.valid()) return Status::from_errno("eventfd");
  const bool watched = watch(stop_event_.get(), EPOLLIN) && watch(socket_.fd(), EPOLLIN) &&
                       (supervisor_ == nullptr || watch(supervisor_->pidfd(), EPOLLIN));
  if (!watched) return Status::from_errno("epoll_ctl");
  thread_ = start_quiet_thread("oms-control", [this] { run(); });
  return Status();
}

void ControlLoop::stop(bool shutdown) {
  if (!thread_.joinable()) return;
  shutdown_.store(shutdown);
  const uint64_t one = 1;
  (void)!::write(stop_event_.get(), &one, sizeof(one));
  thread_.join();
  links_.clear();
}

void ControlLoop::run() {
  for (;;) {
    epoll_event events[kEventsPerWait];
    const int count = ::epoll_wait(epoll_.get(), events, kEventsPerWait, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_event_.get()) {
        if (shutdown_.load() && !gone_) (void)socket_.send(control::make_shutdown(false));
        return;
      }
      if (fd == socket_.fd()) {
        on_supervisor_readable();
      } else if (supervisor_ != nullptr && fd == supervisor_->pidfd()) {
        // What it said before its end is still in the socket.
        on_supervisor_readable();
        supervisor_gone("the socket stayed open");
      } else {
        on_link_readable(fd);
      }
    }
  }
}

void ControlLoop::on_supervisor_readable() {
  while (!gone_) {
    Result<control::Message> message = socket_.recv();
    if (message.ok()) {
      on_message(*message);
    } else if (message.status().code() == StatusCode::kAgain) {
      return;
    } else {
      supervisor_gone(message.status().message());
    }
  }
}

void ControlLoop::on_message(control::Message& message) {
  const wire::Control& body = message.control();
  switch (message.type()) {
    case wire::ControlBody::Connect:
      on_connect(control::read_connect(*body.body_as_Connect()), std::move(message.fds().front()));
      return;
    case wire::ControlBody::StageChanged: {
      const control::Stage stage = control::read_stage(*body.body_as_StageChanged()->stage());
      ControlEvent event;
      event.kind = ControlEvent::Kind::kStageChanged;
      event.stage = to_node(stage);
      post(std::move(event));
      return;
    }
    case wire::ControlBody::Refused: {
      const auto* refused = body.body_as_Refused();
      supervisor_gone(control::read_failure(refused->status(), refused->message()).message());
      return;
    }
    case wire::ControlBody::Shutdown:
      supervisor_gone("it is shutting down");
      return;
    default:
      OMS_LOG(
          kWarn, "capi",
          std::string("unexpected control message ") + wire::EnumNameControlBody(message.type()));
  }
}

void ControlLoop::on_connect(const control::Connect& connect, UniqueFd socket) {
  if (connect.peer_role != wire::Role::Stage || connect.peer_index >= state_.graph.size()) {
    OMS_LOG(kWarn, "capi", "the supervisor offered a link to an unknown stage");
    return;
  }
  using Role = shm::LinkIdentity::Role;
  const shm::LinkIdentity self{Role::kClient, state_.client, 0,
                               control::client_name(state_.client)};
  const shm::LinkIdentity peer{Role::kStage, connect.peer_index, connect.peer_epoch,
                               connect.peer_name};
  auto made = shm::Link::create(std::move(socket), self, peer, kLinkOptions);
  if (!made.ok()) {
    OMS_LOG(kError, "capi", "link to stage " + connect.peer_name + ": " + made.status().message());
    return;
  }
  std::shared_ptr<shm::Link> link = std::move(*made);
  if (!watch(link->socket_fd(), EPOLLIN)) {
    OMS_LOG(kError, "capi", Status::from_errno("epoll_ctl").message());
    return;
  }
  links_.push_back(link);
  ControlEvent event;
  event.kind = ControlEvent::Kind::kLink;
  event.stage.index = connect.peer_index;
  event.stage.epoch = connect.peer_epoch;
  event.link = std::move(link);
  post(std::move(event));
}

void ControlLoop::on_link_readable(int fd) {
  auto found = std::find_if(links_.begin(), links_.end(),
                            [fd](const auto& link) { return link->socket_fd() == fd; });
  if (found == links_.end()) return;
  Status handled = (*found)->on_socket();
  if (!handled.ok())
    OMS_LOG(kWarn, "capi", "link to " + (*found)->peer().name + ": " + handled.message());
  if (!handled.ok() || (*found)->peer_dead()) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    links_.erase(found);
  }
  state_.ring();
}

void ControlLoop::supervisor_gone(const std::string& why) {
  if (gone_) return;
  gone_ = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.fd(), nullptr);
  std::string text = "the supervisor is gone: " + why;
  if (supervisor_ != nullptr) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, supervisor_->pidfd(), nullptr);
    // EOF comes a moment before the process is waitable.
    if (supervisor_->wait_end(kSecond))
      text = "the supervisor died: " + supervisor_->how_it_ended();
  }
  ControlEvent event;
  event.kind = ControlEvent::Kind::kSupervisorGone;
  event.why = Status(StatusCode::kClosed, std::move(text));
  post(std::move(event));
}

void ControlLoop::post(ControlEvent event) {
  {
    std::lock_guard lock(state_.mutex);
    if (state_.events.size() >= kPendingEventsMax &&
        event.kind != ControlEvent::Kind::kSupervisorGone) {
      OMS_LOG(kError, "capi", "the supervisor floods its control socket; messages are dropped");
      return;
    }
    state_.events.push_back(std::move(event));
  }
  state_.ring();
}

}  // namespace omnistage::capi
