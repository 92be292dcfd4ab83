// Sampler: from one row of logits to one token, for one request.
//
// Order of one call: mask of end and stop ids until min_tokens -> repetition, presence and
// frequency penalties
// -> temperature 0: the largest logit (lowest id among equals) -> divide by temperature -> min_p ->
// top_k (equals of the last one stay) -> top_p (over what is left, renormalised) -> softmax in
// double -> one draw. A token is a function of the logits row, the request's own tokens, its seed
// and the position; not of neighbours.
//
// A Sampler belongs to one request and keeps its token counts; the scratch is shared by all
// requests of a thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/engine/request.h"

namespace omnistage::sampling {

struct Candidate {
  float logit = 0;
  int32_t id = 0;
};

// Memory of one sampling call, kept between calls so that steady decoding does not allocate.
struct SamplerScratch {
  std::vector<Candidate> candidates;
  std::vector<float> values;
  std::vector<double> weights;  // by candidate
  std::vector<double> buckets;
  std::vector<Candidate> border;
};

class Sampler {
 public:
  // REQUIRES: validate_sampling(params) is OK. `stop_ids`: the model's end ids; masked together
  // with params.stop_token_ids until min_tokens tokens are out.
  Sampler(const engine::SamplingParams& params, std::span<const int32_t> prompt,
          std::span<const int32_t> eos_token_ids);

  // The token at output position `position` (0 = first output token). Writes masks and penalties
  // into `logits`. INTERNAL when the row holds NaN or +infinity or nothing but -infinity.
  Result<int32_t> sample(std::span<float> logits, int32_t position, SamplerScratch& scratch) const;
  // The token became part of the output. Call once per token, in order.
  void accept(int32_t token);

 private:
  struct Seen {
    int32_t in_output = 0;
  };

  void mask_stops(std::span<float> logits) const;
  void penalise(std::span<float> logits) const;
  bool penalties_on() const;
  int32_t draw(std::span<const float> logits, float best, int32_t position,
               SamplerScratch& scratch) const;

  double temperature_;
  int32_t top_k_;
  double top_p_, min_p_;
  double repetition_, presence_, frequency_;
  uint64_t seed_;
  int32_t min_tokens_;
  std::vector<int32_t> masked_ids_;
  std::unordered_map<int32_t, Seen>
      seen_;  // ids in prompt or output; only filled when a penalty is on
};

}  // namespace omnistage::sampling
