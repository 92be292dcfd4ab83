// Records that wait for a link: see DataLoop::Parked.
#include <algorithm>

#include "shm/base/clock.h"
#include "shm/base/log.h"
#include "stage_proc/main/data_loop.h"

namespace omnistage {

bool DataLoop::is_parked(const RequestKey& key) const {
  return std::any_of(parked_.begin(), parked_.end(),
                     [&key](const Parked& parked) { return parked.key == key; });
}

// A missing stage may be on its way (it is being started again); a missing client only if its id is
// not used yet.
bool DataLoop::may_wait(const Status& missing, const RequestKey& key) const {
  if (parked_.size() >= kParkedMax) return false;
  if (missing.code() == StatusCode::kStageDied) return true;
  return missing.code() == StatusCode::kCancelled && key.client > highest_client_;
}

void DataLoop::park(Parked parked) {
  if (parked_.size() < kParkedMax) {
    parked_.push_back(std::move(parked));
    return;
  }
  // A later chunk of a parked request: the request cannot be completed any more.
  const RequestKey key = parked.key;
  OMS_LOG(kWarn, "stage", "request " + to_string(key) + ": too many records wait for links");
  parked.from->send_control(transfer::kRecordAbort, encoder_.abort(key));
  drop_parked([&key](const Parked& other) { return other.key == key; });
}

Result<Route> DataLoop::route_of(const Parked& parked) {
  if (const auto* submit = std::get_if<transfer::SubmitRecord>(&parked.what)) {
    return make_route(submit->header, nullptr);
  }
  const auto& record = std::get<transfer::ChunkRecord>(parked.what);
  if (record.chunk.number != 0) return Status(StatusCode::kNotFound, "");
  return make_route(record.header, parked.from);
}

// In order; what still cannot go, or comes behind something of its request that cannot, stays.
void DataLoop::retry_parked() {
  std::deque<Parked> waiting;
  waiting.swap(parked_);
  for (Parked& parked : waiting) {
    const bool follows = sink_.find(parked.key) != nullptr;
    const bool stays = is_parked(parked.key) || (!follows && !route_of(parked).ok());
    if (stays) {
      parked_.push_back(std::move(parked));
    } else if (auto* submit = std::get_if<transfer::SubmitRecord>(&parked.what)) {
      (void)admit(*parked.from, std::move(*submit));
    } else {
      (void)take_chunk(*parked.from, std::move(std::get<transfer::ChunkRecord>(parked.what)));
    }
  }
}

bool DataLoop::expire_parked(int64_t now_ns) {
  bool any = false;
  while (!parked_.empty() && parked_.front().until_ns <= now_ns) {
    any = true;
    Parked parked = std::move(parked_.front());
    parked_.pop_front();
    const RequestKey key = parked.key;
    drop_parked([&key](const Parked& other) { return other.key == key; });
    refuse_parked(parked);
  }
  return any;
}

void DataLoop::refuse_parked(Parked& parked) {
  Result<Route> route = route_of(parked);
  const Status why =
      route.ok() ? Status(StatusCode::kInternal, "it waited for a link too long") : route.status();
  if (auto* submit = std::get_if<transfer::SubmitRecord>(&parked.what)) {
    refuse_submit(*parked.from, submit->header, why);
  } else {
    refuse_chunk(*parked.from, std::get<transfer::ChunkRecord>(parked.what), why);
  }
}

void DataLoop::drop_parked(const std::function<bool(const Parked&)>& which) {
  if (!parked_.empty()) std::erase_if(parked_, which);
}

int64_t DataLoop::next_parked_ns() const {
  return parked_.empty() ? kNever : parked_.front().until_ns;
}

}  // namespace omnistage
