// IEEE half to float without special instructions; exact for every bit pattern.
#pragma once

#include <cstdint>
#include <cstring>

namespace omnistage::kernels {
namespace {

inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31;
  const uint32_t mantissa = h & 1023;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000 | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {  // zero and subnormals: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    std::memcpy(&bits, &value, sizeof bits);
    bits |= sign;
  }
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace
}  // namespace omnistage::kernels
