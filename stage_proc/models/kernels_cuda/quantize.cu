// Activations to int8 groups, with or without the RMS norm before; bit for bit the scalar CPU
// kernels. The scalar norm adds squares in eight lanes (input i belongs to lane i % 8) and then the
// lanes as a tree; the same eight chains run here in eight threads of the row's block.
#include "stage_proc/models/kernels/kernels.h"
#include "stage_proc/models/kernels_cuda/launch_status.h"

namespace omnistage::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kLanes = 8;  // of the scalar table's vectors
constexpr unsigned kWholeWarp = 0xffffffffu;
static_assert(kGroup == 32, "a warp is a group");

// One group by one warp, x being this lane's input. Returns scale * q, what the group now stands
// for.
__device__ float quantize_group(float x, const LaunchRows& out, int64_t group) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Bits of floats >= 0 sort like the floats.
  const unsigned top = __reduce_max_sync(kWholeWarp, __float_as_uint(fabsf(x)));
  const float scale = __fdiv_rn(__uint_as_float(top), 127.0f);
  const float inverse = scale > 0 ? __fdiv_rn(1.0f, scale) : 0.0f;
  float r = rintf(__fmul_rn(x, inverse));
  r = r < -127.0f ? -127.0f : (r < 127.0f ? r : 127.0f);
  const int q = static_cast<int>(r);
  const int sum = __reduce_add_sync(kWholeWarp, q);
  out.q[group * kGroup + lane] = static_cast<int8_t>(q);
  if (lane == 0) {
    out.scale[group] = scale;
    out.scaled_sum[group] = __fmul_rn(scale, static_cast<float>(sum));
    out.sum[group] = sum;
  }
  return __fmul_rn(scale, static_cast<float>(q));
}

__device__ void quantize_terms(float x, const LaunchRows& first, const LaunchRows& rest,
                               int64_t group) {
  const float stands_for = quantize_group(x, first, group);
  if (rest.q != nullptr) quantize_group(__fsub_rn(x, stands_for), rest, group);
}

// Blocks: (groups of kWarps groups, rows).
__global__ void __launch_bounds__(kThreads)
    quantize(LaunchInput in, LaunchRows first, LaunchRows rest) {
  const int groups = in.k / kGroup;
  const int g = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (g >= groups) return;  // a whole warp
  const int64_t row = blockIdx.y;
  const float x = in.x[row * in.stride + g * kGroup + static_cast<int>(threadIdx.x) % 32];
  quantize_terms(x, first, rest, row * groups + g);
}

// 1 / sqrt(mean(x^2) + eps) of the block's row, the same in all threads. Ends with all threads
// having passed a barrier after `row` was written.
__device__ float norm_scale(const float* row, int n, float eps) {
  __shared__ float lanes[kLanes];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kLanes) {
    float sum = 0;
    for (int i = thread; i < n; i += kLanes) sum = __fadd_rn(__fmul_rn(row[i], row[i]), sum);
    lanes[thread] = sum;
  }
  __syncthreads();
  const float even = __fadd_rn(__fadd_rn(lanes[0], lanes[4]), __fadd_rn(lanes[2], lanes[6]));
  const float odd = __fadd_rn(__fadd_rn(lanes[1], lanes[5]), __fadd_rn(lanes[3], lanes[7]));
  const float mean = __fdiv_rn(__fadd_rn(even, odd), static_cast<float>(n));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

// One block a row; k floats of dynamic shared memory hold the row.
__global__ void __launch_bounds__(kThreads)
    norm_quantize(LaunchInput in, const float* weight, float eps, float* normed, LaunchRows first,
                  LaunchRows rest) {
  extern __shared__ float row[];
  const int64_t r = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < in.k; i += kThreads)
    row[i] = in.x[r * in.stride + i];
  __syncthreads();
  const float scale = norm_scale(row, in.k, eps);
  // k is a multiple of 32, so every warp is in or out as a whole.
  for (int i = static_cast<int>(threadIdx.x); i < in.k; i += kThreads) {
    const float x = __fmul_rn(__fmul_rn(row[i], scale), weight[i]);
    if (normed != nullptr) normed[r * in.k + i] = x;
    quantize_terms(x, first, rest, (r * in.k + i) / kGroup);
  }
}

}  // namespace

LaunchStatus oms_cuda_quantize(LaunchInput in, LaunchRows first, LaunchRows rest,
                               CUstream_st* stream) {
  const unsigned groups = static_cast<unsigned>(in.k / kGroup);
  const dim3 grid((groups + kWarps - 1) / kWarps, static_cast<unsigned>(in.rows));
  quantize<<<grid, kThreads, 0, stream>>>(in, first, rest);
  return launch_status();
}

LaunchStatus oms_cuda_norm_quantize(LaunchInput in, const float* weight, float eps, float* normed,
                                    LaunchRows first, LaunchRows rest, CUstream_st* stream) {
  const size_t shared = static_cast<size_t>(in.k) * sizeof(float);
  norm_quantize<<<static_cast<unsigned>(in.rows), kThreads, shared, stream>>>(in, weight, eps,
                                                                              normed, first, rest);
  return launch_status();
}

}  // namespace omnistage::kernels::cuda
