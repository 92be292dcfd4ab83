// ControlSocket: one end of a SOCK_SEQPACKET connection that carries control messages, one a
// packet, with file descriptors. Nothing blocks. A message that finds the socket full waits in a
// bounded queue until flush().
//
// Owns its descriptor (made non-blocking and CLOEXEC). One thread at a time.
#pragma once

#include <deque>
#include <vector>

#include "shm/base/fd.h"
#include "shm/base/status.h"
#include "shm/control/control_message.h"

namespace omnistage::control {

class ControlSocket {
 public:
  static constexpr size_t kQueuedMessagesMax = 512;

  ControlSocket() = default;
  // `socket`: connected, SOCK_SEQPACKET.
  explicit ControlSocket(UniqueFd socket);
  ControlSocket(ControlSocket&&) = default;
  ControlSocket& operator=(ControlSocket&&) = default;

  int fd() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }
  void reset() {
    socket_.reset();
    queue_.clear();
  }

  // Sends or queues. The descriptor, if any, is the message's from now on. Errors: kClosed when the
  // peer is gone, kFull when it has not read kQueuedMessagesMax messages, kInvalid above
  // limits::kControlMessageBytesMax.
  Status send(Bytes message, UniqueFd fd = UniqueFd());
  // Sends what is queued; kOk also when some of it still has to wait. Call when the socket is
  // writable.
  Status flush();
  bool wants_write() const { return !queue_.empty(); }

  // The next message. Errors: kAgain (nothing there), kClosed (EOF), kProtocol (cut the peer off).
  Result<Message> recv();

 private:
  struct Queued {
    Bytes bytes;
    UniqueFd fd;
  };
  Status send_now(const Bytes& bytes, int fd);

  UniqueFd socket_;
  std::deque<Queued> queue_;
};

}  // namespace omnistage::control
