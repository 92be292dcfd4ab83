// Answer: what came back for one request: prints the text as it comes, writes and plays the audio,
// and knows the figures at the end. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "omnistage/omnistage.hpp"
#include "options.h"
#include "player.h"
#include "wav_writer.h"

namespace omnistage_cli {

class Answer {
 public:
  explicit Answer(const SpeakOptions& options) : options_(options) {}

  // Opens the output file and looks for a player. False: reported, nothing can be written.
  bool open();
  // False: the output cannot be written (see write_error()); the request should be cancelled.
  bool take(const omnistage::Output& output);
  const std::string& write_error() const { return write_error_; }
  bool ended() const { return ended_; }

  // After the FINAL or an interrupt: closes the file, ends the line, plays the rest.
  void finish();
  // The line of figures (nothing when nothing came), or the JSON object with --json.
  void print_figures(double ready_s) const;
  std::string json(double ready_s, const std::string& error) const;
  const oms_error& error() const { return error_; }

 private:
  bool take_text(const omnistage::Output& output, const oms_output_info& info);
  bool take_audio(const omnistage::Output& output, const oms_output_info& info);
  double seconds_of_audio() const;
  double tokens_per_second() const;

  const SpeakOptions& options_;
  WavWriter wav_;
  Player player_;
  std::string text_;
  std::string write_error_;
  uint32_t sample_rate_ = 0;
  uint32_t token_count_ = 0;  // of the text that came
  int64_t submit_ns_ = 0, first_text_ns_ = 0, last_text_ns_ = 0, first_audio_ns_ = 0, end_ns_ = 0;
  bool ended_ = false;
  oms_output_info final_ = {};
  oms_error error_ = {};
};

// Quoted and escaped for JSON.
std::string json_quote(const std::string& text);

}  // namespace omnistage_cli
