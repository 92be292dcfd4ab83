#include "tests/integration/pipeline/processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "shm/base/clock.h"

namespace omnistage::test {

namespace fs = std::filesystem;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool is_zombie(const std::string& pid) {
  const std::string stat = read_file("/proc/" + pid + "/stat");
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() || stat[name_end + 2] == 'Z';
}

}  // namespace

bool wait_until(const std::function<bool()>& done, const std::function<void()>& pump) {
  const int64_t end = monotonic_ns() + kPatienceNs;
  while (!done()) {
    if (monotonic_ns() > end) return false;
    if (pump) {
      pump();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return true;
}

std::string new_mark() {
  static int count = 0;
  return "OMS_TEST_MARK=" + std::to_string(::getpid()) + "." + std::to_string(++count) + "." +
         std::to_string(monotonic_ns());
}

std::vector<pid_t> marked_processes(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_file("/proc/" + name + "/environ").find(mark) == std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (pid != ::getpid() && !is_zombie(name)) found.push_back(pid);
  }
  return found;
}

bool wait_gone(const std::string& mark) {
  return wait_until([&] { return marked_processes(mark).empty(); });
}

pid_t start_supervisor(const std::vector<std::string>& arguments, const std::string& mark,
                       int client_fd) {
  const std::string program = std::string(OMS_BUILD_DIR) + "/bin/omnistage-supervisor";
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = {mark};
  for (const char* name : {"OMNISTAGE_LOG", "HOME", "PATH", "OMNISTAGE_CACHE", "ASAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) {
      environment.push_back(std::string(name) + "=" + value);
    }
  }
  std::vector<char*> argv, envp;
  for (auto& word : words) argv.push_back(word.data());
  for (auto& word : environment) envp.push_back(word.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  // A shared supervisor does not end by itself when a test crashes.
  if (client_fd < 0) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (client_fd == 3) {
    ::fcntl(3, F_SETFD, 0);
  } else if (client_fd >= 0) {
    ::dup2(client_fd, 3);
  }
  ::execve(program.c_str(), argv.data(), envp.data());
  ::_exit(127);
}

int wait_exit(pid_t pid) {
  int status = 0;
  const bool ended = wait_until([&] { return ::waitpid(pid, &status, WNOHANG) == pid; });
  EXPECT_TRUE(ended) << "process " << pid << " does not end";
  if (!ended) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

size_t open_descriptors(pid_t pid) {
  std::error_code error;
  size_t count = 0;
  for (auto at = fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error);
       !error && at != fs::directory_iterator(); ++at) {
    ++count;
  }
  return count;
}

std::set<std::string> dev_shm() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    names.insert(entry.path().filename());
  }
  return names;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "oms-pipeline-XXXXXX").string();
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
  return path;
}

std::string echo_deploy() {
  return std::string(OMS_SOURCE_DIR) + "/deploy/echo.yaml";
}

}  // namespace omnistage::test
