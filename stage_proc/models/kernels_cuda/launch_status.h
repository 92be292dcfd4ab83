// What a launch left behind, as a LaunchStatus. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "shm/base/status.h"
#include "stage_proc/models/kernels_cuda/launch.h"

namespace omnistage::kernels::cuda {

inline LaunchStatus launch_status() {
  const cudaError_t error = cudaGetLastError();
  const StatusCode code = error == cudaSuccess ? StatusCode::kOk : StatusCode::kSystem;
  return {static_cast<int32_t>(code), static_cast<int32_t>(error)};
}

}  // namespace omnistage::kernels::cuda
