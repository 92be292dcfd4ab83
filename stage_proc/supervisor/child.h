// Child processes of the supervisor: start one stage, signal it, learn how it ended.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "shm/base/fd.h"
#include "shm/base/status.h"
#include "stage_proc/supervisor/process.h"

namespace omnistage {

struct ChildOptions {
  std::string executable;
  std::vector<std::string> arguments;              // without argv[0]
  std::map<std::string, std::string> environment;  // added to, or replacing, our own
};

// A running child. Destroying it does not end the process.
struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;

  bool running() const { return pid > 0; }
  void kill(int signal) const;
};

// Starts a child in a process group of its own. Its descriptors are: stdin from /dev/null, stdout
// and stderr our stderr, kStageControlFd = `control`; all others are closed. Signals have their
// default actions.
Result<Child> start_child(const ChildOptions& options, int control);

// Collects an ended child; false when it still runs. `how`: "killed by signal 9 (Killed)", "ended
// with exit code 3 (the model could not be loaded)"; `exit_code` is -1 after a signal.
bool collect_child(Child& child, std::string& how, int& exit_code);

}  // namespace omnistage
