// ArCore: streams equal a plain loop over the model, batching, limits, ends and downstream chunks.
#include "stage_proc/engine/ar_core.h"

#include <gtest/gtest.h>

#include "stage_proc/sampling/sampler.h"
#include "tests/unit/engine/recording_sink.h"
#include "tests/unit/engine/toy_model.h"

namespace omnistage {
namespace {

using engine::ArCore;
using engine::ArCoreConfig;
using engine::EntryInput;
using engine::FinishReason;
using engine::RequestHeader;
using testing::key;
using testing::RecordingSink;
using testing::ToyModel;

RequestHeader header(uint64_t request, int32_t max_tokens = 40, double temperature = 0) {
  RequestHeader h;
  h.key = key(request);
  h.sampling.temperature = temperature;
  h.sampling.max_tokens = max_tokens;
  h.sampling.seed = 100 + request;
  return h;
}

EntryInput text_input(const std::string& text) {
  EntryInput input;
  input.text = text;
  return input;
}

std::unique_ptr<ArCore> make_core(std::shared_ptr<ToyModel> model, ArCoreConfig config = {}) {
  auto core = ArCore::create(std::move(model), config);
  EXPECT_TRUE(core.ok()) << core.status().to_string();
  return core.ok() ? std::move(core).value() : nullptr;
}

// The meaning of a stream, without scheduler and cache.
std::vector<int32_t> plain_loop(const ToyModel& model, const RequestHeader& h,
                                std::vector<int32_t> tokens) {
  sampling::Sampler sampler(h.sampling, tokens, model.info().eos_token_ids);
  sampling::SamplerScratch scratch;
  const size_t prompt = tokens.size();
  while (tokens.size() - prompt < static_cast<size_t>(h.sampling.max_tokens)) {
    std::vector<float> logits = model.logits_after(tokens);
    auto token = sampler.sample(logits, static_cast<int32_t>(tokens.size() - prompt), scratch);
    tokens.push_back(*token);
    sampler.accept(*token);
    if (*token == ToyModel::kEos) break;
  }
  return {tokens.begin() + static_cast<ptrdiff_t>(prompt), tokens.end()};
}

TEST(ArCore, StreamEqualsThePlainLoop) {
  for (double temperature : {0.0, 1.0}) {
    auto model = std::make_shared<ToyModel>();
    auto core = make_core(model);
    RequestHeader h = header(1, 60, temperature);
    h.sampling.frequency_penalty = 0.5;
    const auto expected = plain_loop(*model, h, model->chat_prompt("be kind", "hello"));
    RecordingSink sink;
    EntryInput input = text_input("hello");
    input.system_prompt = "be kind";
    ASSERT_TRUE(core->begin(h, input, 0).ok());
    testing::drain(*core, sink);
    EXPECT_EQ(sink[key(1)].token_ids, expected);
    EXPECT_EQ(sink[key(1)].text, model->tokenizer()->decode(expected));
    ASSERT_TRUE(sink[key(1)].ended());
    const engine::StageEnd& end = sink[key(1)].ends[0];
    EXPECT_EQ(end.usage.prompt_tokens, model->chat_prompt("be kind", "hello").size());
    EXPECT_EQ(end.usage.output_tokens, expected.size());
    EXPECT_EQ(end.reason,
              expected.back() == ToyModel::kEos ? FinishReason::kStop : FinishReason::kLength);
    EXPECT_EQ(core->pool().used(), 0);
  }
}

TEST(ArCore, PromptIsComputedInPiecesOfTheBudget) {
  auto model = std::make_shared<ToyModel>();
  ArCoreConfig config;
  config.max_num_seqs = 2;
  config.max_num_batched_tokens = 7;
  auto core = make_core(model, config);
  RequestHeader h = header(1, 5);
  EntryInput input;
  for (int32_t i = 0; i < 30; ++i) input.token_ids.push_back(i);
  ASSERT_TRUE(core->begin(h, input, 0).ok());
  RecordingSink sink;
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].token_ids, plain_loop(*model, h, input.token_ids));
  std::vector<size_t> tokens, rows;
  for (const ToyModel::Call& call : model->calls()) {
    tokens.push_back(call.tokens);
    rows.push_back(call.logit_rows);
  }
  EXPECT_EQ(std::vector<size_t>(tokens.begin(), tokens.begin() + 6),
            (std::vector<size_t>{7, 7, 7, 7, 2, 1}));
  EXPECT_EQ(std::vector<size_t>(rows.begin(), rows.begin() + 6),
            (std::vector<size_t>{0, 0, 0, 0, 1, 1}));
}

TEST(ArCore, EightRequestsProgressTogetherAndEachEqualsItsSoloRun) {
  auto model = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = -40});
  auto core = make_core(model);
  RecordingSink sink;
  for (uint64_t i = 0; i < 8; ++i)
    ASSERT_TRUE(
        core->begin(header(i, 30, 1.0), text_input("question " + std::to_string(i)), 0).ok());
  core->step(1, sink);  // all prompts fit the budget
  for (int step = 0; step < 10; ++step) {
    core->step(1, sink);
    EXPECT_EQ(model->calls().back().sequences, 8u);
    EXPECT_EQ(model->calls().back().tokens, 8u);
  }
  testing::drain(*core, sink);
  for (uint64_t i = 0; i < 8; ++i) {
    auto prompt = model->chat_prompt("", "question " + std::to_string(i));
    EXPECT_EQ(sink[key(i)].token_ids, plain_loop(*model, header(i, 30, 1.0), prompt)) << i;
  }
}

TEST(ArCore, DecodingGoesOnWhileALongPromptIsComputed) {
  auto model = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = -40});
  ArCoreConfig config;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 8;
  auto core = make_core(model, config);
  RecordingSink sink;
  EntryInput big;
  big.token_ids.assign(100, 65);
  ASSERT_TRUE(core->begin(header(1, 20), text_input("a"), 0).ok());
  core->step(1, sink);
  ASSERT_TRUE(core->begin(header(2, 5), big, 0).ok());
  for (int step = 0; step < 10; ++step) {
    core->step(1, sink);
    EXPECT_EQ(model->calls().back().sequences, 2u);
    EXPECT_EQ(model->calls().back().tokens, 8u);
    EXPECT_EQ(model->calls().back().logit_rows, 1u);
  }
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(2)].token_ids.size(), 5u);
}

TEST(ArCore, OrderOfArrivalDecidesWhoRuns) {
  auto model = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = -40});
  ArCoreConfig config;
  config.max_num_seqs = 2;
  auto core = make_core(model, config);
  RecordingSink sink;
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(core->begin(header(i, 4), text_input("x"), 0).ok());
  for (int step = 0; step < 4; ++step) core->step(1, sink);
  EXPECT_TRUE(sink[key(0)].ended() && sink[key(1)].ended());
  EXPECT_EQ(sink[key(2)].outputs, 0u);
  EXPECT_EQ(core->stats().waiting, 3u);
  testing::drain(*core, sink);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(sink[key(i)].ended());
}

TEST(ArCore, BadRequestsAreRefusedByFieldAndLimit) {
  auto model = std::make_shared<ToyModel>();
  ArCoreConfig config;
  config.max_model_len = 20;
  config.max_waiting = 2;
  auto core = make_core(model, config);
  auto message = [&](RequestHeader h, EntryInput input) {
    return core->begin(std::move(h), std::move(input), 0).message();
  };
  EXPECT_NE(message(header(1), {}).find("text must not be empty"), std::string::npos);
  EXPECT_NE(message(header(1), text_input(std::string(18, 'x')))
                .find("the prompt has 20 tokens; with max_model_len = 20 the limit is 19"),
            std::string::npos);
  EXPECT_NE(message(header(1), text_input(std::string(50000, 'x'))).find("at most 49152 bytes"),
            std::string::npos);
  EntryInput ids;
  ids.token_ids = {1, -1};
  EXPECT_NE(message(header(1), ids).find("token_ids[1] must be in [0, 279], got -1"),
            std::string::npos)
      << message(header(1), ids);
  RequestHeader bad = header(1);
  bad.sampling.top_p = 0;
  EXPECT_NE(message(bad, text_input("x")).find("top_p"), std::string::npos);
  EXPECT_FALSE(core->has_work());

  EXPECT_TRUE(core->begin(header(1), text_input("x"), 0).ok());
  EXPECT_NE(message(header(1), text_input("x")).find("already live"), std::string::npos);
  EXPECT_TRUE(core->begin(header(2), text_input("x"), 0).ok());
  Status full = core->begin(header(3), text_input("x"), 0);
  EXPECT_EQ(full.code(), StatusCode::kFull);
  EXPECT_NE(full.message().find("the limit is 2"), std::string::npos);
}

TEST(ArCore, BadConfigurationsAreRefusedByFieldAndLimit) {
  auto expect = [](auto change, const std::string& text) {
    ArCoreConfig config;
    change(config);
    auto core = ArCore::create(std::make_shared<ToyModel>(), config);
    ASSERT_FALSE(core.ok());
    EXPECT_NE(core.status().message().find(text), std::string::npos) << core.status().message();
  };
  expect([](auto& c) { c.max_num_seqs = 0; }, "max_num_seqs must be in [1, 1024], got 0");
  expect([](auto& c) { c.max_num_batched_tokens = 7; }, "max_num_batched_tokens must be at least");
  expect([](auto& c) { c.max_model_len = 257; }, "max_model_len must be in [2, 256], got 257");
  expect([](auto& c) { c.block_size = 0; }, "block_size must be in");
  expect([](auto& c) { c.num_blocks = 15; }, "num_blocks must be at least 16");
  expect([](auto& c) { c.max_waiting = 0; }, "max_waiting");
}

TEST(ArCore, MaxTokensIsCutToTheContext) {
  auto model =
      std::make_shared<ToyModel>(testing::ToyOptions{.max_model_len = 32, .eos_bias = -40});
  auto core = make_core(model);
  RecordingSink sink;
  EntryInput input;
  input.token_ids.assign(25, 66);
  ASSERT_TRUE(core->begin(header(1, 1000), input, 0).ok());
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].token_ids.size(), 7u);
  EXPECT_EQ(sink[key(1)].ends[0].reason, FinishReason::kLength);
}

TEST(ArCore, StopStringsAndMinTokens) {
  auto model = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = -40});
  RecordingSink plain, stopped;
  auto core = make_core(model);
  ASSERT_TRUE(core->begin(header(1, 80), text_input("x"), 0).ok());
  testing::drain(*core, plain);
  const std::string& text = plain[key(1)].text;
  ASSERT_NE(text.find(" sky"), std::string::npos);
  RequestHeader h = header(2, 80);
  h.sampling.stop = {"sky", "never there"};
  ASSERT_TRUE(core->begin(h, text_input("x"), 0).ok());
  testing::drain(*core, stopped);
  EXPECT_EQ(stopped[key(2)].text, text.substr(0, text.find("sky")));
  EXPECT_EQ(stopped[key(2)].ends[0].reason, FinishReason::kStop);
  EXPECT_EQ(core->pool().used(), 0);

  auto eager = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = 40});
  auto second = make_core(eager);
  h = header(3, 80);
  h.sampling.min_tokens = 6;
  ASSERT_TRUE(second->begin(h, text_input("x"), 0).ok());
  testing::drain(*second, stopped);
  EXPECT_EQ(stopped[key(3)].token_ids.size(), 7u);
  EXPECT_EQ(stopped[key(3)].token_ids.back(), ToyModel::kEos);
}

TEST(ArCore, TheTextOfAStopIdIsShownOnlyWhenAskedFor) {
  auto model = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = -40});
  auto core = make_core(model);
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1, 80), text_input("x"), 0).ok());
  testing::drain(*core, sink);
  const std::string& text = sink[key(1)].text;
  constexpr int32_t kSky = 260;
  ASSERT_EQ(model->tokenizer()->decode({kSky}), " sky");
  for (bool include : {false, true}) {
    RequestHeader h = header(include ? 3 : 2, 80);
    h.sampling.stop_token_ids = {kSky};
    h.sampling.include_stop_str_in_output = include;
    ASSERT_TRUE(core->begin(h, text_input("x"), 0).ok());
    testing::drain(*core, sink);
    EXPECT_EQ(sink[h.key].text, text.substr(0, text.find(" sky") + (include ? 4 : 0)));
    EXPECT_EQ(sink[h.key].token_ids.back(), kSky);
    EXPECT_EQ(sink[h.key].ends[0].reason, FinishReason::kStop);
  }
}

TEST(ArCore, AFinishedRequestCannotBeginAgain) {
  auto core = make_core(std::make_shared<ToyModel>());
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1, 3), text_input("x"), 0).ok());
  testing::drain(*core, sink);
  ASSERT_TRUE(sink[key(1)].ended());
  EXPECT_EQ(core->begin(header(1, 3), text_input("x"), 0).code(), StatusCode::kCancelled);
}

TEST(ArCore, DownstreamGetsTheWholeTextOnlyWhenAudioIsWanted) {
  auto model = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = -40});
  ArCoreConfig config;
  config.has_downstream = true;
  auto core = make_core(model, config);
  RecordingSink sink;
  RequestHeader both = header(1, 120), text_only = header(2, 120), audio_only = header(3, 120);
  text_only.modalities = engine::kModalityText;
  audio_only.modalities = engine::kModalityAudio;
  audio_only.sampling.seed = text_only.sampling.seed = both.sampling.seed;
  for (const RequestHeader& h : {both, text_only, audio_only})
    ASSERT_TRUE(core->begin(h, text_input("hi"), 0).ok());
  testing::drain(*core, sink);
  EXPECT_GT(sink[key(1)].chunks.size(), 3u);
  EXPECT_EQ(sink[key(1)].chunk_text(), sink[key(1)].text);
  EXPECT_EQ(sink[key(1)].chunks[0].header->sampling.seed, both.sampling.seed);
  EXPECT_TRUE(sink[key(1)].terminal_sent());
  EXPECT_EQ(sink[key(2)].chunks.size(), 0u);
  EXPECT_EQ(sink[key(2)].text, sink[key(1)].text);
  EXPECT_EQ(sink[key(3)].outputs, 0u);
  EXPECT_EQ(sink[key(3)].chunk_text(), sink[key(1)].text);
  EXPECT_TRUE(sink[key(3)].ended());
}

TEST(ArCore, AnEmptyAnswerStillSendsHeaderAndTerminal) {
  auto model = std::make_shared<ToyModel>(testing::ToyOptions{.eos_bias = 40});
  ArCoreConfig config;
  config.has_downstream = true;
  auto core = make_core(model, config);
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1), text_input("hi"), 0).ok());
  testing::drain(*core, sink);
  ASSERT_EQ(sink[key(1)].chunks.size(), 1u);
  EXPECT_TRUE(sink[key(1)].chunks[0].finished);
  EXPECT_TRUE(sink[key(1)].chunks[0].payload.empty());
  EXPECT_EQ(sink[key(1)].text, "");
}

TEST(ArCore, AFailedModelStepEndsItsRequestsAndTheStageGoesOn) {
  auto model = std::make_shared<ToyModel>();
  auto core = make_core(model);
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1), text_input("a"), 0).ok());
  ASSERT_TRUE(core->begin(header(2), text_input("b"), 0).ok());
  core->step(1, sink);
  model->fail_next(Status(StatusCode::kNoMemory, "out of scratch memory"));
  core->step(1, sink);
  for (uint64_t i : {1, 2}) {
    ASSERT_TRUE(sink[key(i)].ended());
    EXPECT_EQ(sink[key(i)].ends[0].status.message(), "out of scratch memory");
  }
  EXPECT_EQ(core->pool().used(), 0);
  ASSERT_TRUE(core->begin(header(3), text_input("c"), 0).ok());
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[key(3)].ends[0].status.ok());
}

TEST(ArCore, BadLogitsEndOneRequestOnly) {
  auto model = std::make_shared<ToyModel>();
  model->poison(7);
  auto core = make_core(model);
  RecordingSink sink;
  EntryInput good, bad;
  good.token_ids = {1, 2, 3};
  bad.token_ids = {1, 7};
  ASSERT_TRUE(core->begin(header(1), good, 0).ok());
  ASSERT_TRUE(core->begin(header(2), bad, 0).ok());
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[key(1)].ends[0].status.ok());
  EXPECT_EQ(sink[key(2)].ends[0].status.code(), StatusCode::kInternal);
}

TEST(ArCore, ChunksOfAnotherStageAreRefused) {
  auto core = make_core(std::make_shared<ToyModel>());
  RecordingSink sink;
  transfer::ChunkSender sender(header(1));
  core->chunk(sender.make({}, false), 0);
  EXPECT_TRUE(core->has_work());
  core->step(1, sink);
  EXPECT_EQ(sink[key(1)].ends[0].status.code(), StatusCode::kUnsupported);
  core->chunk(sender.make({}, false), 0);
  EXPECT_EQ(core->stats().dropped_late_chunks, 1u);
  EXPECT_FALSE(core->has_work());
}

}  // namespace
}  // namespace omnistage
