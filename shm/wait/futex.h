// The two futex calls this project uses. Words in segments are shared futexes (found by file and
// offset, so they work between a read-write and a read-only mapping); the doorbell is private to
// its process.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace omnistage::shm {

constexpr uint32_t kFutexWaitvMax = 128;  // words of one futex_waitv call

// A full barrier between a store to one word and a load of another (Dekker). ThreadSanitizer does
// not know fences, a read-modify-write is as strong and known to it.
inline void full_fence() {
#if defined(__SANITIZE_THREAD__)
  static std::atomic<uint32_t> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Wakes every sleeper on `word`. Async-signal-safe; keeps errno.
inline void futex_wake_all(std::atomic<uint32_t>* word, bool process_private) {
  const int saved = errno;
  syscall(SYS_futex, word, process_private ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE, INT32_MAX, nullptr,
          nullptr, 0);
  errno = saved;
}

inline futex_waitv futex_wait_entry(const std::atomic<uint32_t>* word, uint32_t expected,
                                    bool process_private) {
  futex_waitv entry{};
  entry.val = expected;
  entry.uaddr = reinterpret_cast<uintptr_t>(word);
  entry.flags = FUTEX_32 | (process_private ? FUTEX_PRIVATE_FLAG : 0);
  return entry;
}

// Sleeps until one word differs from its expected value and is woken, or the absolute
// CLOCK_MONOTONIC time. Returns 0 or an errno value (EAGAIN: a word differs already, EINTR,
// ETIMEDOUT).
inline int futex_wait_any(futex_waitv* entries, uint32_t count, const timespec* deadline) {
  long result = syscall(SYS_futex_waitv, entries, count, 0, deadline, CLOCK_MONOTONIC);
  return result >= 0 ? 0 : errno;
}

}  // namespace omnistage::shm
