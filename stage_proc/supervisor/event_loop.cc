#include "stage_proc/supervisor/event_loop.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include "shm/base/clock.h"

namespace omnistage {

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return Status::from_errno("epoll_create1");
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll)));
}

Status EventLoop::watch(int fd, uint32_t events, Handler handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return Status::from_errno("epoll_ctl add");
  }
  handlers_[fd] = std::make_shared<Handler>(std::move(handler));
  return {};
}

void EventLoop::set_events(int fd, uint32_t events) {
  if (!handlers_.contains(fd)) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::unwatch(int fd) {
  if (handlers_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::at(int64_t due_ns, std::function<void()> handler) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::make_pair(due_ns, id), std::move(handler));
  due_.emplace(id, due_ns);
  return id;
}

EventLoop::TimerId EventLoop::after(int64_t delay_ns, std::function<void()> handler) {
  return at(monotonic_ns() + delay_ns, std::move(handler));
}

void EventLoop::cancel(TimerId timer) {
  auto found = due_.find(timer);
  if (found == due_.end()) return;
  timers_.erase({found->second, timer});
  due_.erase(found);
}

int EventLoop::timeout_ms() const {
  if (timers_.empty()) return -1;
  const int64_t left = timers_.begin()->first.first - monotonic_ns();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((left + kMillisecond - 1) / kMillisecond, INT_MAX));
}

void EventLoop::run_due_timers() {
  while (!stopped_ && !timers_.empty() && timers_.begin()->first.first <= monotonic_ns()) {
    auto node = timers_.extract(timers_.begin());
    due_.erase(node.key().second);
    node.mapped()();
  }
}

Status EventLoop::run() {
  while (!stopped_) {
    run_due_timers();
    if (stopped_) break;
    // One event at a time: a handler may close descriptors that a larger batch would still name.
    epoll_event event{};
    const int count = ::epoll_wait(epoll_.get(), &event, 1, timeout_ms());
    if (count < 0 && errno != EINTR) return Status::from_errno("epoll_wait");
    if (count <= 0) continue;
    auto found = handlers_.find(event.data.fd);
    if (found == handlers_.end()) continue;
    const std::shared_ptr<Handler> handler = found->second;
    (*handler)(event.events);
  }
  return {};
}

}  // namespace omnistage
