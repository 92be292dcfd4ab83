#include "capi/client/handshake.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "shm/base/clock.h"

namespace omnistage::capi {
namespace {

constexpr char kSocketName[] = "/omnistage.sock";

Status no_answer(SupervisorProcess* supervisor, const Status& received) {
  if (supervisor != nullptr && supervisor->wait_end(kSecond)) {
    return Status(StatusCode::kClosed, "omnistage-supervisor " + supervisor->how_it_ended() +
                                           " before it answered; its messages are on stderr");
  }
  return Status(received.code(), "no answer of the supervisor: " + received.message());
}

}  // namespace

Result<UniqueFd> connect_to(const std::string& run_dir) {
  const std::string path = run_dir + kSocketName;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return invalid("run_dir: the socket path " + path + " has " + std::to_string(path.size()) +
                   " bytes, the limit is " + std::to_string(sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status::from_errno("socket");
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
         0) {
    if (errno == EINTR) continue;
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR) {
      return Status(StatusCode::kNotFound, "no pipeline runs at " + run_dir + " (" + path + ": " +
                                               std::strerror(errno) +
                                               "); start one with: omnistage up");
    }
    return Status::from_errno("connect to " + path);
  }
  return socket;
}

Result<control::Welcome> shake_hands(control::ControlSocket& socket, SupervisorProcess* supervisor,
                                     int64_t timeout_ns) {
  const int64_t deadline = monotonic_ns() + std::min(timeout_ns, kNever / 4);
  // A supervisor that refuses closes its end without reading the hello; its words wait in the
  // socket, behind one report of the broken connection.
  Status sent = socket.send(control::make_hello({.role = wire::Role::Client, .pid = ::getpid()}));
  if (!sent.ok() && sent.code() != StatusCode::kClosed) return no_answer(supervisor, sent);
  for (int broken = 0;;) {
    Result<control::Message> message = socket.recv();
    if (message.ok()) {
      const wire::Control& body = message->control();
      if (const auto* welcome = body.body_as_Welcome()) return control::read_welcome(*welcome);
      if (const auto* refused = body.body_as_Refused()) {
        if (supervisor != nullptr) supervisor->wait_end(kSecond);  // it ends by itself
        return control::read_failure(refused->status(), refused->message());
      }
      return Status(StatusCode::kProtocol, std::string("the supervisor answered with ") +
                                               wire::EnumNameControlBody(message->type()) +
                                               " instead of Welcome");
    }
    if (message.status().code() == StatusCode::kClosed && ++broken == 1) continue;
    if (message.status().code() != StatusCode::kAgain) {
      return no_answer(supervisor, message.status());
    }
    const int64_t left = deadline - monotonic_ns();
    if (left <= 0) {
      return Status(StatusCode::kBusy, "no answer of the supervisor within " +
                                           std::to_string(timeout_ns / kMillisecond) + " ms");
    }
    const timespec limit{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
    pollfd entry{socket.fd(), POLLIN, 0};
    (void)::ppoll(&entry, 1, &limit, nullptr);
  }
}

std::vector<StageNode> to_nodes(const control::Welcome& welcome) {
  std::vector<StageNode> nodes;
  for (const control::Stage& stage : welcome.stages) {
    StageNode node;
    node.index = stage.index;
    node.name = stage.name;
    node.state = static_cast<StageState>(stage.state);
    node.pid = stage.pid;
    node.epoch = stage.epoch;
    node.restarts = stage.restarts;
    node.entry = stage.entry;
    node.final_output = stage.final_output;
    node.sources = stage.input_sources;
    node.message = stage.message;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace omnistage::capi
