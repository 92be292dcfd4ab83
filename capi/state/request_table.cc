#include "capi/state/request_table.h"

#include <algorithm>
#include <utility>

#include "shm/base/clock.h"

namespace omnistage::capi {

RequestTable::RequestTable(uint32_t max_inflight, AbortFn abort)
    : max_inflight_(max_inflight), abort_(std::move(abort)) {}

Result<uint64_t> RequestTable::add(RequestSpec spec) {
  if (requests_.size() >= max_inflight_) {
    return Status(StatusCode::kFull, std::to_string(requests_.size()) +
                                         " requests are in flight, max_inflight is " +
                                         std::to_string(max_inflight_));
  }
  const uint64_t id = next_request_++;
  if (spec.deadline_ns != 0) deadlines_.emplace(spec.deadline_ns, id);
  Entry entry;
  entry.spec = std::move(spec);
  requests_.emplace(id, std::move(entry));
  ++stats_.submitted;
  return id;
}

RequestTable::Map::iterator RequestTable::find_or_count_late(uint64_t request) {
  auto found = requests_.find(request);
  if (found == requests_.end()) ++stats_.late_records;
  return found;
}

bool RequestTable::on_output(uint32_t stage, const std::string& label, uint64_t request,
                             OutputEvent output, int64_t now_ns) {
  auto found = find_or_count_late(request);
  if (found == requests_.end()) return false;
  Entry& entry = found->second;
  const auto kind = static_cast<size_t>(output.kind);
  if (kind >= kStreamKinds || (entry.ended & stage_bit(stage)) != 0) {
    finish(found, static_cast<int32_t>(stage),
           Status(StatusCode::kProtocol, label + " sent an output after its end"), now_ns);
    return false;
  }
  if ((entry.spec.wanted & modality_bit(output.kind)) == 0) return true;
  uint16_t& waiting = entry.waiting[stage][kind];
  if (waiting >= entry.spec.credit) {
    finish(found, static_cast<int32_t>(stage),
           Status(StatusCode::kProtocol, label + " sent more outputs than its credit of " +
                                             std::to_string(entry.spec.credit)),
           now_ns);
    return false;
  }
  ++waiting;
  output.request = request;
  output.user_data = entry.spec.user_data;
  output.seed = entry.spec.seed;
  output.sequence = entry.sequence++;
  output.first = !std::exchange(entry.seen[kind], true);
  output.stage = static_cast<int32_t>(stage);
  output.t_submit_ns = entry.spec.submit_ns;
  output.t_ready_ns = now_ns;
  ++stats_.outputs;
  entry.spec.sink->deliver(std::move(output));
  return false;
}

void RequestTable::on_stage_end(uint32_t stage, const std::string& label, uint64_t request,
                                FinishReason reason, const Status& status, const Usage& usage,
                                int64_t now_ns) {
  auto found = find_or_count_late(request);
  if (found == requests_.end()) return;
  Entry& entry = found->second;
  if ((entry.ended & stage_bit(stage)) != 0) {
    ++stats_.late_records;
    return;
  }
  entry.ended |= stage_bit(stage);
  const auto index = static_cast<int32_t>(stage);
  if (!status.ok()) return finish(found, index, status, now_ns);
  if (reason == FinishReason::kAbort || reason == FinishReason::kError) {
    const bool aborted = reason == FinishReason::kAbort;
    return finish(found, index,
                  Status(aborted ? StatusCode::kCancelled : StatusCode::kInternal,
                         label + (aborted ? " gave the request up" : " failed without a reason")),
                  now_ns);
  }
  // Token counts and the reason are those of the most upstream stage that tells: it generates the
  // text.
  if (usage.output_tokens != 0 && (entry.usage.output_tokens == 0 || index < entry.reason_stage)) {
    entry.usage.prompt_tokens = usage.prompt_tokens;
    entry.usage.output_tokens = usage.output_tokens;
  }
  entry.usage.audio_samples += usage.audio_samples;
  if (entry.reason_stage < 0 || index < entry.reason_stage) {
    entry.reason = reason;
    entry.reason_stage = index;
  }
  if ((entry.spec.ends & ~entry.ended) == 0) finish(found, -1, Status(), now_ns);
}

void RequestTable::on_stage_death(uint32_t stage, const Status& why, int64_t now_ns) {
  std::vector<uint64_t> hit;
  for (const auto& [id, entry] : requests_) {
    if ((entry.spec.needed & ~entry.ended & stage_bit(stage)) != 0) hit.push_back(id);
  }
  std::sort(hit.begin(), hit.end());
  for (uint64_t id : hit) fail(id, static_cast<int32_t>(stage), why, now_ns);
}

bool RequestTable::on_taken(uint64_t request, uint32_t stage, OutputKind kind) {
  auto found = requests_.find(request);
  if (found == requests_.end()) return false;
  uint16_t& waiting = found->second.waiting[stage][static_cast<size_t>(kind)];
  if (waiting == 0) return false;
  --waiting;
  return (found->second.ended & stage_bit(stage)) == 0;
}

Status RequestTable::cancel(uint64_t request, const EventSink* sink, int64_t now_ns) {
  auto found = requests_.find(request);
  if (found == requests_.end() || found->second.spec.sink.get() != sink) {
    return Status(StatusCode::kNotFound,
                  "request " + std::to_string(request) + " is not in flight on this queue");
  }
  finish(found, -1, Status(StatusCode::kCancelled, "cancelled by the application"), now_ns);
  return Status();
}

void RequestTable::cancel_sink(const EventSink* sink, int64_t now_ns) {
  std::vector<uint64_t> hit;
  for (const auto& [id, entry] : requests_) {
    if (entry.spec.sink.get() == sink) hit.push_back(id);
  }
  for (uint64_t id : hit)
    fail(id, -1, Status(StatusCode::kCancelled, "its queue was destroyed"), now_ns);
}

void RequestTable::fail(uint64_t request, int32_t stage, const Status& why, int64_t now_ns) {
  auto found = requests_.find(request);
  if (found != requests_.end()) finish(found, stage, why, now_ns);
}

void RequestTable::end_all(const Status& why, int64_t now_ns) {
  std::vector<uint64_t> all;
  all.reserve(requests_.size());
  for (const auto& [id, entry] : requests_) all.push_back(id);
  std::sort(all.begin(), all.end());
  for (uint64_t id : all) fail(id, -1, why, now_ns);
}

void RequestTable::expire(int64_t now_ns) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    fail(deadlines_.begin()->second, -1, Status(StatusCode::kDeadline, "the deadline passed"),
         now_ns);
  }
}

int64_t RequestTable::next_deadline_ns() const {
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

void RequestTable::finish(Map::iterator found, int32_t stage, const Status& status,
                          int64_t now_ns) {
  const uint64_t id = found->first;
  Entry entry = std::move(found->second);
  requests_.erase(found);
  if (entry.spec.deadline_ns != 0) deadlines_.erase({entry.spec.deadline_ns, id});

  OutputEvent event;
  event.request = id;
  event.kind = OutputKind::kEvent;
  event.user_data = entry.spec.user_data;
  event.seed = entry.spec.seed;
  event.sequence = entry.sequence;
  event.final = true;
  event.stage = stage;
  event.status = status;
  event.usage = entry.usage;
  event.t_submit_ns = entry.spec.submit_ns;
  event.t_ready_ns = now_ns;
  if (status.ok()) {
    event.reason = entry.reason;
    ++stats_.finished;
  } else if (status.code() == StatusCode::kCancelled) {
    event.reason = FinishReason::kAbort;
    ++stats_.cancelled;
  } else {
    event.reason = FinishReason::kError;
    ++stats_.failed;
  }
  ++stats_.outputs;
  const StageMask working = entry.spec.needed & ~entry.ended;
  if (!status.ok() && working != 0) abort_(id, working);
  entry.spec.sink->deliver(std::move(event));
}

}  // namespace omnistage::capi
