#include "capi/abi/request_reader.h"

#include <cmath>

#include "capi/abi/checks.h"
#include "capi/state/utf8.h"
#include "shm/base/limits.h"

namespace omnistage::capi {
namespace {

constexpr uint64_t kKnownGiven = (1u << 14) - 1;

std::string over(const std::string& name, uint64_t value, uint64_t limit) {
  return name + " is " + std::to_string(value) + ", the limit is " + std::to_string(limit);
}

Status check_text(std::string_view text, const std::string& name) {
  const size_t valid = utf8_valid_prefix(text);
  if (valid != text.size()) {
    return invalid(name + " is not UTF-8 at byte " + std::to_string(valid));
  }
  if (text.find('\0') != std::string_view::npos) return invalid(name + " has a NUL character");
  return Status();
}

// A NUL-terminated string of min..max bytes.
Result<std::string> read_string(const char* text, size_t min, size_t max, const std::string& name) {
  if (text == nullptr) return invalid(name + " is NULL");
  const size_t size = ::strnlen(text, max + 1);
  if (size > max) return invalid(name + " is longer than " + std::to_string(max) + " bytes");
  if (size < min) return invalid(name + " is empty");
  std::string out(text, size);
  OMS_RETURN_IF_ERROR(check_text(out, name));
  return out;
}

Status read_token_ids(const oms_input& input, const std::string& name, SubmitData& out) {
  if (input.bytes % sizeof(int32_t) != 0) {
    return invalid(name + ".bytes is " + std::to_string(input.bytes) +
                   ", not a multiple of 4 for token ids");
  }
  const size_t count = input.bytes / sizeof(int32_t);
  const size_t before = out.token_ids.size();
  out.token_ids.resize(before + count);
  std::memcpy(out.token_ids.data() + before, input.data, input.bytes);
  for (size_t i = before; i < out.token_ids.size(); ++i) {
    if (out.token_ids[i] < 0) {
      return invalid(name + ": token id " + std::to_string(out.token_ids[i]) + " is negative");
    }
  }
  return Status();
}

Status read_input(const oms_input& input, const std::string& name, SubmitData& out) {
  if (input.kind == OMS_INPUT_AUDIO || input.kind == OMS_INPUT_IMAGE ||
      input.kind == OMS_INPUT_TENSOR) {
    return Status(StatusCode::kUnsupported,
                  name + ".kind: this pipeline takes text and token ids only");
  }
  if (input.kind < OMS_INPUT_TEXT || input.kind > OMS_INPUT_TENSOR) {
    return Status(StatusCode::kUnsupported,
                  name + ".kind " + std::to_string(input.kind) + " is unknown");
  }
  if (input.data == nullptr || input.bytes == 0) return invalid(name + " is empty");
  if (input.kind == OMS_INPUT_TOKEN_IDS) return read_token_ids(input, name, out);
  const std::string_view text(static_cast<const char*>(input.data), input.bytes);
  OMS_RETURN_IF_ERROR(check_text(text, name));
  (input.kind == OMS_INPUT_TEXT ? out.text : out.system_prompt) += text;
  return Status();
}

Status read_inputs(const oms_request& request, SubmitData& out) {
  if (request.inputs == nullptr || request.input_count == 0)
    return invalid("inputs: there are none");
  if (request.input_count > kInputsMax) {
    return invalid(over("input_count", request.input_count, kInputsMax));
  }
  const uint32_t stride = request.inputs->struct_size;
  uint64_t total = 0;
  for (uint32_t i = 0; i < request.input_count; ++i) {
    const std::string name = "inputs[" + std::to_string(i) + "]";
    const oms_input* element_i = element(request.inputs, stride, i);
    oms_input input{};
    OMS_RETURN_IF_ERROR(copy_in(element_i, input, name.c_str()));
    if (input.struct_size != stride) return invalid(name + ".struct_size differs from inputs[0]");
    if (input.bytes > limits::kTextInputBytesMax ||
        (total += input.bytes) > limits::kTextInputBytesMax) {
      return invalid(name + ": the inputs have more than " +
                     std::to_string(limits::kTextInputBytesMax) + " bytes");
    }
    OMS_RETURN_IF_ERROR(read_input(input, name, out));
  }
  if (out.text.empty() && out.token_ids.empty()) {
    return invalid("inputs: neither text nor token ids for the user's turn");
  }
  if (!out.token_ids.empty() && !(out.text.empty() && out.system_prompt.empty())) {
    return invalid("inputs: token ids are a whole prompt and go with no text");
  }
  return Status();
}

Status read_params(const oms_request& request, SubmitData& out) {
  if (request.param_count == 0) return Status();
  if (request.params == nullptr) return invalid("params is NULL");
  if (request.param_count > kParamsMax) {
    return invalid(over("param_count", request.param_count, kParamsMax));
  }
  const uint32_t stride = request.params->struct_size;
  for (uint32_t i = 0; i < request.param_count; ++i) {
    const std::string name = "params[" + std::to_string(i) + "]";
    oms_param param{};
    OMS_RETURN_IF_ERROR(copy_in(element(request.params, stride, i), param, name.c_str()));
    if (param.struct_size != stride) return invalid(name + ".struct_size differs from params[0]");
    OMS_ASSIGN_OR_RETURN(std::string key,
                         read_string(param.key, 1, kParamKeyBytesMax, name + ".key"));
    OMS_ASSIGN_OR_RETURN(std::string value,
                         read_string(param.value, 0, kParamValueBytesMax, name + ".value"));
    for (const auto& other : out.extra) {
      if (other.first == key) return invalid(name + ": '" + key + "' is given twice");
    }
    out.extra.emplace_back(std::move(key), std::move(value));
  }
  return Status();
}

Status read_stops(const oms_sampling& sampling, SubmitData& out) {
  if ((sampling.given & OMS_GIVEN_STOP) != 0) {
    if (sampling.stop_count > limits::kStopStringsMax) {
      return invalid(over("sampling.stop_count", sampling.stop_count, limits::kStopStringsMax));
    }
    if (sampling.stop_count != 0 && sampling.stop == nullptr)
      return invalid("sampling.stop is NULL");
    for (uint32_t i = 0; i < sampling.stop_count; ++i) {
      OMS_ASSIGN_OR_RETURN(std::string stop,
                           read_string(sampling.stop[i], 1, limits::kStopStringBytesMax,
                                       "sampling.stop[" + std::to_string(i) + "]"));
      out.stop.push_back(std::move(stop));
    }
  }
  if ((sampling.given & OMS_GIVEN_STOP_TOKEN_IDS) != 0) {
    if (sampling.stop_token_id_count > kStopTokenIdsMax) {
      return invalid(
          over("sampling.stop_token_id_count", sampling.stop_token_id_count, kStopTokenIdsMax));
    }
    if (sampling.stop_token_id_count != 0 && sampling.stop_token_ids == nullptr) {
      return invalid("sampling.stop_token_ids is NULL");
    }
    out.stop_token_ids.assign(sampling.stop_token_ids,
                              sampling.stop_token_ids + sampling.stop_token_id_count);
  }
  return Status();
}

Status read_sampling(const oms_request& request, SubmitData& out) {
  if (request.sampling == nullptr) return Status();
  oms_sampling sampling{};
  OMS_RETURN_IF_ERROR(copy_in(request.sampling, sampling, "sampling"));
  if ((sampling.given & ~kKnownGiven) != 0) {
    return Status(StatusCode::kUnsupported, "sampling.given has unknown bits");
  }
  const struct {
    const char* name;
    uint64_t bit;
    double value;
  } numbers[] = {
      {"temperature", OMS_GIVEN_TEMPERATURE, sampling.temperature},
      {"top_p", OMS_GIVEN_TOP_P, sampling.top_p},
      {"min_p", OMS_GIVEN_MIN_P, sampling.min_p},
      {"repetition_penalty", OMS_GIVEN_REPETITION_PENALTY, sampling.repetition_penalty},
      {"presence_penalty", OMS_GIVEN_PRESENCE_PENALTY, sampling.presence_penalty},
      {"frequency_penalty", OMS_GIVEN_FREQUENCY_PENALTY, sampling.frequency_penalty},
  };
  for (const auto& number : numbers) {
    if ((sampling.given & number.bit) != 0 && !std::isfinite(number.value)) {
      return invalid(std::string("sampling.") + number.name + " is not a finite number");
    }
  }
  out.given = sampling.given;
  out.temperature = sampling.temperature;
  out.top_p = sampling.top_p;
  out.min_p = sampling.min_p;
  out.repetition_penalty = sampling.repetition_penalty;
  out.presence_penalty = sampling.presence_penalty;
  out.frequency_penalty = sampling.frequency_penalty;
  out.seed = sampling.seed;
  out.top_k = sampling.top_k;
  out.max_tokens = sampling.max_tokens;
  out.min_tokens = sampling.min_tokens;
  out.ignore_eos = sampling.ignore_eos != 0;
  out.include_stop = sampling.include_stop != 0;
  return read_stops(sampling, out);
}

}  // namespace

Result<SubmitData> read_request(const oms_request* given) {
  oms_request request{};
  OMS_RETURN_IF_ERROR(copy_in(given, request, "request"));
  SubmitData out;
  constexpr uint32_t kAll = OMS_WANT_TEXT | OMS_WANT_AUDIO | OMS_WANT_TENSOR;
  if ((request.outputs_wanted & ~kAll) != 0) {
    return Status(StatusCode::kUnsupported, "outputs_wanted has unknown bits");
  }
  if (request.deadline_ns < 0) return invalid("deadline_ns is negative");
  if (request.output_credit > kCreditMax) {
    return invalid(over("output_credit", request.output_credit, kCreditMax));
  }
  out.wanted = request.outputs_wanted;
  out.deadline_ns = request.deadline_ns;
  out.user_data = request.user_data;
  out.priority = request.priority;
  out.credit = request.output_credit != 0 ? request.output_credit : limits::kDefaultCreditOutputs;
  OMS_RETURN_IF_ERROR(read_inputs(request, out));
  OMS_RETURN_IF_ERROR(read_params(request, out));
  OMS_RETURN_IF_ERROR(read_sampling(request, out));
  return out;
}

}  // namespace omnistage::capi
