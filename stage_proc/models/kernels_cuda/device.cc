#include "stage_proc/models/kernels_cuda/device.h"

#include <utility>

namespace omnistage::kernels::cuda {
namespace {

constexpr int kMajorMin = 8;  // CMAKE_CUDA_ARCHITECTURES starts at 80

StatusCode code_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return StatusCode::kNoMemory;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
      return StatusCode::kUnsupported;
    default:
      return StatusCode::kSystem;
  }
}

Status check_capability(int index, const cudaDeviceProp& properties) {
  if (properties.major >= kMajorMin) return Status();
  return Status(StatusCode::kUnsupported, "CUDA device " + std::to_string(index) + " (" +
                                              properties.name + ") has compute capability " +
                                              std::to_string(properties.major) + "." +
                                              std::to_string(properties.minor) + "; at least " +
                                              std::to_string(kMajorMin) + ".0 is needed");
}

}  // namespace

Status cuda_status(const char* call, cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return Status();
  return Status(code_of(error), what + ": " + call + ": " + cudaGetErrorName(error) + " (" +
                                    cudaGetErrorString(error) + ")");
}

Result<std::unique_ptr<DeviceBuffer>> DeviceBuffer::allocate(int device, uint64_t bytes,
                                                             const char* what) {
  if (bytes == 0) return invalid(std::string(what) + ": 0 bytes of device memory asked for");
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // a refused allocation must not show up as the error of the next launch
    return cuda_status("cudaMalloc", error,
                       std::string(what) + ", " + std::to_string(bytes) + " bytes");
  }
  return std::unique_ptr<DeviceBuffer>(new DeviceBuffer(device, data, bytes));
}

DeviceBuffer::~DeviceBuffer() {
  // Errors here are those of earlier work, which its own caller was told.
  if (cudaSetDevice(device_) == cudaSuccess) cudaFree(data_);
}

Result<Device> Device::open(int32_t index) {
  int count = 0;
  OMS_RETURN_IF_ERROR(
      cuda_status("cudaGetDeviceCount", cudaGetDeviceCount(&count), "no CUDA device"));
  if (count == 0) return Status(StatusCode::kUnsupported, "no CUDA device: the driver lists none");
  if (index < 0 || index >= count) {
    return invalid("CUDA device must be in 0.." + std::to_string(count - 1) + ", got " +
                   std::to_string(index));
  }
  const std::string what = "CUDA device " + std::to_string(index);
  cudaDeviceProp properties{};
  OMS_RETURN_IF_ERROR(
      cuda_status("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, index), what));
  OMS_RETURN_IF_ERROR(check_capability(index, properties));
  Device device;
  device.index_ = index;
  device.name_ = properties.name;
  OMS_RETURN_IF_ERROR(device.use());
  OMS_RETURN_IF_ERROR(cuda_status("cudaStreamCreateWithFlags",
                                  cudaStreamCreateWithFlags(&device.stream_, cudaStreamNonBlocking),
                                  what));
  return device;
}

Device::Device(Device&& other) noexcept
    : index_(other.index_),
      stream_(std::exchange(other.stream_, nullptr)),
      name_(std::move(other.name_)) {}

Device::~Device() {
  if (stream_ == nullptr || cudaSetDevice(index_) != cudaSuccess) return;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

Status Device::use() const {
  return cuda_status("cudaSetDevice", cudaSetDevice(index_),
                     "CUDA device " + std::to_string(index_));
}

}  // namespace omnistage::kernels::cuda
