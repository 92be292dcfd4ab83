// oms_output_*.
#include "capi/abi/checks.h"
#include "capi/abi/handles.h"

namespace omnistage::capi {
namespace {

uint8_t dlpack_code(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
      return OMS_DTYPE_FLOAT;
    case DType::kBF16:
      return OMS_DTYPE_BFLOAT;
    case DType::kU8:
      return OMS_DTYPE_UINT;
    case DType::kBool:
      return OMS_DTYPE_BOOL;
    default:
      return OMS_DTYPE_INT;
  }
}

const HostTensor* tensor_of(const oms_output* output, uint32_t index) {
  return index == 0 && output->event.tensor ? &*output->event.tensor : nullptr;
}

}  // namespace
}  // namespace omnistage::capi

using namespace omnistage;
using namespace omnistage::capi;

extern "C" {

oms_status oms_output_info_get(const oms_output* output, oms_output_info* info) noexcept {
  return guarded(nullptr, [&]() -> oms_status {
    if (output == nullptr) return OMS_E_INVALID;
    const OutputEvent& event = output->event;
    oms_output_info own{};
    own.kind = static_cast<uint32_t>(event.kind);
    own.request = event.request;
    own.user_data = event.user_data;
    own.sequence = event.sequence;
    own.position = event.position;
    const auto flag = [](bool set, uint32_t bit) { return set ? bit : 0u; };
    own.flags = flag(event.final, OMS_OUTPUT_FINAL) | flag(event.first, OMS_OUTPUT_FIRST) |
                flag(event.copied, OMS_OUTPUT_COPIED);
    own.stage_index = event.stage;
    own.status = static_cast<oms_status>(event.status.code());
    own.finish_reason = static_cast<uint32_t>(event.reason);
    own.sample_rate = event.sample_rate;
    own.tensor_count = event.tensor ? 1 : 0;
    own.t_submit_ns = event.t_submit_ns;
    own.t_ready_ns = event.t_ready_ns;
    own.audio_samples = event.usage.audio_samples;
    own.prompt_tokens = event.usage.prompt_tokens;
    own.output_tokens = event.usage.output_tokens;
    own.seed = event.seed;
    return report(nullptr, copy_out(own, info, "info"));
  });
}

oms_status oms_output_error(const oms_output* output, oms_error* error) noexcept {
  return guarded(nullptr, [&]() -> oms_status {
    if (output == nullptr) return OMS_E_INVALID;
    oms_error own{};
    own.code = static_cast<oms_status>(output->event.status.code());
    own.sys_errno = output->event.status.system_errno();
    own.stage_index = output->event.final ? output->event.stage : -1;
    copy_text(output->event.status.message(), own.message, sizeof(own.message));
    return report(nullptr, copy_out(own, error, "error"));
  });
}

oms_status oms_output_text(const oms_output* output, const char** text, size_t* len) noexcept {
  if (output == nullptr || text == nullptr || len == nullptr) return OMS_E_INVALID;
  *text = output->event.text.data();
  *len = output->event.text.size();
  return OMS_OK;
}

oms_status oms_output_token_ids(const oms_output* output, const int32_t** ids,
                                size_t* count) noexcept {
  if (output == nullptr || ids == nullptr || count == nullptr) return OMS_E_INVALID;
  *ids = output->event.token_ids.data();
  *count = output->event.token_ids.size();
  return OMS_OK;
}

uint32_t oms_output_tensor_count(const oms_output* output) noexcept {
  return output != nullptr && output->event.tensor ? 1 : 0;
}

oms_status oms_output_tensor(const oms_output* output, uint32_t index,
                             oms_tensor_view* view) noexcept {
  return guarded(nullptr, [&]() -> oms_status {
    if (output == nullptr) return OMS_E_INVALID;
    const HostTensor* tensor = tensor_of(output, index);
    if (tensor == nullptr) return OMS_E_NOT_FOUND;
    oms_tensor_view own{};
    own.device_type = OMS_DEVICE_CPU;
    own.dtype_code = dlpack_code(tensor->dtype);
    own.dtype_bits = static_cast<uint8_t>(dtype_bytes(tensor->dtype) * 8);
    own.dtype_lanes = 1;
    own.ndim = static_cast<int32_t>(tensor->shape.size());
    own.shape = tensor->shape.data();
    own.strides = output->strides.data();
    own.data = tensor->data.get();
    own.bytes = tensor->bytes();
    return report(nullptr, copy_out(own, view, "view"));
  });
}

oms_status oms_output_copy(const oms_output* output, uint32_t index, void* dst, uint64_t capacity,
                           uint64_t* bytes) noexcept {
  if (output == nullptr || bytes == nullptr || (dst == nullptr && capacity != 0)) {
    return OMS_E_INVALID;
  }
  *bytes = 0;
  const HostTensor* tensor = tensor_of(output, index);
  if (tensor == nullptr) return OMS_E_NOT_FOUND;
  *bytes = tensor->bytes();
  if (capacity < *bytes) return OMS_E_FULL;
  if (*bytes != 0) std::memcpy(dst, tensor->data.get(), *bytes);
  return OMS_OK;
}

void oms_output_retain(oms_output* output) noexcept {
  if (output != nullptr) output->references.fetch_add(1, std::memory_order_relaxed);
}

void oms_output_release(oms_output* output) noexcept {
  if (output == nullptr) return;
  if (output->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete output;
}

}  // extern "C"
