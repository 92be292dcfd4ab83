#include "stage_proc/main/stage_options.h"

#include <charconv>

namespace omnistage {

const char* const kStageHelp =
    R"(omnistage-stage: one stage of a pipeline. Started by omnistage-supervisor, which gives it a
control socket as descriptor 3; it ends when that socket closes.

usage:
  omnistage-stage --deploy FILE --stage N --epoch E

environment:
  OMNISTAGE_LOG    trace, debug, info, warn (default), error or off; log lines go to stderr
)";

namespace {

template <typename T>
bool parse_number(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<StageOptions> parse_stage_options(const std::vector<std::string>& arguments) {
  StageOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (name != "--deploy" && name != "--stage" && name != "--epoch") {
      return invalid("unknown argument '" + name + "'; see --help");
    }
    if (i + 1 == arguments.size()) return invalid(name + " needs a value; see --help");
    const std::string& value = arguments[++i];
    if (name == "--deploy") options.deploy = value;
    if (name == "--stage" && (!parse_number(value, options.stage) || options.stage < 0)) {
      return invalid("--stage must be a stage_id, got '" + value + "'");
    }
    if (name == "--epoch" && (!parse_number(value, options.epoch) || options.epoch == 0)) {
      return invalid("--epoch must be a number from 1, got '" + value + "'");
    }
  }
  if (options.deploy.empty() || options.stage < 0 || options.epoch == 0) {
    return invalid("--deploy, --stage and --epoch are all needed; see --help");
  }
  return options;
}

}  // namespace omnistage
