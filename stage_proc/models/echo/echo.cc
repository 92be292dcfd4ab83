#include "stage_proc/models/echo/echo.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <deque>
#include <numbers>
#include <string>
#include <string_view>
#include <thread>

namespace omnistage::models {
namespace {

using engine::Payload;
using engine::RequestHeader;
using engine::StageOutput;

enum class Role { kText, kAudio, kSink };

struct Parameters {
  int32_t delay_ms = 0;
  int32_t repeat = 1;
};

Status read_integer(const RequestHeader& header, const char* name, int32_t low, int32_t high,
                    int32_t& value) {
  auto at = header.extra.find(name);
  if (at == header.extra.end()) return Status();
  const std::string& text = at->second;
  int32_t parsed = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || parsed < low || parsed > high)
    return invalid(std::string(name) + " must be an integer in [" + std::to_string(low) + ", " +
                   std::to_string(high) + "], got '" + text.substr(0, 64) + "'");
  value = parsed;
  return Status();
}

Result<Parameters> read_parameters(const RequestHeader& header) {
  Parameters p;
  OMS_RETURN_IF_ERROR(read_integer(header, "echo_delay_ms", 0, kEchoDelayMsMax, p.delay_ms));
  OMS_RETURN_IF_ERROR(read_integer(header, "echo_repeat", 1, kEchoRepeatMax, p.repeat));
  return p;
}

struct Character {
  size_t bytes;
  int32_t code;
};

// The character at the start of `text`; a byte that starts no complete one counts as one by itself.
Character first_character(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF8 ? 4 : 1;
  if (length == 1 || length > text.size()) return {1, lead};
  int32_t code = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {1, lead};
    code = code << 6 | (byte(i) & 0x3F);
  }
  return {length, code};
}

class EchoStream : public GenerationStream {
 public:
  explicit EchoStream(Parameters parameters) : parameters_(parameters) {}

 protected:
  void delay() const {
    if (parameters_.delay_ms > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(parameters_.delay_ms));
  }

  Parameters parameters_;
};

// Text in, a few characters per step out; what they become is left to the role.
class TextStream : public EchoStream {
 public:
  using EchoStream::EchoStream;

  Status push(const Payload& payload, bool last) override {
    if (auto at = payload.find("text"); at != payload.end()) {
      const std::string* text = std::get_if<std::string>(&at->second);
      if (text == nullptr) return invalid("payload entry 'text' must be a string");
      text_ += *text;
    } else if (!payload.empty()) {
      return invalid("payload has no entry 'text'");
    }
    last_ = last_ || last;
    return Status();
  }

  Result<StreamStep> step(TensorAllocator& allocator) override {
    delay();
    StreamStep out;
    if (at_ == text_.size()) next_round();
    if (at_ < text_.size()) {
      std::string piece;
      std::vector<int32_t> codes;
      while (at_ < text_.size() && codes.size() < static_cast<size_t>(kEchoPieceCharacters)) {
        Character c = first_character(std::string_view(text_).substr(at_));
        piece.append(text_, at_, c.bytes);
        codes.push_back(c.code);
        at_ += c.bytes;
      }
      OMS_RETURN_IF_ERROR(emit(std::move(piece), std::move(codes), allocator, out));
    }
    out.more = at_ < text_.size() || (last_ && !text_.empty() && round_ < parameters_.repeat);
    return out;
  }

 protected:
  virtual Status emit(std::string piece, std::vector<int32_t> codes, TensorAllocator& allocator,
                      StreamStep& out) = 0;

 private:
  void next_round() {
    if (!last_ || round_ >= parameters_.repeat) return;
    ++round_;
    at_ = 0;
  }

  std::string text_;
  size_t at_ = 0;
  int32_t round_ = 1;
  bool last_ = false;
};

class TextEchoStream final : public TextStream {
 public:
  using TextStream::TextStream;

 protected:
  Status emit(std::string piece, std::vector<int32_t> codes, TensorAllocator&,
              StreamStep& out) override {
    out.chunks.push_back({{"text", piece}});
    StageOutput output;
    output.kind = engine::OutputKind::kText;
    output.text = std::move(piece);
    output.token_ids = std::move(codes);
    out.outputs.push_back(std::move(output));
    return Status();
  }
};

class AudioEchoStream final : public TextStream {
 public:
  explicit AudioEchoStream(Parameters parameters) : TextStream({parameters.delay_ms, 1}) {}

 protected:
  Status emit(std::string, std::vector<int32_t> codes, TensorAllocator& allocator,
              StreamStep& out) override {
    const int64_t samples = static_cast<int64_t>(codes.size()) * kEchoSamplesPerCharacter;
    OMS_ASSIGN_OR_RETURN(HostTensor audio, allocator.allocate(DType::kF32, {samples}));
    float* sample = audio.as<float>();
    for (int32_t code : codes) {
      // 220 Hz and up in steps of 20 Hz: a whole number of periods, so tones join without a click.
      const double frequency = 220.0 + 20.0 * (code % 64);
      const double step = 2 * std::numbers::pi * frequency / kEchoSampleRate;
      for (int32_t i = 0; i < kEchoSamplesPerCharacter; ++i)
        *sample++ = static_cast<float>(0.25 * std::sin(step * i));
    }
    Payload payload;
    payload.emplace("audio", std::move(audio));
    payload.emplace("sample_rate", int64_t{kEchoSampleRate});
    out.chunks.push_back(std::move(payload));
    return Status();
  }
};

class SinkStream final : public EchoStream {
 public:
  using EchoStream::EchoStream;

  Status push(const Payload& payload, bool) override {
    if (payload.empty()) return Status();
    auto at = payload.find("audio");
    if (at == payload.end()) return invalid("payload has no entry 'audio'");
    const HostTensor* tensor = std::get_if<HostTensor>(&at->second);
    if (tensor == nullptr || tensor->dtype != DType::kF32 || tensor->shape.size() != 1)
      return invalid("payload entry 'audio' must be a float32 tensor of one dimension");
    pending_.push_back(*tensor);
    return Status();
  }

  Result<StreamStep> step(TensorAllocator&) override {
    delay();
    StreamStep out;
    if (!pending_.empty()) {
      StageOutput output;
      output.kind = engine::OutputKind::kAudio;
      output.sample_rate = kEchoSampleRate;
      output.tensor = std::move(pending_.front());
      pending_.pop_front();
      out.outputs.push_back(std::move(output));
    }
    out.more = !pending_.empty();
    return out;
  }

 private:
  std::deque<HostTensor> pending_;
};

class EchoModel final : public GenerationModel {
 public:
  EchoModel(std::string family, Role role) : role_(role) {
    info_.family = std::move(family);
    info_.sample_rate = role == Role::kText ? 0 : kEchoSampleRate;
  }

  const GenerationModelInfo& info() const override { return info_; }

  Result<std::unique_ptr<GenerationStream>> open(const RequestHeader& header) override {
    OMS_ASSIGN_OR_RETURN(Parameters parameters, read_parameters(header));
    std::unique_ptr<GenerationStream> stream;
    switch (role_) {
      case Role::kText:
        stream = std::make_unique<TextEchoStream>(parameters);
        break;
      case Role::kAudio:
        stream = std::make_unique<AudioEchoStream>(parameters);
        break;
      case Role::kSink:
        stream = std::make_unique<SinkStream>(parameters);
        break;
    }
    return stream;
  }

 private:
  GenerationModelInfo info_;
  Role role_;
};

}  // namespace

Result<std::unique_ptr<GenerationModel>> make_echo_model(const GenerationModelOptions& options) {
  Role role;
  if (options.family == "echo")
    role = Role::kText;
  else if (options.family == "echo_audio")
    role = Role::kAudio;
  else if (options.family == "echo_sink")
    role = Role::kSink;
  else
    return invalid("no echo model of family '" + options.family +
                   "'; there are echo, echo_audio and echo_sink");
  return std::unique_ptr<GenerationModel>(std::make_unique<EchoModel>(options.family, role));
}

}  // namespace omnistage::models
