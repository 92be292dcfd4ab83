#include "stage_proc/supervisor/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace omnistage {
namespace {

constexpr int kBacklog = 64;
constexpr int kLockTries = 100;

}  // namespace

Result<std::unique_ptr<RunDir>> RunDir::open(const std::string& path) {
  std::unique_ptr<RunDir> dir(new RunDir(path));
  if (dir->socket_path().size() >= sizeof(sockaddr_un::sun_path)) {
    return invalid("--run-dir: the path of its socket has " +
                   std::to_string(dir->socket_path().size()) + " bytes, limit " +
                   std::to_string(sizeof(sockaddr_un::sun_path) - 1));
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status::from_errno("make the run directory " + path);
  }
  OMS_RETURN_IF_ERROR(dir->take_lock());
  OMS_RETURN_IF_ERROR(dir->listen());
  return dir;
}

RunDir::~RunDir() {
  if (!lock_.valid()) return;
  ::unlink(socket_path().c_str());
  ::unlink(lock_path().c_str());  // while locked: whoever opened it before finds another inode
}

Status RunDir::take_lock() {
  for (int i = 0; i < kLockTries; ++i) {
    UniqueFd fd(::open(lock_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) return Status::from_errno("open " + lock_path());
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return Status::from_errno("lock " + lock_path());
      return Status(StatusCode::kBusy, "another supervisor uses " + path_);
    }
    // Its former owner may have removed the file between our open and our lock.
    struct stat ours {
    }, named{};
    if (::fstat(fd.get(), &ours) == 0 && ::stat(lock_path().c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      lock_ = std::move(fd);
      return {};
    }
  }
  return Status(StatusCode::kBusy, "the lock file in " + path_ + " keeps changing");
}

Status RunDir::listen() {
  ::unlink(socket_path().c_str());  // stale: we hold the lock
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::from_errno("make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path().c_str(), sizeof(address.sun_path) - 1);
  const mode_t before = ::umask(0177);  // single-threaded here
  const int bound = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  const int error = errno;
  ::umask(before);
  if (bound != 0) return Status::from_errno("bind " + socket_path(), error);
  if (::listen(fd.get(), kBacklog) != 0) return Status::from_errno("listen on " + socket_path());
  socket_ = std::move(fd);
  return {};
}

Result<UniqueFd> RunDir::accept() {
  UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) return fd;
  if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) {
    return Status(StatusCode::kAgain, "no client waits");
  }
  return Status::from_errno("accept a client");
}

void RunDir::stop_listening() {
  socket_.reset();
  ::unlink(socket_path().c_str());
}

}  // namespace omnistage
