#include "stage_proc/supervisor/options.h"

#include <charconv>

namespace omnistage {

const char* const kSupervisorHelp =
    R"(omnistage-supervisor: starts, watches, restarts and stops the stage processes of a pipeline.

usage:
  omnistage-supervisor --deploy FILE --client-fd N   for one client on an inherited SOCK_SEQPACKET socket;
                                                     everything ends when that client closes it
  omnistage-supervisor --deploy FILE --run-dir DIR   for clients that attach to DIR/omnistage.sock;
                                                     ends on SIGTERM or SIGINT
  omnistage-supervisor --check FILE                  prints the effective configuration and ends
  omnistage-supervisor --help

environment:
  OMNISTAGE_LOG    trace, debug, info, warn (default), error or off; log lines go to stderr
  OMNISTAGE_CACHE  folder of models and libraries (default: $XDG_CACHE_HOME/omnistage, ~/.cache/omnistage)

exit codes: 0 fine, 1 a stage could not be started or something failed, 2 arguments or configuration,
            4 another supervisor uses DIR
)";

namespace {

bool parse_fd(const std::string& text, int& fd) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  return error == std::errc() && end == text.data() + text.size() && fd >= 0;
}

Status check_combination(const SupervisorOptions& options, bool check) {
  if (options.deploy.empty()) return invalid("--deploy FILE is missing; see --help");
  if (check) return {};
  if (options.client_fd >= 0 && !options.run_dir.empty()) {
    return invalid("--client-fd and --run-dir exclude each other");
  }
  if (options.client_fd < 0 && options.run_dir.empty()) {
    return invalid("one of --client-fd N and --run-dir DIR is needed; see --help");
  }
  return {};
}

}  // namespace

Result<SupervisorOptions> parse_supervisor_options(const std::vector<std::string>& arguments) {
  SupervisorOptions options;
  bool check = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "-h") return SupervisorOptions();
    const bool known =
        name == "--deploy" || name == "--run-dir" || name == "--client-fd" || name == "--check";
    if (!known) return invalid("unknown argument '" + name + "'; see --help");
    if (i + 1 == arguments.size()) return invalid(name + " needs a value; see --help");
    const std::string& value = arguments[++i];
    if (value.empty()) return invalid(name + " must not be empty");
    if (name == "--deploy" || name == "--check") options.deploy = value;
    if (name == "--check") check = true;
    if (name == "--run-dir") options.run_dir = value;
    if (name == "--client-fd" && !parse_fd(value, options.client_fd)) {
      return invalid("--client-fd must be a descriptor number, got '" + value + "'");
    }
  }
  OMS_RETURN_IF_ERROR(check_combination(options, check));
  options.mode = check                    ? SupervisorOptions::Mode::kCheck
                 : options.client_fd >= 0 ? SupervisorOptions::Mode::kPrivate
                                          : SupervisorOptions::Mode::kShared;
  return options;
}

}  // namespace omnistage
