#include "stage_proc/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

// The largest logit with its lowest id; id -1 when a value is NaN or +infinity or all are masked.
// Eight lanes, because one running maximum is a chain of dependent steps.
Candidate find_best(std::span<const float> logits) {
  constexpr size_t kLanes = 8;
  float lanes[kLanes];
  bool good[kLanes];
  std::fill_n(lanes, kLanes, kMasked);
  std::fill_n(good, kLanes, true);
  auto take = [&](size_t lane, float value) {
    good[lane] &= value < std::numeric_limits<float>::infinity();
    lanes[lane] = value > lanes[lane] ? value : lanes[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, logits[i + lane]);
  for (; i < logits.size(); ++i) take(0, logits[i]);
  const float best = *std::max_element(lanes, lanes + kLanes);
  const bool all_good = std::all_of(good, good + kLanes, [](bool g) { return g; });
  if (!all_good || best == kMasked) return {best, -1};
  auto at = std::find(logits.begin(), logits.end(), best);
  return {best, static_cast<int32_t>(at - logits.begin())};
}

// The k-th largest logit, or -infinity when there are no more than k. A small k keeps a heap of the
// best so far, which few values get into; a large one selects in a copy.
float kth_largest(std::span<const float> logits, int32_t k, std::vector<float>& values) {
  constexpr size_t kHeapMax = 1024;
  const size_t count = static_cast<size_t>(k);
  if (k < 1 || count >= logits.size()) return kMasked;
  if (count > kHeapMax) {
    values.assign(logits.begin(), logits.end());
    auto kth = values.begin() + (k - 1);
    std::nth_element(values.begin(), kth, values.end(), std::greater<float>());
    return *kth;
  }
  values.assign(logits.begin(), logits.begin() + k);
  std::make_heap(values.begin(), values.end(), std::greater<float>());
  for (float value : logits.subspan(count)) {
    if (value <= values.front()) continue;
    std::pop_heap(values.begin(), values.end(), std::greater<float>());
    values.back() = value;
    std::push_heap(values.begin(), values.end(), std::greater<float>());
  }
  return values.front();
}

// What min_p and top_k leave, in id order, scaled so that the best is 0. min_p compares
// probabilities; their ratio to the best one is exp(scaled), so its border is a scaled logit too.
void collect(std::span<const float> logits, float best, float top_k_border, double temperature,
             double min_p, SamplerScratch& scratch) {
  const double inverse = 1.0 / temperature;
  const double border = min_p > 0 ? std::log(min_p) : -std::numeric_limits<double>::infinity();
  scratch.candidates.clear();
  scratch.weights.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < top_k_border || logits[i] == kMasked) continue;
    const double scaled = (static_cast<double>(logits[i]) - best) * inverse;
    if (scaled < border) continue;
    scratch.candidates.push_back({static_cast<float>(scaled), static_cast<int32_t>(i)});
    scratch.weights.push_back(std::exp(scaled));
  }
}

// Buckets of scaled logits, best first; the last one takes everything far below.
constexpr size_t kBuckets = 2048;

size_t bucket_of(float scaled) {
  const double at = -static_cast<double>(scaled) * 64;
  return at < kBuckets - 1 ? static_cast<size_t>(at) : kBuckets - 1;
}

// Keeps the smallest set of best candidates whose probability reaches p, in id order. Instead of
// sorting all, the mass is summed by bucket, and only the bucket in which p is reached is sorted.
void keep_top_p(double p, SamplerScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  std::vector<double>& weights = scratch.weights;
  if (p >= 1.0 || candidates.size() <= 1) return;
  scratch.buckets.assign(kBuckets, 0.0);
  double total = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    scratch.buckets[bucket_of(candidates[i].logit)] += weights[i];
    total += weights[i];
  }
  const double wanted = p * total;
  double mass = 0;
  size_t border = 0;
  while (border + 1 < kBuckets && mass + scratch.buckets[border] < wanted)
    mass += scratch.buckets[border++];

  scratch.border.clear();
  for (const Candidate& c : candidates)
    if (bucket_of(c.logit) == border) scratch.border.push_back(c);
  std::sort(scratch.border.begin(), scratch.border.end(), better);
  size_t kept = 0;
  while (kept < scratch.border.size() && mass < wanted)
    mass += std::exp(static_cast<double>(scratch.border[kept++].logit));

  size_t out = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate c = candidates[i];
    const size_t bucket = bucket_of(c.logit);
    if (bucket > border) continue;
    if (bucket == border && (kept == 0 || better(scratch.border[kept - 1], c))) continue;
    weights[out] = weights[i];
    candidates[out++] = c;
  }
  candidates.resize(out);
  weights.resize(out);
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
  const float top_k_border = kth_largest(logits, top_k_, scratch.values);
  collect(logits, best, top_k_border, temperature_, min_p_, scratch);
  keep_top_p(top_p_, scratch);
  std::vector<double>& weights = scratch.weights;
  double total = 0;
  for (double& weight : weights) weight = total += weight;
  OMS_CHECK(!weights.empty() && total > 0, "the best token was filtered out");
  const double point = uniform_draw(seed_, static_cast<uint64_t>(position)) * total;
  // First running sum above the point: a candidate is hit with exactly its share of the total.
  auto hit = std::upper_bound(weights.begin(), weights.end(), point);
  if (hit == weights.end()) --hit;  // rounding of the product
  return scratch.candidates[static_cast<size_t>(hit - weights.begin())].id;
}

}  // namespace omnistage::sampling
