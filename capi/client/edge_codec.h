// What the client writes to and reads from its rings (schema: wire/edge.fbs). Readers verify a
// record before they look into it and check every value that becomes a size, an index or a number
// of the C interface.
//
// Pure functions: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/state/output_event.h"
#include "omnistage/wire/edge_generated.h"
#include "shm/base/ids.h"
#include "shm/base/limits.h"
#include "shm/base/status.h"
#include "shm/link/link.h"

namespace omnistage::capi {

constexpr shm::RecordKind kSubmitRecord = 0x100;
constexpr shm::RecordKind kOutputRecord = 0x102;
constexpr shm::RecordKind kStageEndRecord = 0x103;
constexpr shm::RecordKind kAbortRecord = 0x110;
constexpr shm::RecordKind kCreditRecord = 0x111;

using Bytes = std::vector<std::byte>;

// A request as the application gave it, checked and copied.
struct SubmitData {
  std::string system_prompt;
  std::string text;
  std::vector<int32_t> token_ids;
  uint32_t wanted = 0;
  int64_t deadline_ns = 0;  // relative, 0 = none
  int32_t priority = 0;
  uint32_t credit = limits::kDefaultCreditOutputs;
  uint64_t user_data = 0;
  uint64_t given = 0;  // bits of wire::Sampling's field ids
  double temperature = 0, top_p = 0, min_p = 0;
  double repetition_penalty = 0, presence_penalty = 0, frequency_penalty = 0;
  uint64_t seed = 0;
  int32_t top_k = 0, max_tokens = 0, min_tokens = 0;
  bool ignore_eos = false, include_stop = false;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  std::vector<std::pair<std::string, std::string>> extra;
};

// `deadline_ns` is absolute here.
Bytes make_submit(const RequestKey& key, const SubmitData& data, int64_t deadline_ns);
Bytes make_abort(const RequestKey& key);
Bytes make_credit(const RequestKey& key, uint32_t outputs, OutputKind kind);

struct OutputRecord {
  RequestKey key;
  OutputEvent
      event;  // kind, position, text, token_ids, sample_rate; the tensor too when it was inline
  bool pooled = false;
  shm::TensorRef ref;  // with `pooled`: where the tensor's bytes are
};
struct StageEndRecord {
  RequestKey key;
  FinishReason reason = FinishReason::kNone;
  Status status;
  Usage usage;
};

// Errors: kProtocol, saying what is wrong with the record.
Result<OutputRecord> read_output(std::span<const std::byte> record);
Result<StageEndRecord> read_stage_end(std::span<const std::byte> record);

}  // namespace omnistage::capi
