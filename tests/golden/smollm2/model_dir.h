// Where the tests find the model files, and how they load it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "stage_proc/config/deploy_config.h"
#include "stage_proc/models/smollm2/smollm2.h"

namespace omnistage::models {

inline std::string test_model_dir() {
  return config::default_cache_dir() + "/models/smollm2-135m-instruct";
}

// Null, and a test failure that says where the model was expected, when it cannot be loaded.
inline std::unique_ptr<ArModel> load_test_model(ArModelOptions options) {
  options.model_dir = test_model_dir();
  auto made = smollm2::make_smollm2(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().to_string() << "\nThe model is expected in " << options.model_dir
                  << "; set OMNISTAGE_CACHE to the folder that holds models/.";
    return nullptr;
  }
  return std::move(made).value();
}

}  // namespace omnistage::models
