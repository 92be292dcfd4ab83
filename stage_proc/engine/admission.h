// What both engine cores keep about requests besides their work: deadlines, and ends that are due
// but can only be told at the next step. Plain helpers without threads.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "shm/base/clock.h"
#include "stage_proc/engine/stage_core.h"

namespace omnistage::engine {

// Deadlines of the live requests, nearest first.
class DeadlineIndex {
 public:
  // A deadline of 0 means none.
  void add(const RequestHeader& header);
  void remove(const RequestHeader& header);
  int64_t next() const { return entries_.empty() ? kNever : entries_.begin()->first; }
  // A request whose deadline is at or before `now_ns`; stays in the index.
  std::optional<RequestKey> expired(int64_t now_ns) const;

 private:
  std::set<std::pair<int64_t, RequestKey>> entries_;
};

StageEnd failed_end(const RequestKey& key, Status status, Usage usage = {});
// "deadline passed <where>", with kDeadline.
Status deadline_status(const char* where);
// "<what> is full: <limit> ...", with kFull.
Status full_status(const std::string& what, size_t limit);

}  // namespace omnistage::engine
