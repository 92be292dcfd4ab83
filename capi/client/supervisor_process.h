// SupervisorProcess: the private supervisor of a launched pipeline: finding its program, starting
// it, seeing its end. A child of the host, watched through a pidfd; SIGCHLD is left to the host,
// and a host that ignores SIGCHLD only costs the exit code in messages.
//
// Threads: one at a time, apart from pidfd().
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "shm/base/fd.h"
#include "shm/base/status.h"

namespace omnistage::capi {

// The program's path: from `bin_dir` if given, else $OMNISTAGE_BIN_DIR, else around the library's
// own file. kNotFound lists what was tried.
Result<std::string> find_supervisor(const std::string& bin_dir);

class SupervisorProcess {
 public:
  // Runs `program --deploy FILE --client-fd N`; `socket` is the child's end and closed here. The
  // child has no other descriptor of the host than 0, 1 and 2, default signal dispositions, and its
  // own process group, so that Ctrl-C on a terminal reaches the host only, which then ends it in
  // order.
  static Result<std::unique_ptr<SupervisorProcess>> start(const std::string& program,
                                                          const std::string& deploy,
                                                          UniqueFd socket);
  // Kills and reaps if it still runs.
  ~SupervisorProcess();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  // Waits until it ended; false when `timeout_ns` (0 = just look) is over before.
  bool wait_end(int64_t timeout_ns);
  void kill();
  // "killed by signal 9 (Killed)", "ended with exit code 1"; after wait_end() gave true.
  const std::string& how_it_ended() const { return how_; }

 private:
  SupervisorProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  pid_t pid_;
  UniqueFd pidfd_;
  bool ended_ = false;
  std::string how_ = "ended";
};

}  // namespace omnistage::capi
