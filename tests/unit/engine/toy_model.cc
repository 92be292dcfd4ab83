#include "tests/unit/engine/toy_model.h"

#include <algorithm>
#include <limits>

#include "shm/base/check.h"

namespace omnistage::testing {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

std::string utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// The alphabet of byte-level BPE: printable bytes stand for themselves, the others for 256 and up.
std::vector<std::string> byte_pieces() {
  std::vector<std::string> pieces;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    pieces.push_back(utf8(printable ? byte : next++));
  }
  return pieces;
}

std::string to_alphabet(const std::string& bytes, const std::vector<std::string>& pieces) {
  std::string out;
  for (unsigned char byte : bytes) out += pieces[byte];
  return out;
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> kWords = {" the",
                                                  " sky",
                                                  " is",
                                                  " blue",
                                                  " because",
                                                  " light",
                                                  " of",
                                                  " short",
                                                  " waves",
                                                  ",",
                                                  ".",
                                                  "!",
                                                  "?",
                                                  "\n",
                                                  " caf\xC3\xA9",
                                                  " \xF0\x9F\x98\x80",
                                                  " 3.14",
                                                  ";",
                                                  " wa\xC3",
                                                  "\xA4",
                                                  " end"};
  return kWords;
}

constexpr int32_t kFirstWord = 259;

}  // namespace

ToyModel::ToyModel(ToyOptions options) : options_(options) {
  tokenizer::BpeData data;
  const std::vector<std::string> bytes = byte_pieces();
  data.pieces = bytes;
  for (const char* special : {"<|end|>", "<|user|>", "<|answer|>"}) {
    data.special_ids.push_back(static_cast<int32_t>(data.pieces.size()));
    data.pieces.push_back(special);
  }
  for (const std::string& word : words()) data.pieces.push_back(to_alphabet(word, bytes));
  info_.family = "toy";
  info_.vocab_size = static_cast<int32_t>(data.pieces.size());
  info_.max_model_len = options.max_model_len;
  info_.eos_token_ids = {kEos};
  info_.kv_bytes_per_token = sizeof(uint64_t);

  bias_.assign(data.pieces.size(), 0);
  for (size_t i = 0; i < bias_.size(); ++i) {
    if (i >= static_cast<size_t>(kFirstWord)) bias_[i] = 6;
    if (options.plain_words && (i < 32 || (i > 126 && i < 256))) bias_[i] = -40;
  }
  if (options.plain_words)
    for (size_t i = 0; i < words().size(); ++i)
      if (words()[i] == " wa\xC3" || words()[i] == "\xA4")
        bias_[static_cast<size_t>(kFirstWord) + i] = -40;
  bias_[kEos] = static_cast<float>(3 + options.eos_bias);
  bias_[kEos + 1] = bias_[kEos + 2] = -40;

  auto tokenizer = tokenizer::Tokenizer::create(std::move(data));
  OMS_CHECK(tokenizer.ok(), tokenizer.status().message().c_str());
  tokenizer_ = *tokenizer;
}

std::vector<int32_t> ToyModel::chat_prompt(const std::string& system,
                                           const std::string& user) const {
  std::vector<int32_t> ids = tokenizer_->encode(system);
  ids.push_back(kEos + 1);
  for (int32_t id : tokenizer_->encode(user)) ids.push_back(id);
  ids.push_back(kEos + 2);
  return ids;
}

Status ToyModel::init_kv(int32_t num_blocks, int32_t block_size) {
  block_size_ = block_size;
  kv_.assign(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size), 0xDEADull);
  return Status();
}

uint64_t ToyModel::cell(int32_t token, int64_t position) const {
  return mix(static_cast<uint64_t>(token) * 0x9E3779B97F4A7C15ull +
             static_cast<uint64_t>(position) * 0xD1B54A32D192ED03ull + options_.weights);
}

void ToyModel::fill(uint64_t hash, std::span<float> row) const {
  for (size_t i = 0; i < row.size(); ++i)
    row[i] =
        bias_[i] + static_cast<float>(mix(hash + i * 0x2545F4914F6CDD1Dull) >> 40) * 0x1.0p-21f;
}

Status ToyModel::forward(std::span<const models::ArSequence> batch, std::span<float> logits) {
  if (!fail_next_.ok()) return std::exchange(fail_next_, Status());
  Call call;
  const size_t vocab = static_cast<size_t>(info_.vocab_size);
  // All writes first, as a batched kernel may do: sequences that share a block would disturb each
  // other.
  for (const models::ArSequence& s : batch) {
    OMS_CHECK(!s.tokens.empty(), "a sequence without tokens");
    const size_t end = static_cast<size_t>(s.start) + s.tokens.size();
    OMS_CHECK(end <= static_cast<size_t>(info_.max_model_len), "beyond the context");
    OMS_CHECK(s.block_table.size() * static_cast<size_t>(block_size_) >= end,
              "block table too short");
    for (size_t i = 0; i < s.tokens.size(); ++i) {
      const size_t p = static_cast<size_t>(s.start) + i;
      const int32_t block = s.block_table[p / static_cast<size_t>(block_size_)];
      kv_.at(static_cast<size_t>(block) * static_cast<size_t>(block_size_) +
             p % static_cast<size_t>(block_size_)) = cell(s.tokens[i], static_cast<int64_t>(p));
    }
    ++call.sequences;
    call.tokens += s.tokens.size();
  }
  for (const models::ArSequence& s : batch) {
    if (!s.wants_logits) continue;
    uint64_t hash = 0;
    const size_t end = static_cast<size_t>(s.start) + s.tokens.size();
    for (size_t p = 0; p < end; ++p) {
      const int32_t block = s.block_table[p / static_cast<size_t>(block_size_)];
      hash = mix(hash ^ kv_[static_cast<size_t>(block) * static_cast<size_t>(block_size_) +
                            p % static_cast<size_t>(block_size_)]);
    }
    std::span<float> row = logits.subspan(call.logit_rows * vocab, vocab);
    fill(hash, row);
    if (std::find(s.tokens.begin(), s.tokens.end(), poison_) != s.tokens.end())
      row[3] = std::numeric_limits<float>::quiet_NaN();
    ++call.logit_rows;
  }
  OMS_CHECK(call.logit_rows * vocab == logits.size(), "logits of the wrong size");
  calls_.push_back(call);
  return Status();
}

std::vector<float> ToyModel::logits_after(std::span<const int32_t> prefix) const {
  uint64_t hash = 0;
  for (size_t p = 0; p < prefix.size(); ++p)
    hash = mix(hash ^ cell(prefix[p], static_cast<int64_t>(p)));
  std::vector<float> row(static_cast<size_t>(info_.vocab_size));
  fill(hash, row);
  return row;
}

}  // namespace omnistage::testing
