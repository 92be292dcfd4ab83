// HostTensor: a dense row-major tensor in host memory, without any tensor library. It is how
// tensors move between model, engine, cache and shared memory. Copying a HostTensor shares the
// bytes; `data` frees them (or returns a lease) when the last copy dies, on whatever thread that
// happens. Bytes are read-only once shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shm/base/status.h"

namespace omnistage {

enum class DType : uint8_t { kF32 = 0, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

constexpr size_t dtype_bytes(DType type) {
  switch (type) {
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    default:
      return 1;
  }
}

struct HostTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;       // empty: a scalar (0-d)
  std::shared_ptr<std::byte> data;  // null only when bytes() == 0

  size_t elements() const {
    size_t n = 1;
    for (int64_t d : shape) n *= static_cast<size_t>(d);
    return n;
  }
  size_t bytes() const { return elements() * dtype_bytes(dtype); }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data.get());
  }
};

// Where producers put results. The stage shell hands out pool blocks, so that a result is written
// once, at the place the consumer reads it; tests and plain programs use the heap.
class TensorAllocator {
 public:
  virtual ~TensorAllocator() = default;
  // Uninitialised, 64-byte aligned. Errors: kNoMemory with limit and need. Any thread.
  virtual Result<HostTensor> allocate(DType dtype, std::vector<int64_t> shape) = 0;
};

class HeapAllocator final : public TensorAllocator {
 public:
  Result<HostTensor> allocate(DType dtype, std::vector<int64_t> shape) override;
};

}  // namespace omnistage
