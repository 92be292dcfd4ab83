// What travels on a link's socket: the hello, with the fd of the sender's segment, then slab
// announcements, each with an fd, and slab withdrawals. Fixed size, one SEQPACKET message each.
// Checked on arrival: wrong size, unknown type, a missing or surplus fd are protocol errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shm/base/fd.h"
#include "shm/base/limits.h"
#include "shm/base/status.h"
#include "shm/link/link.h"

namespace omnistage::shm {

enum class MessageType : uint32_t { kHello = 1, kSlab = 2, kSlabGone = 3 };

struct LinkMessage {
  uint64_t magic;
  uint16_t layout_major;
  uint16_t layout_minor;
  uint32_t byte_order;
  uint32_t type;  // MessageType
  uint32_t role;  // hello: identity of the sender
  uint32_t index;
  uint32_t epoch;
  uint32_t slab;  // slab, slab-gone: its number
  uint32_t name_bytes;
  uint64_t bytes;  // of the file that comes with the message
  uint8_t name[64];
};
static_assert(sizeof(LinkMessage) == 112 && std::is_trivially_copyable_v<LinkMessage>);
static_assert(offsetof(LinkMessage, type) == 16 && offsetof(LinkMessage, slab) == 32);
static_assert(offsetof(LinkMessage, bytes) == 40 && offsetof(LinkMessage, name) == 48);
static_assert(limits::kNameBytesMax == 64);
constexpr uint64_t kLinkMagic = 0x314B4E494C534D4FULL;  // "OMSLINK1" as bytes

LinkMessage make_message(MessageType type);
// Checks version and identity of a hello against what this side expects.
Status check_hello(const LinkMessage& hello, const LinkIdentity& expected);
LinkIdentity identity_of(const LinkMessage& hello);

// One non-blocking sendmsg, with `fd` unless negative. kAgain: the socket is full now; kClosed: the
// peer is gone.
Status send_message(int socket, const LinkMessage& message, int fd);

struct Received {
  LinkMessage message;
  UniqueFd fd;
};
// One non-blocking recvmsg. kAgain: nothing there; kClosed: end of file; kProtocol: not a message
// of ours.
Result<Received> receive_message(int socket);

}  // namespace omnistage::shm
