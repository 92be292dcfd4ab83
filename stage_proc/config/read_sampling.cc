#include "stage_proc/config/readers.h"
#include "stage_proc/config/unsupported.h"

namespace omnistage::config {
namespace {

constexpr int kTokenIdMax = 1 << 24;
constexpr size_t kStopTokensMax = 64;

void read_stop(Fields* fields, std::vector<std::string>* out) {
  const Value* found = fields->get("stop");
  if (found == nullptr) return;
  std::vector<Value> items = found->is_list() ? found->list : std::vector<Value>{*found};
  if (items.size() > limits::kStopStringsMax) {
    fields->problems().add(*found, "must be at most " + std::to_string(limits::kStopStringsMax) +
                                       " strings, got " + std::to_string(items.size()));
    return;
  }
  for (const Value& item : items) {
    if (!item.is_scalar() || item.scalar.empty() ||
        item.scalar.size() > limits::kStopStringBytesMax) {
      fields->problems().add(item, "must be text of 1.." +
                                       std::to_string(limits::kStopStringBytesMax) +
                                       " bytes, got " + describe(item));
      return;
    }
    out->push_back(item.scalar);
  }
}

}  // namespace

SamplingDefaults read_sampling(const Value& value, Problems* problems) {
  SamplingDefaults out;
  if (!value.is_map()) {
    problems->add(value, "must be a map, got " + describe(value));
    return out;
  }
  Fields fields(value, problems);
  refuse_unsupported(Scope::kSampling, &fields);
  fields.read_number("temperature", 0, false, 2, &out.temperature);
  fields.read_int("top_k", -1, kTokenIdMax, &out.top_k);
  fields.read_number("top_p", 0, true, 1, &out.top_p);
  fields.read_number("min_p", 0, false, 1, &out.min_p);
  fields.read_number("repetition_penalty", 0, true, 100, &out.repetition_penalty);
  fields.read_number("presence_penalty", -2, false, 2, &out.presence_penalty);
  fields.read_number("frequency_penalty", -2, false, 2, &out.frequency_penalty);
  int64_t seed = 0;
  if (fields.read_int("seed", INT64_MIN, INT64_MAX, &seed)) out.seed = seed;
  fields.read_int("min_tokens", 0, kMaxModelLenMax, &out.min_tokens);
  fields.read_int("max_tokens", 1, kMaxModelLenMax, &out.max_tokens);
  bool flag = false;
  if (fields.read_bool("ignore_eos", &flag)) out.ignore_eos = flag;
  if (fields.read_bool("include_stop_str_in_output", &flag)) out.include_stop_str_in_output = flag;
  read_stop(&fields, &out.stop);
  fields.read_ints("stop_token_ids", 0, kTokenIdMax, kStopTokensMax, &out.stop_token_ids);
  if (out.min_tokens && out.max_tokens && *out.min_tokens > *out.max_tokens)
    problems->add(*fields.get("min_tokens"), "must not be above max_tokens (" +
                                                 std::to_string(*out.max_tokens) + "), got " +
                                                 std::to_string(*out.min_tokens));
  fields.finish("default_sampling_params");
  return out;
}

}  // namespace omnistage::config
