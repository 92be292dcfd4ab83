#include "paths.h"

#include <limits.h>
#include <unistd.h>

#include <cstdlib>

namespace omnistage_cli {

std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof(path));
  if (size <= 0 || size == static_cast<ssize_t>(sizeof(path))) return {};
  const std::string file(path, static_cast<size_t>(size));
  return file.substr(0, file.rfind('/'));
}

std::string default_deploy(std::string& tried) {
  if (const char* given = std::getenv("OMNISTAGE_DEPLOY"); given != nullptr && *given != '\0') {
    return given;
  }
  const std::string folder = program_folder();
  // Installed; build trees one and two levels below the source tree.
  for (const char* place : {"/../share/omnistage/deploy", "/../../deploy", "/../../../deploy"}) {
    const std::string file = folder + place + "/speak.yaml";
    if (::access(file.c_str(), R_OK) == 0) {
      char resolved[PATH_MAX];
      return ::realpath(file.c_str(), resolved) != nullptr ? resolved : file;
    }
    tried += (tried.empty() ? "" : ", ") + file;
  }
  return {};
}

std::string supervisor_program() {
  const char* given = std::getenv("OMNISTAGE_BIN_DIR");
  const std::string folder = given != nullptr && *given != '\0' ? given : program_folder();
  return folder + "/omnistage-supervisor";
}

}  // namespace omnistage_cli
