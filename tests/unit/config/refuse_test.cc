// Every kind of mistake gets file, line, key path and limit.
#include "tests/unit/config/config_fixture.h"

namespace omnistage::config {
namespace {

struct Mistake {
  const char* lines;  // inside stage 1 of the echo pipeline, first one at line 5
  const char* message;
};

TEST_F(ConfigTest, MistakesInAStage) {
  const Mistake mistakes[] = {
      {"    max_num_seqs: 0\n", "test.yaml:5: stages[1].max_num_seqs: must be 1..256, got 0"},
      {"    max_num_seqs: 257\n", "test.yaml:5: stages[1].max_num_seqs: must be 1..256, got 257"},
      {"    max_num_seqs: eight\n",
       "test.yaml:5: stages[1].max_num_seqs: must be a whole number, 1..256, got eight"},
      {"    max_num_seqs: \"8\"\n",
       "test.yaml:5: stages[1].max_num_seqs: must be a whole number, 1..256, got '8'"},
      {"    max_num_seqs: 8.0\n",
       "test.yaml:5: stages[1].max_num_seqs: must be a whole number, 1..256, got 8.0"},
      {"    max_num_seqs: 99999999999999999999\n",
       "test.yaml:5: stages[1].max_num_seqs: must be a whole number, 1..256, got "
       "99999999999999999999"},
      {"    max_num_seqs: [8]\n",
       "test.yaml:5: stages[1].max_num_seqs: must be a whole number, 1..256, got a list"},
      {"    max_num_seqs: 64\n    max_num_batched_tokens: 63\n",
       "test.yaml:6: stages[1].max_num_batched_tokens: max_num_batched_tokens (63) must not be "
       "below "
       "max_num_seqs (64)"},
      {"    async_chunk: yes\n",
       "test.yaml:5: stages[1].async_chunk: must be true or false, got yes"},
      {"    threads: 65\n", "test.yaml:5: stages[1].threads: must be 0..64, got 65"},
      {"    family: gpt\n",
       "test.yaml:5: stages[1].family: unknown model family; must be one of echo, echo_audio, "
       "echo_sink, hibari_code2wav, "
       "hibari_talker, smollm2, got gpt"},
      {"    execution_type: llm\n",
       "test.yaml:5: stages[1].execution_type: must be llm_ar or llm_generation, got llm"},
      {"    final_output_type: text\n",
       "test.yaml:5: stages[1].final_output_type: needs final_output: true"},
      {"    family: echo\n    final_output: true\n    final_output_type: audio\n",
       "test.yaml:7: stages[1].final_output_type: family echo makes text, got audio"},
      {"    final_output: true\n",
       "test.yaml:5: stages[1].final_output: family echo_audio has no output for clients"},
      {"    input_sources: [7]\n", "test.yaml:5: stages[1].input_sources: there is no stage 7"},
      {"    input_sources: [1]\n",
       "test.yaml:5: stages[1].input_sources: a stage cannot be its own source"},
      {"    input_sources: [0, 0]\n",
       "test.yaml:5: stages[1].input_sources: source 0 is given twice"},
      {"    env: {1A: x}\n",
       "test.yaml:5: stages[1].env.1A: '1A' is no name of an environment variable"},
      {"    env: {A: [x]}\n",
       "test.yaml:5: stages[1].env.A: must be text of at most 4096 bytes, got a list"},
      {"    restart: {max_restarts: -1}\n",
       "test.yaml:5: stages[1].restart.max_restarts: must be 0..1000, got -1"},
      {"    restart: {tries: 1}\n",
       "test.yaml:5: stages[1].restart.tries: unknown key; restart has: backoff_ms, max_restarts, "
       "window_s"},
      {"    default_sampling_params: {temperature: 2.1}\n",
       "test.yaml:5: stages[1].default_sampling_params.temperature: must be a number from 0 to 2, "
       "got "
       "2.1"},
      {"    default_sampling_params:\n      top_p: 0\n",
       "test.yaml:6: stages[1].default_sampling_params.top_p: must be a number above 0 to 1, got "
       "0"},
      {"    default_sampling_params: {temperature: .nan}\n",
       "test.yaml:5: stages[1].default_sampling_params.temperature: must be a number from 0 to 2, "
       "got "
       ".nan"},
      {"    default_sampling_params: {min_tokens: 3, max_tokens: 2}\n",
       "test.yaml:5: stages[1].default_sampling_params.min_tokens: must not be above max_tokens "
       "(2), "
       "got 3"},
      {"    default_sampling_params: {stop: [\"\"]}\n",
       "test.yaml:5: stages[1].default_sampling_params.stop[0]: must be text of 1..256 bytes, got "
       "''"},
      {"    output_connectors: {to_stage_2: fast}\n",
       "test.yaml:5: stages[1].output_connectors.to_stage_2: there is no connector fast under "
       "`connectors`"},
      {"    output_connectors: {to_stage_0: fast}\n",
       "test.yaml:5: stages[1].output_connectors.to_stage_0: there is no edge from stage 1 to "
       "stage 0"},
      {"    output_connectors: {stage_2: fast}\n",
       "test.yaml:5: stages[1].output_connectors.stage_2: must be named to_stage_N with the "
       "stage_id N"},
      {"    input_connectors: {from_stage_0: {name: TcpConnector}}\n",
       "test.yaml:5: stages[1].input_connectors.from_stage_0.name: unknown connector; must be "
       "SharedMemoryConnector, got TcpConnector"},
      {"    input_connectors:\n      from_stage_0:\n        name: SharedMemoryConnector\n"
       "        extra: {ring_bytes: 200000}\n",
       "test.yaml:8: stages[1].input_connectors.from_stage_0.extra.ring_bytes: must be a power of "
       "two, "
       "got 200000"},
      {"    runtime: {cores: 1}\n",
       "test.yaml:5: stages[1].runtime.cores: unknown key; runtime has: devices, num_replicas, "
       "env"},
      {"    stage_id: 1\n", "test.yaml:5: stages[1].stage_id: this key is given twice"},
      {"    model_stage: head\n",
       "test.yaml:5: stages[1].model_stage: two stages have the name head"},
  };
  for (const Mistake& mistake : mistakes)
    EXPECT_EQ(error_of(echo_with(mistake.lines)), mistake.message);
}

TEST_F(ConfigTest, UnknownKeysNameTheKnownOnes) {
  const std::string message = error_of(echo_with("    max_seqs: 8\n"));
  EXPECT_EQ(
      message.rfind("test.yaml:5: stages[1].max_seqs: unknown key; a stage has: async_chunk", 0),
      0u)
      << message;
  EXPECT_NE(message.find("max_num_seqs"), std::string::npos);
  EXPECT_EQ(
      error_of("pipelines: echo\nstages: []\n").rfind("test.yaml:1: pipelines: unknown key", 0),
      0u);
}

TEST_F(ConfigTest, ReferenceKeysThatWeDoNotOfferAreRefusedByName) {
  const Mistake refused[] = {
      {"    tensor_parallel_size: 2\n",
       "test.yaml:5: stages[1].tensor_parallel_size: 2 is not supported: a stage is one process "
       "without tensor or pipeline parallelism"},
      {"    engine_args:\n      lora_path: /x\n",
       "test.yaml:6: stages[1].engine_args.lora_path: /x is not supported: LoRA adapters are not "
       "part "
       "of this release"},
      {"    num_replicas: 2\n",
       "test.yaml:5: stages[1].num_replicas: 2 is not supported: a stage is one process in this "
       "release"},
      {"    execution_type: diffusion\n",
       "test.yaml:5: stages[1].execution_type: diffusion stages are not supported in this release"},
      {"    default_sampling_params: {logprobs: 5}\n",
       "test.yaml:5: stages[1].default_sampling_params.logprobs: 5 is not supported: this sampling "
       "parameter is not part of this release"},
      {"    input_connectors: {from_stage_0: {name: NixlConnector}}\n",
       "test.yaml:5: stages[1].input_connectors.from_stage_0.name: NixlConnector is not supported: "
       "there are no network connectors in this release; use SharedMemoryConnector"},
  };
  for (const Mistake& item : refused)
    EXPECT_EQ(error_of(echo_with(item.lines), StatusCode::kUnsupported), item.message);
  EXPECT_EQ(
      error_of("stage_args: []\nstages: []\n", StatusCode::kUnsupported),
      "test.yaml:1: stage_args: a list is not supported: this is the old schema, write the keys "
      "into `stages`");
}

TEST_F(ConfigTest, MistakesOfTheWholeFile) {
  const Mistake mistakes[] = {
      {"", "test.yaml:1: a deploy file must be a map, got nothing"},
      {"- a\n", "test.yaml:1: a deploy file must be a map, got a list"},
      {"pipeline: echo\n", "test.yaml:1: `stages` must be a list of 1..16 stages, got nothing"},
      {"pipeline: echo\nstages: []\n",
       "test.yaml:2: stages: `stages` must be a list of 1..16 stages, got 0"},
      {"stages: [x]\n", "test.yaml:1: stages[0]: a stage must be a map, got x"},
      {"stages: [{family: echo}]\n", "test.yaml:1: stages[0]: needs a stage_id"},
      {"stages: [{stage_id: 16}]\n", "test.yaml:1: stages[0].stage_id: must be 0..15, got 16"},
      {"pipeline: sing\nstages: [{stage_id: 0}]\n",
       "test.yaml:1: pipeline: unknown pipeline; must be one of echo, speak, tts, got sing"},
      {"pipeline: echo\nstages:\n  - stage_id: 0\n  - stage_id: 1\n",
       "test.yaml:2: stages: pipeline echo also needs stage 2 (tail)"},
      {"pipeline: echo\nstages:\n  - stage_id: 3\n",
       "test.yaml:3: stages[0].stage_id: pipeline echo has no stage 3; leave `pipeline` out to "
       "describe your own"},
      {"stages:\n  - stage_id: 0\n",
       "test.yaml:2: stages[0]: needs a family: echo, echo_audio, echo_sink, hibari_code2wav, "
       "hibari_talker, smollm2"},
      {"stages:\n  - {stage_id: 0, family: echo}\n",
       "test.yaml:2: stages[0]: stage 0 has no consumer and no final_output"},
      {"stages:\n  - {stage_id: 0, family: hibari_talker, execution_type: llm_generation, model: "
       "hibari, "
       "final_output: true}\n",
       "test.yaml:2: stages[0].final_output: family hibari_talker has no output for clients"},
      {"stages:\n  - {stage_id: 0, family: smollm2, final_output: true}\n",
       "test.yaml:2: stages[0]: family smollm2 needs a model"},
      {"stages:\n  - {stage_id: 0, family: hibari_talker}\n",
       "test.yaml:2: stages[0].family: family hibari_talker cannot run as execution_type llm_ar"},
      {"stages:\n  - {stage_id: 0, family: echo, final_output: true}\n  - {stage_id: 0, family: "
       "echo}\n",
       "test.yaml:3: stages[1].stage_id: stage 0 is given twice"},
      {"stages:\n  - {stage_id: 0, family: echo, input_sources: [1]}\n"
       "  - {stage_id: 1, family: echo, input_sources: [0], final_output: true}\n",
       "test.yaml:2: stages[0]: stage 0 feeds itself through its input_sources"},
      {"edges: [{from: 0}]\nstages:\n  - {stage_id: 0, family: echo, final_output: true}\n",
       "test.yaml:1: edges[0]: needs `to`"},
      {"edges: [{from: 0, to: 4}]\nstages:\n  - {stage_id: 0, family: echo, final_output: true}\n",
       "test.yaml:1: edges[0]: there is no stage 4"},
      {"pipeline: echo\nedges: [{from: 0, to: 2}]\nstages: [{stage_id: 0}, {stage_id: 1}, "
       "{stage_id: 2}]\n",
       "test.yaml:2: edges[0]: stage 2 does not name 0 among its input_sources"},
      {"connectors: {a: {extra: {}}}\nstages:\n  - {stage_id: 0, family: echo, final_output: "
       "true}\n",
       "test.yaml:1: connectors.a: needs a name: SharedMemoryConnector"},
      {"connectors: {a: {name: SharedMemoryConnector, extra: {codec_chunk_ramp: \"4\"}}}\n"
       "stages:\n  - {stage_id: 0, family: echo, final_output: true}\n",
       "test.yaml:1: connectors.a.extra.codec_chunk_ramp: must be 2..64 chunk sizes of 1..4096 "
       "frames, "
       "got '4'"},
      {"shutdown_timeout_s: 0\nstages: []\n",
       "test.yaml:1: shutdown_timeout_s: must be 1..86400, got 0"},
      {"platforms: {cpu: {model: x}}\nstages: []\n",
       "test.yaml:1: platforms.cpu.model: unknown key; a platform has: stages"},
  };
  for (const Mistake& mistake : mistakes) EXPECT_EQ(error_of(mistake.lines), mistake.message);
}

TEST_F(ConfigTest, TheFirstMistakeOfTheFileIsReported) {
  EXPECT_EQ(error_of("shutdown_timeout_s: 0\nstage_init_timeout_s: 0\nstages: []\n")
                .rfind("test.yaml:1:", 0),
            0u);
  EXPECT_EQ(error_of("stage_init_timeout_s: 0\nshutdown_timeout_s: 0\nstages: []\n")
                .rfind("test.yaml:1:", 0),
            0u);
}

TEST_F(ConfigTest, MissingFilesSayWhatToDo) {
  auto missing = load_deploy((dir_ / "none.yaml").string(), options_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(),
            (dir_ / "none.yaml").string() + ": cannot be opened: No such file or directory");
  EXPECT_FALSE(load_deploy(dir_.string(), options_).ok());

  std::filesystem::remove_all(dir_ / "models" / "hibari");
  auto no_model = load_deploy(OMS_SOURCE_DIR "/deploy/speak.yaml", options_);
  ASSERT_FALSE(no_model.ok());
  EXPECT_EQ(no_model.status().code(), StatusCode::kNotFound);
  EXPECT_NE(no_model.status().message().find("stages[1].model: model hibari is not at "),
            std::string::npos)
      << no_model.status().message();
  EXPECT_NE(no_model.status().message().find("run scripts/setup"), std::string::npos);
  options_.require_models = false;
  EXPECT_TRUE(load_deploy(OMS_SOURCE_DIR "/deploy/speak.yaml", options_).ok());
}

}  // namespace
}  // namespace omnistage::config
