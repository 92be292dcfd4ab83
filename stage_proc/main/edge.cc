#include "stage_proc/main/edge.h"

#include <cstring>

#include "shm/base/log.h"

namespace omnistage {

void Edge::send_control(shm::RecordKind kind, transfer::Bytes record) {
  if (!usable()) return;
  if (backlog_.empty() && link->try_send_control(kind, record) != shm::SendResult::kFull) return;
  if (backlog_.size() >= kBacklogMax) {
    OMS_LOG(kWarn, "stage", name + " does not read its control ring, cutting it off");
    broken = true;
    return;
  }
  backlog_.push_back({kind, {record.begin(), record.end()}});
}

void Edge::flush_control() {
  while (!backlog_.empty()) {
    const Waiting& next = backlog_.front();
    if (link->try_send_control(next.kind, next.bytes) == shm::SendResult::kFull) return;
    backlog_.pop_front();
  }
}

transfer::LeaseTensor Edge::lease_tensor(const std::shared_ptr<shm::TensorPool>& pool) {
  return [this, pool](const HostTensor& tensor) -> Result<shm::TensorRef> {
    Result<shm::TensorRef> ref = link->lease(tensor.data.get(), tensor.bytes());
    if (ref.ok() || ref.status().code() != StatusCode::kNotFound) return ref;
    // Made outside the pool: one copy, counted.
    OMS_ASSIGN_OR_RETURN(HostTensor copy, pool->allocate(tensor.dtype, tensor.shape));
    std::memcpy(copy.data.get(), tensor.data.get(), tensor.bytes());
    pool->count_copy(tensor.bytes());
    return link->lease(copy.data.get(), copy.bytes());
  };
}

transfer::OpenTensor Edge::open_tensor() {
  return [this](const shm::TensorRef& ref) { return link->open_tensor(ref); };
}

}  // namespace omnistage
