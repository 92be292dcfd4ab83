// y = W x on packed weights and int8 activations, bit for bit the scalar CPU kernel: exact integer
// sums per group by dp4a, then for each output its groups added one after the other, ascending.
//
// A block owns one tile (16 outputs) and up to kRows rows. Its 16 slots of 16 threads compute the
// terms of 16 neighbouring groups in parallel; then one thread per output and row adds these terms
// in order. So parallelism over K costs no change of the order of sums, and neither the number of
// rows nor their place in a block reaches a result. __fmul_rn and __fadd_rn are never contracted to
// fused operations, as the scalar kernel is not.
#include <cuda_fp16.h>

#include "stage_proc/models/kernels/kernels.h"
#include "stage_proc/models/kernels_cuda/launch_status.h"

namespace omnistage::kernels::cuda {
namespace {

constexpr int kSlots = 16;
constexpr int kThreads = kSlots * kTileRows;

__device__ float half_at(const uint16_t* p) {
  return __half2float(__ushort_as_half(*p));
}

struct Q4 {
  static constexpr int kWords = 4;
  static constexpr int kHalves = 2 * kTileRows;
  struct Term {
    float product;
    float offset;
  };

  // The low nibbles of word j are inputs 4j.., the high ones 16 + 4j...
  static __device__ int dot(const uint32_t (&w)[kWords], const int (&x)[8]) {
    int sum = 0;
    for (int j = 0; j < 4; ++j) {
      sum = __dp4a(static_cast<int>(w[j] & 0x0f0f0f0fu), x[j], sum);
      sum = __dp4a(static_cast<int>((w[j] >> 4) & 0x0f0f0f0fu), x[4 + j], sum);
    }
    return sum;
  }
  static __device__ Term term(int sum, float d, float m, float scale, float scaled_sum) {
    return {__fmul_rn(static_cast<float>(sum), __fmul_rn(d, scale)), __fmul_rn(m, scaled_sum)};
  }
  static __device__ float add(float acc, const Term& t) {
    return __fadd_rn(__fadd_rn(acc, t.product), t.offset);
  }
};

struct Q8 {
  static constexpr int kWords = 8;
  static constexpr int kHalves = kTileRows;
  using Term = float;

  // Stored bytes are q + 128; turning the top bit gives the signed value back.
  static __device__ int dot(const uint32_t (&w)[kWords], const int (&x)[8]) {
    int sum = 0;
    for (int j = 0; j < 8; ++j) sum = __dp4a(static_cast<int>(w[j] ^ 0x80808080u), x[j], sum);
    return sum;
  }
  static __device__ Term term(int sum, float d, float, float scale, float) {
    return __fmul_rn(static_cast<float>(sum), __fmul_rn(d, scale));
  }
  static __device__ float add(float acc, Term t) { return __fadd_rn(acc, t); }
};

// Terms of group g for output n and the rows [row0, row_end).
template <typename Format, int kRows>
__device__ void group_terms(const LaunchLinear& a, int tile, int g, int n, int row0, int row_end,
                            typename Format::Term* terms) {
  const int groups = a.k / kGroup;
  const int64_t block = int64_t{tile} * groups + g;
  const uint32_t* q =
      reinterpret_cast<const uint32_t*>(a.q) + block * (Format::kWords * kTileRows) + n;
  const uint16_t* s = a.scales + block * Format::kHalves + n;
  uint32_t w[Format::kWords];
  for (int j = 0; j < Format::kWords; ++j) w[j] = q[j * kTileRows];
  const float d = half_at(s);
  const float m = Format::kHalves > kTileRows ? half_at(s + kTileRows) : 0.0f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = row0 + i;
    if (row >= row_end) break;
    const int4* from = reinterpret_cast<const int4*>(a.x.q + int64_t{row} * a.k + g * kGroup);
    const int4 low = from[0];
    const int4 high = from[1];
    const int x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const int64_t at = int64_t{row} * groups + g;
    terms[i * kTileRows + n] =
        Format::term(Format::dot(w, x), d, m, a.x.scale[at], a.x.scaled_sum[at]);
  }
}

template <typename Format, int kRows>
__global__ void __launch_bounds__(kThreads) linear(LaunchLinear a) {
  __shared__ typename Format::Term terms[kSlots][kRows * kTileRows];
  const int thread = static_cast<int>(threadIdx.x);
  const int n = thread % kTileRows;
  const int slot = thread / kTileRows;
  const int tile = a.tile_begin + static_cast<int>(blockIdx.x);
  const int row0 = static_cast<int>(blockIdx.y) * kRows;
  const int row_end = min(a.rows, row0 + kRows);
  const int groups = a.k / kGroup;
  const bool sums = slot < row_end - row0;  // this thread also adds up: row row0 + slot, output n
  float acc = 0;
  for (int first = 0; first < groups; first += kSlots) {
    if (first + slot < groups)
      group_terms<Format, kRows>(a, tile, first + slot, n, row0, row_end, terms[slot]);
    __syncthreads();
    if (sums) {
      const int count = min(kSlots, groups - first);
      for (int i = 0; i < count; ++i) acc = Format::add(acc, terms[i][thread]);
    }
    __syncthreads();
  }
  if (!sums) return;
  float* y = a.y + int64_t{row0 + slot} * a.y_stride + int64_t{blockIdx.x} * kTileRows + n;
  *y = a.add ? __fadd_rn(*y, acc) : acc;
}

template <typename Format>
LaunchStatus launch(const LaunchLinear& a, CUstream_st* stream) {
  constexpr int kMany = 8;
  static_assert(kMany <= kSlots);
  const unsigned tiles = static_cast<unsigned>(a.tile_end - a.tile_begin);
  const unsigned rows = static_cast<unsigned>(a.rows);
  if (rows == 1) {
    linear<Format, 1><<<dim3(tiles, 1), kThreads, 0, stream>>>(a);
  } else {
    linear<Format, kMany><<<dim3(tiles, (rows + kMany - 1) / kMany), kThreads, 0, stream>>>(a);
  }
  return launch_status();
}

}  // namespace

LaunchStatus oms_cuda_linear_q4(LaunchLinear args, CUstream_st* stream) {
  return launch<Q4>(args, stream);
}

LaunchStatus oms_cuda_linear_q8(LaunchLinear args, CUstream_st* stream) {
  return launch<Q8>(args, stream);
}

}  // namespace omnistage::kernels::cuda
