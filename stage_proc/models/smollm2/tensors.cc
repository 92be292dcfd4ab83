#include "stage_proc/models/smollm2/tensors.h"

namespace omnistage::models::smollm2 {

std::string layer_tensor(int32_t layer, const char* part) {
  return "blk." + std::to_string(layer) + "." + part + ".weight";
}

Result<std::span<const std::byte>> find_weight(const gguf::GgufFile& file, const std::string& name,
                                               gguf::TensorType type, int32_t rows,
                                               int32_t columns) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  const std::string label = file.name() + ": tensor '" + name + "'";
  if (tensor == nullptr) return Status(StatusCode::kNotFound, label + " is missing");
  if (tensor->type != type) {
    return Status(StatusCode::kUnsupported, label + " is " + gguf::tensor_type_name(tensor->type) +
                                                " (" + gguf::tensor_type_name(type) +
                                                " is supported)");
  }
  uint64_t others = 1;
  for (size_t i = 2; i < tensor->dims.size(); ++i) others *= tensor->dims[i];
  const uint64_t found_rows = tensor->dims.size() > 1 ? tensor->dims[1] : 1;
  if (tensor->dims[0] != static_cast<uint64_t>(columns) ||
      found_rows != static_cast<uint64_t>(rows) || others != 1) {
    return invalid(label + " has shape " + std::to_string(found_rows) + " x " +
                   std::to_string(tensor->dims[0]) + ", the keys ask for " + std::to_string(rows) +
                   " x " + std::to_string(columns));
  }
  return tensor->data;
}

}  // namespace omnistage::models::smollm2
