#include "stage_proc/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "shm/base/check.h"
#include "stage_proc/sampling/params.h"
#include "stage_proc/sampling/philox.h"

namespace omnistage::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Higher logit first; equal logits by id, so that the order is the same on every machine.
bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The largest logit, or NaN when a value is NaN or +infinity. Written without early exit so that
// the loop vectorises.
Candidate find_best(std::span<const float> logits) {
  float best = kMasked;
  bool bad = false;
  for (float value : logits) {
    bad |= !(value < std::numeric_limits<float>::infinity());
    best = value > best ? value : best;
  }
  if (bad || best == kMasked) return {std::numeric_limits<float>::quiet_NaN(), -1};
  auto at = std::find(logits.begin(), logits.end(), best);
  return {best, static_cast<int32_t>(at - logits.begin())};
}

// Everything that min_p leaves, in id order. min_p compares probabilities; their ratio to the best
// one is exp(logit - best), so the border is a logit.
void collect(std::span<const float> logits, float best, double temperature, double min_p,
             std::vector<Candidate>& out) {
  const double inverse = 1.0 / temperature;
  const double border = min_p > 0 ? std::log(min_p) : -std::numeric_limits<double>::infinity();
  out.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const double scaled = (static_cast<double>(logits[i]) - best) * inverse;
    if (logits[i] == kMasked || scaled < border) continue;
    out.push_back({static_cast<float>(scaled), static_cast<int32_t>(i)});
  }
}

// Keeps the k largest and all that equal the last of them; the id order of the survivors stays.
void keep_top_k(int32_t k, SamplerScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  if (k < 1 || static_cast<size_t>(k) >= candidates.size()) return;
  scratch.values.clear();
  for (const Candidate& c : candidates) scratch.values.push_back(c.logit);
  auto kth = scratch.values.begin() + (k - 1);
  std::nth_element(scratch.values.begin(), kth, scratch.values.end(), std::greater<float>());
  const float border = *kth;
  std::erase_if(candidates, [border](const Candidate& c) { return c.logit < border; });
}

// Keeps the smallest set of best candidates whose probability reaches p. Sorts only as many as it
// needs: blocks of growing size are split off the unsorted rest until the mass is there.
void keep_top_p(double p, SamplerScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  if (p >= 1.0 || candidates.size() <= 1) return;
  double total = 0;
  for (const Candidate& c : candidates) total += std::exp(static_cast<double>(c.logit));
  const double wanted = p * total;
  double mass = 0;
  size_t sorted = 0, block = 64;
  while (sorted < candidates.size()) {
    const size_t end = std::min(candidates.size(), sorted + block);
    auto first = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    auto last = candidates.begin() + static_cast<ptrdiff_t>(end);
    if (end < candidates.size()) std::nth_element(first, last - 1, candidates.end(), better);
    std::sort(first, last, better);
    for (size_t i = sorted; i < end; ++i) {
      mass += std::exp(static_cast<double>(candidates[i].logit));
      if (mass >= wanted) {
        candidates.resize(i + 1);
        return;
      }
    }
    sorted = end;
    block *= 8;
  }
}

}  // namespace

Sampler::Sampler(const engine::SamplingParams& params, std::span<const int32_t> prompt,
                 std::span<const int32_t> eos_token_ids)
    : temperature_(params.temperature),
      top_k_(params.top_k),
      top_p_(params.top_p),
      min_p_(params.min_p),
      repetition_(params.repetition_penalty),
      presence_(params.presence_penalty),
      frequency_(params.frequency_penalty),
      seed_(params.seed),
      min_tokens_(params.min_tokens),
      masked_ids_(params.stop_token_ids) {
  if (temperature_ > 0) temperature_ = std::max(temperature_, kTemperatureMin);
  masked_ids_.insert(masked_ids_.end(), eos_token_ids.begin(), eos_token_ids.end());
  if (penalties_on())
    for (int32_t id : prompt) seen_.try_emplace(id);
}

bool Sampler::penalties_on() const {
  return repetition_ != 1.0 || presence_ != 0.0 || frequency_ != 0.0;
}

void Sampler::accept(int32_t token) {
  if (penalties_on()) ++seen_[token].in_output;
}

void Sampler::mask_stops(std::span<float> logits) const {
  for (int32_t id : masked_ids_)
    if (id >= 0 && static_cast<size_t>(id) < logits.size())
      logits[static_cast<size_t>(id)] = kMasked;
}

void Sampler::penalise(std::span<float> logits) const {
  for (const auto& [id, seen] : seen_) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& slot = logits[static_cast<size_t>(id)];
    if (slot == kMasked) continue;
    double logit = slot;
    if (repetition_ != 1.0) logit = logit > 0 ? logit / repetition_ : logit * repetition_;
    if (seen.in_output > 0) logit -= presence_ + frequency_ * seen.in_output;
    slot = static_cast<float>(logit);
  }
}

Result<int32_t> Sampler::sample(std::span<float> logits, int32_t position,
                                SamplerScratch& scratch) const {
  if (position < min_tokens_) mask_stops(logits);
  if (!seen_.empty()) penalise(logits);
  const Candidate best = find_best(logits);
  if (best.id < 0)
    return internal_error("the model gave logits that are not finite at output token " +
                          std::to_string(position));
  if (temperature_ == 0) return best.id;
  return draw(logits, best.logit, position, scratch);
}

int32_t Sampler::draw(std::span<const float> logits, float best, int32_t position,
                      SamplerScratch& scratch) const {
  collect(logits, best, temperature_, min_p_, scratch.candidates);
  keep_top_k(top_k_, scratch);
  keep_top_p(top_p_, scratch);
  std::vector<double>& weights = scratch.weights;
  weights.clear();
  double total = 0;
  for (const Candidate& c : scratch.candidates) {
    total += std::exp(static_cast<double>(c.logit));
    weights.push_back(total);
  }
  OMS_CHECK(!weights.empty() && total > 0, "the best token was filtered out");
  const double point = uniform_draw(seed_, static_cast<uint64_t>(position)) * total;
  // First running sum above the point: a candidate is hit with exactly its share of the total.
  auto hit = std::upper_bound(weights.begin(), weights.end(), point);
  if (hit == weights.end()) --hit;  // rounding of the product
  return scratch.candidates[static_cast<size_t>(hit - weights.begin())].id;
}

}  // namespace omnistage::sampling
