// The client side of the supervisor: hello and welcome, links to stages, news about stages.
#include <sys/socket.h>

#include "shm/base/clock.h"
#include "shm/base/limits.h"
#include "shm/base/log.h"
#include "stage_proc/supervisor/pipeline_graph.h"
#include "stage_proc/supervisor/supervisor.h"

namespace omnistage {

using control::Message;
using wire::ControlBody;

namespace {

constexpr int64_t kAcceptPauseNs = kSecond;  // after an error such as "too many open files"

}  // namespace

void Supervisor::accept_clients() {
  for (;;) {
    Result<UniqueFd> socket = run_dir_->accept();
    if (socket.ok()) {
      add_client(std::move(*socket));
      continue;
    }
    if (socket.status().code() == StatusCode::kAgain) return;
    OMS_LOG(kError, "supervisor", socket.status().message());
    loop_->set_events(run_dir_->listen_fd(), 0);
    loop_->after(kAcceptPauseNs, [this] {
      if (!stopping_) loop_->set_events(run_dir_->listen_fd(), EPOLLIN);
    });
    return;
  }
}

void Supervisor::add_client(UniqueFd socket) {
  control::ControlSocket connection(std::move(socket));
  if (clients_.size() >= limits::kClientsMax) {
    Status full(StatusCode::kFull, "the pipeline has " + std::to_string(clients_.size()) +
                                       " clients, limit " + std::to_string(limits::kClientsMax));
    OMS_LOG(kWarn, "supervisor", "client refused: " + full.message());
    (void)connection.send(control::make_refused(full));
    return;
  }
  const uint32_t id = next_client_++;
  Client& client = clients_[id];
  client.id = id;
  client.socket = std::move(connection);
  client.hello_timer = loop_->after(kHelloTimeoutNs, [this, id] {
    drop_client(id, Status(StatusCode::kTimeout, "it did not say hello"));
  });
  Status status = loop_->watch(client.socket.fd(), EPOLLIN,
                               [this, id](uint32_t events) { on_client_socket(id, events); });
  if (!status.ok()) drop_client(id, status);
}

void Supervisor::on_client_socket(uint32_t id, uint32_t events) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  if ((events & EPOLLOUT) != 0) {
    control::ControlSocket& socket = found->second.socket;
    Status status = socket.flush();
    if (!status.ok()) return drop_client(id, status);
    if (!socket.wants_write()) loop_->set_events(socket.fd(), EPOLLIN);
  }
  read_client_socket(id);
}

void Supervisor::read_client_socket(uint32_t id) {
  for (;;) {
    auto found = clients_.find(id);
    if (found == clients_.end()) return;
    Result<Message> message = found->second.socket.recv();
    if (message.status().code() == StatusCode::kAgain) return;
    Status status = message.ok() ? on_client_message(found->second, *message) : message.status();
    if (!status.ok()) return drop_client(id, status);
  }
}

Status Supervisor::on_client_message(Client& client, Message& message) {
  if (message.type() == ControlBody::Hello) {
    return on_client_hello(client, control::read_hello(*message.control().body_as_Hello()));
  }
  if (message.type() == ControlBody::Shutdown && client.said_hello) {
    if (!private_mode()) {
      return Status(StatusCode::kUnsupported, "a client may not stop a shared pipeline");
    }
    begin_shutdown(message.control().body_as_Shutdown()->drain());
    return {};
  }
  return Status(StatusCode::kProtocol, std::string("unexpected ") +
                                           wire::EnumNameControlBody(message.type()) +
                                           (client.said_hello ? "" : " before hello"));
}

Status Supervisor::on_client_hello(Client& client, const control::Hello& hello) {
  OMS_RETURN_IF_ERROR(control::check_protocol(hello));
  if (client.said_hello || hello.role != wire::Role::Client) {
    return Status(StatusCode::kProtocol, "its hello does not fit");
  }
  if (stopping_) return Status(StatusCode::kClosed, "the pipeline is shutting down");
  client.said_hello = true;
  loop_->cancel(client.hello_timer);
  control::Welcome welcome;
  welcome.client = client.id;
  welcome.pipeline = config_.pipeline;
  welcome.config_path = config_.path;
  for (const auto& stage : stages_) welcome.stages.push_back(stage->info);
  OMS_RETURN_IF_ERROR(client.socket.send(control::make_welcome(welcome)));
  OMS_LOG(kInfo, "supervisor", "client " + std::to_string(client.id) + " attached");
  for (auto& stage : stages_) connect_client(client, *stage);
  return {};
}

void Supervisor::drop_client(uint32_t id, const Status& why) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  OMS_LOG(kInfo, "supervisor", "client " + std::to_string(id) + " is gone: " + why.message());
  control::ControlSocket& socket = found->second.socket;
  if (why.code() != StatusCode::kClosed || stopping_) {
    (void)socket.send(control::make_refused(why));
  }
  loop_->cancel(found->second.hello_timer);
  loop_->unwatch(socket.fd());
  clients_.erase(found);
  if (private_mode()) begin_shutdown(false);
}

void Supervisor::send_to_client(Client& client, control::Bytes message, UniqueFd fd) {
  Status status = client.socket.send(std::move(message), std::move(fd));
  if (status.ok()) {
    if (client.socket.wants_write()) loop_->set_events(client.socket.fd(), EPOLLIN | EPOLLOUT);
    return;
  }
  if (status.code() == StatusCode::kClosed) return;  // its EOF event ends it
  // Not here: the caller may be walking over the clients.
  loop_->after(0, [this, id = client.id, status] { drop_client(id, status); });
}

void Supervisor::broadcast(const StageProcess& stage) {
  for (auto& [id, client] : clients_) {
    if (client.said_hello) send_to_client(client, control::make_stage_changed(stage.info));
  }
}

void Supervisor::connect_client(Client& client, StageProcess& stage) {
  if (!client.said_hello || !has_client_link(*stage.config) || !can_connect(stage)) return;
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    OMS_LOG(kError, "supervisor", Status::from_errno("socketpair for a client").message());
    loop_->after(0, [this, id = client.id] {
      drop_client(id, Status(StatusCode::kSystem, "no descriptors left for its links"));
    });
    return;
  }
  UniqueFd client_end(fds[0]), stage_end(fds[1]);
  control::Connect connect;
  connect.peer_role = wire::Role::Stage;
  connect.peer_index = stage.info.index;
  connect.peer_epoch = stage.info.epoch;
  connect.peer_name = stage.info.name;
  send_to_client(client, control::make_connect(connect), std::move(client_end));
  connect.peer_role = wire::Role::Client;
  connect.peer_index = client.id;
  connect.peer_epoch = 0;
  connect.peer_name = control::client_name(client.id);
  send_to_stage(stage, control::make_connect(connect), std::move(stage_end));
}

void Supervisor::connect_clients(StageProcess& stage) {
  for (auto& [id, client] : clients_) connect_client(client, stage);
}

}  // namespace omnistage
