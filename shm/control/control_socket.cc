#include "shm/control/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "shm/base/limits.h"

namespace omnistage::control {
namespace {

constexpr size_t kFdSpace = CMSG_SPACE(kFdsPerMessageMax * sizeof(int));

bool is_gone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

// Takes every descriptor of the packet into ownership before anything can fail.
std::vector<UniqueFd> take_fds(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

ControlSocket::ControlSocket(UniqueFd socket) : socket_(std::move(socket)) {
  if (!socket_.valid()) return;
  ::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC);
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags >= 0) ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
}

Status ControlSocket::send(Bytes message, UniqueFd fd) {
  if (!socket_.valid()) return Status(StatusCode::kClosed, "the control socket is closed");
  if (message.size() > limits::kControlMessageBytesMax) {
    return invalid("a control message has " + std::to_string(message.size()) + " bytes, limit " +
                   std::to_string(limits::kControlMessageBytesMax));
  }
  if (queue_.empty()) {
    Status sent = send_now(message, fd.get());
    if (sent.code() != StatusCode::kAgain) return sent;
  }
  if (queue_.size() >= kQueuedMessagesMax) {
    return Status(StatusCode::kFull, "the peer does not read its control socket (" +
                                         std::to_string(queue_.size()) + " messages wait)");
  }
  queue_.push_back({std::move(message), std::move(fd)});
  return {};
}

Status ControlSocket::flush() {
  while (!queue_.empty()) {
    Status sent = send_now(queue_.front().bytes, queue_.front().fd.get());
    if (sent.code() == StatusCode::kAgain) return {};
    if (!sent.ok()) return sent;
    queue_.pop_front();
  }
  return {};
}

Status ControlSocket::send_now(const Bytes& bytes, int fd) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = space;
    header.msg_controllen = sizeof(space);
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof(int));
  }
  for (;;) {
    if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno == EINTR) continue;
    // ETOOMANYREFS: too many descriptors are in flight for this user; they drain when peers read.
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) {
      return Status(StatusCode::kAgain, "");
    }
    if (is_gone(errno)) return Status(StatusCode::kClosed, "the peer closed the control socket");
    return Status::from_errno("send on the control socket");
  }
}

Result<Message> ControlSocket::recv() {
  if (!socket_.valid()) return Status(StatusCode::kClosed, "the control socket is closed");
  Bytes bytes(limits::kControlMessageBytesMax);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char space[kFdSpace] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space;
  header.msg_controllen = sizeof(space);
  ssize_t size;
  bool reset = false;
  for (;;) {
    size = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size >= 0) break;
    // A peer that closes without having read everything causes one ECONNRESET here, ahead of what
    // it has sent (why it refused us, for example).
    const bool first_reset = errno == ECONNRESET && !std::exchange(reset, true);
    if (errno != EINTR && !first_reset) break;
  }
  if (size < 0) {
    if (errno == EAGAIN) return Status(StatusCode::kAgain, "no control message");
    if (is_gone(errno)) return Status(StatusCode::kClosed, "the peer closed the control socket");
    return Status::from_errno("receive on the control socket");
  }
  std::vector<UniqueFd> fds = take_fds(header);
  // An empty packet looks like EOF; no message of ours is empty, so both end the connection.
  if (size == 0) return Status(StatusCode::kClosed, "the peer closed the control socket");
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Status(StatusCode::kProtocol,
                  "a control message is above " + std::to_string(limits::kControlMessageBytesMax) +
                      " bytes or " + std::to_string(kFdsPerMessageMax) + " file descriptors");
  }
  bytes.resize(static_cast<size_t>(size));
  return parse(std::move(bytes), std::move(fds));
}

}  // namespace omnistage::control
