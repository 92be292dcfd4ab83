// StageCore: the pure heart of a stage. It knows no process, ring, socket or clock; the shell feeds
// it and drains it, the simulator does the same under a virtual clock. One thread at a time.
//
// Contract
// - begin() or chunk number 0 admits a request; each admitted request ends in exactly one
// sink.end(), after its
//   last chunk()/output(), unless it was removed by abort().
// - Before work is done for a request, sink.ready(key) is asked; false = BLOCKED_ON_OUTPUT: the
// request keeps its
//   state and is not scheduled until resume(key) or the next step after ready() turns true.
// - step() does one bounded piece of work (one model step); has_work() tells whether step() would
// do something now.
#pragma once

#include <cstdint>
#include <string>

#include "stage_proc/engine/request.h"

namespace omnistage::engine {

class StageSink {
 public:
  virtual ~StageSink() = default;
  // May this request produce one more step's worth of chunks and outputs?
  virtual bool ready(const RequestKey& key) = 0;
  virtual void chunk(StageChunk&& chunk) = 0;     // to the downstream stage(s)
  virtual void output(StageOutput&& output) = 0;  // to the client
  virtual void end(StageEnd&& end) = 0;
};

struct CoreStats {
  uint64_t steps = 0;
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint32_t blocked = 0;
  uint64_t dropped_late_chunks = 0;
  uint32_t free_blocks = 0;   // AR only
  uint32_t total_blocks = 0;  // AR only
};

class StageCore {
 public:
  virtual ~StageCore() = default;

  // Admits a request at an entry stage. An error (named field and limit) admits nothing; the caller
  // reports it.
  virtual Status begin(RequestHeader header, EntryInput input, int64_t now_ns) = 0;
  // Upstream data. Chunks of unknown or aborted requests are dropped and counted. A chunk that
  // breaks the contract (gap in numbers, missing header, second terminal) ends that request with an
  // error.
  virtual void chunk(StageChunk chunk, int64_t now_ns) = 0;
  // Removes the request at once, whatever its state; no end() follows. Idempotent; unknown keys are
  // remembered (bounded) so that a late chunk 0 cannot revive them.
  virtual void abort(const RequestKey& key) = 0;

  virtual bool has_work() const = 0;
  // Earliest deadline of any live request, kNever if none: the shell sleeps no longer.
  virtual int64_t next_deadline_ns() const = 0;
  // Expires deadlines, then does one model step for the requests that can run.
  virtual void step(int64_t now_ns, StageSink& sink) = 0;

  virtual CoreStats stats() const = 0;
  // Chunks of this request that chunk() took and no step has consumed yet; 0 for unknown requests.
  // The shell returns upstream's credit as this falls.
  virtual uint32_t queued_chunks(const RequestKey& key) const {
    (void)key;
    return 0;
  }
};

}  // namespace omnistage::engine
