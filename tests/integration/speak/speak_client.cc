#include "tests/integration/speak/speak_client.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::test {

std::string speak_deploy() {
  return std::string(OMS_SOURCE_DIR) + "/deploy/speak.yaml";
}

std::string model_cache() {
  return config::default_cache_dir();
}

std::string mark_environment() {
  const std::string mark = new_mark();
  const size_t equals = mark.find('=');
  ::setenv(mark.substr(0, equals).c_str(), mark.substr(equals + 1).c_str(), 1);
  ::setenv("OMNISTAGE_BIN_DIR", (std::string(OMS_BUILD_DIR) + "/bin").c_str(), 1);
  return mark;
}

namespace {

void take_piece(SpokenAnswer& answer, const Output& output) {
  const oms_output_info info = output.info();
  const auto out_of_order = [&](const std::string& what) {
    if (answer.disorder.empty()) {
      answer.disorder = what + " at output " + std::to_string(answer.outputs) + " (sequence " +
                        std::to_string(info.sequence) + ", position " +
                        std::to_string(info.position) + ")";
    }
  };
  if (answer.finals != 0) out_of_order("something after the FINAL");
  if (info.sequence != answer.outputs) out_of_order("a gap in the sequence");
  ++answer.outputs;
  if ((info.flags & OMS_OUTPUT_FINAL) != 0) {
    ++answer.finals;
    answer.final = info;
    answer.error = output.error();
    return;
  }
  const int64_t after = info.t_ready_ns - info.t_submit_ns;
  if (info.kind == OMS_KIND_TEXT) {
    if (info.position != answer.token_ids.size()) out_of_order("a gap in the text");
    if (answer.first_text_ns == 0) answer.first_text_ns = after;
    answer.text += output.text();
    const int32_t* ids = nullptr;
    size_t count = 0;
    ASSERT_EQ(oms_output_token_ids(output.get(), &ids, &count), OMS_OK);
    answer.token_ids.insert(answer.token_ids.end(), ids, ids + count);
  } else if (info.kind == OMS_KIND_AUDIO) {
    if (info.position != answer.audio.size()) out_of_order("a gap in the sound");
    if (answer.first_audio_ns == 0) answer.first_audio_ns = after;
    EXPECT_EQ(info.sample_rate, 24000u);
    const oms_tensor_view view = output.tensor();
    ASSERT_EQ(view.dtype_code, OMS_DTYPE_FLOAT);
    ASSERT_EQ(view.dtype_bits, 32);
    const auto* samples = static_cast<const float*>(view.data);
    answer.audio.insert(answer.audio.end(), samples, samples + view.bytes / sizeof(float));
  } else {
    ADD_FAILURE() << "output of kind " << info.kind;
  }
}

}  // namespace

bool SpeakClient::wait_ready() {
  try {
    if (pipeline.wait_ready(kPatienceNs) == OMS_OK) return true;
    ADD_FAILURE() << "the stages do not become ready";
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\nThe models are expected in " << model_cache()
                  << "/models; scripts/setup fetches them.";
  }
  return false;
}

oms_request_id SpeakClient::submit(const Question& question) {
  Request request;
  request.text(question.text).outputs(question.wanted);
  for (const auto& [key, value] : question.params) request.param(key, value);
  oms_sampling& sampling = request.sampling();
  sampling.given = OMS_GIVEN_SEED | OMS_GIVEN_MAX_TOKENS;
  sampling.seed = question.seed;
  sampling.max_tokens = question.max_tokens;
  if (question.temperature) {
    sampling.given |= OMS_GIVEN_TEMPERATURE;
    sampling.temperature = *question.temperature;
  }
  return queue_.submit(request);
}

bool SpeakClient::take() {
  Output output;
  const oms_status status = queue_.wait(output, kPatienceNs);
  EXPECT_EQ(status, OMS_OK) << oms_status_name(status);
  if (status != OMS_OK) return false;
  take_piece(answers[output.info().request], output);
  return true;
}

void SpeakClient::collect(const std::vector<oms_request_id>& ids) {
  const auto missing = [&] {
    return std::any_of(ids.begin(), ids.end(),
                       [&](oms_request_id id) { return answers[id].finals == 0; });
  };
  while (missing()) {
    if (!take()) return;
  }
}

SpokenAnswer SpeakClient::ask(const Question& question) {
  const oms_request_id id = submit(question);
  collect({id});
  return answers[id];
}

void SpeakClient::wait_audio(oms_request_id id, size_t samples) {
  while (answers[id].audio.size() < samples && answers[id].finals == 0) {
    if (!take()) return;
  }
}

void expect_complete(const SpokenAnswer& answer, uint32_t wanted) {
  EXPECT_EQ(answer.finals, 1);
  EXPECT_EQ(answer.final.status, OMS_OK) << answer.error.message;
  EXPECT_EQ(answer.disorder, "");
  EXPECT_EQ(answer.text.empty(), (wanted & OMS_WANT_TEXT) == 0) << answer.text;
  EXPECT_EQ(answer.audio.empty(), (wanted & OMS_WANT_AUDIO) == 0) << answer.audio.size();
  EXPECT_EQ(answer.final.audio_samples, answer.audio.size());
}

double expect_same(const SpokenAnswer& answer, const SpokenAnswer& alone) {
  EXPECT_EQ(answer.text, alone.text);
  EXPECT_EQ(answer.token_ids, alone.token_ids);
  EXPECT_EQ(answer.audio.size(), alone.audio.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(answer.audio.size(), alone.audio.size()); ++i) {
    worst = std::max(worst, std::abs(double{answer.audio[i]} - double{alone.audio[i]}));
  }
  EXPECT_LE(worst, 1e-4);
  return worst;
}

}  // namespace omnistage::test
