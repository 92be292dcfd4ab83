#include "capi/state/stage_graph.h"

#include <utility>

namespace omnistage::capi {
namespace {

Status broken(const std::string& what) {
  return Status(StatusCode::kProtocol, "the supervisor described an impossible pipeline: " + what);
}

const char* state_text(StageState state) {
  switch (state) {
    case StageState::kStarting:
      return "is starting";
    case StageState::kReady:
      return "is ready";
    case StageState::kDead:
      return "died and is being started again";
    case StageState::kFailed:
      return "failed for good";
    case StageState::kStopped:
      return "is stopped";
  }
  return "is in an unknown state";
}

}  // namespace

Result<StageGraph> StageGraph::create(std::vector<StageNode> stages) {
  if (stages.empty()) return broken("it has no stages");
  if (stages.size() > limits::kStagesMax) {
    return broken(std::to_string(stages.size()) + " stages, the limit is " +
                  std::to_string(limits::kStagesMax));
  }
  bool entry = false;
  for (size_t i = 0; i < stages.size(); ++i) {
    const StageNode& stage = stages[i];
    if (stage.index != i) return broken("stage numbers are not 0, 1, 2, ...");
    if (stage.name.empty() || stage.name.size() > limits::kNameBytesMax) {
      return broken("stage " + std::to_string(i) + " has no proper name");
    }
    for (uint32_t source : stage.sources) {
      if (source >= stages.size() || source == i) {
        return broken("stage " + std::to_string(i) + " has source " + std::to_string(source));
      }
    }
    entry = entry || stage.entry;
  }
  if (!entry) return broken("no stage takes requests");
  StageGraph graph;
  graph.stages_ = std::move(stages);
  if (graph.outputs() == 0) return broken("no stage sends anything to clients");
  return graph;
}

Status StageGraph::update(const StageNode& changed) {
  if (changed.index >= stages_.size()) {
    return Status(StatusCode::kProtocol, "the supervisor reported stage " +
                                             std::to_string(changed.index) + " of " +
                                             std::to_string(stages_.size()));
  }
  StageNode& stage = stages_[changed.index];
  stage.state = changed.state;
  stage.pid = changed.pid;
  stage.epoch = changed.epoch;
  stage.restarts = changed.restarts;
  stage.message = changed.message;
  return Status();
}

uint32_t StageGraph::outputs() const {
  uint32_t all = 0;
  for (const StageNode& stage : stages_) all |= stage.final_output;
  return all;
}

StageMask StageGraph::ends(uint32_t wanted) const {
  StageMask mask = 0;
  for (const StageNode& stage : stages_) {
    if ((stage.final_output & wanted) != 0) mask |= stage_bit(stage.index);
  }
  return mask;
}

StageMask StageGraph::needed(uint32_t wanted) const {
  StageMask mask = ends(wanted);
  // Each round adds at least one stage or is the last, so at most size() rounds.
  for (StageMask before = 0; before != mask;) {
    before = mask;
    for (const StageNode& stage : stages_) {
      if ((mask & stage_bit(stage.index)) == 0) continue;
      for (uint32_t source : stage.sources) mask |= stage_bit(source);
    }
  }
  return mask;
}

StageMask StageGraph::entries(StageMask among) const {
  StageMask mask = 0;
  for (const StageNode& stage : stages_) {
    if (stage.entry) mask |= stage_bit(stage.index) & among;
  }
  return mask;
}

Status StageGraph::ready(StageMask needed, int32_t& culprit) const {
  culprit = -1;
  for (const StageNode& stage : stages_) {
    if ((needed & stage_bit(stage.index)) == 0) continue;
    if (stage.state == StageState::kReady && (stage.linked || !stage.needs_link())) continue;
    culprit = static_cast<int32_t>(stage.index);
    std::string text = label(stage.index) + " ";
    text += stage.state == StageState::kReady ? "is being connected" : state_text(stage.state);
    if (!stage.message.empty()) text += ": " + stage.message;
    // An orderly stop means that the whole pipeline ends.
    const StatusCode code = stage.state == StageState::kFailed    ? StatusCode::kStageDied
                            : stage.state == StageState::kStopped ? StatusCode::kClosed
                                                                  : StatusCode::kBusy;
    return Status(code, std::move(text));
  }
  return Status();
}

std::string StageGraph::label(uint32_t index) const {
  return "stage " + std::to_string(index) + " (" +
         (index < stages_.size() ? stages_[index].name : "?") + ")";
}

}  // namespace omnistage::capi
