#include "capi/client/data_loop.h"

#include <algorithm>
#include <cstring>

#include "capi/client/control_loop.h"
#include "shm/base/clock.h"
#include "shm/base/log.h"

namespace omnistage::capi {
namespace {

constexpr size_t kRecordsPerTurn = 64;  // of one link, so that one stage cannot starve others
constexpr size_t kRecordsOfDeadStage = 1u
                                       << 20;  // more than any ring holds; it cannot send new ones
// The supervisor knows why a stage ended and says it within milliseconds; without its word the end
// of the connection has to do as a reason.
constexpr int64_t kWaitForReasonNs = 2 * kSecond;
// One for each request in flight; what comes beyond is applied at once.
constexpr size_t kHeldEndsMax = limits::kRequestsPerClientMax;

}  // namespace

void DataLoop::start() {
  thread_ = start_quiet_thread("oms-data", [this] { run(); });
}

void DataLoop::join() {
  if (thread_.joinable()) thread_.join();
}

void DataLoop::run() {
  for (;;) {
    bool more = false;
    for (uint32_t i = 0; i < limits::kStagesMax; ++i) more |= read_stage(i, kRecordsPerTurn);
    const bool stopping = apply_events();
    const int64_t now = monotonic_ns();
    look_for_lost_links(now);
    apply_held_ends(now);
    {
      std::lock_guard lock(state_.mutex);
      state_.table.expire(now);
    }
    collect_credits();
    send_all();
    if (stopping) break;
    if (!more) (void)state_.account->bell->wait(next_wake_ns());
  }
  shut();
}

bool DataLoop::read_stage(uint32_t stage, size_t limit) {
  std::vector<Incoming> batch;
  size_t count = 0;
  for (shm::Record record; count < limit; ++count) {
    const std::shared_ptr<shm::Link> link = links_[stage].link;
    if (!link || !link->poll(record)) break;
    Incoming incoming;
    Status parsed = parse(stage, record, incoming);
    if (!parsed.ok()) {
      apply(stage, batch);
      cut_off(stage, parsed);
      return false;
    }
    batch.push_back(std::move(incoming));
    if (batch.size() == kRecordsPerTurn) apply(stage, batch);
  }
  apply(stage, batch);
  return count == limit;
}

Status DataLoop::parse(uint32_t stage, const shm::Record& record, Incoming& out) {
  if (record.kind == kOutputRecord) {
    OMS_ASSIGN_OR_RETURN(out.output, read_output(record.bytes));
    return out.output.pooled ? open_pooled(stage, out.output) : Status();
  }
  if (record.kind == kStageEndRecord) {
    out.is_end = true;
    OMS_ASSIGN_OR_RETURN(out.end, read_stage_end(record.bytes));
    return Status();
  }
  return Status(StatusCode::kProtocol,
                "it sent a record of unknown kind " + std::to_string(record.kind));
}

// A view while max_borrowed_bytes allows, else a copy, so that slow applications cannot hold a
// stage's pool.
Status DataLoop::open_pooled(uint32_t stage, OutputRecord& output) {
  HostTensor& tensor = *output.event.tensor;
  const uint64_t bytes = output.ref.bytes;
  OMS_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> view,
                       links_[stage].link->open_tensor(output.ref));
  if (reinterpret_cast<uintptr_t>(view.get()) % dtype_bytes(tensor.dtype) != 0) {
    return Status(StatusCode::kProtocol, "a tensor of its pool is not aligned");
  }
  std::shared_ptr<BorrowAccount> account = state_.account;
  if (account->borrowed.load() + bytes > account->limit) {
    HeapAllocator heap;
    OMS_ASSIGN_OR_RETURN(HostTensor copy, heap.allocate(tensor.dtype, tensor.shape));
    std::memcpy(copy.data.get(), view.get(), bytes);
    account->copied.fetch_add(bytes);
    tensor = std::move(copy);
    output.event.copied = true;
    return Status();
  }
  account->borrowed.fetch_add(bytes);
  std::byte* data = view.get();
  tensor.data = std::shared_ptr<std::byte>(
      data, [view = std::move(view), account = std::move(account), bytes](std::byte*) mutable {
        view.reset();
        account->borrowed.fetch_sub(bytes);
        account->bell->ring();
      });
  return Status();
}

void DataLoop::apply(uint32_t stage, std::vector<Incoming>& batch) {
  if (batch.empty()) return;
  std::lock_guard lock(state_.mutex);
  const std::string label = state_.graph.label(stage);
  const int64_t now = monotonic_ns();
  for (Incoming& incoming : batch) {
    const RequestKey& key = incoming.is_end ? incoming.end.key : incoming.output.key;
    // Number 0 is never given, so a record of somebody else counts as late.
    const uint64_t request = key == state_.key(key.request) ? key.request : 0;
    if (incoming.is_end && incoming.end.status.code() == StatusCode::kStageDied &&
        held_ends_.size() < kHeldEndsMax) {
      held_ends_.push_back({stage, request, std::move(incoming.end), now + kWaitForReasonNs});
    } else if (incoming.is_end) {
      state_.table.on_stage_end(stage, label, request, incoming.end.reason, incoming.end.status,
                                incoming.end.usage, now);
    } else {
      const OutputKind kind = incoming.output.event.kind;
      if (state_.table.on_output(stage, label, request, std::move(incoming.output.event), now)) {
        ++state_.outbox[stage].credits[{request, kind}];
      }
    }
  }
  batch.clear();
}

void DataLoop::cut_off(uint32_t stage, const Status& why) {
  drop_link(stage);
  std::lock_guard lock(state_.mutex);
  const Status status(why.code(), state_.graph.label(stage) + ": " + why.message());
  OMS_LOG(kError, "capi", "connection closed: " + status.message());
  state_.table.on_stage_death(stage, status, monotonic_ns());
}

// --- what the control thread saw
// ---------------------------------------------------------------------------------

bool DataLoop::apply_events() {
  for (;;) {
    ControlEvent event;
    {
      std::lock_guard lock(state_.mutex);
      if (state_.events.empty()) return state_.stopping;
      event = std::move(state_.events.front());
      state_.events.pop_front();
    }
    switch (event.kind) {
      case ControlEvent::Kind::kStageChanged:
        on_stage_changed(event.stage);
        break;
      case ControlEvent::Kind::kLink:
        on_link(event);
        break;
      case ControlEvent::Kind::kSupervisorGone:
        on_supervisor_gone(event.why);
        break;
    }
  }
}

void DataLoop::on_stage_changed(const StageNode& changed) {
  const uint32_t stage = changed.index;
  const bool ended = changed.state == StageState::kDead || changed.state == StageState::kFailed ||
                     changed.state == StageState::kStopped;
  if (ended && stage < limits::kStagesMax) {
    // What it finished before its end counts.
    read_stage(stage, kRecordsOfDeadStage);
    drop_link(stage);
  }
  std::lock_guard lock(state_.mutex);
  Status updated = state_.graph.update(changed);
  if (!updated.ok()) {
    OMS_LOG(kWarn, "capi", updated.message());
    return;
  }
  if (ended) {
    const bool in_order = changed.state == StageState::kStopped;
    std::string text = state_.graph.label(stage) + (in_order ? " was stopped" : " died");
    if (!changed.message.empty()) text += ": " + changed.message;
    const Status why(in_order ? StatusCode::kClosed : StatusCode::kStageDied, std::move(text));
    state_.table.on_stage_death(stage, why, monotonic_ns());
  }
  state_.changed.notify_all();
}

void DataLoop::on_link(ControlEvent& event) {
  const uint32_t stage = event.stage.index;
  const bool replaced = links_[stage].link != nullptr;
  if (replaced) {
    read_stage(stage, kRecordsOfDeadStage);
    drop_link(stage);
  }
  links_[stage] = {std::move(event.link), 0};
  state_.account->bell->add(links_[stage].link.get());
  std::lock_guard lock(state_.mutex);
  if (replaced) {
    state_.table.on_stage_death(
        stage, Status(StatusCode::kStageDied, state_.graph.label(stage) + " was started again"),
        monotonic_ns());
  }
  state_.graph.set_linked(stage, true);
  state_.changed.notify_all();
}

void DataLoop::on_supervisor_gone(const Status& why) {
  for (uint32_t i = 0; i < limits::kStagesMax; ++i) read_stage(i, kRecordsOfDeadStage);
  std::lock_guard lock(state_.mutex);
  state_.closed = why;
  state_.table.end_all(why, monotonic_ns());
  for (const auto& queue : state_.queues) queue->close();
  state_.changed.notify_all();
}

void DataLoop::drop_link(uint32_t stage) {
  StageLink& entry = links_[stage];
  if (entry.link) {
    state_.account->bell->remove(entry.link.get());
    entry.link->close();
  }
  entry = {};
  std::lock_guard lock(state_.mutex);
  state_.outbox[stage].clear();
  if (stage < state_.graph.size()) state_.graph.set_linked(stage, false);
}

void DataLoop::look_for_lost_links(int64_t now_ns) {
  for (uint32_t i = 0; i < limits::kStagesMax; ++i) {
    StageLink& entry = links_[i];
    if (entry.link && entry.link->peer_dead()) {
      read_stage(i, kRecordsOfDeadStage);
      drop_link(i);
      entry.lost_ns = now_ns;
    } else if (!entry.link && entry.lost_ns != 0 && now_ns >= entry.lost_ns + kWaitForReasonNs) {
      entry.lost_ns = 0;
      std::lock_guard lock(state_.mutex);
      state_.table.on_stage_death(
          i, Status(StatusCode::kStageDied, state_.graph.label(i) + " closed its connection"),
          now_ns);
    }
  }
}

// A stage tells the loss of its neighbour as it sees it. The supervisor knows which stage it was
// and how it died; its word comes within moments, ends the request, and makes the held end a late
// record.
void DataLoop::apply_held_ends(int64_t now_ns) {
  while (!held_ends_.empty() && held_ends_.front().due_ns <= now_ns) {
    const HeldEnd held = std::move(held_ends_.front());
    held_ends_.pop_front();
    std::lock_guard lock(state_.mutex);
    state_.table.on_stage_end(held.stage, state_.graph.label(held.stage), held.request,
                              held.end.reason, held.end.status, held.end.usage, now_ns);
  }
}

// --- what goes out
// -----------------------------------------------------------------------------------------------

void DataLoop::collect_credits() {
  std::lock_guard lock(state_.mutex);
  for (const auto& queue : state_.queues) {
    for (const TakenOutput& taken : queue->collect_taken()) {
      if (state_.table.on_taken(taken.request, taken.stage, taken.kind)) {
        ++state_.outbox[taken.stage].credits[{taken.request, taken.kind}];
      }
    }
  }
}

void DataLoop::send_all() {
  std::lock_guard lock(state_.mutex);
  for (uint32_t i = 0; i < limits::kStagesMax; ++i) {
    if (!links_[i].link) continue;
    send_stage(i);
    links_[i].link->flush_returns();
  }
}

// What finds no room stays; the wait set wakes when there is some.
void DataLoop::send_stage(uint32_t stage) {
  shm::Link& link = *links_[stage].link;
  Outbox& box = state_.outbox[stage];
  while (!box.aborts.empty()) {
    const Bytes record = make_abort(state_.key(box.aborts.front()));
    if (link.try_send_control(kAbortRecord, record) == shm::SendResult::kFull) break;
    box.aborts.pop_front();
  }
  for (auto credit = box.credits.begin(); credit != box.credits.end();) {
    const auto& [request, kind] = credit->first;
    if (state_.table.alive(request)) {
      const Bytes record = make_credit(state_.key(request), credit->second, kind);
      if (link.try_send_control(kCreditRecord, record) == shm::SendResult::kFull) break;
    }
    credit = box.credits.erase(credit);
  }
  while (!box.submits.empty()) {
    const shm::SendResult sent = link.try_send(kSubmitRecord, box.submits.front().record);
    if (sent == shm::SendResult::kFull) break;
    const uint64_t request = box.submits.front().request;
    box.submits.pop_front();
    if (sent == shm::SendResult::kTooLarge) {
      state_.table.fail(request, static_cast<int32_t>(stage),
                        invalid("the request does not fit the ring"), monotonic_ns());
    }
  }
}

int64_t DataLoop::next_wake_ns() {
  int64_t next = held_ends_.empty() ? kNever : held_ends_.front().due_ns;
  for (const StageLink& entry : links_) {
    if (entry.lost_ns != 0) next = std::min(next, entry.lost_ns + kWaitForReasonNs);
  }
  std::lock_guard lock(state_.mutex);
  return std::min(next, state_.table.next_deadline_ns());
}

void DataLoop::shut() {
  for (uint32_t i = 0; i < limits::kStagesMax; ++i) drop_link(i);
}

}  // namespace omnistage::capi
