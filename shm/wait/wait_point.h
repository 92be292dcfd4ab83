// WaitPoint: what a WaitSet needs from a link; every real Link implements it. All functions are
// called by the data thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "shm/wait/doorbell.h"

namespace omnistage::shm {

class WaitPoint {
 public:
  virtual ~WaitPoint() = default;
  // Rung when the link changes from another thread: connected, dead, a tensor released. Null takes
  // it away.
  virtual void set_doorbell(std::shared_ptr<Doorbell> doorbell) = 0;
  // Something the data thread should look at: unread records always; once each: room
  // after kFull, leases that poll() took back (somebody may wait for pool memory), the peer's
  // death.
  virtual bool ready() = 0;
  // Tells the peer that this thread is about to sleep. Returns the word to sleep on and the value
  // to expect, or null when this link can only change through the doorbell. A seq_cst fence and
  // ready() must follow.
  virtual const std::atomic<uint32_t>* arm(uint32_t& expected) = 0;
  virtual void disarm() = 0;
  virtual void before_sleep() = 0;  // sends what only waited for company
};

}  // namespace omnistage::shm
