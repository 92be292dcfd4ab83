// Code2WavModel ("hibari_code2wav"): frames of the talker -> audio for the client, sentence after
// sentence without a gap. Noise depends on (request seed, sentence, frame, bin) alone, so the audio
// of a request does not depend on how its frames were cut into payloads.
//
// Threads: the model is immutable and may be shared; a stream belongs to one thread at a time.
#pragma once

#include <functional>
#include <memory>

#include "stage_proc/models/generation_model.h"
#include "stage_proc/models/hibari/noise.h"

namespace omnistage::hibari {

class Code2WavModel final : public models::GenerationModel {
 public:
  // Payloads pushed but not yet turned into audio; more is FULL (the engine's credits are far
  // below).
  static constexpr size_t kPendingMax = 4096;
  // Half an hour of one sentence.
  static constexpr int64_t kSentenceFramesMax = 144'000;

  // Makes the noise of a request from its seed.
  using NoiseFactory = std::function<NoiseSource(uint64_t seed)>;
  explicit Code2WavModel(NoiseFactory noise = counter_noise);

  // Runs a short silent sentence, so that the first request does not pay for one-time set-up.
  Status warm_up() const;

  const models::GenerationModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<models::GenerationStream>> open(
      const engine::RequestHeader& header) override;

 private:
  models::GenerationModelInfo info_;
  NoiseFactory noise_;
};

}  // namespace omnistage::hibari
