#include "stage_proc/models/smollm2/base_model.h"

namespace omnistage::models::smollm2 {

BaseModel::BaseModel(const ModelConfig& config, ChatText text)
    : config_(config), text_(std::move(text)) {
  info_.family = "smollm2";
  info_.vocab_size = config.vocab;
  info_.max_model_len = config.context;
  info_.eos_token_ids = {text_.eos()};
  info_.kv_bytes_per_token = uint64_t{2} * static_cast<uint64_t>(config.layers) *
                             static_cast<uint64_t>(config.kv_width()) * sizeof(float);
  rows_.reserve(kPassRows);
}

Status BaseModel::init_kv(int32_t num_blocks, int32_t block_size) {
  if (num_blocks_ != 0) return internal_error("init_kv: the KV storage exists already");
  if (num_blocks < 1 || block_size < 1 || block_size > 4096) {
    return invalid("init_kv: " + std::to_string(num_blocks) + " blocks of " +
                   std::to_string(block_size) + " tokens (at least 1 block of 1 to 4096)");
  }
  num_blocks_ = num_blocks;
  block_size_ = block_size;
  Status status = allocate_kv();
  if (!status.ok()) num_blocks_ = 0;
  return status;
}

Status BaseModel::check_sequence(const ArSequence& sequence, size_t index) const {
  const auto bad = [index](const std::string& what) {
    return invalid("forward: sequence " + std::to_string(index) + ": " + what);
  };
  if (sequence.tokens.empty()) return bad("no tokens");
  if (sequence.start < 0 || sequence.tokens.size() > static_cast<size_t>(config_.context) ||
      sequence.start > config_.context - static_cast<int32_t>(sequence.tokens.size())) {
    return bad("positions from " + std::to_string(sequence.start) + ", " +
               std::to_string(sequence.tokens.size()) + " tokens, exceed the model's length of " +
               std::to_string(config_.context));
  }
  const size_t end = static_cast<size_t>(sequence.start) + sequence.tokens.size();
  const size_t blocks = (end + static_cast<size_t>(block_size_) - 1) / block_size_;
  if (sequence.block_table.size() < blocks) {
    return bad("block table has " + std::to_string(sequence.block_table.size()) + " of " +
               std::to_string(blocks) + " blocks");
  }
  for (size_t i = 0; i < blocks; ++i) {
    if (sequence.block_table[i] < 0 || sequence.block_table[i] >= num_blocks_) {
      return bad("block " + std::to_string(sequence.block_table[i]) + " is not one of " +
                 std::to_string(num_blocks_));
    }
  }
  for (int32_t token : sequence.tokens) {
    if (token < 0 || token >= config_.vocab) {
      return bad("token " + std::to_string(token) + " is not one of " +
                 std::to_string(config_.vocab));
    }
  }
  return Status::ok_status();
}

Status BaseModel::forward(std::span<const ArSequence> batch, std::span<float> logits) {
  if (num_blocks_ == 0) return internal_error("forward: init_kv was not called");
  size_t wanted = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    OMS_RETURN_IF_ERROR(check_sequence(batch[i], i));
    wanted += batch[i].wants_logits ? 1 : 0;
  }
  const size_t vocab = static_cast<size_t>(config_.vocab);
  if (logits.size() / vocab < wanted) {
    return invalid("forward: room for " + std::to_string(logits.size()) + " logits, " +
                   std::to_string(wanted) + " rows of " + std::to_string(vocab) + " are wanted");
  }
  rows_.clear();
  float* out = logits.data();
  for (const ArSequence& sequence : batch) {
    for (size_t i = 0; i < sequence.tokens.size(); ++i) {
      Row row{sequence.tokens[i], sequence.start + static_cast<int32_t>(i),
              sequence.block_table.data(), nullptr};
      if (sequence.wants_logits && i + 1 == sequence.tokens.size()) {
        row.logits = out;
        out += vocab;
      }
      rows_.push_back(row);
      if (rows_.size() < static_cast<size_t>(kPassRows)) continue;
      run_pass(rows_);
      rows_.clear();
    }
  }
  if (!rows_.empty()) run_pass(rows_);
  return Status::ok_status();
}

}  // namespace omnistage::models::smollm2
