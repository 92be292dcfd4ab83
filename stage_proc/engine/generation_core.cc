#include "stage_proc/engine/generation_core.h"

#include <array>
#include <utility>
#include <vector>

#include "shm/base/limits.h"
#include "stage_proc/engine/text_emitter.h"

namespace omnistage::engine {

struct GenerationRequest {
  struct Input {
    Payload payload;
    bool last = false;
  };

  GenerationRequest(RequestHeader request_header, uint64_t arrival)
      : header(std::move(request_header)), order(arrival), sender(header) {}

  RequestHeader header;
  uint64_t order;
  transfer::ChunkSender sender;
  std::deque<Input> inputs;
  std::unique_ptr<models::GenerationStream> stream;  // null while waiting for a slot
  bool fed_last = false;                             // the stream has seen the end of its input
  bool more = false;                                 // the stream has work without further input
  bool blocked = false;                              // the sink was not ready when last asked
  std::array<uint64_t, 3> positions{};               // per OutputKind
  uint64_t audio_samples = 0;
  uint32_t output_tokens = 0;

  bool can_work() const { return more || !inputs.empty(); }
};

namespace {

Status range_error(const char* field, int64_t low, int64_t high, int64_t value) {
  return invalid(std::string(field) + " must be in [" + std::to_string(low) + ", " +
                 std::to_string(high) + "], got " + std::to_string(value));
}

Status check_config(GenerationCoreConfig& c) {
  using C = GenerationCoreConfig;
  if (c.max_num_seqs < 1 || c.max_num_seqs > C::kMaxNumSeqsMax)
    return range_error("max_num_seqs", 1, C::kMaxNumSeqsMax, c.max_num_seqs);
  if (c.max_open_streams == 0) c.max_open_streams = 4 * c.max_num_seqs;
  if (c.max_open_streams < c.max_num_seqs || c.max_open_streams > 4 * C::kMaxNumSeqsMax)
    return range_error("max_open_streams", c.max_num_seqs, 4 * C::kMaxNumSeqsMax,
                       c.max_open_streams);
  if (c.max_waiting < 1 || c.max_waiting > C::kMaxWaitingMax)
    return range_error("max_waiting", 1, C::kMaxWaitingMax, c.max_waiting);
  if (c.max_queued_chunks < 1 || c.max_queued_chunks > C::kMaxQueuedChunksMax)
    return range_error("max_queued_chunks", 1, C::kMaxQueuedChunksMax, c.max_queued_chunks);
  return Status();
}

uint32_t modality_of(OutputKind kind) {
  switch (kind) {
    case OutputKind::kText:
      return kModalityText;
    case OutputKind::kAudio:
      return kModalityAudio;
    default:
      return kModalityTensor;
  }
}

// How far an output moves the position of its kind.
uint64_t extent(const StageOutput& output) {
  return output.kind == OutputKind::kText ? output.token_ids.size() : output.tensor.elements();
}

}  // namespace

Result<std::unique_ptr<GenerationCore>> GenerationCore::create(
    std::shared_ptr<models::GenerationModel> model, TensorAllocator& allocator,
    GenerationCoreConfig config) {
  OMS_RETURN_IF_ERROR(check_config(config));
  return std::unique_ptr<GenerationCore>(new GenerationCore(std::move(model), allocator, config));
}

GenerationCore::GenerationCore(std::shared_ptr<models::GenerationModel> model,
                               TensorAllocator& allocator, GenerationCoreConfig config)
    : model_(std::move(model)), allocator_(allocator), config_(config) {}

GenerationCore::~GenerationCore() = default;

GenerationRequest& GenerationCore::admit(RequestHeader header) {
  const RequestKey key = header.key;
  auto request = std::make_unique<GenerationRequest>(std::move(header), next_order_++);
  GenerationRequest& result = *request;
  deadlines_.add(result.header);
  waiting_.emplace(result.order, &result);
  requests_.emplace(key, std::move(request));
  return result;
}

Status GenerationCore::begin(RequestHeader header, EntryInput input, int64_t /*now_ns*/) {
  const RequestKey key = header.key;
  if (requests_.contains(key)) return invalid("request " + to_string(key) + " is already live");
  if (receiver_.is_closed(key))
    return Status(StatusCode::kCancelled, "request " + to_string(key) + " is over already");
  if (input.text.empty() && input.token_ids.empty())
    return invalid("text must not be empty when there are no token_ids");
  const size_t bytes = input.text.size() + input.system_prompt.size();
  if (bytes > limits::kTextInputBytesMax)
    return invalid("text must have at most " + std::to_string(limits::kTextInputBytesMax) +
                   " bytes with the system prompt, got " + std::to_string(bytes));
  if (waiting_.size() >= static_cast<size_t>(config_.max_waiting))
    return full_status("the queue of waiting requests", static_cast<size_t>(config_.max_waiting));
  Payload payload;
  if (!input.token_ids.empty())
    payload["token_ids"] = std::vector<int64_t>(input.token_ids.begin(), input.token_ids.end());
  else
    payload["text"] = std::move(input.text);
  if (!input.system_prompt.empty()) payload["system_prompt"] = std::move(input.system_prompt);
  return enqueue(admit(std::move(header)), std::move(payload), true);
}

void GenerationCore::chunk(StageChunk chunk, int64_t /*now_ns*/) {
  transfer::ChunkCheck check = receiver_.check(chunk);
  if (check.superseded)
    fail_later(*check.superseded,
               Status(StatusCode::kCancelled, "replaced by generation " +
                                                  std::to_string(chunk.key.generation) +
                                                  " of the same request"));
  switch (check.verdict) {
    case transfer::ChunkVerdict::kLate:
      ++late_chunks_;
      return;
    case transfer::ChunkVerdict::kViolation:
      return fail_later(chunk.key, std::move(check.status));
    case transfer::ChunkVerdict::kFirst:
      if (requests_.contains(chunk.key))
        return fail_later(
            chunk.key, Status(StatusCode::kProtocol, "request " + to_string(chunk.key) +
                                                         " came from the client and from a stage"));
      if (waiting_.size() >= static_cast<size_t>(config_.max_waiting))
        return fail_later(chunk.key, full_status("the queue of waiting requests",
                                                 static_cast<size_t>(config_.max_waiting)));
      admit(std::move(*chunk.header));
      break;
    case transfer::ChunkVerdict::kNext:
      break;
  }
  auto at = requests_.find(chunk.key);
  if (at == requests_.end()) {  // a request that came through begin() has no upstream
    ++late_chunks_;
    return;
  }
  Status status = enqueue(*at->second, std::move(chunk.payload), chunk.finished);
  if (!status.ok()) fail_later(chunk.key, std::move(status));
}

Status GenerationCore::enqueue(GenerationRequest& request, Payload payload, bool last) {
  // An empty chunk in the middle only counts; at the end it is the news that nothing else comes.
  if (payload.empty() && !last) return Status();
  if (request.inputs.size() >= static_cast<size_t>(config_.max_queued_chunks))
    return full_status("the input queue of request " + to_string(request.header.key),
                       static_cast<size_t>(config_.max_queued_chunks));
  request.inputs.push_back({std::move(payload), last});
  return Status();
}

// For errors found outside step(), where there is no sink.
void GenerationCore::fail_later(const RequestKey& key, Status status) {
  auto at = requests_.find(key);
  Usage usage;
  if (at != requests_.end()) {
    usage.audio_samples = at->second->audio_samples;
    usage.output_tokens = at->second->output_tokens;
    forget(*at->second);
  }
  receiver_.close(key);
  due_ends_.push_back(failed_end(key, std::move(status), usage));
}

void GenerationCore::abort(const RequestKey& key) {
  std::erase_if(due_ends_, [&key](const StageEnd& end) { return end.key == key; });
  auto at = requests_.find(key);
  if (at != requests_.end()) forget(*at->second);
  receiver_.close(key);
}

size_t GenerationCore::slots_in_use() const {
  size_t count = 0;
  for (const auto& [order, request] : open_) count += !request->blocked;
  return count;
}

bool GenerationCore::has_work() const {
  if (!due_ends_.empty()) return true;
  for (const auto& [order, request] : open_)
    if (!request->blocked && request->can_work()) return true;
  return !waiting_.empty() && open_.size() < static_cast<size_t>(config_.max_open_streams) &&
         slots_in_use() < static_cast<size_t>(config_.max_num_seqs);
}

CoreStats GenerationCore::stats() const {
  CoreStats stats;
  stats.steps = steps_;
  stats.running = static_cast<uint32_t>(open_.size());
  stats.waiting = static_cast<uint32_t>(waiting_.size());
  for (const auto& [order, request] : open_) stats.blocked += request->blocked;
  stats.dropped_late_chunks = late_chunks_;
  return stats;
}

uint32_t GenerationCore::queued_chunks(const RequestKey& key) const {
  auto at = requests_.find(key);
  return at == requests_.end() ? 0 : static_cast<uint32_t>(at->second->inputs.size());
}

void GenerationCore::step(int64_t now_ns, StageSink& sink) {
  ++steps_;
  flush_due_ends(sink);
  expire(now_ns, sink);
  open_streams(sink);
  for (auto at = open_.begin(); at != open_.end();) {
    GenerationRequest& request = *(at++)->second;  // run_stream may end it
    if (!request.can_work()) {
      request.blocked = false;  // idle; asked again when there is something to do
      continue;
    }
    request.blocked = !sink.ready(request.header.key);
    if (!request.blocked) run_stream(request, sink);
  }
}

void GenerationCore::flush_due_ends(StageSink& sink) {
  while (!due_ends_.empty()) {
    StageEnd end = std::move(due_ends_.front());
    due_ends_.pop_front();
    sink.end(std::move(end));
  }
}

void GenerationCore::expire(int64_t now_ns, StageSink& sink) {
  while (std::optional<RequestKey> key = deadlines_.expired(now_ns)) {
    GenerationRequest& request = *requests_.at(*key);
    const char* where = request.blocked             ? "waiting for its output to be read"
                        : request.stream == nullptr ? "waiting for its turn"
                        : request.can_work()        ? "being generated"
                                                    : "waiting for the stage before this one";
    finish(request, FinishReason::kError, deadline_status(where), sink);
  }
}

void GenerationCore::open_streams(StageSink& sink) {
  size_t in_use = slots_in_use();
  while (!waiting_.empty() && in_use < static_cast<size_t>(config_.max_num_seqs) &&
         open_.size() < static_cast<size_t>(config_.max_open_streams)) {
    GenerationRequest& request = *waiting_.begin()->second;
    Result<std::unique_ptr<models::GenerationStream>> stream = model_->open(request.header);
    if (!stream.ok()) {
      finish(request, FinishReason::kError, stream.status(), sink);
      continue;
    }
    waiting_.erase(waiting_.begin());
    request.stream = std::move(*stream);
    open_.emplace(request.order, &request);
    ++in_use;
  }
}

Status GenerationCore::feed(GenerationRequest& request) {
  GenerationRequest::Input input = std::move(request.inputs.front());
  request.inputs.pop_front();
  request.fed_last = input.last;
  return request.stream->push(input.payload, input.last);
}

void GenerationCore::run_stream(GenerationRequest& request, StageSink& sink) {
  if (!request.more) {
    Status status = feed(request);
    if (!status.ok()) return finish(request, FinishReason::kError, std::move(status), sink);
  }
  Result<models::StreamStep> step = request.stream->step(allocator_);
  if (!step.ok()) return finish(request, FinishReason::kError, step.status(), sink);
  request.more = step->more;
  const bool last = request.fed_last && !request.more;
  emit(request, *step, last, sink);
  if (last) finish(request, FinishReason::kStop, Status(), sink);
}

void GenerationCore::emit(GenerationRequest& request, models::StreamStep& step, bool last,
                          StageSink& sink) {
  for (StageOutput& output : step.outputs) {
    const size_t kind = static_cast<size_t>(output.kind);
    output.key = request.header.key;
    output.position = request.positions[kind];
    request.positions[kind] += extent(output);
    if (output.kind == OutputKind::kAudio) request.audio_samples += extent(output);
    if (output.kind == OutputKind::kText)
      request.output_tokens += static_cast<uint32_t>(extent(output));
    if (request.header.modalities & modality_of(output.kind)) sink.output(std::move(output));
  }
  if (!config_.has_downstream || !wants_downstream(request.header.modalities)) return;
  for (size_t i = 0; i < step.chunks.size(); ++i)
    sink.chunk(request.sender.make(std::move(step.chunks[i]), last && i + 1 == step.chunks.size()));
  if (last && step.chunks.empty()) sink.chunk(request.sender.make({}, true));
}

void GenerationCore::finish(GenerationRequest& request, FinishReason reason, Status status,
                            StageSink& sink) {
  StageEnd end;
  end.key = request.header.key;
  end.reason = reason;
  end.status = std::move(status);
  end.usage.audio_samples = request.audio_samples;
  end.usage.output_tokens = request.output_tokens;
  forget(request);
  sink.end(std::move(end));
}

// The request object is gone afterwards.
void GenerationCore::forget(GenerationRequest& request) {
  const RequestKey key = request.header.key;
  deadlines_.remove(request.header);
  (request.stream ? open_ : waiting_).erase(request.order);
  receiver_.close(key);
  requests_.erase(key);
}

}  // namespace omnistage::engine
