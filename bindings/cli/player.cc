#include "player.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>

extern char** environ;

namespace omnistage_cli {
namespace {

std::string find_in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "/usr/bin:/bin";
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    std::string file = folders.substr(at, end - at) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

}  // namespace

bool Player::find() {
  program_ = find_in_path("aplay");
  alsa_ = !program_.empty();
  if (!alsa_) program_ = find_in_path("paplay");
  return !program_.empty();
}

bool Player::start(uint32_t sample_rate) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  const std::string rate = std::to_string(sample_rate);
  const std::string pulse_rate = "--rate=" + rate;
  const char* alsa[] = {program_.c_str(), "-q", "-t",   "raw", "-f", "S16_LE", "-c", "1", "-r",
                        rate.c_str(),     "-",  nullptr};
  const char* pulse[] = {program_.c_str(),   "--raw", "--format=s16le", "--channels=1",
                         pulse_rate.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  const int error = ::posix_spawn(&pid_, program_.c_str(), &actions, nullptr,
                                  const_cast<char**>(alsa_ ? alsa : pulse), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  pipe_ = ends[1];
  if (error != 0) {
    pid_ = -1;
    ::close(pipe_);
    pipe_ = -1;
    return false;
  }
  thread_ = std::thread([this] { feed(); });
  return true;
}

void Player::append(const float* samples, size_t count, uint32_t sample_rate) {
  if (program_.empty()) return;
  if (pid_ < 0 && !start(sample_rate)) {
    program_.clear();
    return;
  }
  std::vector<int16_t> piece(count);
  for (size_t i = 0; i < count; ++i) {
    const float clipped = std::isnan(samples[i]) ? 0.0f : std::clamp(samples[i], -1.0f, 1.0f);
    piece[i] = static_cast<int16_t>(std::lround(clipped * 32767.0f));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  pieces_.push_back(std::move(piece));
  changed_.notify_one();
}

void Player::feed() {
  for (;;) {
    std::vector<int16_t> piece;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return done_ || !pieces_.empty(); });
      if (pieces_.empty()) break;
      piece = std::move(pieces_.front());
      pieces_.pop_front();
    }
    const char* at = reinterpret_cast<const char*>(piece.data());
    size_t left = piece.size() * sizeof(int16_t);
    while (left > 0) {
      const ssize_t written = ::write(pipe_, at, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;  // the player ended
      at += written;
      left -= static_cast<size_t>(written);
    }
  }
  ::close(pipe_);
  pipe_ = -1;
}

void Player::finish(const volatile int* interrupted) {
  if (pid_ < 0) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    changed_.notify_one();
  }
  while (*interrupted == 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (*interrupted == 0) pid_ = -1;
  stop();
}

void Player::stop() {
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    pieces_.clear();
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace omnistage_cli
