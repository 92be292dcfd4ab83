#include "stage_proc/engine/admission.h"

namespace omnistage::engine {

void DeadlineIndex::add(const RequestHeader& header) {
  if (header.deadline_ns != 0) entries_.emplace(header.deadline_ns, header.key);
}

void DeadlineIndex::remove(const RequestHeader& header) {
  if (header.deadline_ns != 0) entries_.erase({header.deadline_ns, header.key});
}

std::optional<RequestKey> DeadlineIndex::expired(int64_t now_ns) const {
  if (entries_.empty() || entries_.begin()->first > now_ns) return std::nullopt;
  return entries_.begin()->second;
}

StageEnd failed_end(const RequestKey& key, Status status, Usage usage) {
  StageEnd end;
  end.key = key;
  end.reason = FinishReason::kError;
  end.status = std::move(status);
  end.usage = usage;
  return end;
}

Status deadline_status(const char* where) {
  return Status(StatusCode::kDeadline,
                std::string("the deadline passed while the request was ") + where);
}

Status full_status(const std::string& what, size_t limit) {
  return Status(StatusCode::kFull, what + " is full: the limit is " + std::to_string(limit));
}

}  // namespace omnistage::engine
