// CudaKernels: the quantised linear layers of the language models on one CUDA device. Same packed
// weights, same quantised rows and same numeric rule as the CPU tables of kernels.h, and the same
// bits as the scalar table, for rows without NaN.
//
// It lives in the plug-in lib/omnistage/libomnistage_kernels_cuda.so, so that a process without a
// GPU never loads the CUDA runtime; this header needs no CUDA and callers link nothing of it.
//
// One object = one device and one stream of its own. Work is queued in call order; synchronize(),
// upload() and download() wait. One thread at a time. DeviceMemory must not outlive its
// CudaKernels, and freeing it waits for the device.
//
// Errors of every function: kInvalid names the argument and its limit and queues nothing; kSystem
// names the CUDA call and its error. After a kSystem of a kernel the device context may be lost:
// make a new process, not a new object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "shm/base/status.h"
#include "stage_proc/models/kernels/kernels.h"

namespace omnistage::kernels::cuda {

// Memory of the device, aligned to 256 bytes; given back by the destructor.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;  // device address
  virtual uint64_t bytes() const = 0;
};

// Input rows of k floats on the device: row r starts at x + r * stride.
struct DeviceRows {
  const float* x = nullptr;
  int64_t stride = 0;
  int32_t rows = 0;
  int32_t k = 0;
};

class CudaKernels {
 public:
  virtual ~CudaKernels() = default;
  virtual const std::string& device_name() const = 0;

  // Not cleared. Errors: kInvalid for 0 bytes, kNoMemory with `what` and the size.
  virtual Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes, const char* what) = 0;
  // Copy between the host and `memory` from byte `offset` on; the bytes must lie inside.
  virtual Status upload(DeviceMemory& memory, uint64_t offset, const void* from,
                        uint64_t bytes) = 0;
  virtual Status download(const DeviceMemory& memory, uint64_t offset, void* to,
                          uint64_t bytes) = 0;
  virtual Status synchronize() = 0;

  // All pointers below are device pointers; rows in 1..65535, k % 32 == 0. x may be quantised to a
  // second, finer term `rest` (quantize_rest of the CPU tables) or, with null, not.
  virtual Status quantize(const DeviceRows& in, const QuantRows& first, const QuantRows* rest) = 0;
  // rms_norm and quantize in one; k <= 8192. The normed rows also go to normed [rows][k] unless
  // null.
  virtual Status norm_quantize(const DeviceRows& in, const float* weight, float eps, float* normed,
                               const QuantRows& first, const QuantRows* rest) = 0;
  // As in KernelTable: tiles [tile_begin, tile_end), y the first output of tile_begin of row 0,
  // y_stride at least the outputs of these tiles. x.q must be aligned to 16 bytes.
  virtual Status linear_q4(const Q4Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
                           int32_t tile_end, float* y, int64_t y_stride, bool add) = 0;
  virtual Status linear_q8(const Q8Matrix& w, const QuantRows& x, int32_t rows, int32_t tile_begin,
                           int32_t tile_end, float* y, int64_t y_stride) = 0;
};

// The plug-in exports one function of this type under this name. Host and plug-in are built
// together; the plug-in refuses an `abi` other than its own. Errors: kUnsupported when there is no
// CUDA device, no usable driver, or one below compute capability 8.0; kInvalid for a bad `device`.
constexpr uint32_t kCudaPluginAbi = 1;
constexpr const char* kCudaPluginFile = "libomnistage_kernels_cuda.so";
constexpr const char* kCudaPluginSymbol = "omnistage_make_cuda_kernels";
using MakeCudaKernels = Result<std::unique_ptr<CudaKernels>> (*)(uint32_t abi, int32_t device);

}  // namespace omnistage::kernels::cuda
