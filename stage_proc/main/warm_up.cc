#include "shm/base/clock.h"
#include "stage_proc/main/model_factory.h"

namespace omnistage {
namespace {

constexpr int kStepsMax = 64;  // a prompt of a few tokens needs two

class Discard final : public engine::StageSink {
 public:
  bool ready(const RequestKey&) override { return true; }
  void chunk(engine::StageChunk&&) override {}
  void output(engine::StageOutput&&) override {}
  void end(engine::StageEnd&& end) override {
    ended = true;
    status = std::move(end.status);
  }
  bool ended = false;
  Status status;
};

}  // namespace

Status warm_up(const config::StageConfig& stage, engine::StageCore& core) {
  if (!stage.input_sources.empty() || stage.family != "smollm2") return {};
  engine::RequestHeader header;
  header.key.client = UINT32_MAX;  // never given to a client
  header.modalities = engine::kModalityText;
  header.sampling.temperature = 0;
  header.sampling.max_tokens = 2;
  engine::EntryInput input;
  input.text = "Hello";
  OMS_RETURN_IF_ERROR(core.begin(std::move(header), std::move(input), monotonic_ns()));
  Discard sink;
  for (int i = 0; i < kStepsMax && !sink.ended; ++i) core.step(monotonic_ns(), sink);
  if (!sink.ended) return internal_error("the warm-up request did not end");
  return sink.status;
}

}  // namespace omnistage
