// Any bytes through the GGUF reader, then through every accessor of what it accepted.
#include <cstdint>
#include <cstdlib>

#include "stage_proc/models/gguf/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using omnistage::gguf::GgufFile;
  const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file.ok()) return 0;
  for (const char* key : {"a", "general.architecture", "tokenizer.ggml.tokens"}) {
    (void)file->get_uint(key);
    (void)file->get_float(key);
    (void)file->get_bool(key);
    (void)file->get_string(key);
    (void)file->get_strings(key);
    (void)file->get_ints(key);
  }
  uint64_t sum = 0;
  for (const auto& tensor : file->tensors()) {
    if (file->find_tensor(tensor.name) != &tensor) std::abort();
    if (tensor.data.size() > size) std::abort();
    if (!tensor.data.empty()) {
      sum += std::to_integer<uint64_t>(tensor.data.front()) +
             std::to_integer<uint64_t>(tensor.data.back());
    }
  }
  return sum == UINT64_MAX ? 1 : 0;
}
