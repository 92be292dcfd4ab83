#include "shm/link/messages.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>
#include <string>

#include "shm/segment/format.h"

namespace omnistage::shm {
namespace {

constexpr int kFdsMax = 4;  // more than one is wrong; room to receive and close them

Status refuse(const std::string& why) {
  return Status(StatusCode::kProtocol, "link: " + why);
}

const char* role_name(uint32_t role) {
  return role == static_cast<uint32_t>(LinkIdentity::Role::kStage)    ? "stage"
         : role == static_cast<uint32_t>(LinkIdentity::Role::kClient) ? "client"
                                                                      : "unknown role";
}

std::string describe(uint32_t role, uint32_t index, uint32_t epoch, const std::string& name) {
  return std::string(role_name(role)) + " " + std::to_string(index) + " '" + name + "' epoch " +
         std::to_string(epoch);
}

// Takes every fd out of the control data, so that none leaks whatever the message is.
int collect_fds(msghdr& header, UniqueFd (&fds)[kFdsMax]) {
  int count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      if (count < kFdsMax)
        fds[count++].reset(fd);
      else
        ::close(fd);
    }
  }
  return count;
}

Status check_message(const LinkMessage& message, int fds) {
  if (message.magic != kLinkMagic || message.byte_order != kByteOrderMark)
    return refuse("a message without magic number");
  if (message.name_bytes > sizeof message.name) return refuse("a name longer than the limit");
  const bool wants_fd = message.type != static_cast<uint32_t>(MessageType::kSlabGone);
  if (message.type < static_cast<uint32_t>(MessageType::kHello) ||
      message.type > static_cast<uint32_t>(MessageType::kSlabGone))
    return refuse("a message of unknown type " + std::to_string(message.type));
  if (fds != (wants_fd ? 1 : 0))
    return refuse("a message with " + std::to_string(fds) + " file descriptors");
  return Status();
}

}  // namespace

LinkMessage make_message(MessageType type) {
  LinkMessage message{};
  message.magic = kLinkMagic;
  message.layout_major = kLayoutMajor;
  message.layout_minor = kLayoutMinor;
  message.byte_order = kByteOrderMark;
  message.type = static_cast<uint32_t>(type);
  return message;
}

LinkIdentity identity_of(const LinkMessage& hello) {
  LinkIdentity identity;
  identity.role = static_cast<LinkIdentity::Role>(hello.role);
  identity.index = hello.index;
  identity.epoch = hello.epoch;
  identity.name.assign(reinterpret_cast<const char*>(hello.name), hello.name_bytes);
  return identity;
}

Status check_hello(const LinkMessage& hello, const LinkIdentity& expected) {
  if (hello.layout_major != kLayoutMajor || hello.layout_minor > kLayoutMinor + 1 ||
      hello.layout_minor + 1 < kLayoutMinor)
    return Status(StatusCode::kUnsupported,
                  "link: the peer speaks layout " + std::to_string(hello.layout_major) + "." +
                      std::to_string(hello.layout_minor) + ", this side " +
                      std::to_string(kLayoutMajor) + "." + std::to_string(kLayoutMinor) +
                      "; update both programs to the same release");
  LinkIdentity got = identity_of(hello);
  // An expected name that is empty fits every name: a client's name is its own affair.
  if (got.role == expected.role && got.index == expected.index && got.epoch == expected.epoch &&
      (expected.name.empty() || expected.name == got.name))
    return Status();
  for (char& c : got.name)
    if (c < 0x20 || c > 0x7e) c = '?';
  return refuse("the peer is " + describe(hello.role, got.index, got.epoch, got.name) +
                ", expected " +
                describe(static_cast<uint32_t>(expected.role), expected.index, expected.epoch,
                         expected.name));
}

Status send_message(int socket, const LinkMessage& message, int fd) {
  LinkMessage copy = message;
  iovec data{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  ssize_t sent;
  do sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(sizeof copy)) return Status();
  // ETOOMANYREFS: too many fds under way to peers that have not read them yet.
  if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
    return Status(StatusCode::kAgain,
                  "link: the socket is full, the peer has not read its messages");
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
    return Status(StatusCode::kClosed, "link: the peer has closed the socket");
  return Status::from_errno("link: sendmsg");
}

Result<Received> receive_message(int socket) {
  Received received{};
  // One byte more than a message shows a longer one.
  std::byte buffer[sizeof(LinkMessage) + 1];
  iovec data{buffer, sizeof buffer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFdsMax)];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  int resets = 0;
  do {
    header.msg_controllen = sizeof control;
    n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that died with unread messages makes one ECONNRESET; what it had sent comes behind it.
  } while (n < 0 && (errno == EINTR || (errno == ECONNRESET && ++resets < 4)));
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return Status(StatusCode::kAgain, "nothing to receive");
  if (n < 0 && errno == ECONNRESET) return Status(StatusCode::kClosed, "link: the peer is gone");
  if (n < 0) return Status::from_errno("link: recvmsg");
  UniqueFd fds[kFdsMax];
  const int count = collect_fds(header, fds);
  if (n == 0 && count == 0)
    return Status(StatusCode::kClosed, "link: the peer has closed the socket");
  if (n != static_cast<ssize_t>(sizeof(LinkMessage)) ||
      (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return refuse("a message of wrong size");
  std::memcpy(&received.message, buffer, sizeof(LinkMessage));
  OMS_RETURN_IF_ERROR(check_message(received.message, count));
  received.fd = std::move(fds[0]);
  return received;
}

}  // namespace omnistage::shm
