// SpinBudget: how long a data thread looks at its words before it sleeps. A sleep and wake across
// cores costs a few microseconds per direction, so a short look pays when the answer comes at once;
// it never pays when the answer needs the core this thread burns. The budget grows while waits are
// short, shrinks when looking was in vain, and is zero with one allowed core or while more threads
// are runnable than there are cores.
//
// Threads: one.
#pragma once

#include <cstdint>

namespace omnistage::shm {

class SpinBudget {
 public:
  SpinBudget();
  int64_t budget_ns(int64_t now_ns);
  void won();                    // the event came while looking
  void lost();                   // it did not
  void slept(int64_t slept_ns);  // how long the sleep behind it took

 private:
  bool crowded(int64_t now_ns);

  int cores_ = 1;
  int64_t budget_ns_ = 0;
  int64_t checked_ns_ = 0;
  bool crowded_ = false;
  uint32_t lost_in_a_row_ = 0;
};

}  // namespace omnistage::shm
