#include "stage_proc/main/sampling_defaults.h"

namespace omnistage {

using engine::SamplingParams;

engine::SamplingParams effective_sampling(const transfer::WireHeader& header,
                                          const config::SamplingDefaults& defaults) {
  const SamplingParams& sent = header.request.sampling;
  SamplingParams out;
  auto choose = [&header](transfer::SamplingField field, auto& to, const auto& from_request,
                          const auto& from_config) {
    if ((header.given >> field & 1) != 0) {
      to = from_request;
    } else if (from_config.has_value()) {
      to = static_cast<std::decay_t<decltype(to)>>(*from_config);
    }
  };
  auto choose_list = [&header](transfer::SamplingField field, auto& to, const auto& from_request,
                               const auto& from_config) {
    if ((header.given >> field & 1) != 0) {
      to = from_request;
    } else {
      to.assign(from_config.begin(), from_config.end());
    }
  };
  out.seed = sent.seed;
  choose(transfer::kFieldTemperature, out.temperature, sent.temperature, defaults.temperature);
  choose(transfer::kFieldTopK, out.top_k, sent.top_k, defaults.top_k);
  choose(transfer::kFieldTopP, out.top_p, sent.top_p, defaults.top_p);
  choose(transfer::kFieldMinP, out.min_p, sent.min_p, defaults.min_p);
  choose(transfer::kFieldRepetitionPenalty, out.repetition_penalty, sent.repetition_penalty,
         defaults.repetition_penalty);
  choose(transfer::kFieldPresencePenalty, out.presence_penalty, sent.presence_penalty,
         defaults.presence_penalty);
  choose(transfer::kFieldFrequencyPenalty, out.frequency_penalty, sent.frequency_penalty,
         defaults.frequency_penalty);
  choose(transfer::kFieldSeed, out.seed, sent.seed, defaults.seed);
  choose(transfer::kFieldMaxTokens, out.max_tokens, sent.max_tokens, defaults.max_tokens);
  choose(transfer::kFieldMinTokens, out.min_tokens, sent.min_tokens, defaults.min_tokens);
  choose(transfer::kFieldIgnoreEos, out.ignore_eos, sent.ignore_eos, defaults.ignore_eos);
  choose_list(transfer::kFieldStop, out.stop, sent.stop, defaults.stop);
  choose_list(transfer::kFieldStopTokenIds, out.stop_token_ids, sent.stop_token_ids,
              defaults.stop_token_ids);
  choose(transfer::kFieldIncludeStop, out.include_stop_str_in_output,
         sent.include_stop_str_in_output, defaults.include_stop_str_in_output);
  return out;
}

}  // namespace omnistage
