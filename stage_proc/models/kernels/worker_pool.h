// WorkerPool: fork-join helpers of one model. run() executes a task on every part, the caller doing
// part 0, and returns when all are done. Between runs the workers spin for some microseconds, then
// sleep in the kernel. One caller at a time; the pool is owned by the model and joined by its
// destructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace omnistage::kernels {

class WorkerPool {
 public:
  explicit WorkerPool(int32_t threads);  // threads >= 1, the caller included
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int32_t size() const { return static_cast<int32_t>(workers_.size()) + 1; }

  // task(part, parts) once for every part in [0, size()); no allocation.
  template <typename Task>
  void run(const Task& task) {
    if (workers_.empty()) {
      task(0, 1);
      return;
    }
    dispatch([](const void* context, int32_t part,
                int32_t parts) { (*static_cast<const Task*>(context))(part, parts); },
             &task);
  }

  // body(begin, end, part) over ranges of [0, count), each index exactly once; one index alone runs
  // on the caller. `part` numbers the worker.
  template <typename Body>
  void split(int32_t count, const Body& body) {
    if (workers_.empty() || count <= 1) {
      if (count > 0) body(0, count, 0);
      return;
    }
    run([&](int32_t part, int32_t parts) {
      const int32_t begin = static_cast<int32_t>(int64_t{count} * part / parts);
      const int32_t end = static_cast<int32_t>(int64_t{count} * (part + 1) / parts);
      if (begin < end) body(begin, end, part);
    });
  }

 private:
  using Entry = void (*)(const void* context, int32_t part, int32_t parts);
  void dispatch(Entry entry, const void* context);
  void work(int32_t part);

  std::vector<std::thread> workers_;
  Entry entry_ = nullptr;  // written before epoch_ is raised, read after
  const void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<uint32_t> running_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace omnistage::kernels
