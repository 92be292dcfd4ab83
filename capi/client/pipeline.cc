#include "capi/client/pipeline.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>

#include "capi/client/handshake.h"
#include "shm/base/clock.h"
#include "shm/base/log.h"

namespace omnistage::capi {
namespace {

// Draws a seed for a request without one, so that it can be told and the answer repeated.
uint64_t draw_seed() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
    seed = static_cast<uint64_t>(monotonic_ns()) * 0x9E3779B97F4A7C15ull;
  }
  return seed;
}

constexpr uint64_t kSeedGiven = 1u << 7;

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

const char* state_name(StageState state) {
  switch (state) {
    case StageState::kStarting:
      return "starting";
    case StageState::kReady:
      return "ready";
    case StageState::kDead:
      return "dead";
    case StageState::kFailed:
      return "failed";
    case StageState::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string json_stage(const StageNode& stage) {
  std::string sources, outputs;
  for (uint32_t source : stage.sources) {
    sources += (sources.empty() ? "" : ",") + std::to_string(source);
  }
  constexpr const char* kNames[] = {"text", "audio", "tensor"};
  for (int bit = 0; bit < 3; ++bit) {
    if ((stage.final_output >> bit & 1) == 0) continue;
    outputs += (outputs.empty() ? "\"" : ",\"") + std::string(kNames[bit]) + "\"";
  }
  return "{\"index\":" + std::to_string(stage.index) + ",\"name\":" + json_string(stage.name) +
         ",\"state\":\"" + state_name(stage.state) + "\",\"pid\":" + std::to_string(stage.pid) +
         ",\"epoch\":" + std::to_string(stage.epoch) +
         ",\"restarts\":" + std::to_string(stage.restarts) +
         ",\"entry\":" + (stage.entry ? "true" : "false") + ",\"outputs\":[" + outputs +
         "],\"input_sources\":[" + sources + "],\"message\":" + json_string(stage.message) + "}";
}

}  // namespace

Pipeline::Pipeline(control::Welcome welcome, StageGraph graph, control::ControlSocket socket,
                   std::unique_ptr<SupervisorProcess> supervisor, const PipelineOptions& options)
    : options_(options),
      name_(std::move(welcome.pipeline)),
      config_path_(std::move(welcome.config_path)),
      stage_count_(static_cast<uint32_t>(graph.size())),
      state_(std::move(graph), welcome.client, options.max_inflight, options.max_borrowed_bytes),
      supervisor_(std::move(supervisor)),
      control_(state_, std::move(socket), supervisor_.get()),
      data_(state_) {}

Result<std::shared_ptr<Pipeline>> Pipeline::launch(const PipelineOptions& options) {
  OMS_ASSIGN_OR_RETURN(std::string program, find_supervisor(options.bin_dir));
  UniqueFd mine, theirs;
  OMS_RETURN_IF_ERROR(shm::make_socketpair(mine, theirs));
  OMS_ASSIGN_OR_RETURN(auto process,
                       SupervisorProcess::start(program, options.config_path, std::move(theirs)));
  return open(control::ControlSocket(std::move(mine)), std::move(process), options);
}

Result<std::shared_ptr<Pipeline>> Pipeline::attach(const std::string& run_dir,
                                                   const PipelineOptions& options) {
  OMS_ASSIGN_OR_RETURN(UniqueFd socket, connect_to(run_dir));
  return open(control::ControlSocket(std::move(socket)), nullptr, options);
}

Result<std::shared_ptr<Pipeline>> Pipeline::open(control::ControlSocket socket,
                                                 std::unique_ptr<SupervisorProcess> supervisor,
                                                 const PipelineOptions& options) {
  OMS_ASSIGN_OR_RETURN(control::Welcome welcome,
                       shake_hands(socket, supervisor.get(), options.connect_timeout_ns));
  OMS_ASSIGN_OR_RETURN(StageGraph graph, StageGraph::create(to_nodes(welcome)));
  std::shared_ptr<Pipeline> pipeline(new Pipeline(
      std::move(welcome), std::move(graph), std::move(socket), std::move(supervisor), options));
  OMS_RETURN_IF_ERROR(pipeline->control_.start());
  pipeline->data_.start();
  return pipeline;
}

Status Pipeline::wait_ready(int64_t timeout_ns, int32_t& culprit) {
  const StageMask all = static_cast<StageMask>((uint64_t{1} << stage_count_) - 1);
  const int64_t now = monotonic_ns();
  const bool for_ever = timeout_ns < 0 || timeout_ns > kNever - now;
  const auto until = std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(for_ever ? kNever : now + timeout_ns));
  std::unique_lock lock(state_.mutex);
  for (;;) {
    culprit = -1;
    if (!state_.closed.ok()) return state_.closed;
    Status ready = state_.graph.ready(all, culprit);
    if (ready.code() != StatusCode::kBusy) return ready;
    if (for_ever) {
      state_.changed.wait(lock);
    } else if (state_.changed.wait_until(lock, until) == std::cv_status::timeout &&
               monotonic_ns() >= now + timeout_ns) {
      return Status(StatusCode::kTimeout, ready.message());
    }
  }
}

std::string Pipeline::describe() {
  std::lock_guard lock(state_.mutex);
  std::string stages;
  for (uint32_t i = 0; i < stage_count_; ++i) {
    stages += (i == 0 ? "" : ",") + json_stage(state_.graph.at(i));
  }
  return "{\"pipeline\":" + json_string(name_) + ",\"config_path\":" + json_string(config_path_) +
         ",\"private\":" + (supervisor_ ? "true" : "false") +
         ",\"client\":" + std::to_string(state_.client) +
         ",\"max_inflight\":" + std::to_string(options_.max_inflight) +
         ",\"max_input_bytes\":" + std::to_string(limits::kTextInputBytesMax) + ",\"stages\":[" +
         stages + "]}";
}

StageNode Pipeline::stage(uint32_t index) {
  std::lock_guard lock(state_.mutex);
  return state_.graph.at(index);
}

Pipeline::Stats Pipeline::stats() {
  std::lock_guard lock(state_.mutex);
  return {state_.table.stats(), state_.table.inflight(), state_.account->borrowed.load(),
          state_.account->copied.load()};
}

Status Pipeline::add_queue(std::shared_ptr<CompletionQueue> queue) {
  std::lock_guard lock(state_.mutex);
  if (!state_.closed.ok()) return state_.closed;
  if (state_.queues.size() >= kQueuesMax) {
    return Status(StatusCode::kFull,
                  "the pipeline has " + std::to_string(kQueuesMax) + " queues already");
  }
  state_.queues.push_back(std::move(queue));
  return Status();
}

void Pipeline::remove_queue(const std::shared_ptr<CompletionQueue>& queue) {
  queue->close();
  std::lock_guard lock(state_.mutex);
  state_.table.cancel_sink(queue.get(), monotonic_ns());
  std::erase(state_.queues, queue);
}

Result<uint64_t> Pipeline::submit(const std::shared_ptr<CompletionQueue>& queue, SubmitData data,
                                  int32_t& culprit) {
  culprit = -1;
  if ((data.given & kSeedGiven) == 0) {
    data.given |= kSeedGiven;
    data.seed = draw_seed();
  }
  Result<uint64_t> id = [&] {
    std::lock_guard lock(state_.mutex);
    return submit_locked(queue, data, culprit);
  }();
  if (id.ok()) state_.ring();
  return id;
}

Result<uint64_t> Pipeline::submit_locked(const std::shared_ptr<CompletionQueue>& queue,
                                         SubmitData& data, int32_t& culprit) {
  if (!state_.closed.ok()) return state_.closed;
  const uint32_t possible = state_.graph.outputs();
  if (data.wanted == 0) data.wanted = possible;
  if ((data.wanted & ~possible) != 0) {
    return Status(StatusCode::kUnsupported, "outputs_wanted: this pipeline makes " +
                                                std::to_string(possible) + ", not " +
                                                std::to_string(data.wanted & ~possible));
  }
  RequestSpec spec;
  spec.sink = queue;
  spec.wanted = data.wanted;
  spec.ends = state_.graph.ends(data.wanted);
  spec.needed = state_.graph.needed(data.wanted);
  spec.user_data = data.user_data;
  spec.seed = data.seed;
  spec.credit = data.credit;
  spec.submit_ns = monotonic_ns();
  const bool endless = data.deadline_ns == 0 || data.deadline_ns > kNever - spec.submit_ns - 1;
  spec.deadline_ns = endless ? 0 : spec.submit_ns + data.deadline_ns;
  OMS_RETURN_IF_ERROR(state_.graph.ready(spec.needed, culprit));
  const int64_t deadline = spec.deadline_ns;
  const StageMask entries = state_.graph.entries(spec.needed);
  // The size does not depend on the number the request will get.
  if (const size_t size = make_submit(state_.key(0), data, deadline).size();
      size > limits::kRecordBytesMax) {
    return invalid("the request needs " + std::to_string(size) + " bytes, the limit is " +
                   std::to_string(limits::kRecordBytesMax));
  }
  OMS_RETURN_IF_ERROR(queue->reserve());
  Result<uint64_t> id = state_.table.add(std::move(spec));
  if (!id.ok()) {
    queue->unreserve();
    return id;
  }
  const Bytes record = make_submit(state_.key(*id), data, deadline);
  for (uint32_t i = 0; i < stage_count_; ++i) {
    if ((entries & stage_bit(i)) != 0) state_.outbox[i].submits.push_back({*id, record});
  }
  return id;
}

Status Pipeline::cancel(const std::shared_ptr<CompletionQueue>& queue, uint64_t request) {
  std::lock_guard lock(state_.mutex);
  return state_.table.cancel(request, queue.get(), monotonic_ns());
}

void Pipeline::close() {
  if (std::exchange(closed_, true)) return;
  {
    std::lock_guard lock(state_.mutex);
    state_.table.end_all(Status(StatusCode::kCancelled, "the pipeline was closed"), monotonic_ns());
    if (state_.closed.ok()) state_.closed = Status(StatusCode::kClosed, "the pipeline is closed");
    for (const auto& queue : state_.queues) queue->close();
    state_.queues.clear();
    state_.stopping = true;
    state_.changed.notify_all();
  }
  state_.ring();
  data_.join();
  control_.stop(supervisor_ != nullptr);
  if (supervisor_ && !supervisor_->wait_end(options_.close_timeout_ns)) {
    OMS_LOG(kError, "capi", "the supervisor did not end in time and is killed");
    supervisor_->kill();
    supervisor_->wait_end(10 * kSecond);
  }
}

}  // namespace omnistage::capi
