// What the command line asks for. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace omnistage_cli {

struct SpeakOptions {
  std::optional<std::string> text;  // absent: standard input
  std::string deploy;               // empty: the default
  std::string attach;               // run_dir of a running pipeline; empty: a private one
  std::string out = "answer.wav";
  std::string system;
  std::string voice;
  std::optional<double> temperature, top_p, speed;
  std::optional<int32_t> top_k, max_tokens;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  double timeout_s = 0;  // 0 = none
  bool play = false, quiet = false, json = false, text_only = false;
};

// Exit codes of the command; a signal gives 128 + its number.
enum ExitCode : int { kExitOk = 0, kExitFailed = 1, kExitUsage = 2 };

int run_speak(const SpeakOptions& options);
int run_status(const std::string& run_dir, bool json);
// These replace the program by omnistage-supervisor and only return when that fails.
int run_check(const std::string& deploy);
int run_up(const std::string& deploy, const std::string& run_dir);

}  // namespace omnistage_cli
