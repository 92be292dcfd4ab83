// What the tests of the speaking pipeline share: a client over the C interface that collects whole
// answers and checks the order of every piece. One thread.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "omnistage/omnistage.hpp"
#include "tests/integration/pipeline/processes.h"

namespace omnistage::test {

std::string speak_deploy();
// Where the models are expected, as the product looks for them.
std::string model_cache();
// Sets OMNISTAGE_BIN_DIR and a mark in this process's environment, which everything started from
// now on inherits; gives the mark.
std::string mark_environment();

struct Question {
  std::string text = "Why is the sky blue?";
  int max_tokens = 24;
  std::optional<double> temperature;
  uint64_t seed = 1;
  uint32_t wanted = 0;
  std::map<std::string, std::string> params;
};

struct SpokenAnswer {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<float> audio;
  uint64_t outputs = 0;
  int finals = 0;
  std::string disorder;  // the first piece that was out of order; empty = none
  oms_output_info final{};
  oms_error error{};
  int64_t first_text_ns = 0;  // after the submit
  int64_t first_audio_ns = 0;
};

class SpeakClient {
 public:
  explicit SpeakClient(Pipeline opened) : pipeline(std::move(opened)), queue_(pipeline) {}

  // False, and a test failure with the reason, unless all stages become ready.
  bool wait_ready();
  oms_request_id submit(const Question& question);
  // Takes one output, waiting with patience; false (a test failure) when none came.
  bool take();
  void collect(const std::vector<oms_request_id>& ids);
  SpokenAnswer ask(const Question& question);
  // Until `samples` of sound of the request are there or it ended.
  void wait_audio(oms_request_id id, size_t samples);
  void cancel(oms_request_id id) { queue_.cancel(id); }

  Pipeline pipeline;
  std::map<oms_request_id, SpokenAnswer> answers;

 private:
  Queue queue_;
};

// Ended well, in order, with one FINAL, with text and sound as wanted.
void expect_complete(const SpokenAnswer& answer, uint32_t wanted = OMS_WANT_TEXT | OMS_WANT_AUDIO);
// Same tokens, same text, sound within 1e-4; gives the largest difference of a sample.
double expect_same(const SpokenAnswer& answer, const SpokenAnswer& alone);

}  // namespace omnistage::test
