#include "stage_proc/sampling/stop_checker.h"

#include <algorithm>

namespace omnistage::sampling {

using engine::FinishReason;

StopChecker::StopChecker(const engine::SamplingParams& params,
                         std::span<const int32_t> eos_token_ids, int32_t max_tokens)
    : stop_(params.stop),
      stop_ids_(params.stop_token_ids),
      eos_ids_(eos_token_ids.begin(), eos_token_ids.end()),
      ignore_eos_(params.ignore_eos),
      include_stop_(params.include_stop_str_in_output),
      min_tokens_(std::min(params.min_tokens, max_tokens)),
      max_tokens_(max_tokens) {
  for (const std::string& text : stop_) hold_bytes_ = std::max(hold_bytes_, text.size() - 1);
}

bool StopChecker::is_end(int32_t token) const {
  return !ignore_eos_ && std::find(eos_ids_.begin(), eos_ids_.end(), token) != eos_ids_.end();
}

bool StopChecker::is_stop(int32_t token) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
}

bool StopChecker::hides(int32_t token) const {
  if (tokens_ + 1 < min_tokens_) return false;
  return is_end(token) || (is_stop(token) && !include_stop_);
}

StopDecision StopChecker::advance(int32_t token, std::string_view text) {
  StopDecision decision;
  ++tokens_;
  held_ += text;
  const bool may_stop = tokens_ >= min_tokens_;
  // "After min_tokens" is strict for text: what the min_tokens-th token completed is not looked at.
  if (tokens_ <= min_tokens_) unchecked_ = held_.size();
  if (may_stop && (is_end(token) || is_stop(token))) {
    decision.reason = FinishReason::kStop;
    decision.stop_token_id = token;
    return decision;
  }
  if (match(decision)) return decision;
  if (tokens_ >= max_tokens_) {
    decision.reason = FinishReason::kLength;
    return decision;
  }
  decision.text = release();
  return decision;
}

// The match that ends first wins, the longest one among those: the same whatever the pieces were.
bool StopChecker::match(StopDecision& decision) {
  size_t best_end = std::string::npos, best_start = 0;
  const std::string* best = nullptr;
  for (const std::string& text : stop_) {
    const size_t from = unchecked_ + 1 > text.size() ? unchecked_ + 1 - text.size() : 0;
    const size_t start = held_.find(text, from);
    if (start == std::string::npos) continue;
    const size_t end = start + text.size();
    if (best == nullptr || end < best_end || (end == best_end && start < best_start)) {
      best = &text;
      best_end = end;
      best_start = start;
    }
  }
  if (best == nullptr) return false;
  decision.reason = FinishReason::kStop;
  decision.stop_string = *best;
  decision.text = held_.substr(0, include_stop_ ? best_end : best_start);
  held_.clear();
  return true;
}

std::string StopChecker::release() {
  size_t count = held_.size() > hold_bytes_ ? held_.size() - hold_bytes_ : 0;
  while (count > 0 && count < held_.size() &&
         (static_cast<unsigned char>(held_[count]) & 0xC0) == 0x80)
    --count;
  std::string out = held_.substr(0, count);
  held_.erase(0, count);
  unchecked_ = unchecked_ > count ? unchecked_ - count : 0;
  return out;
}

// The end by token or length: nothing is held any more, but the last bytes can still complete a
// stop string.
void StopChecker::close(std::string_view tail, StopDecision& decision) {
  held_ += tail;
  if (tokens_ <= min_tokens_) unchecked_ = held_.size();
  if (match(decision)) return;
  decision.text += held_;
  held_.clear();
}

}  // namespace omnistage::sampling
