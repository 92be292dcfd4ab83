// TensorPool: blocks in shared memory for tensors that cross process borders, owned by the process
// that fills them. Slabs of at most limits::kSlabBytesMax are added on demand up to a bound; a
// block is free again when its last local owner and its last lease are gone. Leases are counted
// here, at the owner, per consumer, so that the death of a consumer gives all its blocks back.
//
// Threads: all functions may be called by any thread (a process-local mutex).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shm/base/fd.h"
#include "shm/base/host_tensor.h"
#include "shm/base/status.h"

namespace omnistage::shm {

// How a record names a leased block. Fixed layout: it is copied into records byte for byte.
struct TensorRef {
  uint32_t slab = 0;        // slab number of the owner, never reused
  uint32_t lease = 0;       // lease slot
  uint32_t generation = 0;  // of the lease slot; a late return of an old lease is ignored
  uint32_t reserved = 0;
  uint64_t offset = 0;  // in the slab
  uint64_t bytes = 0;
};
static_assert(sizeof(TensorRef) == 32);

using ConsumerId = uint64_t;  // one per link, process-local

struct PoolStats {
  uint64_t slabs = 0;
  uint64_t slab_bytes = 0;  // reserved from the kernel
  uint64_t blocks = 0;      // allocated now
  uint64_t leases = 0;      // outstanding now
  uint64_t payload_bytes_copied =
      0;  // bytes that had to be copied because they were not in the pool
};

class TensorPool : public TensorAllocator {
 public:
  // Reserves nothing yet. `max_bytes` bounds the sum of slabs.
  static std::shared_ptr<TensorPool> create(uint64_t max_bytes);

  // A block as tensor, 64-byte aligned. Errors: kNoMemory with limit and need; kInvalid above
  // kSlabBytesMax.
  Result<HostTensor> allocate(DType dtype, std::vector<int64_t> shape) override = 0;

  // --- used by Link
  // --------------------------------------------------------------------------------------------
  // Leases the block that contains [data, data + bytes); kNotFound when it is not in this pool.
  virtual Result<TensorRef> lease(ConsumerId consumer, const std::byte* data, size_t bytes) = 0;
  virtual void return_lease(ConsumerId consumer, uint32_t lease, uint32_t generation) = 0;
  virtual void consumer_died(ConsumerId consumer) = 0;
  // A duplicate of the read-only-shareable fd of a slab, and its size.
  virtual Result<UniqueFd> slab_fd(uint32_t slab, uint64_t& bytes) const = 0;
  // Empty slabs above a small reserve go back to the kernel; links tell their peers to unmap them.
  virtual bool has_slab(uint32_t slab) const = 0;
  virtual uint64_t slabs_released() const = 0;  // grows with each one
  // A link ended while its peer may still read: leases of `consumer` stay until that peer closes
  // its end of `socket`. Looked at when the pool is used next.
  virtual void consumer_left(ConsumerId consumer, UniqueFd socket) = 0;

  virtual bool contains(const std::byte* data) const = 0;
  virtual void count_copy(uint64_t bytes) = 0;
  virtual PoolStats stats() const = 0;
};

}  // namespace omnistage::shm
