// Owners of CUDA objects and the words for CUDA errors. Inside the plug-in only. Each object
// belongs to one thread at a time; nothing here keeps global state.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "shm/base/status.h"
#include "stage_proc/models/kernels_cuda/kernels_cuda.h"

namespace omnistage::kernels::cuda {

// "<what>: <call>: <name of the error> (<its text>)". kNoMemory, kUnsupported for a machine without
// a device or with too old a driver, else kSystem; OK for cudaSuccess.
Status cuda_status(const char* call, cudaError_t error, const std::string& what);

class DeviceBuffer final : public DeviceMemory {
 public:
  // Needs the device to be current.
  static Result<std::unique_ptr<DeviceBuffer>> allocate(int device, uint64_t bytes,
                                                        const char* what);
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() override;

  void* data() const override { return data_; }
  uint64_t bytes() const override { return bytes_; }

 private:
  DeviceBuffer(int device, void* data, uint64_t bytes)
      : device_(device), data_(data), bytes_(bytes) {}
  int device_;
  void* data_;
  uint64_t bytes_;
};

// A device and one non-blocking stream on it.
class Device {
 public:
  // Errors: see MakeCudaKernels.
  static Result<Device> open(int32_t index);
  Device(Device&& other) noexcept;
  Device& operator=(Device&&) = delete;
  ~Device();

  // Makes the device current in the calling thread: CUDA keeps that per thread.
  Status use() const;
  int index() const { return index_; }
  cudaStream_t stream() const { return stream_; }
  const std::string& name() const { return name_; }

 private:
  Device() = default;
  int index_ = 0;
  cudaStream_t stream_ = nullptr;
  std::string name_;
};

}  // namespace omnistage::kernels::cuda
