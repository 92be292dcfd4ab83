// What correct files mean: topology, defaults, typed values, wiring, and the printed effective
// form.
#include "tests/unit/config/config_fixture.h"

namespace omnistage::config {
namespace {

TEST_F(ConfigTest, ShippedSpeakFile) {
  auto result = load_deploy(OMS_SOURCE_DIR "/deploy/speak.yaml", options_);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->stages.size(), 3u);
  const StageConfig& thinker = result->stages[0];
  EXPECT_EQ(thinker.name, "thinker");
  EXPECT_EQ(thinker.family, "smollm2");
  EXPECT_EQ(thinker.execution_type, ExecutionType::kLlmAr);
  EXPECT_EQ(thinker.model_path, options_.models_dir + "/smollm2-135m-instruct");
  EXPECT_TRUE(thinker.final_output);
  EXPECT_EQ(thinker.final_output_type, "text");
  EXPECT_EQ(thinker.default_sampling_params.temperature, 0.0);
  EXPECT_EQ(result->stages[1].family, "hibari_talker");
  EXPECT_FALSE(result->stages[1].final_output);
  EXPECT_EQ(result->stages[2].name, "code2wav");
  EXPECT_EQ(result->stages[2].final_output_type, "audio");
  EXPECT_EQ(result->stages[2].model_path, "");
  ASSERT_EQ(result->edges.size(), 2u);
  const EdgeConfig* frames = result->edge(1, 2);
  ASSERT_NE(frames, nullptr);
  EXPECT_EQ(frames->connector.initial_codec_chunk_frames, 32);
  EXPECT_EQ(frames->connector.codec_chunk_frames, 64);
  EXPECT_EQ(result->entry_stages(), std::vector<int>{0});
  EXPECT_EQ(result->consumers_of(0), std::vector<int>{1});
  EXPECT_EQ(result->stage(3), nullptr);
}

TEST_F(ConfigTest, ShippedEchoFileNeedsNoModel) {
  options_.models_dir = "/nonexistent";
  auto result = load_deploy(OMS_SOURCE_DIR "/deploy/echo.yaml", options_);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->stages.size(), 3u);
  EXPECT_EQ(result->stages[0].final_output_type, "text");
  EXPECT_FALSE(result->stages[1].final_output);
  EXPECT_EQ(result->stages[2].final_output_type, "audio");
  EXPECT_TRUE(result->async_chunk);
}

TEST_F(ConfigTest, EveryTypedKeyIsRead) {
  auto result = parse(echo_with(R"(    model_stage: repeater
    max_num_seqs: 256
    max_num_batched_tokens: 131072
    max_model_len: 1
    threads: 64
    num_replicas: 1
    async_chunk: false
    env: {A: "1", B_2: true, EMPTY: }
    restart: {max_restarts: 0, window_s: 5, backoff_ms: 1}
    default_sampling_params:
      {temperature: 0.7, top_k: -1, top_p: 1, min_p: 0.5, repetition_penalty: 1.1, presence_penalty: -2,
       frequency_penalty: 2, seed: -9223372036854775808, min_tokens: 1, max_tokens: 2, ignore_eos: true,
       include_stop_str_in_output: true, stop: ["a", "12"], stop_token_ids: [2, 3], n: 1}
)"));
  ASSERT_TRUE(result.ok()) << result.status().message();
  const StageConfig& stage = result->stages[1];
  EXPECT_EQ(stage.name, "repeater");
  EXPECT_EQ(stage.max_num_seqs, 256);
  EXPECT_EQ(stage.max_num_batched_tokens, 131072);
  EXPECT_EQ(stage.max_model_len, 1);
  EXPECT_EQ(stage.threads, 64);
  EXPECT_FALSE(stage.async_chunk);
  EXPECT_EQ(stage.env,
            (std::map<std::string, std::string>{{"A", "1"}, {"B_2", "true"}, {"EMPTY", ""}}));
  EXPECT_EQ(stage.restart.max_restarts, 0);
  const SamplingDefaults& sampling = stage.default_sampling_params;
  EXPECT_EQ(sampling.temperature, 0.7);
  EXPECT_EQ(sampling.top_k, -1);
  EXPECT_EQ(sampling.seed, INT64_MIN);
  EXPECT_EQ(sampling.stop, (std::vector<std::string>{"a", "12"}));
  EXPECT_EQ(sampling.stop_token_ids, (std::vector<int>{2, 3}));
  EXPECT_EQ(sampling.include_stop_str_in_output, true);
}

TEST_F(ConfigTest, NestedSpellingsWinInOrder) {
  auto result = parse(echo_with(R"(    max_num_seqs: 1
    threads: 1
    env: {A: flat}
    engine_args: {max_num_seqs: 2, threads: 2, env: {B: args}}
    engine_extras: {max_num_seqs: 3}
    runtime: {num_replicas: 1, env: {C: runtime}}
)"));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stages[1].max_num_seqs, 3);
  EXPECT_EQ(result->stages[1].threads, 2);
  EXPECT_EQ(result->stages[1].env, (std::map<std::string, std::string>{{"C", "runtime"}}));
}

TEST_F(ConfigTest, ValuesThatMeanOffAreAccepted) {
  auto result = parse(R"(pipeline: echo
model_runner: v1
session_mode: turn
enable_prefix_caching: false
stages:
  - {stage_id: 0, tensor_parallel_size: 1, enforce_eager: true, devices: cpu}
  - {stage_id: 1, lora_path: , dtype: auto}
  - {stage_id: 2}
)");
  EXPECT_TRUE(result.ok()) << result.status().message();
}

constexpr const char* kDiamond = R"(connectors:
  small: {name: SharedMemoryConnector, extra: {codec_chunk_ramp: "2, 4,8", ring_bytes: 131072}}
edges:
  - {from: 0, to: 1}
  - {from: 0, to: 2}
  - {from: 1, to: 3}
  - {from: 2, to: 3}
stages:
  - {stage_id: 3, family: echo, execution_type: llm_generation, final_output: true}
  - {stage_id: 0, family: echo, output_connectors: {to_stage_1: small}}
  - {stage_id: 1, family: echo, execution_type: llm_generation, input_connectors: {from_stage_0: small}}
  - stage_id: 2
    family: echo
    execution_type: llm_generation
    input_connectors: {from_stage_0: {name: SharedMemoryConnector, extra: {codec_chunk_frames: 7}}}
)";

TEST_F(ConfigTest, GraphWithoutRegistryName) {
  auto result = parse(kDiamond);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stages[3].input_sources, (std::vector<int>{1, 2}));
  EXPECT_EQ(result->consumers_of(0), (std::vector<int>{1, 2}));
  EXPECT_EQ(result->edge(0, 1)->connector.codec_chunk_ramp, (std::vector<int>{2, 4, 8}));
  EXPECT_EQ(result->edge(0, 1)->connector.ring_bytes, 131072u);
  EXPECT_EQ(result->edge(0, 2)->connector.codec_chunk_frames, 7);
  EXPECT_EQ(result->edge(1, 3)->connector.name, "auto");
  EXPECT_EQ(result->stages[2].name, "stage2");
}

TEST_F(ConfigTest, OneStageHasNoChunks) {
  auto result = parse("stages:\n  - {stage_id: 5, family: echo, final_output: true}\n");
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_FALSE(result->async_chunk);
  EXPECT_TRUE(result->edges.empty());
}

TEST_F(ConfigTest, EffectiveFormReadsBackAsItself) {
  const std::string sampled = echo_with(
      "    env: {A: \"it's \\\"quoted\\\"\\n\"}\n"
      "    default_sampling_params: {temperature: 0.1, stop: [\"true\", \"\\n\"], stop_token_ids: "
      "[1], seed: 3}\n");
  std::vector<Result<DeployConfig>> configs;
  configs.push_back(load_deploy(OMS_SOURCE_DIR "/deploy/speak.yaml", options_));
  configs.push_back(parse(kDiamond));
  configs.push_back(parse(sampled));
  for (auto& config : configs) {
    ASSERT_TRUE(config.ok()) << config.status().message();
    const std::string text = to_yaml(*config);
    auto again = parse_deploy(text, config->path, options_);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    EXPECT_EQ(to_yaml(*again), text);
    for (StageConfig& stage : config->stages) stage.model = stage.model_path;
    EXPECT_TRUE(*again == *config) << text;
  }
}

TEST_F(ConfigTest, ModelIsFoundInCacheBesideTheFileOrByPath) {
  std::filesystem::create_directories(dir_ / "weights");
  auto with_model = [&](const std::string& model) {
    return write(
        "m.yaml",
        "stages:\n  - {stage_id: 0, family: smollm2, final_output: true, model: " + model + "}\n");
  };
  for (const std::string& model :
       {std::string("weights"), std::string("./weights"), (dir_ / "weights").string()}) {
    auto result = load_deploy(with_model(model), options_);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->stages[0].model_path, (dir_ / "weights").string());
  }
  auto result = load_deploy(with_model("hibari"), options_);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->stages[0].model_path, options_.models_dir + "/hibari");
}

TEST_F(ConfigTest, CacheFolderFollowsTheEnvironment) {
  setenv("HOME", "/h", 1);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("OMNISTAGE_CACHE");
  EXPECT_EQ(default_cache_dir(), "/h/.cache/omnistage");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(default_cache_dir(), "/x/omnistage");
  setenv("OMNISTAGE_CACHE", "/o", 1);
  EXPECT_EQ(default_cache_dir(), "/o");
}

}  // namespace
}  // namespace omnistage::config
