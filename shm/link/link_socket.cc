// The socket side of a link: making it, the hello, slab announcements and end of file.
#include <sys/socket.h>

#include <bit>

#include "shm/link/link_impl.h"

namespace omnistage::shm {
namespace {

constexpr int kMessagesPerCall = 64;  // the socket stays readable if there are more
constexpr uint64_t kPeerSegmentBytesMax = kSegmentPage + uint64_t{kDataRingMax} + kControlRingMax;

Status check_ring_option(const char* name, uint32_t bytes, uint32_t least, uint32_t most) {
  if (std::has_single_bit(bytes) && bytes >= least && bytes <= most) return Status();
  return invalid(std::string(name) + " is " + std::to_string(bytes) +
                 ", allowed are powers of two from " + std::to_string(least) + " to " +
                 std::to_string(most));
}

}  // namespace

Result<std::unique_ptr<Link>> Link::create(UniqueFd socket, LinkIdentity self,
                                           LinkIdentity expected_peer, LinkOptions options) {
  if (options.data_ring_bytes != 0)
    OMS_RETURN_IF_ERROR(
        check_ring_option("data_ring_bytes", options.data_ring_bytes, kDataRingMin, kDataRingMax));
  OMS_RETURN_IF_ERROR(check_ring_option("control_ring_bytes", options.control_ring_bytes,
                                        kControlRingMin, kControlRingMax));
  if (self.name.size() > limits::kNameBytesMax)
    return invalid("link name of " + std::to_string(self.name.size()) + " bytes, limit " +
                   std::to_string(limits::kNameBytesMax));
  SegmentHeader header{};
  header.kind = static_cast<uint32_t>(SegmentKind::kLink);
  header.role = static_cast<uint32_t>(self.role);
  header.index = self.index;
  header.epoch = self.epoch;
  header.data_offset = options.data_ring_bytes == 0 ? 0 : kSegmentPage;
  header.data_bytes = options.data_ring_bytes;
  header.control_offset = kSegmentPage + options.data_ring_bytes;
  header.control_bytes = options.control_ring_bytes;
  const uint64_t bytes = header.control_offset + header.control_bytes;
  auto segment = OwnedSegment::create("omnistage-link", bytes, header);
  if (!segment.ok()) return segment.status();
  auto link = std::make_unique<LinkImpl>(std::move(*segment), header, std::move(socket),
                                         std::move(self), std::move(expected_peer));
  OMS_RETURN_IF_ERROR(link->send_hello());
  return std::unique_ptr<Link>(std::move(link));
}

Status LinkImpl::on_socket() {
  std::lock_guard lock(socket_mutex_);
  if (eof_ || refused_.load()) return Status();
  return drain_socket(kMessagesPerCall);
}

Status LinkImpl::drain_socket(int messages_max) {
  for (int i = 0; i < messages_max; ++i) {
    auto received = receive_message(borrowed_->socket());
    if (!received.ok() && received.status().code() == StatusCode::kAgain) return Status();
    if (!received.ok() && received.status().code() == StatusCode::kClosed) {
      end_of_file();
      return Status();
    }
    Status status = received.ok() ? handle(std::move(*received)) : received.status();
    if (!status.ok()) return protocol_error(status);
  }
  return Status();
}

Status LinkImpl::handle(Received received) {
  const LinkMessage& message = received.message;
  const auto type = static_cast<MessageType>(message.type);
  if (type == MessageType::kHello) return handle_hello(message, std::move(received.fd));
  if (!connected()) return Status(StatusCode::kProtocol, "link: a message before the hello");
  if (type == MessageType::kSlab)
    return borrowed_->add_slab(message.slab, message.bytes, std::move(received.fd));
  return borrowed_->remove_slab(message.slab);
}

Status LinkImpl::handle_hello(const LinkMessage& hello, UniqueFd fd) {
  if (connected()) return Status(StatusCode::kProtocol, "link: a second hello");
  OMS_RETURN_IF_ERROR(check_hello(hello, expected_));
  auto peer = PeerSegment::attach(std::move(fd), SegmentKind::kLink, kPeerSegmentBytesMax);
  if (!peer.ok()) return peer.status();
  const SegmentHeader& header = peer->header();
  if (header.role != hello.role || header.index != hello.index || header.epoch != hello.epoch ||
      peer->bytes() != hello.bytes)
    return Status(StatusCode::kProtocol, "link: the segment is not the one of the hello");
  identified_ = identity_of(hello);
  peer_ = std::make_unique<PeerSegment>(std::move(*peer));
  attached_.store(true, std::memory_order_release);
  borrowed_->ring();
  return Status();
}

Status make_socketpair(UniqueFd& a, UniqueFd& b) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    return Status::from_errno("socketpair");
  a.reset(fds[0]);
  b.reset(fds[1]);
  return Status();
}

}  // namespace omnistage::shm
