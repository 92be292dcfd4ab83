// LeaseTable: which consumer still needs which block. A slot's generation changes at every use, so
// a return that comes late or twice finds nothing. Bounded. Threads: none of its own; the pool's
// mutex guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shm/pool/tensor_pool.h"

namespace omnistage::shm {

struct LeasedBlock {
  uint32_t slab = 0;
  uint64_t start = 0;  // of the block in the slab
};

class LeaseTable {
 public:
  // 1,000 live requests with 8 outputs under way each, to several consumers.
  static constexpr uint32_t kLeasesMax = 65536;

  // False when the table is full.
  bool add(ConsumerId consumer, LeasedBlock block, uint32_t& slot, uint32_t& generation);
  // The block of a lease that exists and belongs to `consumer`; the slot is free then.
  std::optional<LeasedBlock> take(ConsumerId consumer, uint32_t slot, uint32_t generation);
  std::vector<LeasedBlock> take_all(ConsumerId consumer);
  bool has(ConsumerId consumer) const;
  uint64_t count() const { return count_; }

 private:
  struct Slot {
    bool used = false;
    uint32_t generation = 0;
    ConsumerId consumer = 0;
    LeasedBlock block;
  };
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint64_t count_ = 0;
};

}  // namespace omnistage::shm
