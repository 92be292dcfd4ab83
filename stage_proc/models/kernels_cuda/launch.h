// The border between .cu files and the rest: C functions that put one kernel on a stream. They
// check nothing (CudaKernels does, with words), allocate nothing and do not wait. Pointers are
// device pointers, layouts and the order of sums are those of stage_proc/models/kernels/kernels.h.
// The calling thread must have made the stream's device current.
#pragma once

#include <cstdint>

struct CUstream_st;  // what a cudaStream_t points to

namespace omnistage::kernels::cuda {

// code is a StatusCode: kOk or kSystem; cuda_error is the cudaError_t behind kSystem.
struct LaunchStatus {
  int32_t code;
  int32_t cuda_error;
};

// One term of quantised rows; all null when the term is not wanted.
struct LaunchRows {
  int8_t* q;          // [rows][k]
  float* scale;       // [rows][k/32]
  float* scaled_sum;  // [rows][k/32]
  int32_t* sum;       // [rows][k/32]
};

struct LaunchInput {
  const float* x;  // row r starts at x + r * stride
  int64_t stride;
  int32_t rows;
  int32_t k;
};

struct LaunchLinear {
  const uint8_t* q;        // of the whole matrix
  const uint16_t* scales;  // IEEE halves
  LaunchRows x;
  int32_t rows;
  int32_t k;
  int32_t tile_begin;
  int32_t tile_end;
  float* y;  // first output of tile_begin of row 0
  int64_t y_stride;
  bool add;
};

// Widest row of oms_cuda_norm_quantize: its block keeps the row in 32 KiB of shared memory.
constexpr int32_t kNormWidthMax = 8192;
// Rows of one launch: 65535 blocks in y, at least one row each.
constexpr int32_t kLaunchRowsMax = 65535;

extern "C" {
// x -> first, and what first leaves of x -> rest unless rest.q is null.
LaunchStatus oms_cuda_quantize(LaunchInput in, LaunchRows first, LaunchRows rest,
                               CUstream_st* stream);
// RMS norm of x, then as above; the normed floats also go to `normed` [rows][k] unless null.
LaunchStatus oms_cuda_norm_quantize(LaunchInput in, const float* weight, float eps, float* normed,
                                    LaunchRows first, LaunchRows rest, CUstream_st* stream);
LaunchStatus oms_cuda_linear_q4(LaunchLinear args, CUstream_st* stream);
LaunchStatus oms_cuda_linear_q8(LaunchLinear args, CUstream_st* stream);
}

}  // namespace omnistage::kernels::cuda
