// BlockPool: hands out the numbers of fixed-size KV blocks; the storage itself belongs to the
// model. BlockTable: the blocks of one sequence, in order; block i holds positions [i * block_size,
// (i + 1) * block_size).
//
// Ownership: a block is free (reference count 0) or held by as many tables as its count says. The
// pool must outlive its tables. One thread at a time. Misuse (double release, foreign block) ends
// the process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::cache {

struct BlockPoolOptions {
  static constexpr int32_t kBlockSizeMax = 4096;     // tokens
  static constexpr int32_t kNumBlocksMax = 1 << 22;  // keeps every position below 2^34

  int32_t num_blocks = 0;
  int32_t block_size = 16;  // tokens
};

class BlockPool {
 public:
  // INVALID names the field and its range.
  static Status validate(const BlockPoolOptions& options);
  // REQUIRES: validate(options) is OK.
  explicit BlockPool(const BlockPoolOptions& options);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int32_t block_size() const { return block_size_; }
  int32_t total() const { return static_cast<int32_t>(refs_.size()); }
  int32_t free() const { return free_count_; }
  int32_t used() const { return total() - free_count_; }
  int32_t blocks_for(int64_t tokens) const {
    return static_cast<int32_t>((tokens + block_size_ - 1) / block_size_);
  }

  // Takes the block that has been free for longest, with reference count 1. REQUIRES: free() > 0.
  int32_t allocate();
  // One more holder of a block that is in use.
  void retain(int32_t block);
  // One holder less; the last one returns the block to the end of the free list.
  void release(int32_t block);
  uint32_t references(int32_t block) const;

  // Walks the whole pool: the free list holds exactly the blocks without references, each once.
  void check_invariants() const;

 private:
  int32_t block_size_;
  std::vector<uint32_t> refs_;  // by block number
  std::vector<int32_t> free_;   // ring of free block numbers
  size_t free_head_ = 0;
  int32_t free_count_ = 0;
};

class BlockTable {
 public:
  explicit BlockTable(BlockPool& pool) : pool_(&pool) {}
  ~BlockTable() { clear(); }
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;

  // Covers positions [0, tokens). All or nothing: false when the pool has too few free blocks.
  bool grow_to(int64_t tokens);
  // Blocks that grow_to(tokens) would have to take.
  int32_t missing_for(int64_t tokens) const;
  // Another table over the same blocks.
  BlockTable share() const;
  // Returns the blocks, last one first, so that the end of a sequence is reused before its
  // beginning.
  void clear();

  std::span<const int32_t> blocks() const { return blocks_; }

 private:
  BlockPool* pool_;
  std::vector<int32_t> blocks_;
};

}  // namespace omnistage::cache
