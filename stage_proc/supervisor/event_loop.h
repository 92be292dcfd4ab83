// EventLoop: epoll and timers for a single-threaded control thread. Callbacks run one at a time on
// the thread that is in run(); they may watch, unwatch, arm and cancel anything, themselves
// included.
//
// The loop owns no descriptor that is watched; unwatch before closing one.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "shm/base/fd.h"
#include "shm/base/status.h"

namespace omnistage {

class EventLoop {
 public:
  using Handler = std::function<void(uint32_t events)>;
  using TimerId = uint64_t;  // 0 is no timer

  static Result<std::unique_ptr<EventLoop>> create();

  // `events`: EPOLLIN, EPOLLOUT, ...; level triggered.
  Status watch(int fd, uint32_t events, Handler handler);
  void set_events(int fd, uint32_t events);  // of a watched fd
  void unwatch(int fd);                      // unknown fds are ignored

  TimerId at(int64_t due_ns, std::function<void()> handler);  // CLOCK_MONOTONIC
  TimerId after(int64_t delay_ns, std::function<void()> handler);
  void cancel(TimerId timer);  // 0 and timers that are over are ignored

  // Until stop(). Errors: epoll itself failed.
  Status run();
  void stop() { stopped_ = true; }

 private:
  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  void run_due_timers();
  int timeout_ms() const;

  UniqueFd epoll_;
  bool stopped_ = false;
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;
  std::unordered_map<TimerId, int64_t> due_;
  TimerId next_timer_ = 1;
};

}  // namespace omnistage
