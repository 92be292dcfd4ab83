#include "answer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "interrupt.h"

namespace omnistage_cli {
namespace {

double seconds(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e9;
}

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

const char* finish_name(uint32_t reason) {
  switch (reason) {
    case OMS_FINISH_STOP:
      return "stop";
    case OMS_FINISH_LENGTH:
      return "length";
    case OMS_FINISH_ABORT:
      return "abort";
    case OMS_FINISH_ERROR:
      return "error";
  }
  return "none";
}

uint32_t token_count(const omnistage::Output& piece) {
  const int32_t* ids = nullptr;
  size_t count = 0;
  return oms_output_token_ids(piece.get(), &ids, &count) == OMS_OK ? static_cast<uint32_t>(count)
                                                                   : 0;
}

}  // namespace

std::string json_quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool Answer::open() {
  if (options_.text_only) return true;
  if (!wav_.open(options_.out)) {
    write_error_ = "cannot write " + wav_.error();
    return false;
  }
  if (options_.play && !player_.find()) {
    std::fprintf(stderr,
                 "omnistage: --play needs aplay (Debian: alsa-utils) or paplay (pulseaudio-utils); "
                 "the answer goes to %s only\n",
                 options_.out.c_str());
  }
  return true;
}

bool Answer::take(const omnistage::Output& output) {
  const oms_output_info info = output.info();
  submit_ns_ = info.t_submit_ns;
  if ((info.flags & OMS_OUTPUT_FINAL) != 0) {
    final_ = info;
    error_ = output.error();
    // An answer that was cut short has no usage of its own.
    final_.output_tokens = std::max(final_.output_tokens, token_count_);
    end_ns_ = info.t_ready_ns;
    ended_ = true;
    return true;
  }
  if (!write_error_.empty()) return true;  // cancelled already
  if (info.kind == OMS_KIND_TEXT) return take_text(output, info);
  if (info.kind == OMS_KIND_AUDIO) return take_audio(output, info);
  return true;
}

bool Answer::take_text(const omnistage::Output& output, const oms_output_info& info) {
  const std::string piece = output.text();
  if (first_text_ns_ == 0 && !piece.empty()) first_text_ns_ = info.t_ready_ns;
  last_text_ns_ = info.t_ready_ns;
  text_ += piece;
  token_count_ += token_count(output);
  if (options_.json) return true;
  if (std::fwrite(piece.data(), 1, piece.size(), stdout) != piece.size() ||
      std::fflush(stdout) != 0) {
    write_error_ = std::string("standard output: ") + std::strerror(errno);
    return false;
  }
  return true;
}

bool Answer::take_audio(const omnistage::Output& output, const oms_output_info& info) {
  const oms_tensor_view view = output.tensor();
  const auto* samples = static_cast<const float*>(view.data);
  const size_t count = view.bytes / sizeof(float);
  if (count == 0) return true;
  if (first_audio_ns_ == 0) first_audio_ns_ = info.t_ready_ns;
  sample_rate_ = info.sample_rate;
  player_.append(samples, count, info.sample_rate);
  if (wav_.append(samples, count, info.sample_rate)) return true;
  write_error_ = "cannot write " + wav_.error() + "; the speech is cut after " +
                 format("%.1f s", seconds_of_audio());
  return false;
}

void Answer::finish() {
  if (!options_.json && !text_.empty()) {
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }
  if (!wav_.close() && write_error_.empty()) write_error_ = "cannot write " + wav_.error();
  if (interrupt_signal != 0) {
    player_.stop();
  } else {
    player_.finish(&interrupt_signal);
  }
}

double Answer::seconds_of_audio() const {
  return sample_rate_ == 0 ? 0.0 : static_cast<double>(wav_.samples()) / sample_rate_;
}

// Of the tokens after the first, whose time is the time to first token.
double Answer::tokens_per_second() const {
  if (final_.output_tokens < 2 || last_text_ns_ <= first_text_ns_) return 0.0;
  return (final_.output_tokens - 1) / seconds(first_text_ns_, last_text_ns_);
}

void Answer::print_figures(double ready_s) const {
  if (first_text_ns_ == 0 && first_audio_ns_ == 0) return;  // the error says it all
  std::string line = format("ready %.2f s", ready_s);
  if (first_text_ns_ != 0) {
    line += format(", first token %.3f s", seconds(submit_ns_, first_text_ns_));
  }
  if (first_audio_ns_ != 0) {
    line += format(", first audio %.3f s", seconds(submit_ns_, first_audio_ns_));
  }
  line += ", " + std::to_string(final_.output_tokens) + " tokens";
  if (tokens_per_second() > 0) line += format(" at %.1f tokens/s", tokens_per_second());
  if (seconds_of_audio() > 0) {
    line += format(", %.2f s audio", seconds_of_audio());
    line += format(", real-time factor %.3f", seconds(submit_ns_, end_ns_) / seconds_of_audio());
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::string Answer::json(double ready_s, const std::string& error) const {
  std::string out = "{\"text\":" + json_quote(text_);
  const bool audio = wav_.samples() != 0;
  out += ",\"audio\":" + (audio ? json_quote(options_.out) : std::string("null"));
  out += std::string(",\"finish_reason\":\"") + finish_name(final_.finish_reason) + "\"";
  out += ",\"error\":" + (error.empty() ? std::string("null") : json_quote(error));
  out += ",\"seed\":" + std::to_string(final_.seed);
  out += ",\"prompt_tokens\":" + std::to_string(final_.prompt_tokens);
  out += ",\"output_tokens\":" + std::to_string(final_.output_tokens);
  out += format(",\"ready_s\":%.4f", ready_s);
  const auto time = [&](const char* name, int64_t at) {
    out += std::string(",\"") + name + "\":";
    out += at == 0 ? std::string("null") : format("%.4f", seconds(submit_ns_, at));
  };
  time("first_token_s", first_text_ns_);
  time("first_audio_s", first_audio_ns_);
  time("total_s", end_ns_);
  out += format(",\"tokens_per_s\":%.2f", tokens_per_second());
  out += format(",\"audio_s\":%.4f", seconds_of_audio());
  out += ",\"sample_rate\":" + std::to_string(sample_rate_);
  const double audio_s = seconds_of_audio();
  out +=
      ",\"real_time_factor\":" +
      (audio_s > 0 ? format("%.4f", seconds(submit_ns_, end_ns_) / audio_s) : std::string("null"));
  return out + "}";
}

}  // namespace omnistage_cli
