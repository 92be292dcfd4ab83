// Chunk adapter: the book-keeping of hand-overs between stages, for the cores on both sides of an
// edge. It moves no bytes.
//
// What holds for the chunks of one request generation: numbers count from 0 without gap; chunk 0
// carries the header and no other does; exactly one chunk is marked finished and it is the last.
// "No chunk" is not the same as "a chunk without entries": an empty chunk takes a number, and an
// empty finished one ends the stream.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "shm/base/ids.h"
#include "shm/base/limits.h"
#include "shm/base/status.h"
#include "stage_proc/engine/request.h"

namespace omnistage::transfer {

// Sender side of one request: lives and dies with it, so nothing is left behind for a reused id.
class ChunkSender {
 public:
  explicit ChunkSender(engine::RequestHeader header) : header_(std::move(header)) {}

  // The next chunk. REQUIRES: !finished(). `last` makes it the terminal one.
  engine::StageChunk make(engine::Payload payload, bool last);
  bool finished() const { return finished_; }
  uint32_t sent() const { return next_; }

 private:
  engine::RequestHeader header_;
  uint32_t next_ = 0;
  bool finished_ = false;
};

// Remembers requests that are over, each with the newest generation that is. Bounded: the oldest is
// forgotten first.
class Tombstones {
 public:
  explicit Tombstones(size_t capacity = limits::kAbortTombstones) : capacity_(capacity) {}
  void add(const RequestKey& key);
  // This generation, or a newer one, is over.
  bool contains(const RequestKey& key) const;
  size_t size() const { return newest_.size(); }

 private:
  using Id = std::pair<uint32_t, uint64_t>;  // client, request
  size_t capacity_;
  std::map<Id, uint32_t> newest_;
  std::deque<Id> order_;  // insertion order; as long as newest_
};

enum class ChunkVerdict : uint8_t {
  kFirst,      // chunk 0 of a new request: admit it
  kNext,       // belongs to a live request
  kLate,       // request unknown, over, or replaced by a newer generation: drop and count
  kViolation,  // breaks the rules above: end the request with `status`
};

struct ChunkCheck {
  ChunkVerdict verdict = ChunkVerdict::kLate;
  Status status;  // kViolation: PROTOCOL with the rule and the numbers
  std::optional<RequestKey>
      superseded;  // kFirst: live older generation of the same request, to be ended
};

// Receiver side of a stage: all requests fed by one upstream stage. The owner bounds the number of
// live requests; it calls close() for each one that ends, whatever the reason.
class ChunkReceiver {
 public:
  explicit ChunkReceiver(size_t tombstones = limits::kAbortTombstones) : over_(tombstones) {}

  ChunkCheck check(const engine::StageChunk& chunk);
  // The request is over here (finished, failed, aborted or never seen): its late chunks will be
  // dropped.
  void close(const RequestKey& key);
  bool is_closed(const RequestKey& key) const { return over_.contains(key); }
  size_t live() const { return live_.size(); }

 private:
  struct Entry {
    uint32_t generation = 0;
    uint32_t next = 0;
    bool finished = false;
  };
  using Id = std::pair<uint32_t, uint64_t>;

  ChunkCheck check_first(const engine::StageChunk& chunk);
  static ChunkCheck check_next(const engine::StageChunk& chunk, Entry& entry);

  std::map<Id, Entry> live_;
  Tombstones over_;
};

}  // namespace omnistage::transfer
