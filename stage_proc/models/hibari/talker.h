// TalkerModel ("hibari_talker"): text as it arrives -> spectral frames, sentence after sentence.
// Text is cut into speakable segments, spelled as phonemes and run through the acoustic model in
// chunks.
//
// Parameters of a request (header.extra): "speed" 0.5..2.0 (default 1.0), "voice" ("heart").
// Payloads in: {"text": string}. Payloads out: see frame_format.h; every chunk is written where the
// allocator says, once.
//
// Threads: the model is immutable and may be shared; a stream belongs to one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "stage_proc/models/generation_model.h"
#include "stage_proc/models/hibari/acoustic_model.h"
#include "stage_proc/models/hibari/text/text_frontend.h"

namespace omnistage::hibari {

class TalkerModel final : public models::GenerationModel {
 public:
  static constexpr int32_t kChunkFramesLimit = 512;
  // Text that was pushed and not yet spoken; more ends the request with FULL.
  static constexpr size_t kPendingBytesMax = 1u << 20;

  // What a chunk size may be; INVALID names the option and the range.
  static Status check_options(const models::GenerationModelOptions& options);
  // Loads network and dictionaries from options.model_dir. NOT_FOUND or INVALID with file name.
  static Result<std::unique_ptr<TalkerModel>> load(const models::GenerationModelOptions& options);

  // Speaks a short sentence, so that the first request does not pay for one-time set-up.
  Status warm_up() const;

  const models::GenerationModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<models::GenerationStream>> open(
      const engine::RequestHeader& header) override;

 private:
  TalkerModel() = default;

  models::GenerationModelInfo info_;
  int32_t chunk_frames_ = 0, initial_chunk_frames_ = 0;
  std::shared_ptr<const AcousticModel> acoustic_;
  std::shared_ptr<const TextFrontend> text_;
};

}  // namespace omnistage::hibari
