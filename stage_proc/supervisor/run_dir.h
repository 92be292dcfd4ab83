// RunDir: the folder in which clients find a shared supervisor: DIR/omnistage.lock, held with flock
// as long as the supervisor lives, and DIR/omnistage.sock. A pair left by a killed supervisor is
// taken over, because its lock is free. Only the owner may look into any of it (0700, 0600). Both
// files are removed at the end.
#pragma once

#include <memory>
#include <string>

#include "shm/base/fd.h"
#include "shm/base/status.h"

namespace omnistage {

class RunDir {
 public:
  // Makes DIR if needed, takes the lock and listens (SOCK_SEQPACKET, non-blocking). Errors: kBusy
  // when another supervisor holds the lock, kInvalid when the path is too long for a socket,
  // kSystem.
  static Result<std::unique_ptr<RunDir>> open(const std::string& path);
  ~RunDir();

  int listen_fd() const { return socket_.get(); }
  // The next waiting client; kAgain when there is none.
  Result<UniqueFd> accept();
  // No new clients; the lock is kept.
  void stop_listening();

 private:
  explicit RunDir(std::string path) : path_(std::move(path)) {}
  Status take_lock();
  Status listen();
  std::string socket_path() const { return path_ + "/omnistage.sock"; }
  std::string lock_path() const { return path_ + "/omnistage.lock"; }

  std::string path_;
  UniqueFd lock_;
  UniqueFd socket_;
};

}  // namespace omnistage
