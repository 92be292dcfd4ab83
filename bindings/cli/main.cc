// omnistage: ask a question, hear the answer. A client of the C interface and nothing else.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "omnistage/omnistage.h"
#include "options.h"

namespace omnistage_cli {
namespace {

constexpr char kFooter[] = R"(
Environment:
  OMNISTAGE_DEPLOY   deploy file used without --deploy
  OMNISTAGE_BIN_DIR  folder of omnistage-supervisor and omnistage-stage
  OMNISTAGE_CACHE    folder of models
  OMNISTAGE_LOG      trace, debug, info, warn (default), error or off

Exit codes: 0 fine, 1 failed, 2 wrong arguments or configuration, 130 Ctrl-C)";

void add_answer_options(CLI::App& command, SpeakOptions& options) {
  command.add_option("text", options.text, "What to ask; read from standard input if absent");
  command.add_option("--out,-o", options.out, "WAV file for the spoken answer")
      ->capture_default_str();
  command.add_flag("--play", options.play, "Also play it (aplay or paplay)");
  command.add_flag("--text-only", options.text_only, "No speech, no file");
  command.add_option("--system", options.system, "Instructions for the model");
  command.add_option("--temperature", options.temperature, "0 = always the most likely token");
  command.add_option("--top-k", options.top_k, "Draw from the k most likely tokens");
  command.add_option("--top-p", options.top_p, "Draw from the likeliest tokens of this total");
  command.add_option("--seed", options.seed, "The same seed gives the same answer");
  command.add_option("--max-tokens", options.max_tokens, "Longest answer");
  command.add_option("--stop", options.stop, "Text that ends the answer; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--speed", options.speed, "Speaking rate, 1 = normal");
  command.add_option("--voice", options.voice, "Name of the voice");
  command.add_option("--timeout", options.timeout_s, "Give up after so many seconds");
  command.add_flag("--quiet,-q", options.quiet, "No progress, no figures");
  command.add_flag("--json", options.json, "Print one JSON object at the end instead of the text");
}

int run(int argc, char** argv) {
  CLI::App app("Omnistage: ask a question, hear the answer.", "omnistage");
  app.set_version_flag("--version", std::string("omnistage ") + oms_version_string());
  app.require_subcommand(1);
  app.footer(kFooter);

  SpeakOptions options;
  std::string run_dir, deploy;
  bool json = false;
  CLI::App* speak =
      app.add_subcommand("speak", "Start the pipeline, ask, speak the answer, end it");
  add_answer_options(*speak, options);
  speak->add_option("--deploy", options.deploy,
                    "Deploy file (default: speak.yaml that came along)");

  CLI::App* ask = app.add_subcommand("ask", "Ask a pipeline that runs already");
  add_answer_options(*ask, options);
  ask->add_option("--attach", options.attach, "Its run directory")->required();

  CLI::App* up = app.add_subcommand("up", "Run a pipeline for others to attach to");
  up->add_option("deploy", deploy, "Deploy file")->required();
  up->add_option("--run-dir", run_dir, "Directory for its socket")->required();

  CLI::App* status = app.add_subcommand("status", "Show the stages of a running pipeline");
  status->add_option("--attach", run_dir, "Its run directory")->required();
  status->add_flag("--json", json, "As JSON");

  CLI::App* check = app.add_subcommand("check", "Check a deploy file and print what it means");
  check->add_option("file", deploy, "Deploy file")->required();

  const auto is_it = [argv](CLI::App* command) { return command->check_name(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_it).empty()) {
    std::fprintf(stderr,
                 "omnistage: unknown command '%s'; there are speak, ask, up, status, check\n",
                 argv[1]);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help and version
    std::fprintf(stderr, "omnistage: %s; see omnistage --help\n", error.what());
    return kExitUsage;
  }
  if (*speak || *ask) return run_speak(options);
  if (*up) return run_up(deploy, run_dir);
  if (*status) return run_status(run_dir, json);
  return run_check(deploy);
}

}  // namespace
}  // namespace omnistage_cli

int main(int argc, char** argv) {
  try {
    return omnistage_cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "omnistage: %s\n", error.what());
    return omnistage_cli::kExitFailed;
  }
}
