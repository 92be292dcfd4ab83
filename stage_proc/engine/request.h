// What a stage knows of a request, and what a stage says about it. Plain values, moved between the
// shell (rings, sockets) and the pure engine cores; neither side sees the other's types.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shm/base/host_tensor.h"
#include "shm/base/ids.h"
#include "shm/base/status.h"

namespace omnistage::engine {

// Sampling parameters of one AR stage (names, defaults and ranges: vLLM's vocabulary). Checked once
// by validate_sampling() (stage_proc/sampling) when the request enters.
struct SamplingParams {
  double temperature = 1.0;  // 0 = greedy
  int32_t top_k = 0;         // 0 or -1: off
  double top_p = 1.0;        // (0, 1]
  double min_p = 0.0;        // [0, 1]
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  uint64_t seed = 0;         // always set: the client library draws one when the caller gave none
  int32_t max_tokens = 256;  // >= 1
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
};

enum Modality : uint32_t { kModalityText = 1, kModalityAudio = 2, kModalityTensor = 4 };

// Travels with the first chunk through the whole graph, so that every stage knows deadline and
// parameters.
struct RequestHeader {
  RequestKey key;
  uint32_t modalities = kModalityText | kModalityAudio;  // outputs the client wants
  int64_t deadline_ns = 0;                               // CLOCK_MONOTONIC; 0 = none
  int32_t priority = 0;
  SamplingParams sampling;
  std::map<std::string, std::string>
      extra;  // "voice", "speed", ...: checked by the model that reads it
};

// Typed input of an entry stage.
struct EntryInput {
  std::string system_prompt;       // empty: the model's default
  std::string text;                // user text (chat) when token_ids is empty
  std::vector<int32_t> token_ids;  // raw prompt, no template
};

using PayloadValue = std::variant<HostTensor, int64_t, double, std::string, std::vector<int64_t>,
                                  std::vector<std::string>>;
// Dotted keys as in the reference ("codes.audio", "meta.finished"). "No payload" is an absent
// chunk; an empty map is a chunk without entries. The two are different things.
using Payload = std::map<std::string, PayloadValue>;

// One hand-over between two stages. Numbers count from 0 per request generation; exactly one chunk
// of a generation has `finished`.
struct StageChunk {
  RequestKey key;
  uint32_t number = 0;
  bool finished = false;
  std::optional<RequestHeader> header;  // present exactly when number == 0
  Payload payload;
};

enum class OutputKind : uint8_t { kText = 0, kAudio = 1, kTensor = 2 };

// One client-visible piece. `position` counts tokens (text) or samples (audio) before this piece.
struct StageOutput {
  RequestKey key;
  OutputKind kind = OutputKind::kText;
  uint64_t position = 0;
  std::string text;
  std::vector<int32_t> token_ids;  // the tokens this text piece came from
  HostTensor tensor;               // audio: f32 [samples], mono
  uint32_t sample_rate = 0;
};

enum class FinishReason : uint8_t { kNone = 0, kStop, kLength, kAbort, kError };

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;
  uint64_t audio_samples = 0;
};

// The stage is done with the request; the last thing it says about it. A failed status carries a
// message for the user.
struct StageEnd {
  RequestKey key;
  FinishReason reason = FinishReason::kStop;
  Status status;
  Usage usage;
};

}  // namespace omnistage::engine
