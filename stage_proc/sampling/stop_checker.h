// StopChecker: decides after each token whether the request is done, and which text may already be
// shown.
//
// Order of one call: end id (unless ignore_eos), stop id, stop string, max_tokens. Nothing but
// max_tokens stops a request before min_tokens; a stop string must end in text that came after
// them. While stop strings are given, the last (longest stop string - 1) bytes are held back, cut
// at a character border, because they may be the beginning of one. All of it depends on the text
// only, not on how it was cut into pieces.
//
// One object per request; one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stage_proc/engine/request.h"

namespace omnistage::sampling {

struct StopDecision {
  engine::FinishReason reason = engine::FinishReason::kNone;  // kNone: go on
  std::string text;                                           // may be shown now
  std::string stop_string;                                    // the one that matched
  int32_t stop_token_id = -1;                                 // the stop or end id that was met
};

class StopChecker {
 public:
  // `max_tokens`: params.max_tokens, already cut to the room in the context.
  StopChecker(const engine::SamplingParams& params, std::span<const int32_t> eos_token_ids,
              int32_t max_tokens);

  // True when `token` ends the request by itself and its own text is not to be shown.
  bool hides(int32_t token) const;
  // `text`: what the detokeniser released for this token ("" when hides(token)). `tail`: what the
  // detokeniser still holds back (an unfinished character, as U+FFFD); called only when the request
  // ends by token or length.
  template <typename Tail>
  StopDecision push(int32_t token, std::string_view text, Tail&& tail) {
    StopDecision decision = advance(token, text);
    if (decision.reason != engine::FinishReason::kNone && decision.stop_string.empty())
      close(tail(), decision);
    return decision;
  }

  int32_t tokens() const { return tokens_; }

 private:
  bool is_end(int32_t token) const;
  bool is_stop(int32_t token) const;
  StopDecision advance(int32_t token, std::string_view text);
  void close(std::string_view tail, StopDecision& decision);
  bool match(StopDecision& decision);
  std::string release();

  std::vector<std::string> stop_;
  std::vector<int32_t> stop_ids_, eos_ids_;
  bool ignore_eos_, include_stop_;
  int32_t min_tokens_, max_tokens_;
  int32_t tokens_ = 0;
  size_t hold_bytes_ = 0;
  std::string held_;
  size_t unchecked_ = 0;  // a match must end after this many bytes of held_
};

}  // namespace omnistage::sampling
