// Any byte string is either refused with a message or gives views that can be read to their last
// byte.
#include <cstdlib>

#include "stage_proc/models/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using omnistage::SafetensorsFile;
  auto file = SafetensorsFile::parse("input", std::as_bytes(std::span(data, size)));
  if (!file.ok()) {
    if (file.status().message().empty()) std::abort();
    return 0;
  }
  uint64_t sum = 0, total = 0;
  for (const std::string& name : file->names()) {
    auto view = file->get(name);
    if (!view.ok()) std::abort();
    for (size_t i = 0; i < view->bytes; ++i) sum += std::to_integer<uint64_t>(view->data[i]);
    total += view->bytes;
  }
  if (total > size || sum > total * 255) std::abort();
  return 0;
}
