// oms_pipeline_*.
#include "capi/abi/checks.h"
#include "capi/abi/handles.h"

namespace omnistage::capi {
namespace {

constexpr uint32_t kDefaultInflight = 256;
constexpr uint64_t kDefaultBorrowedBytes = 64ull << 20;
constexpr int64_t kDefaultConnectNs = 30 * 1'000'000'000ll;
constexpr int64_t kDefaultCloseNs = 15 * 1'000'000'000ll;

Result<PipelineOptions> read_options(const oms_pipeline_options* given) {
  oms_pipeline_options options{};
  OMS_RETURN_IF_ERROR(copy_in(given, options, "options"));
  if (options.max_inflight > limits::kRequestsPerClientMax) {
    return invalid("options.max_inflight is " + std::to_string(options.max_inflight) +
                   ", the limit is " + std::to_string(limits::kRequestsPerClientMax));
  }
  if (options.connect_timeout_ns < 0 || options.close_timeout_ns < 0) {
    return invalid("options: a timeout is negative");
  }
  PipelineOptions out;
  if (options.config_path != nullptr) out.config_path = options.config_path;
  if (options.bin_dir != nullptr) out.bin_dir = options.bin_dir;
  out.max_inflight = options.max_inflight != 0 ? options.max_inflight : kDefaultInflight;
  out.max_borrowed_bytes =
      options.max_borrowed_bytes != 0 ? options.max_borrowed_bytes : kDefaultBorrowedBytes;
  out.connect_timeout_ns =
      options.connect_timeout_ns != 0 ? options.connect_timeout_ns : kDefaultConnectNs;
  out.close_timeout_ns = options.close_timeout_ns != 0 ? options.close_timeout_ns : kDefaultCloseNs;
  return out;
}

oms_status hand_out(Result<std::shared_ptr<Pipeline>> made, oms_pipeline** out, oms_error* err) {
  if (!made.ok()) return report(err, made.status());
  auto handle = std::make_unique<oms_pipeline>();
  handle->pipeline = std::move(*made);
  *out = handle.release();
  return OMS_OK;
}

}  // namespace
}  // namespace omnistage::capi

using namespace omnistage;
using namespace omnistage::capi;

extern "C" {

void oms_pipeline_options_init(oms_pipeline_options* options, uint32_t struct_size) noexcept {
  oms_pipeline_options defaults{};
  defaults.max_inflight = kDefaultInflight;
  defaults.max_borrowed_bytes = kDefaultBorrowedBytes;
  defaults.connect_timeout_ns = kDefaultConnectNs;
  defaults.close_timeout_ns = kDefaultCloseNs;
  init_struct(options, struct_size, defaults);
}

oms_status oms_pipeline_launch(const oms_pipeline_options* options, oms_pipeline** out,
                               oms_error* err) noexcept {
  return guarded(err, [&]() -> oms_status {
    if (out == nullptr) return report(err, invalid("out is NULL"));
    *out = nullptr;
    Result<PipelineOptions> own = read_options(options);
    if (!own.ok()) return report(err, own.status());
    if (own->config_path.empty()) return report(err, invalid("options.config_path is not set"));
    return hand_out(Pipeline::launch(*own), out, err);
  });
}

oms_status oms_pipeline_attach(const char* run_dir, const oms_pipeline_options* options,
                               oms_pipeline** out, oms_error* err) noexcept {
  return guarded(err, [&]() -> oms_status {
    if (out == nullptr) return report(err, invalid("out is NULL"));
    *out = nullptr;
    if (run_dir == nullptr || *run_dir == '\0') return report(err, invalid("run_dir is not set"));
    Result<PipelineOptions> own = PipelineOptions();
    if (options != nullptr) own = read_options(options);
    if (!own.ok()) return report(err, own.status());
    return hand_out(Pipeline::attach(run_dir, *own), out, err);
  });
}

oms_status oms_pipeline_wait_ready(oms_pipeline* pipeline, int64_t timeout_ns,
                                   oms_error* err) noexcept {
  return guarded(err, [&]() -> oms_status {
    if (Status s = check_handle(pipeline, "pipeline"); !s.ok()) return report(err, s);
    int32_t culprit = -1;
    const Status ready = pipeline->pipeline->wait_ready(timeout_ns, culprit);
    return report(err, ready, culprit);
  });
}

oms_status oms_pipeline_describe(oms_pipeline* pipeline, char* buffer, size_t capacity,
                                 size_t* needed) noexcept {
  return guarded(nullptr, [&]() -> oms_status {
    if (Status s = check_handle(pipeline, "pipeline"); !s.ok()) return report(nullptr, s);
    if (buffer == nullptr && capacity != 0) return OMS_E_INVALID;
    const std::string text = pipeline->pipeline->describe();
    if (needed != nullptr) *needed = text.size() + 1;
    if (text.size() + 1 > capacity) return OMS_E_FULL;
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return OMS_OK;
  });
}

uint32_t oms_pipeline_stage_count(oms_pipeline* pipeline) noexcept {
  if (pipeline == nullptr || pipeline->pid != ::getpid()) return 0;
  return pipeline->pipeline->stage_count();
}

oms_status oms_pipeline_stage_info(oms_pipeline* pipeline, uint32_t index,
                                   oms_stage_info* info) noexcept {
  return guarded(nullptr, [&]() -> oms_status {
    if (Status s = check_handle(pipeline, "pipeline"); !s.ok()) return report(nullptr, s);
    if (index >= pipeline->pipeline->stage_count()) return OMS_E_NOT_FOUND;
    const StageNode stage = pipeline->pipeline->stage(index);
    oms_stage_info own{};
    own.state = static_cast<uint32_t>(stage.state);
    own.pid = stage.pid;
    own.epoch = stage.epoch;
    own.restarts = stage.restarts;
    own.entry = stage.entry ? 1 : 0;
    own.final_output = stage.final_output;
    copy_text(stage.name, own.name, sizeof(own.name));
    copy_text(stage.message, own.message, sizeof(own.message));
    return report(nullptr, copy_out(own, info, "info"));
  });
}

oms_status oms_pipeline_stats(oms_pipeline* pipeline, oms_stats* stats) noexcept {
  return guarded(nullptr, [&]() -> oms_status {
    if (Status s = check_handle(pipeline, "pipeline"); !s.ok()) return report(nullptr, s);
    const Pipeline::Stats now = pipeline->pipeline->stats();
    oms_stats own{};
    own.inflight = static_cast<uint32_t>(now.inflight);
    own.submitted = now.table.submitted;
    own.finished = now.table.finished;
    own.cancelled = now.table.cancelled;
    own.failed = now.table.failed;
    own.outputs = now.table.outputs;
    own.late_records = now.table.late_records;
    own.borrowed_bytes = now.borrowed_bytes;
    own.copied_bytes = now.copied_bytes;
    return report(nullptr, copy_out(own, stats, "stats"));
  });
}

void oms_pipeline_close(oms_pipeline* pipeline) noexcept {
  // A forked child leaks its copy: threads, rings and processes are the parent's.
  if (pipeline == nullptr || pipeline->pid != ::getpid()) return;
  guarded(nullptr, [&] {
    pipeline->pipeline->close();
    return OMS_OK;
  });
  delete pipeline;
}

}  // extern "C"
