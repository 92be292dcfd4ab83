#include "tests/unit/engine/recording_sink.h"

#include <gtest/gtest.h>

#include "stage_proc/sampling/params.h"

namespace omnistage::testing {

using engine::OutputKind;

std::string Record::chunk_text() const {
  std::string all;
  for (const engine::StageChunk& chunk : chunks)
    if (auto at = chunk.payload.find("text"); at != chunk.payload.end())
      all += std::get<std::string>(at->second);
  return all;
}

void RecordingSink::chunk(engine::StageChunk&& chunk) {
  Record& record = records[chunk.key];
  EXPECT_FALSE(record.ended()) << "chunk after the end of " << to_string(chunk.key);
  EXPECT_FALSE(removed.contains(chunk.key));
  EXPECT_EQ(chunk.number, record.chunks.size());
  EXPECT_EQ(chunk.header.has_value(), chunk.number == 0);
  if (chunk.header) {
    EXPECT_EQ(chunk.header->key, chunk.key);
  }
  EXPECT_FALSE(record.terminal_sent())
      << "chunk after the terminal one of " << to_string(chunk.key);
  record.chunks.push_back(std::move(chunk));
}

void RecordingSink::output(engine::StageOutput&& output) {
  Record& record = records[output.key];
  EXPECT_FALSE(record.ended()) << "output after the end of " << to_string(output.key);
  EXPECT_FALSE(removed.contains(output.key));
  ++record.outputs;
  if (output.kind == OutputKind::kText) {
    EXPECT_EQ(output.position, record.token_ids.size());
    EXPECT_TRUE(sampling::is_valid_utf8(output.text)) << "broken character in a piece";
    record.text += output.text;
    record.pieces.push_back(output.text);
    record.token_ids.insert(record.token_ids.end(), output.token_ids.begin(),
                            output.token_ids.end());
  } else if (output.kind == OutputKind::kAudio) {
    EXPECT_EQ(output.position, record.samples);
    record.samples += output.tensor.elements();
    const float* data = output.tensor.as<float>();
    record.audio.insert(record.audio.end(), data, data + output.tensor.elements());
  }
}

void RecordingSink::end(engine::StageEnd&& end) {
  Record& record = records[end.key];
  EXPECT_FALSE(record.ended()) << "second end of " << to_string(end.key);
  EXPECT_FALSE(removed.contains(end.key));
  EXPECT_NE(end.reason, engine::FinishReason::kNone);
  EXPECT_EQ(end.status.ok(), end.reason != engine::FinishReason::kError);
  if (end.status.ok() && !record.chunks.empty()) {
    EXPECT_TRUE(record.terminal_sent()) << "no terminal chunk of " << to_string(end.key);
  }
  record.ends.push_back(std::move(end));
}

void drain(engine::StageCore& core, RecordingSink& sink, int64_t now_ns, int limit) {
  for (int i = 0; core.has_work(); ++i) {
    ASSERT_LT(i, limit) << "the core does not come to an end";
    core.step(now_ns, sink);
  }
}

}  // namespace omnistage::testing
