// StageGraph: what the client knows of the stages of its pipeline: who feeds whom, who is ready,
// and which stages a request needs. Plain values; guarded by whoever owns it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/base/limits.h"
#include "shm/base/status.h"

namespace omnistage::capi {

// Bit i = stage i. limits::kStagesMax fits.
using StageMask = uint32_t;
constexpr StageMask stage_bit(uint32_t index) {
  return StageMask{1} << index;
}

// Numbers of the wire and of OMS_STAGE_*.
enum class StageState : uint8_t { kStarting = 0, kReady, kDead, kFailed, kStopped };

struct StageNode {
  uint32_t index = 0;
  std::string name;
  StageState state = StageState::kStarting;
  int32_t pid = 0;
  uint32_t epoch = 0;
  uint32_t restarts = 0;
  bool entry = false;
  uint32_t final_output = 0;      // modality bits
  std::vector<uint32_t> sources;  // stage indices
  std::string message;            // why it died or failed
  bool linked = false;            // the client's link to this incarnation stands

  // Clients talk to entry stages and to stages with a final output only.
  bool needs_link() const { return entry || final_output != 0; }
};

class StageGraph {
 public:
  StageGraph() = default;
  // Errors: kProtocol when the indices, names or sources do not make a graph within the limits.
  static Result<StageGraph> create(std::vector<StageNode> stages);

  size_t size() const { return stages_.size(); }
  const StageNode& at(uint32_t index) const { return stages_[index]; }
  // Takes state, pid, epoch, restarts and message of `changed`; the shape stays. kProtocol: no such
  // stage.
  Status update(const StageNode& changed);
  void set_linked(uint32_t index, bool linked) { stages_[index].linked = linked; }

  // Modalities some stage can send to a client.
  uint32_t outputs() const;
  // Final-output stages whose outputs are wanted: those that have to say StageEnd.
  StageMask ends(uint32_t wanted) const;
  // All stages that work on such a request: `ends` and everything upstream of them.
  StageMask needed(uint32_t wanted) const;
  StageMask entries(StageMask among) const;

  // OK when all of `needed` take requests; else kBusy, kStageDied or kClosed naming the first that
  // does not, whose index goes to `culprit`.
  Status ready(StageMask needed, int32_t& culprit) const;
  // "stage 1 (talker)"
  std::string label(uint32_t index) const;

 private:
  std::vector<StageNode> stages_;
};

}  // namespace omnistage::capi
