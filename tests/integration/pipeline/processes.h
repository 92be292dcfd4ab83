// Real processes for tests: start a supervisor under a mark in its environment, find everything
// that carries the mark, wait for it to be gone.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "shm/base/fd.h"

namespace omnistage::test {

// No test asserts a time; this only ends one that hangs.
constexpr int64_t kPatienceNs = 120'000'000'000;

// Runs `pump` until `done` or until patience ends; false in the second case.
bool wait_until(const std::function<bool()>& done, const std::function<void()>& pump = {});

// A mark no other test process uses.
std::string new_mark();
// Live (not zombie) processes that carry the mark, except this one.
std::vector<pid_t> marked_processes(const std::string& mark);
bool wait_gone(const std::string& mark);

// Starts omnistage-supervisor with the arguments; `client_fd` becomes its descriptor 3 when valid.
pid_t start_supervisor(const std::vector<std::string>& arguments, const std::string& mark,
                       int client_fd = -1);
// Exit code, or -signal.
int wait_exit(pid_t pid);

size_t open_descriptors(pid_t pid);
std::set<std::string> dev_shm();

// A folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

std::string echo_deploy();

}  // namespace omnistage::test
