#include "shm/wait/wait_set.h"

#include <algorithm>
#include <string>
#include <vector>

#include "shm/base/clock.h"
#include "shm/base/log.h"
#include "shm/wait/doorbell.h"
#include "shm/wait/spin.h"
#include "shm/wait/wait_point.h"

namespace omnistage::shm {
namespace {

// The doorbell takes one word of a futex_waitv call, every link one.
constexpr size_t kWordsPerSleep = kFutexWaitvMax - 1;
// With more links than words the sleep covers one group after the other in slices of this length.
constexpr int64_t kSliceNs = 2 * kMillisecond;

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class WaitSetImpl final : public WaitSet {
 public:
  ~WaitSetImpl() override {
    for (Member& member : members_) member.point->set_doorbell(nullptr);
  }

  void add(Link* link) override {
    auto* point = dynamic_cast<WaitPoint*>(link);
    if (point == nullptr) {
      OMS_LOG(kError, "shm", "WaitSet::add: this link has nothing to wait on");
      return;
    }
    if (find(link) != members_.end()) return;
    members_.push_back({link, point});
    point->set_doorbell(doorbell_);
    if (members_.size() == kWordsPerSleep + 1)
      OMS_LOG(kWarn, "shm",
              "more than " + std::to_string(kWordsPerSleep) +
                  " links in one wait set: they are waited for in turns");
  }

  void remove(Link* link) override {
    auto at = find(link);
    if (at == members_.end()) return;
    at->point->set_doorbell(nullptr);
    members_.erase(at);
  }

  void ring() override {
    rings_.fetch_add(1, std::memory_order_relaxed);
    doorbell_->ring();
  }

  Status wait(int64_t deadline_ns) override {
    ++stats_.waits;
    for (Member& member : members_) member.point->before_sleep();
    if (ready()) return Status();
    if (spin(deadline_ns)) return Status();
    for (;;) {
      const int64_t before = monotonic_ns();
      if (before >= deadline_ns)
        return ready() ? Status() : Status(StatusCode::kTimeout, "nothing happened in time");
      sleep(deadline_ns, before);
      if (ready()) {
        spin_.slept(monotonic_ns() - before);
        return Status();
      }
    }
  }

  Stats stats() const override {
    Stats stats = stats_;
    stats.rings = rings_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  struct Member {
    Link* link;
    WaitPoint* point;
  };

  std::vector<Member>::iterator find(Link* link) {
    return std::find_if(members_.begin(), members_.end(),
                        [link](const Member& m) { return m.link == link; });
  }

  bool ready() {
    const uint32_t count = doorbell_->count();
    bool any = count != seen_;
    seen_ = count;
    // All are asked: ready() also takes note of one-time events.
    for (Member& member : members_) any |= member.point->ready();
    return any;
  }

  bool spin(int64_t deadline_ns) {
    const int64_t start = monotonic_ns();
    const int64_t budget = spin_.budget_ns(start);
    if (budget == 0) return false;
    const int64_t end = std::min(deadline_ns, start + budget);
    do {
      for (int i = 0; i < 32; ++i) pause_core();
      if (ready()) {
        spin_.won();
        ++stats_.spins_won;
        return true;
      }
    } while (monotonic_ns() < end);
    spin_.lost();
    return false;
  }

  void sleep(int64_t deadline_ns, int64_t now_ns) {
    entries_.clear();
    doorbell_->set_sleeping(true);
    entries_.push_back(futex_wait_entry(doorbell_->word(), seen_, true));
    const bool grouped = members_.size() > kWordsPerSleep;
    if (grouped) group_ = (group_ + kWordsPerSleep) % members_.size();
    for (size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[grouped ? (group_ + i) % members_.size() : i];
      uint32_t expected = 0;
      const std::atomic<uint32_t>* word = member.point->arm(expected);
      if (word != nullptr && entries_.size() < kFutexWaitvMax)
        entries_.push_back(futex_wait_entry(word, expected, false));
    }
    // Pairs with the fence between a producer's head store and its look at the sleep word: either
    // it sees that this thread is about to sleep, or this thread sees the record.
    full_fence();
    if (!peek()) {
      ++stats_.sleeps;
      int64_t until = grouped ? std::min(deadline_ns, now_ns + kSliceNs) : deadline_ns;
      timespec time{static_cast<time_t>(until / kSecond), static_cast<long>(until % kSecond)};
      futex_wait_any(entries_.data(), static_cast<uint32_t>(entries_.size()),
                     until == kNever ? nullptr : &time);
    }
    for (Member& member : members_) member.point->disarm();
    doorbell_->set_sleeping(false);
  }

  // ready() consumes one-time events, so the look between arming and sleeping keeps what it found.
  bool peek() {
    for (Member& member : members_)
      if (member.point->ready()) return doorbell_->ring(), true;
    return doorbell_->count() != seen_;
  }

  std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  std::vector<Member> members_;
  std::vector<futex_waitv> entries_;
  uint32_t seen_ = 0;
  size_t group_ = 0;
  SpinBudget spin_;
  Stats stats_;
  std::atomic<uint64_t> rings_{0};
};

}  // namespace

std::unique_ptr<WaitSet> WaitSet::create() {
  return std::make_unique<WaitSetImpl>();
}

}  // namespace omnistage::shm
