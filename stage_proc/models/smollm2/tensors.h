// Typed look-up of the weight tensors: name, type and shape are checked before anything is read.
#pragma once

#include <span>
#include <string>

#include "shm/base/status.h"
#include "stage_proc/models/gguf/gguf.h"

namespace omnistage::models::smollm2 {

// Bytes of a [rows, columns] tensor of the given type; rows 1 means a vector. Errors: kNotFound,
// kInvalid (shape), kUnsupported (type), with file and tensor.
Result<std::span<const std::byte>> find_weight(const gguf::GgufFile& file, const std::string& name,
                                               gguf::TensorType type, int32_t rows,
                                               int32_t columns);

// "blk.<layer>.<part>.weight"
std::string layer_tensor(int32_t layer, const char* part);

}  // namespace omnistage::models::smollm2
