// Slab: one sealed segment whose payload is managed by Boost.Interprocess' best-fit allocator. Only
// the owner process allocates; peers see bytes. Blocks are 64-byte aligned and carry who still
// needs them.
//
// Threads: none of its own; the pool's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "shm/base/status.h"
#include "shm/segment/segment.h"

namespace omnistage::shm {

struct Block {
  uint64_t bytes = 0;  // what the user asked for
  bool owned = true;   // a local tensor still refers to it
  uint32_t leases = 0;
  bool needed() const { return owned || leases != 0; }
};

class Slab {
 public:
  // `payload_bytes` can be had as one block. Errors: kNoMemory, kSystem.
  static Result<std::unique_ptr<Slab>> create(uint32_t number, uint64_t payload_bytes);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  uint32_t number() const { return number_; }
  const OwnedSegment& segment() const { return segment_; }
  bool empty() const { return blocks_.empty(); }
  size_t blocks() const { return blocks_.size(); }

  // Null when the slab has no hole of that size. Offsets count from the segment's start.
  std::byte* allocate(uint64_t bytes);
  // The live block that contains [offset, offset + bytes); null when there is none. `start` is set
  // to its offset.
  Block* find(uint64_t offset, uint64_t bytes, uint64_t& start);
  void free_if_unneeded(uint64_t start);

 private:
  struct Allocator;
  Slab(uint32_t number, OwnedSegment segment);

  uint32_t number_;
  OwnedSegment segment_;
  std::unique_ptr<Allocator> allocator_;
  std::map<uint64_t, Block> blocks_;
};

}  // namespace omnistage::shm
