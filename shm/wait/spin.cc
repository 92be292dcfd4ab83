#include "shm/wait/spin.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "shm/base/clock.h"

namespace omnistage::shm {
namespace {

constexpr int64_t kBudgetMax = 15'000;  // about twice the cost of a sleep and wake
constexpr int64_t kBudgetFirst = 4'000;
constexpr int64_t kShortSleep = 40'000;  // sleeps below this would have been worth a look
constexpr int64_t kCrowdCheck = 100 * kMillisecond;
constexpr uint32_t kLostMax = 4;

int allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// The fourth field of /proc/loadavg is "<runnable>/<threads>".
int runnable_threads() {
  int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char line[128];
  ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  if (n <= 0) return 0;
  line[n] = '\0';
  const char* at = line;
  for (int spaces = 0; *at != '\0' && spaces < 3; ++at) spaces += *at == ' ';
  return std::atoi(at);
}

}  // namespace

SpinBudget::SpinBudget() : cores_(allowed_cores()) {}

bool SpinBudget::crowded(int64_t now_ns) {
  if (now_ns - checked_ns_ >= kCrowdCheck) {
    checked_ns_ = now_ns;
    cores_ = allowed_cores();
    crowded_ = cores_ < 2 || runnable_threads() > cores_;
  }
  return crowded_;
}

int64_t SpinBudget::budget_ns(int64_t now_ns) {
  if (budget_ns_ == 0 || crowded(now_ns)) return 0;
  return budget_ns_;
}

void SpinBudget::won() {
  lost_in_a_row_ = 0;
  budget_ns_ = std::min(kBudgetMax, budget_ns_ + budget_ns_ / 4);
}

void SpinBudget::lost() {
  if (++lost_in_a_row_ < kLostMax) return;
  budget_ns_ /= 2;
  if (budget_ns_ < 1'000) budget_ns_ = 0;
}

void SpinBudget::slept(int64_t slept_ns) {
  if (slept_ns < kShortSleep && budget_ns_ == 0 && cores_ > 1) {
    budget_ns_ = kBudgetFirst;
    lost_in_a_row_ = 0;
  }
}

}  // namespace omnistage::shm
