// Checks of the arguments of CudaKernels. Pure; they read shapes and addresses, never memory.
#pragma once

#include <cstdint>

#include "shm/base/status.h"
#include "stage_proc/models/kernels_cuda/kernels_cuda.h"

namespace omnistage::kernels::cuda {

// Which part of a matrix a linear layer computes, and where to.
struct LinearRange {
  int32_t rows;
  int32_t tile_begin;
  int32_t tile_end;
  const float* y;
  int64_t y_stride;
};

// All errors: kInvalid with `call`, the argument and the limit.
Status check_input(const char* call, const DeviceRows& in);
Status check_quant_rows(const char* call, const char* name, const QuantRows& x, int32_t k);
Status check_linear(const char* call, int32_t n, int32_t k, const uint8_t* q,
                    const uint16_t* scales, const QuantRows& x, const LinearRange& range);
// Bytes [offset, offset + bytes) of a memory of `size` bytes.
Status check_span(const char* call, uint64_t offset, uint64_t bytes, uint64_t size);

}  // namespace omnistage::kernels::cuda
