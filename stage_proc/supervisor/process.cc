#include "stage_proc/supervisor/process.h"

#include <linux/limits.h>
#include <unistd.h>

namespace omnistage {

Result<std::string> own_folder() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0) return Status::from_errno("read /proc/self/exe");
  const std::string text(path, static_cast<size_t>(length));
  return text.substr(0, text.rfind('/'));
}

}  // namespace omnistage
