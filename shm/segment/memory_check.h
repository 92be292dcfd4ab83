// How much memory may still be promised: the smallest of MemAvailable and what every memory cgroup
// above this process has left (v1 and v2). Asked before each reservation, because beyond a cgroup
// limit fallocate does not fail, it ends in an OOM kill.
//
// Threads: any; reads files under /proc and the cgroup mounts at every call.
#pragma once

#include <cstdint>
#include <string>

#include "shm/base/status.h"

namespace omnistage::shm {

struct MemoryHeadroom {
  uint64_t bytes = UINT64_MAX;  // left below the tightest limit, before the reserve
  std::string limit;            // its name: "MemAvailable" or the path of the cgroup file
};

// `root` is put in front of every path (tests use a directory tree of their own). A file that is
// missing or unreadable sets no limit.
MemoryHeadroom memory_headroom(const std::string& root = "");

// kNoMemory, naming limit and need, when `bytes` would leave less than 5 % of the headroom.
Status check_memory(uint64_t bytes, const std::string& what, const std::string& root = "");

}  // namespace omnistage::shm
