#include "stage_proc/models/kernels/worker_pool.h"

namespace omnistage::kernels {
namespace {

// About 20 microseconds: longer than the serial parts between two parallel steps of a forward pass,
// shorter than what a sleeping machine would notice.
constexpr int kSpins = 400;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Waits until `word` differs from `old`; returns the new value.
uint32_t await_change(std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    relax();
  }
  while (true) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    word.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

WorkerPool::WorkerPool(int32_t threads) {
  for (int32_t part = 1; part < threads; ++part) {
    workers_.emplace_back([this, part] { work(part); });
  }
}

WorkerPool::~WorkerPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::dispatch(Entry entry, const void* context) {
  entry_ = entry;
  context_ = context;
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  entry(context, 0, size());
  uint32_t left = running_.load(std::memory_order_acquire);
  while (left != 0) left = await_change(running_, left);
}

void WorkerPool::work(int32_t part) {
  uint32_t seen = 0;
  while (true) {
    seen = await_change(epoch_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    entry_(context_, part, size());
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace omnistage::kernels
