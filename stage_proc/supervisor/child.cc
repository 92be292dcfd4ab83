#include "stage_proc/supervisor/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

extern char** environ;

namespace omnistage {
namespace {

// <sys/pidfd.h> of some C libraries clashes with kernel headers, so the calls are made by number.
int pidfd_open(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

const char* exit_code_meaning(int code) {
  switch (code) {
    case kExitOk:
      return "it ended by itself";
    case kExitUsage:
      return "bad arguments or configuration";
    case kExitModel:
      return "the model could not be loaded";
    case 127:
      return "the program could not be started";
    default:
      return "failure";
  }
}

std::vector<std::string> child_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!changes.contains(name)) out.emplace_back(text);
  }
  for (const auto& [name, value] : changes) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// posix_spawn's two helper objects, freed on every path.
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
  void fill(int control) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    // Clears CLOEXEC also when the descriptor has the right number already.
    posix_spawn_file_actions_adddup2(&actions, control, kStageControlFd);
    posix_spawn_file_actions_addclosefrom_np(&actions, kStageControlFd + 1);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
};

}  // namespace

void Child::kill(int signal) const {
  if (pidfd.valid()) ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

Result<Child> start_child(const ChildOptions& options, int control) {
  std::vector<std::string> arguments = {options.executable};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = child_environment(options.environment);
  SpawnSetup setup;
  setup.fill(control);
  Child child;
  const int error =
      ::posix_spawn(&child.pid, options.executable.c_str(), &setup.actions, &setup.attributes,
                    pointers(arguments).data(), pointers(environment).data());
  if (error != 0) return Status::from_errno("start " + options.executable, error);
  child.pidfd.reset(pidfd_open(child.pid));
  if (!child.pidfd.valid()) {
    Status status = Status::from_errno("pidfd_open");
    ::kill(child.pid, SIGKILL);  // not collected yet, so the number is still this child's
    ::waitpid(child.pid, nullptr, 0);
    return status;
  }
  return child;
}

bool collect_child(Child& child, std::string& how, int& exit_code) {
  int status = 0;
  pid_t got;
  do {
    got = ::waitpid(child.pid, &status, WNOHANG);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  exit_code = -1;
  if (got < 0) {
    how = "ended in an unknown way";
  } else if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    how = "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  } else {
    exit_code = WEXITSTATUS(status);
    how = "ended with exit code " + std::to_string(exit_code) + " (" +
          exit_code_meaning(exit_code) + ")";
  }
  child = Child();
  return true;
}

}  // namespace omnistage
