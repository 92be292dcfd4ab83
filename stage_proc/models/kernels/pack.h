// Weights as GGUF stores them (Q4_1: 20-byte blocks, Q8_0: 34-byte blocks, row by row) to the
// interleaved form of kernels.h, bit for bit, and a buffer for them. Plain functions, no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/base/status.h"
#include "stage_proc/models/kernels/kernels.h"

namespace omnistage::kernels {

constexpr int64_t q4_1_row_bytes(int32_t k) {
  return int64_t{k} / kGroup * 20;
}
constexpr int64_t q8_0_row_bytes(int32_t k) {
  return int64_t{k} / kGroup * 34;
}
constexpr int64_t packed_q4_bytes(int32_t n, int32_t k) {
  return int64_t{n} * k / 2;
}
constexpr int64_t packed_q4_scales(int32_t n, int32_t k) {
  return int64_t{n} * k / kGroup * 2;
}
constexpr int64_t packed_q8_bytes(int32_t n, int32_t k) {
  return int64_t{n} * k;
}
constexpr int64_t packed_q8_scales(int32_t n, int32_t k) {
  return int64_t{n} * k / kGroup;
}

// Packs one tile: 16 consecutive rows of k inputs. `q` and `scales` are where the tile starts.
void pack_tile_q4_1(const std::byte* rows, int32_t k, uint8_t* q, uint16_t* scales);
void pack_tile_q8_0(const std::byte* rows, int32_t k, uint8_t* q, uint16_t* scales);

// Row `row` of a packed matrix as floats (out: k).
void unpack_row_q4(const Q4Matrix& w, int32_t row, float* out);
void unpack_row_q8(const Q8Matrix& w, int32_t row, float* out);

// Zeroed pages of its own, large pages where the system gives them. Move only.
class PageBuffer {
 public:
  PageBuffer() = default;
  // Errors: kNoMemory with the size.
  static Result<PageBuffer> allocate(uint64_t bytes, const char* what);
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  ~PageBuffer();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace omnistage::kernels
