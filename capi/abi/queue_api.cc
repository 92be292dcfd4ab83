// oms_queue_*.
#include <algorithm>

#include "capi/abi/checks.h"
#include "capi/abi/handles.h"

namespace omnistage::capi {
namespace {

constexpr uint32_t kDefaultCapacity = 256;
constexpr size_t kOutputsPerWait = 16;

void fill_strides(oms_output& output) {
  if (!output.event.tensor) return;
  const std::vector<int64_t>& shape = output.event.tensor->shape;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    output.strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
}

// The outputs are allocated before anything leaves the queue, so that no event is lost for lack of
// memory.
template <typename Take>
oms_status take_outputs(oms_queue* queue, oms_output** outs, uint32_t capacity, uint32_t* count,
                        size_t guess, Take&& take) {
  if (count != nullptr) *count = 0;
  if (Status s = check_handle(queue, "queue"); !s.ok()) return report(nullptr, s);
  if (outs == nullptr || count == nullptr || capacity == 0) return OMS_E_INVALID;
  const size_t want = std::min<size_t>(capacity, std::max<size_t>(guess, 1));
  std::vector<std::unique_ptr<oms_output>> shells(want);
  for (auto& shell : shells) {
    shell = std::make_unique<oms_output>();
    shell->strides.resize(limits::kTensorDimsMax);
  }
  std::vector<OutputEvent> events;
  events.reserve(want);
  const StatusCode code = take(want, events);
  bool credit = false;
  for (size_t i = 0; i < events.size(); ++i) {
    shells[i]->event = std::move(events[i]);
    credit = credit || !shells[i]->event.final;
    fill_strides(*shells[i]);
    outs[i] = shells[i].release();
  }
  *count = static_cast<uint32_t>(events.size());
  if (credit) queue->pipeline->outputs_taken();
  return static_cast<oms_status>(code);
}

}  // namespace
}  // namespace omnistage::capi

using namespace omnistage;
using namespace omnistage::capi;

extern "C" {

void oms_queue_options_init(oms_queue_options* options, uint32_t struct_size) noexcept {
  oms_queue_options defaults{};
  defaults.capacity = kDefaultCapacity;
  init_struct(options, struct_size, defaults);
}

oms_status oms_queue_create(oms_pipeline* pipeline, const oms_queue_options* options,
                            oms_queue** out, oms_error* err) noexcept {
  return guarded(err, [&]() -> oms_status {
    if (out == nullptr) return report(err, invalid("out is NULL"));
    *out = nullptr;
    if (Status s = check_handle(pipeline, "pipeline"); !s.ok()) return report(err, s);
    oms_queue_options own{};
    if (options != nullptr) {
      if (Status s = copy_in(options, own, "options"); !s.ok()) return report(err, s);
    }
    if (own.capacity == 0) own.capacity = kDefaultCapacity;
    if (own.capacity > limits::kRequestsPerClientMax) {
      return report(
          err, invalid("options.capacity is " + std::to_string(own.capacity) + ", the limit is " +
                       std::to_string(limits::kRequestsPerClientMax)));
    }
    auto queue = CompletionQueue::create(own.capacity);
    if (!queue.ok()) return report(err, queue.status());
    auto handle = std::make_unique<oms_queue>();
    handle->queue = *queue;
    handle->pipeline = pipeline->pipeline;
    if (Status s = handle->pipeline->add_queue(*queue); !s.ok()) return report(err, s);
    *out = handle.release();
    return OMS_OK;
  });
}

void oms_queue_destroy(oms_queue* queue) noexcept {
  if (queue == nullptr || queue->pid != ::getpid()) return;
  guarded(nullptr, [&] {
    queue->pipeline->remove_queue(queue->queue);
    return OMS_OK;
  });
  delete queue;
}

int32_t oms_queue_event_fd(oms_queue* queue) noexcept {
  if (queue == nullptr || queue->pid != ::getpid()) return -1;
  return queue->queue->event_fd();
}

oms_status oms_queue_poll(oms_queue* queue, oms_output** outs, uint32_t capacity,
                          uint32_t* count) noexcept {
  return guarded(nullptr, [&] {
    const size_t waiting =
        queue != nullptr && queue->pid == ::getpid() ? queue->queue->waiting() : 0;
    return take_outputs(queue, outs, capacity, count, waiting,
                        [&](size_t limit, std::vector<OutputEvent>& events) {
                          return queue->queue->poll(limit, events);
                        });
  });
}

oms_status oms_queue_wait(oms_queue* queue, oms_output** outs, uint32_t capacity, uint32_t* count,
                          int64_t timeout_ns) noexcept {
  return guarded(nullptr, [&] {
    return take_outputs(queue, outs, capacity, count, kOutputsPerWait,
                        [&](size_t limit, std::vector<OutputEvent>& events) {
                          return queue->queue->wait(limit, events, timeout_ns);
                        });
  });
}

void oms_queue_wake(oms_queue* queue) noexcept {
  if (queue != nullptr && queue->pid == ::getpid()) queue->queue->wake();
}

}  // extern "C"
