// A temporary folder with a model cache in it, for tests of the deploy files.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::config {

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/oms_config_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    dir_ = pattern;
    for (const char* model : {"smollm2-135m-instruct", "hibari"})
      std::filesystem::create_directories(dir_ / "models" / model);
    options_.models_dir = (dir_ / "models").string();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = dir_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  Result<DeployConfig> parse(const std::string& yaml) {
    return parse_deploy(yaml, "test.yaml", options_);
  }

  // The message of the error that `yaml` must give.
  std::string error_of(const std::string& yaml, StatusCode code = StatusCode::kInvalid) {
    Result<DeployConfig> result = parse(yaml);
    if (result.ok()) return "(accepted)";
    EXPECT_EQ(status_code_name(result.status().code()), std::string(status_code_name(code)))
        << result.status().message();
    return result.status().message();
  }

  std::filesystem::path dir_;
  LoadOptions options_;
};

// The echo pipeline with `extra` lines (6 spaces deep) in stage 1, which starts at line 4.
inline std::string echo_with(const std::string& extra) {
  return "pipeline: echo\nstages:\n  - stage_id: 0\n  - stage_id: 1\n" + extra +
         "  - stage_id: 2\n";
}

}  // namespace omnistage::config
