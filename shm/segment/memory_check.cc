#include "shm/segment/memory_check.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace omnistage::shm {
namespace {

constexpr size_t kFileBytesMax = 1u << 20;
constexpr int kCgroupDepthMax = 64;

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  char buffer[4096];
  while (text.size() < kFileBytesMax && (in.read(buffer, sizeof buffer) || in.gcount() > 0))
    text.append(buffer, static_cast<size_t>(in.gcount()));
  return text;
}

// The first number in `text`; nothing for "max" or garbage.
std::optional<uint64_t> number(const std::string& text, size_t from = 0) {
  while (from < text.size() && (text[from] == ' ' || text[from] == '\t')) ++from;
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> field(const std::string& text, const std::string& key) {
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1))
    if (at == 0 || text[at - 1] == '\n') return number(text, at + key.size());
  return std::nullopt;
}

struct CgroupMount {
  bool v2 = false;
  std::string mount_root;  // the cgroup that is visible at the mount point
  std::string mount_point;
};

// Lines of mountinfo: id parent dev root mount-point options [fields] - type source super-options
std::vector<CgroupMount> cgroup_mounts(const std::string& root) {
  std::vector<CgroupMount> mounts;
  std::istringstream lines(read_file(root + "/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream left(line.substr(0, separator)), right(line.substr(separator + 3));
    std::string id, parent, device, type, source, super;
    CgroupMount mount;
    left >> id >> parent >> device >> mount.mount_root >> mount.mount_point;
    right >> type >> source >> super;
    mount.v2 = type == "cgroup2";
    bool v1_memory = type == "cgroup" && ("," + super + ",").find(",memory,") != std::string::npos;
    if (mount.v2 || v1_memory) mounts.push_back(mount);
  }
  return mounts;
}

// The path of this process in the v2 tree or in the v1 memory tree.
std::optional<std::string> cgroup_path(const std::string& cgroups, bool v2) {
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    bool match =
        v2 ? controllers.empty() : ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (match) return line.substr(second + 1);
  }
  return std::nullopt;
}

void lower(MemoryHeadroom& headroom, uint64_t bytes, const std::string& name) {
  if (bytes >= headroom.bytes) return;
  headroom.bytes = bytes;
  headroom.limit = name;
}

// Page cache on the inactive list is given back under pressure, so it counts as free.
void look_at_group(const std::string& root, const std::string& folder, bool v2,
                   MemoryHeadroom& headroom) {
  const std::string limit_name = folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes");
  std::optional<uint64_t> limit = number(read_file(root + limit_name));
  if (!limit) return;
  uint64_t used =
      number(read_file(root + folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")))
          .value_or(0);
  uint64_t cache = field(read_file(root + folder + "/memory.stat"),
                         v2 ? "inactive_file " : "total_inactive_file ")
                       .value_or(0);
  used -= std::min(used, cache);
  lower(headroom, *limit > used ? *limit - used : 0, limit_name);
}

void look_at_mount(const std::string& root, const CgroupMount& mount, std::string path,
                   MemoryHeadroom& headroom) {
  // In a container the mount shows a subtree: paths are then relative to its root.
  if (mount.mount_root != "/" && path.rfind(mount.mount_root, 0) == 0)
    path.erase(0, mount.mount_root.size());
  if (path.find("..") != std::string::npos) path.clear();
  for (int depth = 0; depth < kCgroupDepthMax; ++depth) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    look_at_group(root, mount.mount_point + path, mount.v2, headroom);
    if (path.empty()) return;
    size_t slash = path.rfind('/');
    path.erase(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

MemoryHeadroom memory_headroom(const std::string& root) {
  MemoryHeadroom headroom;
  if (auto kib = field(read_file(root + "/proc/meminfo"), "MemAvailable:"))
    lower(headroom, *kib * 1024, "MemAvailable");
  const std::string cgroups = read_file(root + "/proc/self/cgroup");
  for (const CgroupMount& mount : cgroup_mounts(root))
    if (auto path = cgroup_path(cgroups, mount.v2)) look_at_mount(root, mount, *path, headroom);
  return headroom;
}

Status check_memory(uint64_t bytes, const std::string& what, const std::string& root) {
  MemoryHeadroom headroom = memory_headroom(root);
  uint64_t usable = headroom.bytes - headroom.bytes / 20;
  if (bytes <= usable) return Status();
  return Status(StatusCode::kNoMemory, "cannot reserve " + std::to_string(bytes) + " bytes for " +
                                           what + ": " + headroom.limit + " leaves " +
                                           std::to_string(headroom.bytes) +
                                           " bytes, of which 5 % stay in reserve");
}

}  // namespace omnistage::shm
