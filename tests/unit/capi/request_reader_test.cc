#include "capi/abi/request_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace omnistage::capi {
namespace {

// A request with one text input, to be changed by a test.
struct Given {
  Given() {
    oms_request_init(&request, sizeof(request));
    oms_sampling_init(&sampling, sizeof(sampling));
    add(OMS_INPUT_TEXT, "Why?", 4);
  }
  void add(uint32_t kind, const void* data, uint64_t bytes) {
    inputs.push_back({sizeof(oms_input), kind, data, bytes});
  }
  void param(const char* key, const char* value) {
    params.push_back({sizeof(oms_param), 0, key, value});
  }
  Result<SubmitData> read() {
    request.inputs = inputs.data();
    request.input_count = static_cast<uint32_t>(inputs.size());
    request.params = params.data();
    request.param_count = static_cast<uint32_t>(params.size());
    request.sampling = &sampling;
    return read_request(&request);
  }
  void refused(StatusCode code, const std::string& naming) {
    auto data = read();
    ASSERT_FALSE(data.ok());
    EXPECT_EQ(data.status().code(), code) << data.status().message();
    EXPECT_NE(data.status().message().find(naming), std::string::npos) << data.status().message();
  }
  std::vector<oms_input> inputs;
  std::vector<oms_param> params;
  oms_sampling sampling;
  oms_request request;
};

TEST(RequestReader, CopiesWhatIsGiven) {
  Given given;
  given.add(OMS_INPUT_SYSTEM_TEXT, "Be kind.", 8);
  given.add(OMS_INPUT_TEXT, " Really?", 8);
  given.param("voice", "ruth");
  const char* stops[] = {"END"};
  const int32_t ids[] = {7, 8};
  given.sampling.given = OMS_GIVEN_STOP | OMS_GIVEN_STOP_TOKEN_IDS | OMS_GIVEN_TEMPERATURE;
  given.sampling.temperature = 0.25;
  given.sampling.stop = stops;
  given.sampling.stop_count = 1;
  given.sampling.stop_token_ids = ids;
  given.sampling.stop_token_id_count = 2;
  given.request.user_data = 9;
  given.request.deadline_ns = 10;
  auto data = given.read();
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->text, "Why? Really?");
  EXPECT_EQ(data->system_prompt, "Be kind.");
  EXPECT_EQ(data->stop, std::vector<std::string>{"END"});
  EXPECT_EQ(data->stop_token_ids, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(data->temperature, 0.25);
  EXPECT_EQ(data->user_data, 9u);
  EXPECT_EQ(data->deadline_ns, 10);
  EXPECT_EQ(data->credit, 8u);
  ASSERT_EQ(data->extra.size(), 1u);
  EXPECT_EQ(data->extra[0].second, "ruth");
}

TEST(RequestReader, TokenIdsAreAWholePrompt) {
  const int32_t ids[] = {1, 2, 3};
  Given given;
  given.inputs.clear();
  given.add(OMS_INPUT_TOKEN_IDS, ids, sizeof(ids));
  auto data = given.read();
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->token_ids, (std::vector<int32_t>{1, 2, 3}));
  given.add(OMS_INPUT_TEXT, "x", 1);
  given.refused(StatusCode::kInvalid, "token ids");
  const int32_t negative[] = {-1};
  given.inputs.clear();
  given.add(OMS_INPUT_TOKEN_IDS, negative, sizeof(negative));
  given.refused(StatusCode::kInvalid, "-1");
  given.inputs[0].bytes = 3;
  given.refused(StatusCode::kInvalid, "multiple of 4");
}

TEST(RequestReader, RefusesInputsByName) {
  for (uint32_t kind : {OMS_INPUT_AUDIO, OMS_INPUT_IMAGE, OMS_INPUT_TENSOR}) {
    Given given;
    given.add(kind, "x", 1);
    given.refused(StatusCode::kUnsupported, "inputs[1]");
  }
  {
    Given given;
    given.add(99, "x", 1);
    given.refused(StatusCode::kUnsupported, "99");
  }
  {
    Given given;
    given.add(OMS_INPUT_TEXT, nullptr, 1);
    given.refused(StatusCode::kInvalid, "inputs[1]");
  }
  {
    Given given;
    given.inputs[0].bytes = 0;
    given.refused(StatusCode::kInvalid, "empty");
  }
  {
    Given given;
    given.inputs[0] = {sizeof(oms_input), OMS_INPUT_TEXT, "a\xff", 2};
    given.refused(StatusCode::kInvalid, "UTF-8 at byte 1");
  }
  {
    Given given;
    given.inputs[0] = {sizeof(oms_input), OMS_INPUT_TEXT, "a\0b", 3};
    given.refused(StatusCode::kInvalid, "NUL");
  }
  {
    Given given;
    given.inputs.clear();
    given.refused(StatusCode::kInvalid, "inputs");
    given.add(OMS_INPUT_SYSTEM_TEXT, "x", 1);
    given.refused(StatusCode::kInvalid, "neither text");
  }
  {
    Given given;
    const std::string half(limits::kTextInputBytesMax / 2, 'x');
    given.add(OMS_INPUT_TEXT, half.data(), half.size());
    EXPECT_TRUE(given.read().ok());
    given.add(OMS_INPUT_TEXT, half.data(), half.size());
    given.refused(StatusCode::kInvalid, std::to_string(limits::kTextInputBytesMax));
    given.inputs[0].bytes = UINT64_MAX;
    given.refused(StatusCode::kInvalid, std::to_string(limits::kTextInputBytesMax));
  }
  {
    Given given;
    for (int i = 0; i < 16; ++i) given.add(OMS_INPUT_TEXT, "x", 1);
    given.refused(StatusCode::kInvalid, "input_count");
  }
  {
    Given given;
    given.add(OMS_INPUT_TEXT, "x", 1);
    given.inputs[1].struct_size = 16;
    given.refused(StatusCode::kInvalid, "struct_size");
  }
}

TEST(RequestReader, ElementsOfANewerCallerAreFartherApart) {
  struct NewerInput {
    oms_input input;
    uint64_t future;
  } inputs[2] = {{{sizeof(NewerInput), OMS_INPUT_TEXT, "a", 1}, 0},
                 {{sizeof(NewerInput), OMS_INPUT_TEXT, "b", 1}, 0}};
  oms_request request;
  oms_request_init(&request, sizeof(request));
  request.inputs = &inputs[0].input;
  request.input_count = 2;
  auto data = read_request(&request);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->text, "ab");
  inputs[1].future = 1;
  EXPECT_EQ(read_request(&request).status().code(), StatusCode::kUnsupported);
}

TEST(RequestReader, RefusesParamsAndSamplingByName) {
  {
    Given given;
    given.param("", "x");
    given.refused(StatusCode::kInvalid, "params[0].key");
  }
  {
    Given given;
    given.param("voice", nullptr);
    given.refused(StatusCode::kInvalid, "params[0].value");
  }
  {
    Given given;
    given.param("voice", "a");
    given.param("voice", "b");
    given.refused(StatusCode::kInvalid, "twice");
  }
  {
    Given given;
    const std::string longer(kParamValueBytesMax + 1, 'x');
    given.param("voice", longer.c_str());
    given.refused(StatusCode::kInvalid, "1024");
  }
  {
    Given given;
    given.sampling.given = OMS_GIVEN_TEMPERATURE;
    given.sampling.temperature = std::nan("");
    given.refused(StatusCode::kInvalid, "sampling.temperature");
    given.sampling.given = OMS_GIVEN_TOP_P;  // the number that counts is fine
    EXPECT_TRUE(given.read().ok());
    given.sampling.top_p = std::numeric_limits<double>::infinity();
    given.refused(StatusCode::kInvalid, "sampling.top_p");
  }
  {
    Given given;
    given.sampling.given = 1ull << 40;
    given.refused(StatusCode::kUnsupported, "given");
  }
  {
    Given given;
    given.sampling.given = OMS_GIVEN_STOP;
    given.sampling.stop_count = 17;
    given.refused(StatusCode::kInvalid, "stop_count");
    given.sampling.stop_count = 1;
    given.refused(StatusCode::kInvalid, "sampling.stop");
  }
  {
    Given given;
    given.request.deadline_ns = -1;
    given.refused(StatusCode::kInvalid, "deadline_ns");
  }
  {
    Given given;
    given.request.output_credit = 65;
    given.refused(StatusCode::kInvalid, "output_credit");
  }
  {
    Given given;
    given.request.outputs_wanted = 1u << 9;
    given.refused(StatusCode::kUnsupported, "outputs_wanted");
  }
}

}  // namespace
}  // namespace omnistage::capi
