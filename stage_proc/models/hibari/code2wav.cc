#include "stage_proc/models/hibari/code2wav.h"

#include <cmath>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "stage_proc/models/hibari/frame_format.h"
#include "stage_proc/models/hibari/vocoder.h"

namespace omnistage::hibari {
namespace {

Status protocol_error(std::string message) {
  return Status(StatusCode::kProtocol, "code2wav: " + std::move(message));
}

struct Piece {
  HostTensor frames;
  bool sentence_finished = false;
};

template <typename T>
const T* entry(const engine::Payload& payload, const char* key) {
  const auto found = payload.find(key);
  return found == payload.end() ? nullptr : std::get_if<T>(&found->second);
}

// Broken frames (a value that is not finite) show in the audio around them.
Status check_finite(const HostTensor& audio, int64_t samples) {
  const float* value = audio.as<float>();
  for (int64_t i = 0; i < samples; ++i)
    if (!std::isfinite(value[i]))
      return protocol_error(std::string(kKeyFrames) + " holds values that are not finite");
  return {};
}

class Code2WavStream final : public models::GenerationStream {
 public:
  explicit Code2WavStream(NoiseSource noise) : noise_(std::move(noise)) {}

  Status push(const engine::Payload& payload, bool last) override;
  Result<models::StreamStep> step(TensorAllocator& allocator) override;

 private:
  Status check(const engine::Payload& payload);

  NoiseSource noise_;
  std::deque<Piece> pending_;
  // What the next payload has to be.
  int64_t sentence_ = 0;
  int64_t frames_in_ = 0;
  bool input_ended_ = false;
  // What is being made.
  std::optional<VocoderStream> vocoder_;
  int64_t sentence_out_ = 0;
};

Status Code2WavStream::check(const engine::Payload& payload) {
  const auto* sentence = entry<int64_t>(payload, kKeySentence);
  const auto* finished = entry<int64_t>(payload, kKeySentenceFinished);
  const auto* offset = entry<int64_t>(payload, kKeyFrameOffset);
  const auto* frames = entry<HostTensor>(payload, kKeyFrames);
  if (sentence == nullptr || finished == nullptr || offset == nullptr || frames == nullptr)
    return protocol_error(std::string("a payload needs ") + kKeyFrames + ", " + kKeySentence +
                          ", " + kKeySentenceFinished + " and " + kKeyFrameOffset);
  if (*sentence != sentence_ || *offset != frames_in_)
    return protocol_error("expected sentence " + std::to_string(sentence_) + " frame " +
                          std::to_string(frames_in_) + ", got sentence " +
                          std::to_string(*sentence) + " frame " + std::to_string(*offset));
  if (*finished != 0 && *finished != 1)
    return protocol_error(std::string(kKeySentenceFinished) + " must be 0 or 1, got " +
                          std::to_string(*finished));
  const std::vector<int64_t>& shape = frames->shape;
  if (frames->dtype != DType::kF32 || shape.size() != 2 || shape[1] != kFrameValues)
    return protocol_error(std::string(kKeyFrames) + " must be float32 [F, " +
                          std::to_string(kFrameValues) + "]");
  if (shape[0] < 1 || shape[0] > kChunkFramesMax || frames->data == nullptr)
    return protocol_error(std::string(kKeyFrames) + " must hold 1 to " +
                          std::to_string(kChunkFramesMax) + " frames, got " +
                          std::to_string(shape[0]));
  if (frames_in_ + shape[0] > Code2WavModel::kSentenceFramesMax)
    return protocol_error("sentence " + std::to_string(sentence_) + " is longer than " +
                          std::to_string(Code2WavModel::kSentenceFramesMax) + " frames");
  return {};
}

Status Code2WavStream::push(const engine::Payload& payload, bool last) {
  if (input_ended_) return protocol_error("a payload after the last one");
  if (!payload.empty()) {
    OMS_RETURN_IF_ERROR(check(payload));
    if (pending_.size() >= Code2WavModel::kPendingMax)
      return Status(StatusCode::kFull, "code2wav: more than " +
                                           std::to_string(Code2WavModel::kPendingMax) +
                                           " payloads are waiting");
    const HostTensor& frames = *entry<HostTensor>(payload, kKeyFrames);
    const bool finished = *entry<int64_t>(payload, kKeySentenceFinished) == 1;
    pending_.push_back({frames, finished});
    frames_in_ = finished ? 0 : frames_in_ + frames.shape[0];
    sentence_ += finished ? 1 : 0;
  }
  if (last && frames_in_ > 0)
    return protocol_error("the input ended inside sentence " + std::to_string(sentence_));
  input_ended_ = last;
  return {};
}

Result<models::StreamStep> Code2WavStream::step(TensorAllocator& allocator) {
  models::StreamStep result;
  if (pending_.empty()) return result;
  // Only taken off the queue when it worked: a full pool is no reason to lose frames.
  const Piece& piece = pending_.front();
  const int64_t frames = piece.frames.shape[0];
  if (!vocoder_) vocoder_.emplace(noise_, sentence_out_);
  const int64_t samples = vocoder_->samples_after(frames, piece.sentence_finished);
  HostTensor audio;
  if (samples > 0) {
    OMS_ASSIGN_OR_RETURN(audio, allocator.allocate(DType::kF32, {samples}));
  }
  OMS_RETURN_IF_ERROR(
      vocoder_->push(piece.frames.as<float>(), frames, piece.sentence_finished, audio.as<float>()));
  OMS_RETURN_IF_ERROR(check_finite(audio, samples));
  if (piece.sentence_finished) {
    vocoder_.reset();
    ++sentence_out_;
  }
  pending_.pop_front();
  if (samples > 0) {
    engine::StageOutput output;
    output.kind = engine::OutputKind::kAudio;
    output.tensor = std::move(audio);
    output.sample_rate = kSampleRate;
    result.outputs.push_back(std::move(output));
  }
  result.more = !pending_.empty();
  return result;
}

}  // namespace

Code2WavModel::Code2WavModel(NoiseFactory noise)
    : info_{"hibari_code2wav", kSampleRate}, noise_(std::move(noise)) {}

Status Code2WavModel::warm_up() const {
  VocoderStream vocoder(noise_(0), 0);
  constexpr int64_t kFrames = 16;
  const std::vector<float> rows(static_cast<size_t>(kFrames * kFrameValues));
  std::vector<float> audio(static_cast<size_t>(kFrames * kHop));
  return vocoder.push(rows.data(), kFrames, true, audio.data());
}

Result<std::unique_ptr<models::GenerationStream>> Code2WavModel::open(
    const engine::RequestHeader& header) {
  return std::unique_ptr<models::GenerationStream>(
      std::make_unique<Code2WavStream>(noise_(header.sampling.seed)));
}

}  // namespace omnistage::hibari
