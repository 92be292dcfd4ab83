#include "capi/client/supervisor_process.h"

#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "shm/base/clock.h"

extern char** environ;

namespace omnistage::capi {
namespace {

constexpr char kProgram[] = "omnistage-supervisor";
constexpr int kChildFd = 3;

// The folder this code was loaded from; empty if the loader does not tell.
std::string library_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&find_supervisor), &info) == 0 ||
      info.dli_fname == nullptr) {
    return {};
  }
  char resolved[PATH_MAX];
  if (::realpath(info.dli_fname, resolved) == nullptr) return {};
  std::string path = resolved;
  return path.substr(0, path.rfind('/'));
}

struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

Result<std::string> find_supervisor(const std::string& bin_dir) {
  std::vector<std::string> folders;
  const char* variable = std::getenv("OMNISTAGE_BIN_DIR");
  if (!bin_dir.empty()) {
    folders.push_back(bin_dir);
  } else if (variable != nullptr && *variable != '\0') {
    folders.push_back(variable);
  } else if (std::string own = library_folder(); !own.empty()) {
    folders = {own, own + "/bin", own + "/../bin"};
  }
  std::string tried;
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + kProgram;
    if (::access(path.c_str(), X_OK) == 0) return path;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  return Status(StatusCode::kNotFound, std::string(kProgram) + " was not found (tried " + tried +
                                           "); set OMNISTAGE_BIN_DIR to its folder");
}

Result<std::unique_ptr<SupervisorProcess>> SupervisorProcess::start(const std::string& program,
                                                                    const std::string& deploy,
                                                                    UniqueFd socket) {
  SpawnSetup setup;
  // dup2 clears close-on-exec, also when both numbers are equal.
  posix_spawn_file_actions_adddup2(&setup.actions, socket.get(), kChildFd);
  posix_spawn_file_actions_addclosefrom_np(&setup.actions, kChildFd + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setpgroup(&setup.attributes, 0);
  posix_spawnattr_setflags(&setup.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const std::string fd_text = std::to_string(kChildFd);
  const char* arguments[] = {program.c_str(), "--deploy",      deploy.c_str(),
                             "--client-fd",   fd_text.c_str(), nullptr};
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &setup.actions, &setup.attributes,
                                  const_cast<char**>(arguments), environ);
  if (error != 0) return Status::from_errno("start " + program, error);
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    Status failed = Status::from_errno("pidfd_open");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return failed;
  }
  return std::unique_ptr<SupervisorProcess>(new SupervisorProcess(pid, UniqueFd(pidfd)));
}

SupervisorProcess::~SupervisorProcess() {
  if (wait_end(0)) return;
  kill();
  wait_end(10 * kSecond);
}

void SupervisorProcess::kill() {
  if (!ended_) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

bool SupervisorProcess::wait_end(int64_t timeout_ns) {
  if (ended_) return true;
  const int64_t deadline = monotonic_ns() + timeout_ns;
  for (;;) {
    const int64_t left = std::max<int64_t>(deadline - monotonic_ns(), 0);
    const timespec limit{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
    pollfd entry{pidfd_.get(), POLLIN, 0};
    const int ready = ::ppoll(&entry, 1, &limit, nullptr);
    if (ready > 0) break;
    if (ready == 0) return false;
  }
  ended_ = true;
  siginfo_t info{};
  // Fails with ECHILD in a host that ignores SIGCHLD: the kernel reaped it already.
  if (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WEXITED) ==
      0) {
    if (info.si_code == CLD_EXITED) {
      how_ = "ended with exit code " + std::to_string(info.si_status);
    } else {
      how_ = "killed by signal " + std::to_string(info.si_status);
    }
  }
  return true;
}

}  // namespace omnistage::capi
