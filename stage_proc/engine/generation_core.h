// GenerationCore: the engine of a stage whose model turns chunks of input into chunks of output
// (text to frames, frames to audio) through one stream object per request.
//
// A request first waits for a slot, in order of arrival; a slot is an open stream of the model and
// stays with the request until it ends. In one step each open stream that can work makes one stream
// step, so long requests do not hold up short ones. A stream gets its next input chunk only when it
// has finished with the one before: the calls a stream sees depend on its chunks alone, never on
// when they came or on who else is there.
//
// A request whose sink is not ready keeps its stream but does not count against max_num_seqs (there
// may be max_open_streams in all): a client that does not read delays only itself.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "stage_proc/engine/admission.h"
#include "stage_proc/engine/stage_core.h"
#include "stage_proc/models/generation_model.h"
#include "stage_proc/transfer/chunk_adapter.h"

namespace omnistage::engine {

struct GenerationCoreConfig {
  static constexpr int32_t kMaxNumSeqsMax = 1024;
  static constexpr int32_t kMaxWaitingMax = 1 << 16;
  static constexpr int32_t kMaxQueuedChunksMax = 1 << 16;

  int32_t max_num_seqs = 8;
  int32_t max_open_streams = 0;  // 0 = 4 * max_num_seqs; at least max_num_seqs
  int32_t max_waiting = 1024;
  // Input chunks of one request that are not taken by its stream yet; one more ends the request.
  // The shell keeps upstream below it with queued_chunks().
  int32_t max_queued_chunks = 4096;
  bool has_downstream = false;
};

struct GenerationRequest;

class GenerationCore final : public StageCore {
 public:
  // INVALID names field and limit. `allocator` must outlive the core.
  static Result<std::unique_ptr<GenerationCore>> create(
      std::shared_ptr<models::GenerationModel> model, TensorAllocator& allocator,
      GenerationCoreConfig config);
  ~GenerationCore() override;

  // The input becomes one payload, the only one of the request: "text" (string), or "token_ids"
  // (integers) when there are any; "system_prompt" (string) if not empty.
  Status begin(RequestHeader header, EntryInput input, int64_t now_ns) override;
  void chunk(StageChunk chunk, int64_t now_ns) override;
  void abort(const RequestKey& key) override;

  bool has_work() const override;
  int64_t next_deadline_ns() const override { return deadlines_.next(); }
  void step(int64_t now_ns, StageSink& sink) override;
  CoreStats stats() const override;
  uint32_t queued_chunks(const RequestKey& key) const override;

  const GenerationCoreConfig& config() const { return config_; }

 private:
  using Queue = std::map<uint64_t, GenerationRequest*>;  // by order of arrival

  GenerationCore(std::shared_ptr<models::GenerationModel> model, TensorAllocator& allocator,
                 GenerationCoreConfig config);

  GenerationRequest& admit(RequestHeader header);
  Status enqueue(GenerationRequest& request, Payload payload, bool last);
  void fail_later(const RequestKey& key, Status status);
  void flush_due_ends(StageSink& sink);
  void expire(int64_t now_ns, StageSink& sink);
  void open_streams(StageSink& sink);
  size_t slots_in_use() const;
  void run_stream(GenerationRequest& request, StageSink& sink);
  Status feed(GenerationRequest& request);
  void emit(GenerationRequest& request, models::StreamStep& step, bool last, StageSink& sink);
  void finish(GenerationRequest& request, FinishReason reason, Status status, StageSink& sink);
  void forget(GenerationRequest& request);

  std::shared_ptr<models::GenerationModel> model_;
  TensorAllocator& allocator_;
  GenerationCoreConfig config_;
  std::unordered_map<RequestKey, std::unique_ptr<GenerationRequest>, RequestKeyHash> requests_;
  Queue open_, waiting_;
  uint64_t next_order_ = 0;
  DeadlineIndex deadlines_;
  transfer::ChunkReceiver receiver_;
  std::deque<StageEnd> due_ends_;
  uint64_t steps_ = 0, late_chunks_ = 0;
};

}  // namespace omnistage::engine
