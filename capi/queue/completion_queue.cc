#include "capi/queue/completion_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "shm/base/clock.h"

namespace omnistage::capi {

Result<std::shared_ptr<CompletionQueue>> CompletionQueue::create(uint32_t capacity) {
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return Status::from_errno("eventfd");
  return std::shared_ptr<CompletionQueue>(new CompletionQueue(std::move(bell), capacity));
}

// A full counter means that it is readable already, so a failed write loses nothing.
void CompletionQueue::ring() {
  const uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof(one));
}

void CompletionQueue::clear_bell() {
  uint64_t count = 0;
  (void)!::read(bell_.get(), &count, sizeof(count));
}

Status CompletionQueue::reserve() {
  std::lock_guard lock(mutex_);
  if (closed_) return Status(StatusCode::kClosed, "the queue is closed");
  if (open_ >= capacity_) {
    return Status(StatusCode::kFull, "the queue holds " + std::to_string(open_) +
                                         " requests whose FINAL was not taken, its capacity is " +
                                         std::to_string(capacity_));
  }
  ++open_;
  return Status();
}

void CompletionQueue::unreserve() {
  std::lock_guard lock(mutex_);
  --open_;
}

void CompletionQueue::deliver(OutputEvent event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  if (std::exchange(armed_, false)) ring();
}

void CompletionQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  armed_ = false;
  ring();
}

std::vector<TakenOutput> CompletionQueue::collect_taken() {
  if (!has_taken_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(mutex_);
  has_taken_.store(false, std::memory_order_relaxed);
  return std::exchange(taken_, {});
}

size_t CompletionQueue::waiting() {
  std::lock_guard lock(mutex_);
  return events_.size();
}

StatusCode CompletionQueue::take(size_t capacity, std::vector<OutputEvent>& events) {
  std::lock_guard lock(mutex_);
  const size_t count = std::min(capacity, events_.size());
  for (size_t i = 0; i < count; ++i) {
    OutputEvent& event = events_.front();
    if (event.final) {
      --open_;
    } else {
      taken_.push_back({event.request, static_cast<uint32_t>(event.stage), event.kind});
    }
    events.push_back(std::move(event));
    events_.pop_front();
  }
  if (!taken_.empty()) has_taken_.store(true, std::memory_order_release);
  // A closed queue stays readable for ever, so that event loops see kClosed. An armed bell is
  // cleared too: a late ring of wake() would make wait() spin.
  if (events_.empty() && !closed_) {
    clear_bell();
    armed_ = true;
    if (woken_.load()) ring();
  }
  if (count > 0) return StatusCode::kOk;
  if (woken_.load()) {
    // Clear first: a wake that comes in between rings again and is not lost.
    if (!closed_) clear_bell();
    woken_.store(false);
    return StatusCode::kWoken;
  }
  return closed_ ? StatusCode::kClosed : StatusCode::kAgain;
}

StatusCode CompletionQueue::poll(size_t capacity, std::vector<OutputEvent>& events) {
  if (reading_.exchange(true, std::memory_order_acquire)) return StatusCode::kBusy;
  const StatusCode code = take(capacity, events);
  reading_.store(false, std::memory_order_release);
  return code;
}

StatusCode CompletionQueue::wait(size_t capacity, std::vector<OutputEvent>& events,
                                 int64_t timeout_ns) {
  if (reading_.exchange(true, std::memory_order_acquire)) return StatusCode::kBusy;
  const int64_t now = monotonic_ns();
  const bool for_ever = timeout_ns < 0 || timeout_ns > kNever - now;
  const int64_t deadline = for_ever ? kNever : now + timeout_ns;
  StatusCode code;
  while ((code = take(capacity, events)) == StatusCode::kAgain) {
    const int64_t left = deadline - monotonic_ns();
    if (left <= 0) {
      code = timeout_ns == 0 ? StatusCode::kAgain : StatusCode::kTimeout;
      break;
    }
    timespec limit{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
    pollfd entry{bell_.get(), POLLIN, 0};
    // EINTR only means another look.
    (void)::ppoll(&entry, 1, for_ever ? nullptr : &limit, nullptr);
  }
  reading_.store(false, std::memory_order_release);
  return code;
}

void CompletionQueue::wake() {
  woken_.store(true);
  ring();
}

}  // namespace omnistage::capi
