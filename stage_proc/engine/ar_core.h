// ArCore: the engine of an autoregressive stage. Continuous batching with chunked prefill over a
// paged KV pool.
//
// One step: requests that decode get one token each, oldest first; the rest of the token budget
// goes to prompts, oldest first; then waiting requests are admitted in order of arrival, each with
// all the blocks of its known tokens. When a request needs a block and none is free, a victim gives
// its blocks up: the newest blocked request, else the newest running one that is younger (perhaps
// the requester itself). A victim goes back to its place in the waiting queue, keeps its tokens and
// is recomputed later; nothing is emitted twice. The oldest request that can run always does, so
// none starves.
//
// A request whose sink is not ready keeps its blocks while nobody needs them and does not count
// against max_num_seqs: a client that does not read delays only itself. After resuming more than
// max_num_seqs at once, the oldest max_num_seqs run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/kv/block_pool.h"
#include "stage_proc/engine/admission.h"
#include "stage_proc/engine/stage_core.h"
#include "stage_proc/models/ar_model.h"
#include "stage_proc/sampling/sampler.h"
#include "stage_proc/transfer/chunk_adapter.h"
#include "stage_proc/transfer/chunk_builder.h"

namespace omnistage::engine {

using ChunkBuilderFactory = std::function<std::unique_ptr<transfer::ChunkBuilder>()>;

struct ArCoreConfig {
  static constexpr int32_t kMaxNumSeqsMax = 1024;
  static constexpr int32_t kMaxWaitingMax = 1 << 16;

  int32_t max_num_seqs = 8;              // requests that run at the same time
  int32_t max_num_batched_tokens = 512;  // per step; at least max_num_seqs
  int32_t max_model_len = 0;             // prompt and output; 0 = the model's
  int32_t block_size = 16;
  int32_t num_blocks = 0;  // 0 = enough for max_num_seqs requests of max_model_len
  int32_t max_waiting = 1024;
  bool has_downstream = false;
  ChunkBuilderFactory chunk_builder;  // empty = ClauseChunkBuilder
};

struct ArRequest;

class ArCore final : public StageCore {
 public:
  // Checks the configuration (INVALID names field and limit) and allocates the model's KV storage.
  static Result<std::unique_ptr<ArCore>> create(std::shared_ptr<models::ArModel> model,
                                                ArCoreConfig config);
  ~ArCore() override;

  Status begin(RequestHeader header, EntryInput input, int64_t now_ns) override;
  // An AR stage is an entry stage: a request that comes as a chunk ends with UNSUPPORTED.
  void chunk(StageChunk chunk, int64_t now_ns) override;
  void abort(const RequestKey& key) override;

  bool has_work() const override;
  int64_t next_deadline_ns() const override { return deadlines_.next(); }
  void step(int64_t now_ns, StageSink& sink) override;
  CoreStats stats() const override;

  const ArCoreConfig& config() const { return config_; }
  uint64_t preemptions() const { return preemptions_; }
  const cache::BlockPool& pool() const { return pool_; }

 private:
  struct Planned {
    ArRequest* request;
    int32_t tokens;
  };
  using Queue = std::map<uint64_t, ArRequest*>;  // by order of arrival

  ArCore(std::shared_ptr<models::ArModel> model, ArCoreConfig config);

  Result<std::vector<int32_t>> make_prompt(const EntryInput& input) const;
  void expire(int64_t now_ns, StageSink& sink);
  void plan(StageSink& sink);
  bool plan_running(StageSink& sink, int32_t& budget);
  void plan_waiting(StageSink& sink, int32_t& budget);
  bool make_room(ArRequest& request);
  bool make_room_for_admission(ArRequest& request);
  ArRequest* pick_victim(const ArRequest& for_whom);
  void preempt(ArRequest& request);
  void run(StageSink& sink);
  void take_token(ArRequest& request, std::span<float> logits, StageSink& sink);
  void finish(ArRequest& request, FinishReason reason, Status status, StageSink& sink);
  void forget(ArRequest& request);

  std::shared_ptr<models::ArModel> model_;
  ArCoreConfig config_;
  cache::BlockPool pool_;
  std::unordered_map<RequestKey, std::unique_ptr<ArRequest>, RequestKeyHash> requests_;
  Queue running_, waiting_;
  uint64_t next_order_ = 0;
  DeadlineIndex deadlines_;
  transfer::Tombstones over_;
  std::deque<StageEnd> due_ends_;

  std::vector<Planned> plan_;
  std::vector<ArRequest*> eligible_;
  std::vector<models::ArSequence> batch_;
  std::vector<float> logits_;
  sampling::SamplerScratch scratch_;

  uint64_t steps_ = 0, preemptions_ = 0, late_chunks_ = 0;
};

}  // namespace omnistage::engine
