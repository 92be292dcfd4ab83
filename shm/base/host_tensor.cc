#include "shm/base/host_tensor.h"

#include <cstdlib>
#include <limits>

namespace omnistage {

Result<HostTensor> HeapAllocator::allocate(DType dtype, std::vector<int64_t> shape) {
  size_t bytes = dtype_bytes(dtype);
  for (int64_t d : shape) {
    if (d < 0) return invalid("tensor dimension must not be negative, got " + std::to_string(d));
    if (d != 0 && bytes > std::numeric_limits<size_t>::max() / 2 / static_cast<size_t>(d))
      return invalid("tensor is larger than the address space");
    bytes *= static_cast<size_t>(d);
  }
  HostTensor tensor{dtype, std::move(shape), nullptr};
  if (bytes == 0) return tensor;
  void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (memory == nullptr)
    return Status(StatusCode::kNoMemory,
                  "out of memory for a tensor of " + std::to_string(bytes) + " bytes");
  tensor.data = std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                           [](std::byte* p) { std::free(p); });
  return tensor;
}

}  // namespace omnistage
