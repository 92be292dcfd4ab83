// RecordingSink: keeps what a core says about each request and checks the rules of StageSink as it
// comes: nothing for unknown or ended requests, positions without gap, whole characters, chunk
// numbers, one header, one terminal, one end.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "stage_proc/engine/stage_core.h"

namespace omnistage::testing {

struct Record {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<std::string> pieces;
  std::vector<float> audio;
  std::vector<engine::StageChunk> chunks;
  std::vector<engine::StageEnd> ends;
  size_t outputs = 0;
  uint64_t samples = 0;

  bool ended() const { return !ends.empty(); }
  // Text of the "text" entries of all chunks, joined.
  std::string chunk_text() const;
  bool terminal_sent() const { return !chunks.empty() && chunks.back().finished; }
};

class RecordingSink final : public engine::StageSink {
 public:
  bool ready(const RequestKey& key) override { return !blocked.contains(key); }
  void chunk(engine::StageChunk&& chunk) override;
  void output(engine::StageOutput&& output) override;
  void end(engine::StageEnd&& end) override;

  Record& operator[](const RequestKey& key) { return records[key]; }

  std::map<RequestKey, Record> records;
  std::set<RequestKey> blocked;
  std::set<RequestKey> removed;  // aborted: nothing may come any more
};

inline RequestKey key(uint64_t request, uint32_t generation = 0) {
  return {1, generation, request};
}

// Steps until the core has no work; fails the test after `limit` steps.
void drain(engine::StageCore& core, RecordingSink& sink, int64_t now_ns = 1, int limit = 20000);

}  // namespace omnistage::testing
