// Doorbell: wakes the one thread that sleeps in a WaitSet of this process. Owned by the WaitSet and
// shared with its links, whose control threads and tensor deleters ring it. ring(): any thread,
// also a signal handler.
#pragma once

#include <atomic>
#include <cstdint>

#include "shm/wait/futex.h"

namespace omnistage::shm {

class Doorbell {
 public:
  void ring() {
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst)) futex_wake_all(&count_, true);
  }

  uint32_t count() const { return count_.load(std::memory_order_seq_cst); }
  const std::atomic<uint32_t>* word() const { return &count_; }
  void set_sleeping(bool on) { sleeping_.store(on, std::memory_order_seq_cst); }

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<bool> sleeping_{false};
};

}  // namespace omnistage::shm
