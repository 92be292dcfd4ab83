// CompletionQueue: the outputs of the requests that were submitted on one oms_queue, and its event
// fd.
//
// The event fd is readable whenever an event waits, a wake is pending or the queue is closed. The
// writer side rings it only when the reader found the queue empty since (armed_), so a burst costs
// one write. The flag and the list change under one mutex; only wake(), which has to be safe in a
// signal handler, works without it: it raises its flag, then rings. The reader clears the bell,
// then looks at the flag again and rings itself if it is up.
//
// Threads: deliver/close by the pipeline (any thread), wake by anyone, poll/wait by one reader at a
// time; a second reader is refused with kBusy.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "capi/state/output_event.h"
#include "shm/base/fd.h"

namespace omnistage::capi {

// An output the application took: its sender's credit may go back.
struct TakenOutput {
  uint64_t request = 0;
  uint32_t stage = 0;
  OutputKind kind = OutputKind::kText;
};

class CompletionQueue final : public EventSink {
 public:
  // `capacity`: requests whose FINAL was not taken yet.
  static Result<std::shared_ptr<CompletionQueue>> create(uint32_t capacity);

  // --- pipeline side
  // --------------------------------------------------------------------------------------- Counts
  // a request in; kFull at the capacity, kClosed after close(). Undone by its FINAL being taken, or
  // by unreserve() if it was never submitted.
  Status reserve();
  void unreserve();
  void deliver(OutputEvent event) override;
  // No reserve() any more; the reader gets kClosed once it has taken what is there.
  void close();
  // Outputs taken since the last call.
  std::vector<TakenOutput> collect_taken();

  // --- reader side
  // -----------------------------------------------------------------------------------------
  int event_fd() const { return bell_.get(); }
  size_t waiting();
  // Up to `capacity` events. Codes kOk (some), kAgain, kWoken, kClosed, kBusy.
  StatusCode poll(size_t capacity, std::vector<OutputEvent>& events);
  // Waits for the first one until `timeout_ns` is over (-1 = for ever). kTimeout.
  StatusCode wait(size_t capacity, std::vector<OutputEvent>& events, int64_t timeout_ns);
  void wake();

 private:
  CompletionQueue(UniqueFd bell, uint32_t capacity) : bell_(std::move(bell)), capacity_(capacity) {}
  StatusCode take(size_t capacity, std::vector<OutputEvent>& events);
  void ring();
  void clear_bell();

  const UniqueFd bell_;
  const uint32_t capacity_;
  std::atomic<bool> woken_{false};
  std::atomic<bool> reading_{false};
  std::atomic<bool> has_taken_{false};

  std::mutex mutex_;
  std::deque<OutputEvent>
      events_;  // bounded: credit x stages x kinds + 1 for each of `capacity_` requests
  std::vector<TakenOutput> taken_;  // bounded by the same number
  uint32_t open_ = 0;
  bool armed_ = true;
  bool closed_ = false;
};

}  // namespace omnistage::capi
