// OutputEvent: one thing a request has to say to its application. Made by the request table, held
// by a completion queue, then by the application. Immutable once delivered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shm/base/host_tensor.h"
#include "shm/base/status.h"

namespace omnistage::capi {

// Numbers of the wire and of OMS_KIND_*.
enum class OutputKind : uint8_t { kText = 0, kAudio = 1, kTensor = 2, kEvent = 3 };
constexpr size_t kStreamKinds = 3;
// The OMS_WANT_* bit of a kind.
constexpr uint32_t modality_bit(OutputKind kind) {
  return 1u << static_cast<uint32_t>(kind);
}

// Numbers of the wire and of OMS_FINISH_*.
enum class FinishReason : uint8_t { kNone = 0, kStop, kLength, kAbort, kError };

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;
  uint64_t audio_samples = 0;
};

struct OutputEvent {
  uint64_t request = 0;
  OutputKind kind = OutputKind::kEvent;
  uint64_t user_data = 0;
  uint64_t sequence = 0;
  uint64_t position = 0;
  bool final = false;
  bool first = false;   // of its kind
  bool copied = false;  // the tensor is a copy, not a view of the pool
  int32_t stage = -1;
  Status status;  // of a FINAL
  FinishReason reason = FinishReason::kNone;
  Usage usage;
  uint32_t sample_rate = 0;
  uint64_t seed = 0;
  int64_t t_submit_ns = 0;
  int64_t t_ready_ns = 0;
  std::string text;
  std::vector<int32_t> token_ids;
  std::optional<HostTensor> tensor;
};

// Where the events of a request go.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void deliver(OutputEvent event) = 0;
};

}  // namespace omnistage::capi
