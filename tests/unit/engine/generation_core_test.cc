// GenerationCore with the echo models: streams, the chain of three, and that timing does not change
// what comes out.
#include "stage_proc/engine/generation_core.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stage_proc/models/echo/echo.h"
#include "tests/unit/engine/recording_sink.h"

namespace omnistage {
namespace {

using engine::EntryInput;
using engine::FinishReason;
using engine::GenerationCore;
using engine::GenerationCoreConfig;
using engine::RequestHeader;
using engine::StageChunk;
using testing::key;
using testing::RecordingSink;

std::unique_ptr<GenerationCore> make_core(const std::string& family,
                                          GenerationCoreConfig config = {}) {
  static HeapAllocator heap;
  models::GenerationModelOptions options;
  options.family = family;
  auto model = models::make_echo_model(options);
  EXPECT_TRUE(model.ok());
  auto core = GenerationCore::create(std::move(model).value(), heap, config);
  EXPECT_TRUE(core.ok()) << core.status().to_string();
  return core.ok() ? std::move(core).value() : nullptr;
}

GenerationCoreConfig middle() {
  GenerationCoreConfig config;
  config.has_downstream = true;
  return config;
}

RequestHeader header(uint64_t request) {
  RequestHeader h;
  h.key = key(request);
  return h;
}

EntryInput text_input(const std::string& text) {
  EntryInput input;
  input.text = text;
  return input;
}

std::vector<StageChunk> text_chunks(uint64_t request, const std::vector<std::string>& texts) {
  std::vector<StageChunk> chunks;
  transfer::ChunkSender sender(header(request));
  for (const std::string& text : texts) chunks.push_back(sender.make({{"text", text}}, false));
  chunks.push_back(sender.make({}, true));
  return chunks;
}

TEST(EchoModel, FamiliesAreChecked) {
  models::GenerationModelOptions options;
  options.family = "echo_video";
  Status status = models::make_echo_model(options).status();
  EXPECT_NE(status.message().find("echo_video"), std::string::npos);
}

TEST(GenerationCore, EntryStageEchoesTextAndChunks) {
  auto core = make_core("echo", middle());
  RecordingSink sink;
  const std::string text = "Why is the sk\xC3\xBF blue?";
  ASSERT_TRUE(core->begin(header(1), text_input(text), 0).ok());
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].text, text);
  EXPECT_EQ(sink[key(1)].chunk_text(), text);
  EXPECT_EQ(sink[key(1)].token_ids.size(), 20u);
  EXPECT_EQ(sink[key(1)].token_ids[13], 0xFF);
  EXPECT_EQ(sink[key(1)].chunks.size(), 3u);
  EXPECT_TRUE(sink[key(1)].terminal_sent());
  EXPECT_EQ(sink[key(1)].ends[0].reason, FinishReason::kStop);
  EXPECT_EQ(sink[key(1)].ends[0].usage.output_tokens, 20u);
}

TEST(GenerationCore, ModalitiesDecideWhatLeaves) {
  auto core = make_core("echo", middle());
  RecordingSink sink;
  RequestHeader text = header(1), audio = header(2);
  text.modalities = engine::kModalityText;
  audio.modalities = engine::kModalityAudio;
  ASSERT_TRUE(core->begin(text, text_input("abc"), 0).ok());
  ASSERT_TRUE(core->begin(audio, text_input("abc"), 0).ok());
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].chunks.size(), 0u);
  EXPECT_EQ(sink[key(1)].text, "abc");
  EXPECT_EQ(sink[key(2)].outputs, 0u);
  EXPECT_EQ(sink[key(2)].chunk_text(), "abc");
}

TEST(GenerationCore, RepeatMakesLongStreams) {
  auto core = make_core("echo");
  RecordingSink sink;
  RequestHeader h = header(1);
  h.extra["echo_repeat"] = "50";
  ASSERT_TRUE(core->begin(h, text_input("0123456789"), 0).ok());
  testing::drain(*core, sink);
  std::string expected;
  for (int i = 0; i < 50; ++i) expected += "0123456789";
  EXPECT_EQ(sink[key(1)].text, expected);
}

TEST(GenerationCore, BadParametersEndTheRequestWithFieldAndLimit) {
  auto core = make_core("echo");
  RecordingSink sink;
  for (const char* bad : {"0", "1000001", "x", "", "5 "}) {
    static uint64_t next = 1;
    RequestHeader h = header(next++);
    h.extra["echo_repeat"] = bad;
    ASSERT_TRUE(core->begin(h, text_input("a"), 0).ok());
    testing::drain(*core, sink);
    ASSERT_TRUE(sink[h.key].ended());
    EXPECT_NE(
        sink[h.key].ends[0].status.message().find("echo_repeat must be an integer in [1, 1000000]"),
        std::string::npos);
  }
}

// echo -> echo_audio -> echo_sink, chunk by chunk, as the shells connect them.
TEST(GenerationCore, ThreeStagesInARow) {
  auto first = make_core("echo", middle());
  auto second = make_core("echo_audio", middle());
  auto third = make_core("echo_sink");
  RecordingSink a, b, c;
  const std::string text = "Hello, pipeline of three";
  RequestHeader h = header(1);
  h.extra["echo_repeat"] = "3";
  ASSERT_TRUE(first->begin(h, text_input(text), 0).ok());
  size_t to_second = 0, to_third = 0;
  for (int i = 0; i < 200 && !c[key(1)].ended(); ++i) {
    first->step(1, a);
    while (to_second < a[key(1)].chunks.size()) second->chunk(a[key(1)].chunks[to_second++], 1);
    second->step(1, b);
    while (to_third < b[key(1)].chunks.size()) third->chunk(b[key(1)].chunks[to_third++], 1);
    third->step(1, c);
  }
  ASSERT_TRUE(c[key(1)].ended());
  EXPECT_EQ(a[key(1)].text, text + text + text);
  EXPECT_EQ(c[key(1)].samples, 3 * text.size() * models::kEchoSamplesPerCharacter);
  EXPECT_EQ(c[key(1)].ends[0].usage.audio_samples, c[key(1)].samples);
  EXPECT_EQ(b[key(1)].chunks[0].header->extra.at("echo_repeat"), "3");
  for (const StageChunk& chunk : b[key(1)].chunks)
    if (!chunk.payload.empty()) {
      EXPECT_GT(std::get<HostTensor>(chunk.payload.at("audio")).bytes(), 4096u);
    }
  // A tone per character: "H" is code 72, 72 % 64 = 8.
  for (int i = 0; i < 100; ++i)
    EXPECT_NEAR(c[key(1)].audio[static_cast<size_t>(i)],
                0.25 * std::sin(2 * M_PI * (220 + 20 * 8) * i / 24000.0), 1e-6);
}

// All chunks at once, or each after the stream had time to go idle: the same calls to the model,
// the same pieces.
TEST(GenerationCore, ArrivalTimesDoNotChangeTheStream) {
  const std::vector<std::string> texts = {"a longer first part", "x", "", "and the rest of it"};
  std::vector<std::vector<std::string>> pieces;
  for (int mode = 0; mode < 3; ++mode) {
    auto core = make_core("echo");
    RecordingSink sink;
    for (const StageChunk& chunk : text_chunks(1, texts)) {
      core->chunk(chunk, 0);
      if (mode == 1) testing::drain(*core, sink);
      if (mode == 2) core->step(1, sink);
    }
    testing::drain(*core, sink);
    ASSERT_TRUE(sink[key(1)].ended());
    pieces.push_back(sink[key(1)].pieces);
  }
  EXPECT_EQ(pieces[0], pieces[1]);
  EXPECT_EQ(pieces[0], pieces[2]);
  EXPECT_EQ(pieces[0].size(), 3u + 1u + 3u);
}

TEST(GenerationCore, EachOpenStreamMakesOneStepPerStep) {
  auto core = make_core("echo");
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1), text_input(std::string(800, 'a')), 0).ok());
  ASSERT_TRUE(core->begin(header(2), text_input(std::string(16, 'b')), 0).ok());
  for (int i = 0; i < 2; ++i) core->step(1, sink);
  EXPECT_EQ(sink[key(1)].text.size(), 16u);
  EXPECT_TRUE(sink[key(2)].ended()) << "a short request is not held up by a long one";
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].text.size(), 800u);
}

TEST(GenerationCore, AnEmptyStreamEndsWithAnEmptyTerminal) {
  auto core = make_core("echo_audio", middle());
  RecordingSink sink;
  for (const StageChunk& chunk : text_chunks(1, {})) core->chunk(chunk, 0);
  testing::drain(*core, sink);
  ASSERT_EQ(sink[key(1)].chunks.size(), 1u);
  EXPECT_TRUE(sink[key(1)].chunks[0].finished && sink[key(1)].chunks[0].payload.empty());
  EXPECT_EQ(sink[key(1)].ends[0].usage.audio_samples, 0u);
}

}  // namespace
}  // namespace omnistage
