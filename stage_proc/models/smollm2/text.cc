#include "stage_proc/models/smollm2/text.h"

namespace omnistage::models::smollm2 {
namespace {

constexpr int64_t kControlPiece = 3;
constexpr int64_t kUserPiece = 4;
constexpr char kDefaultSystem[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

Status check_flavour(const gguf::GgufFile& file) {
  const std::pair<const char*, const char*> wanted[] = {{"tokenizer.ggml.model", "gpt2"},
                                                        {"tokenizer.ggml.pre", "smollm"}};
  for (const auto& [key, value] : wanted) {
    OMS_ASSIGN_OR_RETURN(const std::string_view found, file.get_string(key));
    if (found != value) {
      return Status(StatusCode::kUnsupported, file.name() + ": key '" + key + "' is '" +
                                                  std::string(found.substr(0, 64)) + "' (only '" +
                                                  value + "' is supported)");
    }
  }
  return Status::ok_status();
}

Result<tokenizer::BpeData> read_pieces(const gguf::GgufFile& file, int32_t vocab) {
  OMS_ASSIGN_OR_RETURN(const auto pieces, file.get_strings("tokenizer.ggml.tokens"));
  OMS_ASSIGN_OR_RETURN(const auto merges, file.get_strings("tokenizer.ggml.merges"));
  OMS_ASSIGN_OR_RETURN(const auto types, file.get_ints("tokenizer.ggml.token_type"));
  if (pieces.size() != static_cast<size_t>(vocab) || types.size() != pieces.size()) {
    return invalid(file.name() + ": 'tokenizer.ggml.tokens' has " + std::to_string(pieces.size()) +
                   " and 'tokenizer.ggml.token_type' " + std::to_string(types.size()) +
                   " entries for a vocabulary of " + std::to_string(vocab));
  }
  tokenizer::BpeData data;
  data.pieces.assign(pieces.begin(), pieces.end());
  data.merges.assign(merges.begin(), merges.end());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == kControlPiece || types[i] == kUserPiece) {
      data.special_ids.push_back(static_cast<int32_t>(i));
    }
  }
  data.splitter = tokenizer::Splitter::kSmolLm;
  return data;
}

}  // namespace

Result<ChatText> ChatText::create(const gguf::GgufFile& file, int32_t vocab) {
  OMS_RETURN_IF_ERROR(check_flavour(file));
  OMS_ASSIGN_OR_RETURN(tokenizer::BpeData data, read_pieces(file, vocab));
  OMS_ASSIGN_OR_RETURN(const uint64_t eos, file.get_uint("tokenizer.ggml.eos_token_id"));
  if (eos >= static_cast<uint64_t>(vocab)) {
    return invalid(file.name() + ": 'tokenizer.ggml.eos_token_id' is " + std::to_string(eos) +
                   ", the vocabulary has " + std::to_string(vocab));
  }
  ChatText text;
  auto made = tokenizer::Tokenizer::create(std::move(data));
  if (!made.ok()) {
    return Status(made.status().code(), file.name() + ": " + made.status().message());
  }
  text.tokenizer_ = std::move(made).value();
  text.eos_ = static_cast<int32_t>(eos);
  text.start_ = text.tokenizer_->find_special("<|im_start|>");
  text.end_ = text.tokenizer_->find_special("<|im_end|>");
  if (text.start_ < 0 || text.end_ < 0) {
    return invalid(file.name() + ": the control pieces <|im_start|> and <|im_end|> are missing");
  }
  return text;
}

void ChatText::append_turn(const std::string& role, const std::string& text,
                           std::vector<int32_t>* ids) const {
  const auto append = [&](const std::string& part) {
    const std::vector<int32_t> encoded = tokenizer_->encode(part, /*parse_special=*/false);
    ids->insert(ids->end(), encoded.begin(), encoded.end());
  };
  ids->push_back(start_);
  // One piece of text: line breaks at its start merge with the one behind the role.
  append(role + "\n" + text);
  ids->push_back(end_);
  append("\n");
}

std::vector<int32_t> ChatText::prompt(const std::string& system, const std::string& user) const {
  std::vector<int32_t> ids;
  append_turn("system", system.empty() ? kDefaultSystem : system, &ids);
  append_turn("user", user, &ids);
  ids.push_back(start_);
  const std::vector<int32_t> reply = tokenizer_->encode("assistant\n", /*parse_special=*/false);
  ids.insert(ids.end(), reply.begin(), reply.end());
  return ids;
}

}  // namespace omnistage::models::smollm2
