#include "stage_proc/models/kernels_cuda/checks.h"

#include <string>

#include "stage_proc/models/kernels_cuda/launch.h"

namespace omnistage::kernels::cuda {
namespace {

Status refuse(const char* call, const std::string& why) {
  return invalid(std::string(call) + ": " + why);
}

Status check_whole(const char* call, const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return Status();
  return refuse(call, std::string(name) + " must be in " + std::to_string(low) + ".." +
                          std::to_string(high) + ", got " + std::to_string(value));
}

Status check_multiple(const char* call, const char* name, int32_t value, int32_t step) {
  if (value > 0 && value % step == 0) return Status();
  return refuse(call, std::string(name) + " must be a positive multiple of " +
                          std::to_string(step) + ", got " + std::to_string(value));
}

Status check_address(const char* call, const std::string& name, const void* address,
                     uintptr_t alignment) {
  if (address == nullptr) return refuse(call, name + " is null");
  if (reinterpret_cast<uintptr_t>(address) % alignment == 0) return Status();
  return refuse(call, name + " must be aligned to " + std::to_string(alignment) + " bytes");
}

}  // namespace

Status check_input(const char* call, const DeviceRows& in) {
  OMS_RETURN_IF_ERROR(check_whole(call, "rows", in.rows, 1, kLaunchRowsMax));
  OMS_RETURN_IF_ERROR(check_multiple(call, "k", in.k, kGroup));
  OMS_RETURN_IF_ERROR(check_whole(call, "stride", in.stride, in.k, INT32_MAX));
  return check_address(call, "x", in.x, alignof(float));
}

Status check_quant_rows(const char* call, const char* name, const QuantRows& x, int32_t k) {
  if (x.k != k) {
    return refuse(call, std::string(name) + " holds rows of " + std::to_string(x.k) +
                            " inputs, the layer has " + std::to_string(k));
  }
  const std::string prefix = name;
  // The kernels read 16 values at once.
  OMS_RETURN_IF_ERROR(check_address(call, prefix + ".q", x.q, 16));
  OMS_RETURN_IF_ERROR(check_address(call, prefix + ".scale", x.scale, alignof(float)));
  OMS_RETURN_IF_ERROR(check_address(call, prefix + ".scaled_sum", x.scaled_sum, alignof(float)));
  return check_address(call, prefix + ".sum", x.sum, alignof(int32_t));
}

Status check_linear(const char* call, int32_t n, int32_t k, const uint8_t* q,
                    const uint16_t* scales, const QuantRows& x, const LinearRange& range) {
  OMS_RETURN_IF_ERROR(check_multiple(call, "n", n, kTileRows));
  OMS_RETURN_IF_ERROR(check_multiple(call, "k", k, kGroup));
  OMS_RETURN_IF_ERROR(check_address(call, "weights q", q, alignof(uint32_t)));
  OMS_RETURN_IF_ERROR(check_address(call, "weights scales", scales, alignof(uint16_t)));
  OMS_RETURN_IF_ERROR(check_quant_rows(call, "x", x, k));
  OMS_RETURN_IF_ERROR(check_whole(call, "rows", range.rows, 1, kLaunchRowsMax));
  OMS_RETURN_IF_ERROR(check_whole(call, "tile_end", range.tile_end, 1, n / kTileRows));
  OMS_RETURN_IF_ERROR(check_whole(call, "tile_begin", range.tile_begin, 0, range.tile_end - 1));
  OMS_RETURN_IF_ERROR(check_address(call, "y", range.y, alignof(float)));
  const int64_t outputs = int64_t{range.tile_end - range.tile_begin} * kTileRows;
  return check_whole(call, "y_stride", range.y_stride, outputs, INT32_MAX);
}

Status check_span(const char* call, uint64_t offset, uint64_t bytes, uint64_t size) {
  if (offset <= size && bytes <= size - offset) return Status();
  return refuse(call, "bytes " + std::to_string(offset) + " + " + std::to_string(bytes) +
                          " reach behind the memory's " + std::to_string(size));
}

}  // namespace omnistage::kernels::cuda
