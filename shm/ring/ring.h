// RingWriter and RingReader: the two ends of a single-producer single-consumer byte ring. They know
// addresses only: the two ends may be two mappings of one segment in two processes or plain memory
// in one (tests).
//
// Positions are free-running 64-bit counts of bytes, multiples of kRecordAlign; the place in the
// ring is the position modulo the capacity (a power of two). A record never wraps: padding fills
// the rest of the ring. One release store of the head publishes a record, so a writer that dies
// earlier leaves nothing to see.
//
// Neither end believes the other: what a peer writes is copied, checked and used from the copy;
// anything that an honest peer cannot have written makes the end *broken* for ever.
//
// Threads: each end is used by one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/segment/format.h"

namespace omnistage::shm {

class RingWriter {
 public:
  enum class Outcome { kOk, kFull, kTooLarge, kBroken };

  RingWriter() = default;
  // `head` is this end's word and is set to `start`. `capacity`: a power of two. Memory outlives
  // the object.
  RingWriter(std::byte* base, uint64_t capacity, std::atomic<uint64_t>* head, uint64_t start,
             uint32_t epoch);
  // From now on space is freed by the reader's word; until then the ring only fills.
  void attach(const std::atomic<uint64_t>* tail) { tail_ = tail; }

  // Largest payload this ring ever takes.
  uint64_t record_bytes_max() const;
  // Space for `bytes` of payload at a 16-byte border; empty span and `outcome` when there is none.
  // At least `keep_free` bytes of ring stay free behind it. One reservation at a time: a new one
  // replaces the old one.
  std::span<std::byte> reserve(uint64_t bytes, uint64_t keep_free, Outcome& outcome);
  // Publishes the reservation with `bytes` <= the reserved size; false (nothing published) if it
  // does not hold.
  bool commit(uint16_t kind, uint64_t bytes);
  void abort() { reserved_ = false; }
  bool reserved() const { return reserved_; }
  // reserve + copy + commit.
  Outcome write(uint16_t kind, std::span<const std::byte> payload, uint64_t keep_free = 0);

  uint64_t room(uint64_t keep_free);  // payload bytes that a record could have now
  bool empty();                       // the reader has read everything
  // The reader's position as last looked at, and as it is now.
  uint64_t seen_tail() const { return cached_tail_; }
  uint64_t tail() const {
    return tail_ == nullptr ? start_ : tail_->load(std::memory_order_acquire);
  }
  bool broken() const { return broken_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t sequence() const { return sequence_; }

 private:
  bool refresh_tail();
  uint64_t free_bytes() const { return capacity_ - (position_ - cached_tail_); }
  // Bytes of padding in front of a record of `stride` bytes.
  uint64_t padding_for(uint64_t stride) const;
  void put_header(uint64_t position, uint32_t bytes, uint16_t kind, uint16_t flags);

  std::byte* base_ = nullptr;
  uint64_t capacity_ = 0;
  std::atomic<uint64_t>* head_ = nullptr;
  const std::atomic<uint64_t>* tail_ = nullptr;
  uint64_t start_ = 0;
  uint64_t position_ = 0;
  uint64_t cached_tail_ = 0;
  uint64_t sequence_ = 0;
  uint32_t epoch_ = 0;
  bool broken_ = false;
  bool reserved_ = false;
  uint64_t reserved_bytes_ = 0;
  uint64_t reserved_padding_ = 0;
};

class RingReader {
 public:
  enum class Outcome { kEmpty, kRecord, kBroken };

  RingReader() = default;
  // `tail` is this end's word and is set to `start`.
  RingReader(const std::byte* base, uint64_t capacity, const std::atomic<uint64_t>* head,
             std::atomic<uint64_t>* tail, uint64_t start, uint32_t epoch);

  // Copies the next record out and frees its space. kBroken: see error().
  Outcome read(RecordHeader& header, std::vector<std::byte>& bytes);
  bool unread() const;  // is there something to read (or a broken head to be reported)
  uint64_t freed() const { return position_; }  // position up to which space was given back
  const char* error() const { return error_; }
  uint64_t capacity() const { return capacity_; }

 private:
  Outcome fail(const char* error);
  // Checks a private copy of the header at position_; `available` bytes are published from there.
  const char* check(const RecordHeader& header, uint64_t available) const;

  const std::byte* base_ = nullptr;
  uint64_t capacity_ = 0;
  const std::atomic<uint64_t>* head_ = nullptr;
  std::atomic<uint64_t>* tail_ = nullptr;
  uint64_t position_ = 0;
  uint64_t cached_head_ = 0;
  uint64_t sequence_ = 0;
  uint32_t epoch_ = 0;
  const char* error_ = nullptr;
};

}  // namespace omnistage::shm
