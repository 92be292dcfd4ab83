// Link: the full-duplex connection of two processes. It is one socketpair (identity, memory fds,
// death by EOF) and two shared segments, one written by each side:
//
//   my segment (sealed memfd, mapped read-write here and read-only there)
//     outbox: data ring + control ring for what I send, with their head positions
//     inbox state: my tail positions in the peer's rings, my sleep flag
//
// so every byte has exactly one writing process and the kernel enforces it. Records of at most
// limits::kRecordBytesMax are written in place and committed by one release store; the reader
// copies a record out before anything looks into it. Nothing here ever blocks or waits for the
// peer.
//
// Tensors above limits::kInlineTensorBytesMax do not travel in records: the owner's TensorPool
// leases the block to the link and the record carries a TensorRef. Returned leases come back
// through the control ring by themselves.
//
// Threads: one *control thread* calls on_socket(); one *data thread* calls everything else.
// peer_dead() and socket_fd() may be called by both. The bytes of an opened tensor may be released
// on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shm/base/fd.h"
#include "shm/base/status.h"
#include "shm/pool/tensor_pool.h"

namespace omnistage::shm {

// Who is on the other side; exchanged in the hello and checked by each side against what it
// expects.
struct LinkIdentity {
  enum class Role : uint32_t { kStage = 1, kClient = 2 };
  Role role = Role::kStage;
  uint32_t index = 0;  // stage id or client id
  uint32_t epoch = 0;  // incarnation of that process, given by the supervisor
  std::string name;    // for messages; at most limits::kNameBytesMax
};

struct LinkOptions {
  uint32_t data_ring_bytes =
      1u << 20;  // my outbox; a power of two, 64 KiB .. 64 MiB; 0 = I never send data
  uint32_t control_ring_bytes = 64u << 10;  // my control outbox; a power of two, 16 KiB .. 16 MiB
};

// Record kinds on rings. Kinds below 0x100 belong to the link itself and never reach the user.
using RecordKind = uint16_t;
constexpr RecordKind kLinkLeaseReturn = 1;
constexpr RecordKind kFirstUserKind = 0x100;

struct Record {
  RecordKind kind = 0;
  bool control = false;          // came through the control ring
  uint64_t sequence = 0;         // per ring, from 0, without gaps
  std::vector<std::byte> bytes;  // private copy, 16-byte aligned start
};

enum class SendResult {
  kOk,
  kFull,      // no room now; sleep until the peer has read, or keep the record
  kPeerDead,  // EOF or protocol violation; nothing will be read any more
  kClosed,    // this side called close()
  kTooLarge,  // can never fit: above kRecordBytesMax or half the ring
};
const char* to_string(SendResult result);

class Link {
 public:
  // Makes this side's segment, sends the hello and its fd over `socket` (SOCK_SEQPACKET, connected,
  // made by the supervisor). Does not wait for the peer: the link is connected() once on_socket()
  // has seen the peer's hello. Memory is reserved at once (fallocate); errors name limit and need.
  static Result<std::unique_ptr<Link>> create(UniqueFd socket, LinkIdentity self,
                                              LinkIdentity expected_peer, LinkOptions options);
  virtual ~Link() = default;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // --- control thread
  // -------------------------------------------------------------------------------------
  virtual int socket_fd() const = 0;
  // Handles everything readable on the socket: hello, new pool slabs, EOF. Never blocks. An error
  // means the peer broke the protocol (message names how); the link is then dead.
  virtual Status on_socket() = 0;

  // --- either thread
  // ---------------------------------------------------------------------------------------
  virtual bool connected() const = 0;
  virtual bool peer_dead() const = 0;
  // The peer ended in order: poll() has read everything it sent before its close(). peer_dead() is
  // true too.
  virtual bool peer_closed() const { return false; }
  virtual const LinkIdentity& peer() const = 0;

  // --- data thread
  // -------------------------------------------------------------------------------------------
  // Copies one record in and wakes the peer if it sleeps. kFull before the link is connected() only
  // when the ring itself is full: records may be written before the peer has attached.
  virtual SendResult try_send(RecordKind kind, std::span<const std::byte> record) = 0;
  virtual SendResult try_send_control(RecordKind kind, std::span<const std::byte> record) = 0;
  // In-place form: `size` bytes at the returned span (16-byte aligned), then commit() with at most
  // that many, or abort_reservation(). One reservation at a time. An empty span: see `result`.
  virtual std::span<std::byte> try_reserve(size_t size, SendResult& result) = 0;
  virtual void commit(RecordKind kind, size_t size) = 0;
  virtual void abort_reservation() = 0;
  virtual size_t data_room() const = 0;  // bytes a data record could have now

  // Next record: the control ring is read before the data ring. false: nothing there. A record that
  // breaks the format kills the link (peer_dead() turns true) and is logged. Committed records of a
  // dead peer are still read.
  virtual bool poll(Record& out) = 0;

  // Consumer side of tensors: a view of a block in the peer's pool, valid until the last copy of
  // the pointer is gone, also when the peer dies meanwhile. The lease goes back to the owner by
  // itself (flush_returns()). Errors: kProtocol when the reference does not fit the peer's slabs.
  virtual Result<std::shared_ptr<std::byte>> open_tensor(const TensorRef& ref) = 0;
  // Sends pending lease returns; called by the data thread's loop, cheap when there are none.
  virtual void flush_returns() = 0;

  // Producer side: makes `pool` the source of this link's tensors. The link sends slab fds as
  // needed and routes lease returns and the peer's death to the pool. Call once before lease().
  virtual void attach_pool(std::shared_ptr<TensorPool> pool) = 0;
  // Leases a pool block to the peer. `data` must lie in a live block of the attached pool.
  virtual Result<TensorRef> lease(const std::byte* data, size_t bytes) = 0;
  // Takes back a lease that was never sent (the record did not go out).
  virtual void unlease(const TensorRef& ref) = 0;

  // Orderly end: the peer sees closed-after-drain. Further sends give kClosed.
  virtual void close() = 0;
};

// A connected SOCK_SEQPACKET pair, CLOEXEC | NONBLOCK: the two ends of a link.
Status make_socketpair(UniqueFd& a, UniqueFd& b);

}  // namespace omnistage::shm
