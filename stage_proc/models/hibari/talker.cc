#include "stage_proc/models/hibari/talker.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <utility>
#include <vector>

#include "stage_proc/models/hibari/frame_format.h"
#include "stage_proc/models/hibari/text/clause_splitter.h"

namespace omnistage::hibari {
namespace {

constexpr const char* kVoice = "heart";

Result<double> speed_of(const engine::RequestHeader& header) {
  const auto found = header.extra.find("speed");
  if (found == header.extra.end()) return 1.0;
  const std::string& text = found->second;
  double speed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), speed);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(speed >= AcousticModel::kSpeedMin && speed <= AcousticModel::kSpeedMax))
    return invalid("speed must be a number in 0.5..2.0, got '" + text.substr(0, 64) + "'");
  return speed;
}

Status check_voice(const engine::RequestHeader& header) {
  const auto found = header.extra.find("voice");
  if (found == header.extra.end() || found->second == kVoice) return {};
  return invalid("there is no voice '" + found->second.substr(0, 64) + "'; available: " + kVoice);
}

struct ChunkSizes {
  int64_t first, steady;
};

class TalkerStream final : public models::GenerationStream {
 public:
  TalkerStream(std::shared_ptr<const AcousticModel> acoustic,
               std::shared_ptr<const TextFrontend> text, double speed, ChunkSizes sizes)
      : acoustic_(std::move(acoustic)), text_(std::move(text)), speed_(speed), sizes_(sizes) {}

  Status push(const engine::Payload& payload, bool last) override;
  Result<models::StreamStep> step(TensorAllocator& allocator) override;

 private:
  void enqueue(std::vector<std::string> segments);
  // Makes `sentence_` the next sentence that can be spoken, or leaves it empty.
  Status begin_sentence();
  Result<engine::Payload> next_chunk(TensorAllocator& allocator);
  int64_t chunk_size() const;

  std::shared_ptr<const AcousticModel> acoustic_;
  std::shared_ptr<const TextFrontend> text_;
  double speed_;
  ChunkSizes sizes_;

  ClauseSplitter splitter_;  // holds at most one segment
  std::deque<std::string> segments_;
  size_t segment_bytes_ = 0;
  bool input_ended_ = false;
  std::deque<std::string> phonemes_;  // of sentences that were not begun
  std::unique_ptr<SentenceStream> sentence_;
  int64_t sentence_number_ = 0;
  bool saw_unspeakable_ = false;
  bool spoke_ = false;
};

void TalkerStream::enqueue(std::vector<std::string> segments) {
  for (std::string& segment : segments) {
    segment_bytes_ += segment.size();
    segments_.push_back(std::move(segment));
  }
}

Status TalkerStream::push(const engine::Payload& payload, bool last) {
  if (input_ended_) return Status(StatusCode::kProtocol, "a payload after the last one");
  if (!payload.empty()) {
    const auto found = payload.find(kKeyText);
    const auto* text = found == payload.end() ? nullptr : std::get_if<std::string>(&found->second);
    if (text == nullptr)
      return Status(StatusCode::kProtocol,
                    std::string("a payload needs the string entry '") + kKeyText + "'");
    if (segment_bytes_ + text->size() > TalkerModel::kPendingBytesMax)
      return Status(StatusCode::kFull, "more than " +
                                           std::to_string(TalkerModel::kPendingBytesMax) +
                                           " bytes of text are waiting to be spoken");
    enqueue(splitter_.push(*text));
  }
  if (last) {
    enqueue(splitter_.finish());
    input_ended_ = true;
  }
  return {};
}

Status TalkerStream::begin_sentence() {
  while (sentence_ == nullptr) {
    if (phonemes_.empty()) {
      if (segments_.empty()) return {};
      const std::string segment = std::move(segments_.front());
      segments_.pop_front();
      segment_bytes_ -= segment.size();
      if (!text_->speakable(segment)) {
        saw_unspeakable_ = true;
        continue;
      }
      for (std::string& spelled : text_->phonemize(segment))
        phonemes_.push_back(std::move(spelled));
      continue;
    }
    const std::vector<int64_t> ids = text_->ids(phonemes_.front());
    phonemes_.pop_front();
    if (ids.size() < 3) continue;  // only the pads: nothing to hear
    OMS_ASSIGN_OR_RETURN(sentence_, acoustic_->start(ids, speed_));
    spoke_ = true;
  }
  return {};
}

// The first chunk of a request is short for an early first sound; a rest too small to be worth a
// chunk of its own goes with the one before it.
int64_t TalkerStream::chunk_size() const {
  const bool first = sentence_number_ == 0 && sentence_->position() == 0;
  const int64_t size = first ? sizes_.first : sizes_.steady;
  const int64_t left = sentence_->frames() - sentence_->position();
  return left <= size + size / 4 ? left : size;
}

Result<engine::Payload> TalkerStream::next_chunk(TensorAllocator& allocator) {
  const int64_t count = chunk_size();
  const int64_t offset = sentence_->position();
  OMS_ASSIGN_OR_RETURN(HostTensor frames, allocator.allocate(DType::kF32, {count, kFrameValues}));
  OMS_RETURN_IF_ERROR(sentence_->next(count, frames.as<float>()));
  const bool finished = sentence_->position() == sentence_->frames();
  engine::Payload payload;
  payload.emplace(kKeyFrames, std::move(frames));
  payload.emplace(kKeySentence, sentence_number_);
  payload.emplace(kKeySentenceFinished, int64_t{finished});
  payload.emplace(kKeyFrameOffset, offset);
  if (finished) {
    sentence_.reset();
    ++sentence_number_;
  }
  return payload;
}

Result<models::StreamStep> TalkerStream::step(TensorAllocator& allocator) {
  models::StreamStep result;
  OMS_RETURN_IF_ERROR(begin_sentence());
  if (sentence_ != nullptr) {
    OMS_ASSIGN_OR_RETURN(engine::Payload chunk, next_chunk(allocator));
    result.chunks.push_back(std::move(chunk));
  } else if (input_ended_ && saw_unspeakable_ && !spoke_) {
    return Status(
        StatusCode::kUnsupported,
        "the text cannot be spoken: only English is supported; ask in English, or for text only");
  }
  result.more = sentence_ != nullptr || !phonemes_.empty() || !segments_.empty();
  return result;
}

}  // namespace

Status TalkerModel::check_options(const models::GenerationModelOptions& options) {
  const auto check = [](const char* name, int32_t value) -> Status {
    if (value >= 1 && value <= kChunkFramesLimit) return {};
    return invalid(std::string(name) + " must be in 1.." + std::to_string(kChunkFramesLimit) +
                   ", got " + std::to_string(value));
  };
  OMS_RETURN_IF_ERROR(check("chunk_frames", options.chunk_frames));
  return check("initial_chunk_frames", options.initial_chunk_frames);
}

Result<std::unique_ptr<TalkerModel>> TalkerModel::load(
    const models::GenerationModelOptions& options) {
  OMS_RETURN_IF_ERROR(check_options(options));
  std::unique_ptr<TalkerModel> model(new TalkerModel);
  model->info_ = {"hibari_talker", 0};
  model->chunk_frames_ = options.chunk_frames;
  model->initial_chunk_frames_ = options.initial_chunk_frames;
  OMS_ASSIGN_OR_RETURN(model->acoustic_, AcousticModel::load(options.model_dir));
  OMS_ASSIGN_OR_RETURN(model->text_, TextFrontend::load(options.model_dir));
  return model;
}

Status TalkerModel::warm_up() const {
  TalkerStream stream(acoustic_, text_, 1.0, {initial_chunk_frames_, chunk_frames_});
  HeapAllocator heap;
  OMS_RETURN_IF_ERROR(stream.push({{kKeyText, std::string("Hello, how are you today?")}}, true));
  for (bool more = true; more;) {
    OMS_ASSIGN_OR_RETURN(const models::StreamStep step, stream.step(heap));
    more = step.more;
  }
  return {};
}

Result<std::unique_ptr<models::GenerationStream>> TalkerModel::open(
    const engine::RequestHeader& header) {
  OMS_RETURN_IF_ERROR(check_voice(header));
  OMS_ASSIGN_OR_RETURN(const double speed, speed_of(header));
  return std::unique_ptr<models::GenerationStream>(std::make_unique<TalkerStream>(
      acoustic_, text_, speed, ChunkSizes{initial_chunk_frames_, chunk_frames_}));
}

}  // namespace omnistage::hibari
