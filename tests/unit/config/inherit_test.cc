// base_config and platforms: who wins, and that messages point into the right file.
#include "tests/unit/config/config_fixture.h"

namespace omnistage::config {
namespace {

TEST_F(ConfigTest, OverlayWinsKeyByKey) {
  write("base.yaml", R"(pipeline: echo
shutdown_timeout_s: 3
stage_init_timeout_s: 4
connectors:
  c: {name: SharedMemoryConnector, extra: {codec_chunk_frames: 5, codec_left_context_frames: 6}}
stages:
  - {stage_id: 0, threads: 1, env: {A: base, B: base}, default_sampling_params: {temperature: 1, top_k: 3}}
  - {stage_id: 1, threads: 2, input_connectors: {from_stage_0: c}}
  - {stage_id: 2}
)");
  const std::string path = write("top.yaml", R"(base_config: base.yaml
shutdown_timeout_s: 9
connectors:
  c: {extra: {codec_chunk_frames: 7}}
stages:
  - {stage_id: 0, threads: 8, env: {B: top}, default_sampling_params: {temperature: 0}}
)");
  auto result = load_deploy(path, options_);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->shutdown_timeout_s, 9);
  EXPECT_EQ(result->stage_init_timeout_s, 4);
  EXPECT_EQ(result->stages[0].threads, 8);
  EXPECT_EQ(result->stages[1].threads, 2);
  EXPECT_EQ(result->stages[0].env,
            (std::map<std::string, std::string>{{"A", "base"}, {"B", "top"}}));
  EXPECT_EQ(result->stages[0].default_sampling_params.temperature, 0.0);
  EXPECT_EQ(result->stages[0].default_sampling_params.top_k, 3);
  EXPECT_EQ(result->edge(0, 1)->connector.codec_chunk_frames, 7);
  EXPECT_EQ(result->edge(0, 1)->connector.codec_left_context_frames, 6);
}

TEST_F(ConfigTest, MessagesPointIntoTheFileOfTheMistake) {
  const std::string base = write("base.yaml",
                                 "pipeline: echo\nstages:\n  - stage_id: 0\n    threads: 99\n"
                                 "  - stage_id: 1\n  - stage_id: 2\n");
  const std::string top = write("top.yaml", "base_config: base.yaml\nshutdown_timeout_s: 5\n");
  auto result = load_deploy(top, options_);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(), base + ":4: stages[0].threads: must be 0..64, got 99");
}

TEST_F(ConfigTest, MissingOrCircularBase) {
  const std::string top = write("top.yaml", "\nbase_config: none.yaml\n");
  auto missing = load_deploy(top, options_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message().rfind(top + ":2: base_config: ", 0), 0u)
      << missing.status().message();

  auto circle = load_deploy(write("self.yaml", "base_config: self.yaml\n"), options_);
  ASSERT_FALSE(circle.ok());
  EXPECT_NE(circle.status().message().find("is there a circle?"), std::string::npos);
}

TEST_F(ConfigTest, PlatformSectionTouchesExistingStagesOnly) {
  const char* text = R"(pipeline: echo
stages:
  - {stage_id: 0, threads: 1, env: {A: flat, B: flat}}
  - {stage_id: 1}
  - {stage_id: 2}
platforms:
  cpu:
    stages:
      - {stage_id: 0, threads: 2, env: {B: cpu}}
      - {stage_id: 9, threads: 3}
  cuda:
    stages:
      - {stage_id: 0, threads: 4}
)";
  auto cpu = parse(text);
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  EXPECT_EQ(cpu->stages.size(), 3u);
  EXPECT_EQ(cpu->stages[0].threads, 2);
  EXPECT_EQ(cpu->stages[0].env, (std::map<std::string, std::string>{{"A", "flat"}, {"B", "cpu"}}));
  options_.platform = "cuda";
  EXPECT_EQ(parse(text)->stages[0].threads, 4);
  options_.platform = "npu";
  EXPECT_EQ(parse(text)->stages[0].threads, 1);
}

}  // namespace
}  // namespace omnistage::config
