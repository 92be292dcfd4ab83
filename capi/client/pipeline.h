// Pipeline: one connection to one running pipeline, behind oms_pipeline and the queues made from
// it.
//
// Threads: the application's threads call everything; two threads of its own (control and data, see
// there) do the input and output. close() must not overlap with other calls on the same handle,
// queues excepted.
#pragma once

#include <memory>
#include <string>

#include "capi/client/control_loop.h"
#include "capi/client/data_loop.h"

namespace omnistage::capi {

struct PipelineOptions {
  std::string config_path;
  std::string bin_dir;
  uint32_t max_inflight = 256;
  uint64_t max_borrowed_bytes = 64ull << 20;
  int64_t connect_timeout_ns = 30'000'000'000;
  int64_t close_timeout_ns = 15'000'000'000;
};

constexpr uint32_t kQueuesMax = 1024;

class Pipeline {
 public:
  static Result<std::shared_ptr<Pipeline>> launch(const PipelineOptions& options);
  static Result<std::shared_ptr<Pipeline>> attach(const std::string& run_dir,
                                                  const PipelineOptions& options);
  ~Pipeline() { close(); }

  // kTimeout, kStageDied (`culprit` = stage), kClosed.
  Status wait_ready(int64_t timeout_ns, int32_t& culprit);
  std::string describe();
  uint32_t stage_count() const { return stage_count_; }
  // REQUIRES: index < stage_count().
  StageNode stage(uint32_t index);
  struct Stats {
    TableStats table;
    uint64_t inflight = 0, borrowed_bytes = 0, copied_bytes = 0;
  };
  Stats stats();

  Status add_queue(std::shared_ptr<CompletionQueue> queue);
  void remove_queue(const std::shared_ptr<CompletionQueue>& queue);
  // After outputs were taken from a queue: their credits go back.
  void outputs_taken() { state_.ring(); }

  // The new request's number. `culprit`: the stage an error is about, or -1.
  Result<uint64_t> submit(const std::shared_ptr<CompletionQueue>& queue, SubmitData data,
                          int32_t& culprit);
  Status cancel(const std::shared_ptr<CompletionQueue>& queue, uint64_t request);
  // See oms_pipeline_close. Idempotent.
  void close();

 private:
  Pipeline(control::Welcome welcome, StageGraph graph, control::ControlSocket socket,
           std::unique_ptr<SupervisorProcess> supervisor, const PipelineOptions& options);
  static Result<std::shared_ptr<Pipeline>> open(control::ControlSocket socket,
                                                std::unique_ptr<SupervisorProcess> supervisor,
                                                const PipelineOptions& options);
  Result<uint64_t> submit_locked(const std::shared_ptr<CompletionQueue>& queue, SubmitData& data,
                                 int32_t& culprit);

  const PipelineOptions options_;
  const std::string name_;
  const std::string config_path_;
  const uint32_t stage_count_;
  SharedState state_;
  std::unique_ptr<SupervisorProcess> supervisor_;  // null: attached
  ControlLoop control_;
  DataLoop data_;
  bool closed_ = false;
};

}  // namespace omnistage::capi
