#include "stage_proc/models/smollm2/config.h"

#include <string>

#include "stage_proc/models/kernels/kernels.h"

namespace omnistage::models::smollm2 {
namespace {

class Reader {
 public:
  explicit Reader(const gguf::GgufFile& file) : file_(file) {}

  Status whole(const char* key, int32_t low, int32_t high, int32_t multiple, int32_t* out) const {
    OMS_ASSIGN_OR_RETURN(const uint64_t value, file_.get_uint(key));
    if (value < static_cast<uint64_t>(low) || value > static_cast<uint64_t>(high) ||
        value % static_cast<uint64_t>(multiple) != 0) {
      return invalid(file_.name() + ": key '" + key + "' is " + std::to_string(value) +
                     " (a multiple of " + std::to_string(multiple) + " from " +
                     std::to_string(low) + " to " + std::to_string(high) + " is needed)");
    }
    *out = static_cast<int32_t>(value);
    return Status::ok_status();
  }

  Status real(const char* key, double low, double high, double* out) const {
    OMS_ASSIGN_OR_RETURN(*out, file_.get_float(key));
    if (*out >= low && *out <= high) return Status::ok_status();
    return invalid(file_.name() + ": key '" + key + "' is " + std::to_string(*out) +
                   ", out of range");
  }

 private:
  const gguf::GgufFile& file_;
};

Status check_heads(const gguf::GgufFile& file, const ModelConfig& c, int32_t rope_dims) {
  const auto bad = [&](const std::string& what) { return invalid(file.name() + ": " + what); };
  if (c.heads % c.kv_heads != 0) {
    return bad("'llama.attention.head_count' " + std::to_string(c.heads) +
               " is no multiple of 'llama.attention.head_count_kv' " + std::to_string(c.kv_heads));
  }
  if (c.embed % c.heads != 0 || c.head_dim % kernels::kHeadDimStep != 0) {
    return bad("'llama.embedding_length' " + std::to_string(c.embed) + " over " +
               std::to_string(c.heads) + " heads must give a multiple of " +
               std::to_string(kernels::kHeadDimStep));
  }
  if (rope_dims != c.head_dim) {
    return bad("'llama.rope.dimension_count' " + std::to_string(rope_dims) +
               " must be the head width " + std::to_string(c.head_dim));
  }
  return Status::ok_status();
}

}  // namespace

Result<ModelConfig> read_config(const gguf::GgufFile& file) {
  OMS_ASSIGN_OR_RETURN(const std::string_view architecture,
                       file.get_string("general.architecture"));
  if (architecture != "llama") {
    return Status(StatusCode::kUnsupported, file.name() + ": architecture '" +
                                                std::string(architecture.substr(0, 64)) +
                                                "' is not supported (llama is)");
  }
  ModelConfig c;
  const Reader read(file);
  int32_t rope_dims = 0;
  double eps = 0;
  OMS_RETURN_IF_ERROR(read.whole("llama.block_count", 1, 512, 1, &c.layers));
  OMS_RETURN_IF_ERROR(read.whole("llama.embedding_length", 64, 16384, 32, &c.embed));
  OMS_RETURN_IF_ERROR(read.whole("llama.feed_forward_length", 32, 65536, 32, &c.hidden));
  OMS_RETURN_IF_ERROR(read.whole("llama.attention.head_count", 1, 256, 1, &c.heads));
  OMS_RETURN_IF_ERROR(read.whole("llama.attention.head_count_kv", 1, 256, 1, &c.kv_heads));
  OMS_RETURN_IF_ERROR(read.whole("llama.vocab_size", 16, 1 << 20, 16, &c.vocab));
  OMS_RETURN_IF_ERROR(read.whole("llama.context_length", 1, 1 << 17, 1, &c.context));
  OMS_RETURN_IF_ERROR(read.whole("llama.rope.dimension_count", 2, 1024, 2, &rope_dims));
  OMS_RETURN_IF_ERROR(read.real("llama.attention.layer_norm_rms_epsilon", 1e-12, 1e-2, &eps));
  OMS_RETURN_IF_ERROR(read.real("llama.rope.freq_base", 1, 1e9, &c.rope_base));
  c.norm_eps = static_cast<float>(eps);
  c.head_dim = c.embed / c.heads;
  OMS_RETURN_IF_ERROR(check_heads(file, c, rope_dims));
  return c;
}

}  // namespace omnistage::models::smollm2
