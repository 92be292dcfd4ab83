// speak and ask: one request from its text to the line of figures.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "answer.h"
#include "interrupt.h"
#include "omnistage/omnistage.hpp"
#include "options.h"
#include "paths.h"
#include "progress.h"

namespace omnistage_cli {
namespace {

constexpr size_t kTextBytesMax = 48 * 1024;  // the library's bound for the inputs of a request
constexpr int64_t kLookNs =
    100'000'000;  // how often waiting looks for Ctrl-C and moves the progress line

int complain(int code, const std::string& text) {
  std::fprintf(stderr, "omnistage: %s\n", text.c_str());
  return code;
}

int interrupted() {
  return 128 + interrupt_signal;
}

bool read_stdin(std::string& text, std::string& error) {
  char block[4096];
  while (interrupt_signal == 0) {
    const ssize_t size = ::read(STDIN_FILENO, block, sizeof(block));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      error = std::string("standard input: ") + std::strerror(errno);
      return false;
    }
    if (size == 0) break;
    text.append(block, static_cast<size_t>(size));
    if (text.size() > kTextBytesMax) {
      error = "standard input has more than " + std::to_string(kTextBytesMax) +
              " bytes, the longest question";
      return false;
    }
  }
  return true;
}

// Exit code, or kExitOk with `text` filled.
int read_question(const SpeakOptions& options, std::string& text) {
  std::string error;
  if (options.text) {
    text = *options.text;
  } else if (::isatty(STDIN_FILENO) == 1) {
    return complain(kExitUsage,
                    "nothing to ask; try: omnistage speak \"Why is the sky blue?\" (or --help)");
  } else if (!read_stdin(text, error)) {
    return complain(kExitUsage, error);
  }
  if (interrupt_signal != 0) return interrupted();
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  if (text.empty()) return complain(kExitUsage, "the question is empty");
  return kExitOk;
}

omnistage::Request make_request(const SpeakOptions& options, const std::string& text) {
  omnistage::Request request;
  if (!options.system.empty()) request.system(options.system);
  request.text(text);
  if (!options.voice.empty()) request.param("voice", options.voice);
  if (options.speed) {
    char speed[32];
    std::snprintf(speed, sizeof(speed), "%.9g", *options.speed);
    request.param("speed", speed);
  }
  for (const std::string& stop : options.stop) request.stop(stop);
  oms_sampling& sampling = request.sampling();
  const auto give = [&sampling](const auto& option, auto& field, uint64_t bit) {
    if (!option) return;
    field = *option;
    sampling.given |= bit;
  };
  give(options.temperature, sampling.temperature, OMS_GIVEN_TEMPERATURE);
  give(options.top_k, sampling.top_k, OMS_GIVEN_TOP_K);
  give(options.top_p, sampling.top_p, OMS_GIVEN_TOP_P);
  give(options.seed, sampling.seed, OMS_GIVEN_SEED);
  give(options.max_tokens, sampling.max_tokens, OMS_GIVEN_MAX_TOKENS);
  if (options.text_only) request.outputs(OMS_WANT_TEXT);
  if (options.timeout_s > 0) request.deadline_ns(static_cast<int64_t>(options.timeout_s * 1e9));
  return request;
}

omnistage::Pipeline open_pipeline(const SpeakOptions& options) {
  if (!options.attach.empty()) return omnistage::Pipeline::attach(options.attach);
  std::string deploy = options.deploy, tried;
  if (deploy.empty()) deploy = default_deploy(tried);
  if (deploy.empty()) {
    throw omnistage::Error(OMS_E_NOT_FOUND,
                           "no deploy file (tried " + tried + "); give one with --deploy");
  }
  return omnistage::Pipeline::launch(deploy);
}

// False: interrupted.
bool wait_until_ready(omnistage::Pipeline& pipeline, bool quiet) {
  Progress progress(quiet);
  while (interrupt_signal == 0) {
    if (pipeline.wait_ready(kLookNs) == OMS_OK) return true;
    progress.show(pipeline);
  }
  return false;
}

void collect(omnistage::Queue& queue, oms_request_id id, Answer& answer) {
  bool cancelled = false;
  while (!answer.ended()) {
    omnistage::Output output;
    const oms_status status = queue.wait(output);
    bool fine = true;
    if (status == OMS_OK) fine = answer.take(output);
    if (!cancelled && (!fine || interrupt_signal != 0)) {
      cancelled = true;
      queue.cancel(id);
    }
  }
}

int report(const SpeakOptions& options, const Answer& answer, double ready_s) {
  std::string error;
  int code = kExitOk;
  if (!answer.write_error().empty()) {
    error = answer.write_error();
    code = kExitFailed;
  } else if (interrupt_signal != 0) {
    error = "interrupted";
    code = interrupted();
  } else if (answer.error().code != OMS_OK) {
    error = answer.error().message;
    code = kExitFailed;
  }
  if (options.json) std::printf("%s\n", answer.json(ready_s, error).c_str());
  if (!options.quiet && !options.json) answer.print_figures(ready_s);
  if (code == kExitFailed) complain(code, error);
  return code;
}

int answer_question(const SpeakOptions& options, const std::string& text, Answer& answer) {
  const int64_t start = now_ns();
  omnistage::Pipeline pipeline = open_pipeline(options);
  if (!wait_until_ready(pipeline, options.quiet)) return interrupted();
  const double ready_s = static_cast<double>(now_ns() - start) / 1e9;
  omnistage::Queue queue(pipeline);
  struct Wake {
    explicit Wake(oms_queue* queue) { set_interrupt_queue(queue); }
    ~Wake() { set_interrupt_queue(nullptr); }
  } wake(queue.get());
  const oms_request_id id = queue.submit(make_request(options, text));
  collect(queue, id, answer);
  answer.finish();
  return report(options, answer, ready_s);
}

}  // namespace

int run_speak(const SpeakOptions& options) {
  install_interrupt_handlers();
  std::string text;
  if (const int code = read_question(options, text); code != kExitOk) return code;
  Answer answer(options);
  if (!answer.open()) return complain(kExitFailed, answer.write_error());
  try {
    return answer_question(options, text, answer);
  } catch (const omnistage::Error& error) {
    // A stage that ends because of the same Ctrl-C is no news.
    if (interrupt_signal != 0) return interrupted();
    if (options.json) std::printf("{\"error\":%s}\n", json_quote(error.what()).c_str());
    return complain(kExitFailed, error.what());
  }
}

}  // namespace omnistage_cli
