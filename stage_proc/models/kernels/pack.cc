#include "stage_proc/models/kernels/pack.h"

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <utility>

#include "stage_proc/models/kernels/half.h"

namespace omnistage::kernels {
namespace {

constexpr uint64_t kLargePage = 2u << 20;

uint32_t word_at(const std::byte* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

uint16_t half_at(const std::byte* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return half;
}

}  // namespace

void pack_tile_q4_1(const std::byte* rows, int32_t k, uint8_t* q, uint16_t* scales) {
  const int64_t row_bytes = q4_1_row_bytes(k);
  for (int32_t g = 0; g < k / kGroup; ++g, q += 256, scales += 32) {
    for (int32_t n = 0; n < kTileRows; ++n) {
      const std::byte* block = rows + n * row_bytes + int64_t{g} * 20;
      scales[n] = half_at(block);
      scales[16 + n] = half_at(block + 2);
      for (int j = 0; j < 4; ++j) {
        const uint32_t word = word_at(block + 4 + j * 4);
        std::memcpy(q + j * 64 + n * 4, &word, sizeof word);
      }
    }
  }
}

void pack_tile_q8_0(const std::byte* rows, int32_t k, uint8_t* q, uint16_t* scales) {
  const int64_t row_bytes = q8_0_row_bytes(k);
  for (int32_t g = 0; g < k / kGroup; ++g, q += 512, scales += 16) {
    for (int32_t n = 0; n < kTileRows; ++n) {
      const std::byte* block = rows + n * row_bytes + int64_t{g} * 34;
      scales[n] = half_at(block);
      for (int j = 0; j < 8; ++j) {
        // Signed bytes become q + 128.
        const uint32_t word = word_at(block + 2 + j * 4) ^ 0x80808080u;
        std::memcpy(q + j * 64 + n * 4, &word, sizeof word);
      }
    }
  }
}

void unpack_row_q4(const Q4Matrix& w, int32_t row, float* out) {
  const int32_t groups = w.k / kGroup;
  const int32_t n = row % kTileRows;
  const uint8_t* q = w.q + int64_t{row / kTileRows} * groups * 256 + n * 4;
  const uint16_t* s = w.scales + int64_t{row / kTileRows} * groups * 32 + n;
  for (int32_t g = 0; g < groups; ++g, q += 256, s += 32, out += kGroup) {
    const float d = half_to_float(s[0]);
    const float low = half_to_float(s[16]);
    for (int i = 0; i < 16; ++i) {
      const uint8_t two = q[i / 4 * 64 + i % 4];
      out[i] = d * static_cast<float>(two & 15) + low;
      out[16 + i] = d * static_cast<float>(two >> 4) + low;
    }
  }
}

void unpack_row_q8(const Q8Matrix& w, int32_t row, float* out) {
  const int32_t groups = w.k / kGroup;
  const int32_t n = row % kTileRows;
  const uint8_t* q = w.q + int64_t{row / kTileRows} * groups * 512 + n * 4;
  const uint16_t* s = w.scales + int64_t{row / kTileRows} * groups * 16 + n;
  for (int32_t g = 0; g < groups; ++g, q += 512, s += 16, out += kGroup) {
    const float d = half_to_float(s[0]);
    for (int i = 0; i < kGroup; ++i) out[i] = d * static_cast<float>(q[i / 4 * 64 + i % 4] - 128);
  }
}

Result<PageBuffer> PageBuffer::allocate(uint64_t bytes, const char* what) {
  PageBuffer buffer;
  if (bytes == 0) return buffer;
  const auto failed = [&] {
    return Status(StatusCode::kNoMemory,
                  std::string(what) + ": cannot allocate " + std::to_string(bytes) + " bytes");
  };
  if (bytes > UINT64_MAX - 2 * kLargePage) return failed();
  const uint64_t rounded = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  void* map = ::mmap(nullptr, rounded + kLargePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return failed();
  // Give back what lies before and behind the aligned range, so that it can become large pages.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(map);
  const uintptr_t aligned = (begin + kLargePage - 1) / kLargePage * kLargePage;
  if (aligned > begin) ::munmap(map, aligned - begin);
  const uint64_t tail = begin + kLargePage - aligned;
  if (tail > 0) ::munmap(reinterpret_cast<void*>(aligned + rounded), tail);
  ::madvise(reinterpret_cast<void*>(aligned), rounded, MADV_HUGEPAGE);  // a wish, may fail
  buffer.data_ = reinterpret_cast<std::byte*>(aligned);
  buffer.bytes_ = rounded;
  return buffer;
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace omnistage::kernels
