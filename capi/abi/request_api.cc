// oms_sampling_init, oms_request_init, oms_submit, oms_cancel.
#include "capi/abi/checks.h"
#include "capi/abi/handles.h"
#include "capi/abi/request_reader.h"

using namespace omnistage;
using namespace omnistage::capi;

extern "C" {

void oms_sampling_init(oms_sampling* sampling, uint32_t struct_size) noexcept {
  oms_sampling defaults{};
  defaults.temperature = 1.0;
  defaults.top_p = 1.0;
  defaults.repetition_penalty = 1.0;
  defaults.max_tokens = 256;
  init_struct(sampling, struct_size, defaults);
}

void oms_request_init(oms_request* request, uint32_t struct_size) noexcept {
  oms_request defaults{};
  defaults.output_credit = limits::kDefaultCreditOutputs;
  init_struct(request, struct_size, defaults);
}

oms_status oms_submit(oms_queue* queue, const oms_request* request, oms_request_id* id,
                      oms_error* err) noexcept {
  return guarded(err, [&]() -> oms_status {
    if (id == nullptr) return report(err, invalid("id is NULL"));
    *id = 0;
    if (Status s = check_handle(queue, "queue"); !s.ok()) return report(err, s);
    Result<SubmitData> data = read_request(request);
    if (!data.ok()) return report(err, data.status());
    int32_t culprit = -1;
    Result<uint64_t> made = queue->pipeline->submit(queue->queue, std::move(*data), culprit);
    if (!made.ok()) return report(err, made.status(), culprit);
    *id = *made;
    return OMS_OK;
  });
}

oms_status oms_cancel(oms_queue* queue, oms_request_id id) noexcept {
  return guarded(nullptr, [&]() -> oms_status {
    if (Status s = check_handle(queue, "queue"); !s.ok()) return report(nullptr, s);
    return report(nullptr, queue->pipeline->cancel(queue->queue, id));
  });
}

}  // extern "C"
