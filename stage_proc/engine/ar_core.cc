#include "stage_proc/engine/ar_core.h"

#include <algorithm>
#include <string>

#include "shm/base/check.h"
#include "shm/base/limits.h"
#include "stage_proc/engine/text_emitter.h"
#include "stage_proc/sampling/params.h"

namespace omnistage::engine {

struct ArRequest {
  RequestHeader header;
  uint64_t order;               // of arrival
  std::vector<int32_t> tokens;  // prompt, then output
  int32_t prompt_tokens;
  int32_t computed = 0;  // tokens whose keys and values are in the cache
  bool running = false;
  bool blocked = false;  // the sink was asked in the last step and not ready
  cache::BlockTable blocks;
  sampling::Sampler sampler;
  TextEmitter emitter;

  int32_t remaining() const { return static_cast<int32_t>(tokens.size()) - computed; }
  Usage usage() const {
    Usage usage;
    usage.prompt_tokens = static_cast<uint32_t>(prompt_tokens);
    usage.output_tokens = static_cast<uint32_t>(emitter.tokens());
    return usage;
  }
};

namespace {

Status range_error(const char* field, int64_t low, int64_t high, int64_t value) {
  return invalid(std::string(field) + " must be in [" + std::to_string(low) + ", " +
                 std::to_string(high) + "], got " + std::to_string(value));
}

Status check_config(ArCoreConfig& c, const models::ArModelInfo& info) {
  if (c.max_num_seqs < 1 || c.max_num_seqs > ArCoreConfig::kMaxNumSeqsMax)
    return range_error("max_num_seqs", 1, ArCoreConfig::kMaxNumSeqsMax, c.max_num_seqs);
  if (c.max_num_batched_tokens < c.max_num_seqs)
    return invalid(
        "max_num_batched_tokens must be at least max_num_seqs = " + std::to_string(c.max_num_seqs) +
        ", got " + std::to_string(c.max_num_batched_tokens));
  if (c.max_waiting < 1 || c.max_waiting > ArCoreConfig::kMaxWaitingMax)
    return range_error("max_waiting", 1, ArCoreConfig::kMaxWaitingMax, c.max_waiting);
  if (c.max_model_len == 0) c.max_model_len = info.max_model_len;
  if (c.max_model_len < 2 || c.max_model_len > info.max_model_len)
    return range_error("max_model_len", 2, info.max_model_len, c.max_model_len);
  OMS_RETURN_IF_ERROR(cache::BlockPool::validate({.num_blocks = 1, .block_size = c.block_size}));
  const int64_t per_request =
      (static_cast<int64_t>(c.max_model_len) + c.block_size - 1) / c.block_size;
  if (c.num_blocks == 0)
    c.num_blocks = static_cast<int32_t>(
        std::min<int64_t>(per_request * c.max_num_seqs, cache::BlockPoolOptions::kNumBlocksMax));
  OMS_RETURN_IF_ERROR(
      cache::BlockPool::validate({.num_blocks = c.num_blocks, .block_size = c.block_size}));
  // Otherwise a single request could fill the pool and wait for itself.
  if (c.num_blocks < per_request)
    return invalid("num_blocks must be at least " + std::to_string(per_request) +
                   " so that one request of max_model_len = " + std::to_string(c.max_model_len) +
                   " fits, got " + std::to_string(c.num_blocks));
  return Status();
}

}  // namespace

Result<std::unique_ptr<ArCore>> ArCore::create(std::shared_ptr<models::ArModel> model,
                                               ArCoreConfig config) {
  OMS_RETURN_IF_ERROR(check_config(config, model->info()));
  OMS_RETURN_IF_ERROR(model->init_kv(config.num_blocks, config.block_size));
  if (!config.chunk_builder)
    config.chunk_builder = [] { return std::make_unique<transfer::ClauseChunkBuilder>(); };
  return std::unique_ptr<ArCore>(new ArCore(std::move(model), std::move(config)));
}

ArCore::ArCore(std::shared_ptr<models::ArModel> model, ArCoreConfig config)
    : model_(std::move(model)),
      config_(std::move(config)),
      pool_({.num_blocks = config_.num_blocks, .block_size = config_.block_size}) {}

ArCore::~ArCore() = default;

Result<std::vector<int32_t>> ArCore::make_prompt(const EntryInput& input) const {
  const int32_t vocab = model_->info().vocab_size;
  for (size_t i = 0; i < input.token_ids.size(); ++i)
    if (input.token_ids[i] < 0 || input.token_ids[i] >= vocab)
      return range_error(("token_ids[" + std::to_string(i) + "]").c_str(), 0, vocab - 1,
                         input.token_ids[i]);
  const size_t bytes = input.text.size() + input.system_prompt.size();
  if (bytes > limits::kTextInputBytesMax)
    return invalid("text must have at most " + std::to_string(limits::kTextInputBytesMax) +
                   " bytes with the system prompt, got " + std::to_string(bytes));
  if (input.token_ids.empty() && input.text.empty())
    return invalid("text must not be empty when there are no token_ids");
  std::vector<int32_t> prompt = input.token_ids.empty()
                                    ? model_->chat_prompt(input.system_prompt, input.text)
                                    : input.token_ids;
  if (prompt.empty()) return internal_error("the chat template gave an empty prompt");
  if (prompt.size() >= static_cast<size_t>(config_.max_model_len))
    return invalid("the prompt has " + std::to_string(prompt.size()) +
                   " tokens; with max_model_len = " + std::to_string(config_.max_model_len) +
                   " the limit is " + std::to_string(config_.max_model_len - 1));
  return prompt;
}

Status ArCore::begin(RequestHeader header, EntryInput input, int64_t /*now_ns*/) {
  const RequestKey key = header.key;
  if (requests_.contains(key)) return invalid("request " + to_string(key) + " is already live");
  if (over_.contains(key))
    return Status(StatusCode::kCancelled, "request " + to_string(key) + " is over already");
  OMS_RETURN_IF_ERROR(sampling::validate_sampling(header.sampling, model_->info().vocab_size));
  if (waiting_.size() >= static_cast<size_t>(config_.max_waiting))
    return full_status("the queue of waiting requests", static_cast<size_t>(config_.max_waiting));
  OMS_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, make_prompt(input));

  const models::ArModelInfo& info = model_->info();
  const int32_t prompt_tokens = static_cast<int32_t>(prompt.size());
  const int32_t max_tokens =
      std::min(header.sampling.max_tokens, config_.max_model_len - prompt_tokens);
  const bool downstream = config_.has_downstream && wants_downstream(header.modalities);
  sampling::Sampler sampler(header.sampling, prompt, info.eos_token_ids);
  TextEmitter emitter(header, info.eos_token_ids, max_tokens, model_->tokenizer(),
                      downstream ? config_.chunk_builder() : nullptr);
  auto request = std::make_unique<ArRequest>(
      ArRequest{std::move(header), next_order_++, std::move(prompt), prompt_tokens, 0, false, false,
                cache::BlockTable(pool_), std::move(sampler), std::move(emitter)});
  deadlines_.add(request->header);
  waiting_.emplace(request->order, request.get());
  requests_.emplace(key, std::move(request));
  return Status();
}

void ArCore::chunk(StageChunk chunk, int64_t /*now_ns*/) {
  if (chunk.number != 0 || over_.contains(chunk.key) || requests_.contains(chunk.key)) {
    ++late_chunks_;
    return;
  }
  over_.add(chunk.key);
  due_ends_.push_back(failed_end(
      chunk.key, Status(StatusCode::kUnsupported,
                        "an autoregressive stage takes requests from the client only, not chunks "
                        "of another stage")));
}

void ArCore::abort(const RequestKey& key) {
  std::erase_if(due_ends_, [&key](const StageEnd& end) { return end.key == key; });
  auto at = requests_.find(key);
  if (at == requests_.end())
    over_.add(key);
  else
    forget(*at->second);
}

bool ArCore::has_work() const {
  if (!due_ends_.empty()) return true;
  // A request that is not blocked can always do something: the oldest one gets the blocks it needs.
  for (const Queue* queue : {&running_, &waiting_})
    for (const auto& [order, request] : *queue)
      if (!request->blocked) return true;
  return false;
}

CoreStats ArCore::stats() const {
  CoreStats stats;
  stats.steps = steps_;
  stats.running = static_cast<uint32_t>(running_.size());
  stats.waiting = static_cast<uint32_t>(waiting_.size());
  for (const Queue* queue : {&running_, &waiting_})
    for (const auto& [order, request] : *queue) stats.blocked += request->blocked;
  stats.dropped_late_chunks = late_chunks_;
  stats.free_blocks = static_cast<uint32_t>(pool_.free());
  stats.total_blocks = static_cast<uint32_t>(pool_.total());
  return stats;
}

void ArCore::step(int64_t now_ns, StageSink& sink) {
  ++steps_;
  while (!due_ends_.empty()) {
    StageEnd end = std::move(due_ends_.front());
    due_ends_.pop_front();
    sink.end(std::move(end));
  }
  expire(now_ns, sink);
  plan(sink);
  if (!plan_.empty()) run(sink);
}

void ArCore::expire(int64_t now_ns, StageSink& sink) {
  while (std::optional<RequestKey> key = deadlines_.expired(now_ns)) {
    ArRequest& request = *requests_.at(*key);
    finish(request, FinishReason::kError,
           deadline_status(request.blocked   ? "waiting for its output to be read"
                           : request.running ? "being generated"
                                             : "waiting for its turn"),
           sink);
  }
}

void ArCore::plan(StageSink& sink) {
  plan_.clear();
  // Whoever is not asked in this step may have become ready: has_work() must not count on an old
  // answer.
  for (auto& [order, request] : waiting_) request->blocked = false;
  int32_t budget = config_.max_num_batched_tokens;
  // After a preemption the freed blocks belong to the running requests of this step.
  if (plan_running(sink, budget)) plan_waiting(sink, budget);
}

// False when somebody was preempted.
bool ArCore::plan_running(StageSink& sink, int32_t& budget) {
  const uint64_t preempted_before = preemptions_;
  eligible_.clear();
  for (auto& [order, request] : running_) {
    request->blocked = !sink.ready(request->header.key);
    if (!request->blocked && eligible_.size() < static_cast<size_t>(config_.max_num_seqs))
      eligible_.push_back(request);
  }
  for (ArRequest* request : eligible_) {
    if (!request->running || request->remaining() != 1) continue;
    if (!make_room(*request)) continue;
    plan_.push_back({request, 1});
    --budget;
  }
  for (ArRequest* request : eligible_) {
    if (!request->running || request->remaining() == 1) continue;
    const int32_t tokens = std::min(request->remaining(), budget);
    if (tokens == 0) break;
    plan_.push_back({request, tokens});
    budget -= tokens;
  }
  return preemptions_ == preempted_before;
}

void ArCore::plan_waiting(StageSink& sink, int32_t& budget) {
  size_t active = 0;
  for (const auto& [order, request] : running_) active += !request->blocked;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (active >= static_cast<size_t>(config_.max_num_seqs) || budget == 0) break;
    ArRequest& request = *at->second;
    request.blocked = !sink.ready(request.header.key);
    if (request.blocked) {
      ++at;
      continue;
    }
    if (!make_room_for_admission(request)) break;  // nobody overtakes
    at = waiting_.erase(at);
    running_.emplace(request.order, &request);
    request.running = true;
    ++active;
    const int32_t tokens = std::min(request.remaining(), budget);
    plan_.push_back({&request, tokens});
    budget -= tokens;
  }
}

// Blocks for all known tokens of a running request. False: it was preempted itself.
bool ArCore::make_room(ArRequest& request) {
  while (!request.blocks.grow_to(static_cast<int64_t>(request.tokens.size()))) {
    ArRequest* victim = pick_victim(request);
    preempt(*victim);
    if (victim == &request) return false;
  }
  return true;
}

// Requests in the plan are older than the requester or not blocked, so a victim is never one of
// them.
ArRequest* ArCore::pick_victim(const ArRequest& for_whom) {
  for (auto at = running_.rbegin(); at != running_.rend(); ++at)
    if (at->second->blocked) return at->second;
  OMS_CHECK(!running_.empty() && running_.rbegin()->first >= for_whom.order,
            "a running request is not in the running queue");
  return running_.rbegin()->second;
}

// A new request takes blocks only from the pool and from blocked requests, and from these only if
// that is enough.
bool ArCore::make_room_for_admission(ArRequest& request) {
  const int64_t tokens = static_cast<int64_t>(request.tokens.size());
  int64_t reachable = pool_.free();
  for (const auto& [order, other] : running_)
    if (other->blocked) reachable += static_cast<int64_t>(other->blocks.blocks().size());
  if (request.blocks.missing_for(tokens) > reachable) return false;
  while (!request.blocks.grow_to(tokens)) {
    ArRequest* victim = pick_victim(request);
    OMS_CHECK(victim->blocked, "admission may not stop a running request");
    preempt(*victim);
  }
  return true;
}

void ArCore::preempt(ArRequest& request) {
  ++preemptions_;
  request.blocks.clear();
  request.computed = 0;
  request.running = false;
  running_.erase(request.order);
  waiting_.emplace(request.order, &request);
}

void ArCore::run(StageSink& sink) {
  const size_t vocab = static_cast<size_t>(model_->info().vocab_size);
  size_t rows = 0;
  batch_.clear();
  for (const Planned& planned : plan_) {
    const ArRequest& request = *planned.request;
    models::ArSequence sequence;
    sequence.tokens =
        std::span(request.tokens)
            .subspan(static_cast<size_t>(request.computed), static_cast<size_t>(planned.tokens));
    sequence.start = request.computed;
    sequence.block_table = request.blocks.blocks();
    sequence.wants_logits = planned.tokens == request.remaining();
    rows += sequence.wants_logits;
    batch_.push_back(sequence);
  }
  logits_.resize(rows * vocab);
  Status status = model_->forward(batch_, logits_);
  size_t row = 0;
  for (size_t i = 0; i < plan_.size(); ++i) {
    ArRequest& request = *plan_[i].request;
    if (!status.ok()) {
      finish(request, FinishReason::kError, status, sink);
      continue;
    }
    request.computed += plan_[i].tokens;
    if (batch_[i].wants_logits)
      take_token(request, std::span(logits_).subspan(row++ * vocab, vocab), sink);
  }
}

void ArCore::take_token(ArRequest& request, std::span<float> logits, StageSink& sink) {
  Result<int32_t> token = request.sampler.sample(logits, request.emitter.tokens(), scratch_);
  if (!token.ok()) return finish(request, FinishReason::kError, token.status(), sink);
  request.tokens.push_back(*token);
  request.sampler.accept(*token);
  const FinishReason reason = request.emitter.push(*token, sink);
  if (reason != FinishReason::kNone) finish(request, reason, Status(), sink);
}

void ArCore::finish(ArRequest& request, FinishReason reason, Status status, StageSink& sink) {
  StageEnd end;
  end.key = request.header.key;
  end.reason = reason;
  end.status = std::move(status);
  end.usage = request.usage();
  forget(request);
  sink.end(std::move(end));
}

// The request object is gone afterwards.
void ArCore::forget(ArRequest& request) {
  const RequestKey key = request.header.key;
  deadlines_.remove(request.header);
  (request.running ? running_ : waiting_).erase(request.order);
  over_.add(key);
  requests_.erase(key);
}

}  // namespace omnistage::engine
