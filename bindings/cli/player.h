// Player: feeds audio to aplay or paplay through a pipe, from a thread of its own, so that playing
// at normal speed never slows down the answer. Owns the child process.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace omnistage_cli {

class Player {
 public:
  Player() = default;
  ~Player() { stop(); }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // Looks for a program in PATH; false if there is none.
  bool find();
  // Starts the program at the first call. Errors end the playing silently; the file is the product.
  void append(const float* samples, size_t count, uint32_t sample_rate);
  // Waits until everything was played, or `*interrupted` becomes non-zero.
  void finish(const volatile int* interrupted);
  // Ends at once.
  void stop();

 private:
  bool start(uint32_t sample_rate);
  void feed();

  std::string program_;
  bool alsa_ = false;
  pid_t pid_ = -1;
  int pipe_ = -1;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<int16_t>> pieces_;
  bool done_ = false;
};

}  // namespace omnistage_cli
