// WaitSet: how a data thread sleeps until one of its links has something or somebody rings its
// doorbell. Uses futex_waitv over the peers' head words (up to 16 links and the doorbell cost
// nothing more; further links are looked at in groups), untimed when nothing is pending: an idle
// process makes no wake-ups at all. Spins briefly first, adaptively, and not at all when runnable
// threads outnumber the allowed cores.
//
// Threads: add/remove/wait by the data thread; ring() by any thread, also from a signal handler.
#pragma once

#include <cstdint>
#include <memory>

#include "shm/base/status.h"
#include "shm/link/link.h"

namespace omnistage::shm {

class WaitSet {
 public:
  static std::unique_ptr<WaitSet> create();
  virtual ~WaitSet() = default;

  virtual void add(Link* link) = 0;  // the link outlives its membership
  virtual void remove(Link* link) = 0;

  // Returns at once when a link has unread records, a blocked sender got room, poll() took back
  // leases (so pool memory may be free), a peer died, or ring() was called since the last wait();
  // else sleeps until then or until `deadline_ns` (CLOCK_MONOTONIC, kNever = no limit). kOk:
  // something happened; kTimeout: the deadline passed.
  virtual Status wait(int64_t deadline_ns) = 0;
  virtual void ring() = 0;

  struct Stats {
    uint64_t waits = 0, sleeps = 0, spins_won = 0, rings = 0;
  };
  virtual Stats stats() const = 0;
};

}  // namespace omnistage::shm
