// validate_sampling: each field at and beyond its borders; the message names field and range.
#include "stage_proc/sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "shm/base/limits.h"

namespace omnistage::sampling {
namespace {

using engine::SamplingParams;

void expect_bad(const std::function<void(SamplingParams&)>& change, const std::string& message) {
  SamplingParams params;
  change(params);
  Status status = validate_sampling(params, 1000);
  EXPECT_EQ(status.code(), StatusCode::kInvalid) << message;
  EXPECT_NE(status.message().find(message), std::string::npos)
      << "wanted '" << message << "' in '" << status.message() << "'";
}

void expect_good(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  EXPECT_EQ(validate_sampling(params, 1000).to_string(), Status().to_string());
}

TEST(ValidateSampling, AcceptsDefaultsAndBorders) {
  expect_good([](SamplingParams&) {});
  expect_good([](SamplingParams& p) { p.temperature = 0; });
  expect_good([](SamplingParams& p) { p.temperature = 2; });
  expect_good([](SamplingParams& p) { p.top_k = -1; });
  expect_good([](SamplingParams& p) { p.top_p = 1e-9; });
  expect_good([](SamplingParams& p) { p.min_p = 1; });
  expect_good([](SamplingParams& p) { p.presence_penalty = -2; });
  expect_good([](SamplingParams& p) { p.max_tokens = p.min_tokens = 1; });
  expect_good([](SamplingParams& p) { p.stop = {std::string(256, 'x'), "\xE2\x82\xAC"}; });
  expect_good([](SamplingParams& p) { p.stop_token_ids = {0, 999}; });
}

TEST(ValidateSampling, NamesFieldRangeAndValue) {
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  expect_bad([](auto& p) { p.temperature = -0.1; }, "temperature must be in [0, 2], got -0.1");
  expect_bad([](auto& p) { p.temperature = 2.01; }, "temperature must be in [0, 2], got 2.01");
  expect_bad([&](auto& p) { p.temperature = nan; }, "temperature");
  expect_bad([](auto& p) { p.top_k = -2; }, "top_k must be -1 or 0 (off) or at least 1, got -2");
  expect_bad([](auto& p) { p.top_p = 0; }, "top_p must be in (0, 1], got 0");
  expect_bad([](auto& p) { p.top_p = 1.5; }, "top_p");
  expect_bad([&](auto& p) { p.top_p = nan; }, "top_p");
  expect_bad([](auto& p) { p.min_p = -1; }, "min_p must be in [0, 1], got -1");
  expect_bad([](auto& p) { p.repetition_penalty = 0; },
             "repetition_penalty must be greater than 0");
  expect_bad([&](auto& p) { p.repetition_penalty = inf; }, "repetition_penalty");
  expect_bad([](auto& p) { p.presence_penalty = 2.5; }, "presence_penalty must be in [-2, 2]");
  expect_bad([&](auto& p) { p.frequency_penalty = nan; }, "frequency_penalty must be in [-2, 2]");
  expect_bad([](auto& p) { p.max_tokens = 0; }, "max_tokens must be at least 1, got 0");
  expect_bad([](auto& p) { p.min_tokens = 257; }, "min_tokens must be in [0, max_tokens = 256]");
  expect_bad([](auto& p) { p.min_tokens = -1; }, "min_tokens");
  expect_bad([](auto& p) { p.stop = {"a", ""}; }, "stop[1] must not be empty");
  expect_bad([](auto& p) { p.stop = {std::string(257, 'x')}; },
             "stop[0] must have at most 256 bytes");
  expect_bad([](auto& p) { p.stop = {"\xFF"}; }, "stop[0] must be valid UTF-8");
  expect_bad([](auto& p) { p.stop.assign(17, "x"); }, "stop must have at most 16 strings, got 17");
  expect_bad([](auto& p) { p.stop_token_ids = {3, -1}; }, "stop_token_ids[1] must be in [0, 1000)");
  expect_bad([](auto& p) { p.stop_token_ids = {1000}; }, "stop_token_ids[0]");
  expect_bad([](auto& p) { p.stop_token_ids.assign(257, 1); },
             "stop_token_ids must have at most 256");
}

TEST(IsValidUtf8, FollowsTheStandardTable) {
  for (const char* good : {"", "a", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_valid_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "a\xFF"})
    EXPECT_FALSE(is_valid_utf8(bad)) << bad;
}

}  // namespace
}  // namespace omnistage::sampling
