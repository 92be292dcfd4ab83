// The plug-in's one exported function and the CudaKernels behind it; see kernels_cuda.h.
#include <memory>
#include <string>
#include <utility>

#include "stage_proc/models/kernels_cuda/checks.h"
#include "stage_proc/models/kernels_cuda/device.h"
#include "stage_proc/models/kernels_cuda/launch.h"

namespace omnistage::kernels::cuda {
namespace {

Status launched(const char* call, LaunchStatus status) {
  if (status.code == 0) return Status();
  return cuda_status("kernel launch", static_cast<cudaError_t>(status.cuda_error), call);
}

LaunchRows launch_rows(const QuantRows* x) {
  if (x == nullptr) return {};
  return {x->q, x->scale, x->scaled_sum, x->sum};
}

class DeviceKernels final : public CudaKernels {
 public:
  explicit DeviceKernels(Device device) : device_(std::move(device)) {}

  const std::string& device_name() const override { return device_.name(); }

  Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes, const char* what) override {
    OMS_RETURN_IF_ERROR(device_.use());
    OMS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                         DeviceBuffer::allocate(device_.index(), bytes, what));
    return memory;
  }

  Status upload(DeviceMemory& memory, uint64_t offset, const void* from, uint64_t bytes) override {
    OMS_RETURN_IF_ERROR(check_span("upload", offset, bytes, memory.bytes()));
    return copy("upload", static_cast<char*>(memory.data()) + offset, from, bytes,
                cudaMemcpyHostToDevice);
  }

  Status download(const DeviceMemory& memory, uint64_t offset, void* to, uint64_t bytes) override {
    OMS_RETURN_IF_ERROR(check_span("download", offset, bytes, memory.bytes()));
    return copy("download", to, static_cast<const char*>(memory.data()) + offset, bytes,
                cudaMemcpyDeviceToHost);
  }

  Status synchronize() override { return wait("synchronize"); }

  Status quantize(const DeviceRows& in, const QuantRows& first, const QuantRows* rest) override {
    constexpr const char* kCall = "quantize";
    OMS_RETURN_IF_ERROR(check_terms(kCall, in, first, rest));
    OMS_RETURN_IF_ERROR(device_.use());
    return launched(kCall, oms_cuda_quantize({in.x, in.stride, in.rows, in.k}, launch_rows(&first),
                                             launch_rows(rest), device_.stream()));
  }

  Status norm_quantize(const DeviceRows& in, const float* weight, float eps, float* normed,
                       const QuantRows& first, const QuantRows* rest) override {
    constexpr const char* kCall = "norm_quantize";
    OMS_RETURN_IF_ERROR(check_terms(kCall, in, first, rest));
    if (in.k > kNormWidthMax) {
      return invalid("norm_quantize: k must be at most " + std::to_string(kNormWidthMax) +
                     ", got " + std::to_string(in.k));
    }
    if (weight == nullptr) return invalid("norm_quantize: weight is null");
    OMS_RETURN_IF_ERROR(device_.use());
    return launched(
        kCall, oms_cuda_norm_quantize({in.x, in.stride, in.rows, in.k}, weight, eps, normed,
                                      launch_rows(&first), launch_rows(rest), device_.stream()));
  }

  Status linear_q4(const Q4Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
                   int32_t tile_end, float* y, int64_t y_stride, bool add) override {
    constexpr const char* kCall = "linear_q4";
    OMS_RETURN_IF_ERROR(
        check_linear(kCall, w.n, w.k, w.q, w.scales, x, {rows, tile_begin, tile_end, y, y_stride}));
    OMS_RETURN_IF_ERROR(device_.use());
    return launched(kCall, oms_cuda_linear_q4({w.q, w.scales, launch_rows(&x), rows, w.k,
                                               tile_begin, tile_end, y, y_stride, add},
                                              device_.stream()));
  }

  Status linear_q8(const Q8Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
                   int32_t tile_end, float* y, int64_t y_stride) override {
    constexpr const char* kCall = "linear_q8";
    OMS_RETURN_IF_ERROR(
        check_linear(kCall, w.n, w.k, w.q, w.scales, x, {rows, tile_begin, tile_end, y, y_stride}));
    OMS_RETURN_IF_ERROR(device_.use());
    return launched(kCall, oms_cuda_linear_q8({w.q, w.scales, launch_rows(&x), rows, w.k,
                                               tile_begin, tile_end, y, y_stride, false},
                                              device_.stream()));
  }

 private:
  static Status check_terms(const char* call, const DeviceRows& in, const QuantRows& first,
                            const QuantRows* rest) {
    OMS_RETURN_IF_ERROR(check_input(call, in));
    OMS_RETURN_IF_ERROR(check_quant_rows(call, "first", first, in.k));
    return rest == nullptr ? Status() : check_quant_rows(call, "rest", *rest, in.k);
  }

  Status wait(const char* call) {
    OMS_RETURN_IF_ERROR(device_.use());
    return cuda_status("cudaStreamSynchronize", cudaStreamSynchronize(device_.stream()), call);
  }

  Status copy(const char* call, void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return Status();
    OMS_RETURN_IF_ERROR(device_.use());
    OMS_RETURN_IF_ERROR(cuda_status(
        "cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, kind, device_.stream()), call));
    return wait(call);
  }

  Device device_;
};

Result<std::unique_ptr<CudaKernels>> make(uint32_t abi, int32_t index) {
  if (abi != kCudaPluginAbi) {
    return invalid("plug-in kernels_cuda: made for plug-in ABI " + std::to_string(kCudaPluginAbi) +
                   ", the stage has " + std::to_string(abi) + "; rebuild both");
  }
  OMS_ASSIGN_OR_RETURN(Device device, Device::open(index));
  return std::unique_ptr<CudaKernels>(std::make_unique<DeviceKernels>(std::move(device)));
}

}  // namespace
}  // namespace omnistage::kernels::cuda

extern "C" __attribute__((visibility("default")))
omnistage::Result<std::unique_ptr<omnistage::kernels::cuda::CudaKernels>>
omnistage_make_cuda_kernels(uint32_t abi, int32_t device) {
  return omnistage::kernels::cuda::make(abi, device);
}
