#include "stage_proc/tokenizer/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "stage_proc/tokenizer/bpe.h"
#include "stage_proc/tokenizer/splitter.h"
#include "stage_proc/tokenizer/utf8.h"

namespace omnistage::tokenizer {

struct Tokenizer::Impl {
  Bpe bpe;
  std::unique_ptr<WordSplitter> splitter;
  std::vector<std::string> bytes;                               // by id
  std::vector<bool> special;                                    // by id
  std::vector<std::pair<std::string, int32_t>> special_pieces;  // longest first
  std::unordered_map<std::string, int32_t> special_ids;

  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<std::string_view> words;
    splitter->split(text, words);
    for (const std::string_view word : words) bpe.encode_word(word, ids);
  }

  // Position and index of the first special piece at or after `from`; the longest wins at one
  // position.
  bool find_special(std::string_view text, size_t from, size_t& at, size_t& index) const {
    at = std::string_view::npos;
    for (size_t i = 0; i < special_pieces.size(); ++i) {
      const size_t found = text.find(special_pieces[i].first, from);
      if (found < at) at = found, index = i;
    }
    return at != std::string_view::npos;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::create(BpeData data) {
  if (data.pieces.empty()) return invalid("tokenizer: the vocabulary is empty");
  OMS_ASSIGN_OR_RETURN(Bpe bpe, Bpe::create(data.pieces, data.merges));
  OMS_ASSIGN_OR_RETURN(auto splitter, make_smollm_splitter());
  auto impl = std::make_unique<Impl>();
  impl->bpe = std::move(bpe);
  impl->splitter = std::move(splitter);
  impl->special.resize(data.pieces.size());
  for (const int32_t id : data.special_ids) {
    if (id < 0 || static_cast<size_t>(id) >= data.pieces.size())
      return invalid("tokenizer: special id " + std::to_string(id) +
                     " is outside the vocabulary of " + std::to_string(data.pieces.size()));
    if (data.pieces[id].empty())
      return invalid("tokenizer: special piece " + std::to_string(id) + " is empty");
    impl->special[id] = true;
    impl->special_pieces.emplace_back(data.pieces[id], id);
    impl->special_ids.emplace(data.pieces[id], id);
  }
  std::stable_sort(impl->special_pieces.begin(), impl->special_pieces.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  impl->bytes.reserve(data.pieces.size());
  for (size_t i = 0; i < data.pieces.size(); ++i)
    impl->bytes.push_back(impl->special[i] ? data.pieces[i] : Bpe::piece_to_bytes(data.pieces[i]));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view raw, bool parse_special) const {
  const std::string text = repair_utf8(raw);
  std::vector<int32_t> ids;
  const std::string_view all = text;
  size_t begin = 0;
  while (begin < all.size()) {
    size_t at = all.size(), index = 0;
    const bool found = parse_special && impl_->find_special(all, begin, at, index);
    if (!found) at = all.size();
    if (at > begin) impl_->encode_plain(all.substr(begin, at - begin), ids);
    if (!found) break;
    ids.push_back(impl_->special_pieces[index].second);
    begin = at + impl_->special_pieces[index].first.size();
  }
  return ids;
}

const std::string& Tokenizer::piece_bytes(int32_t id) const {
  static const std::string empty;
  return id >= 0 && static_cast<size_t>(id) < impl_->bytes.size() ? impl_->bytes[id] : empty;
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids)
    if (!(skip_special && is_special(id))) bytes += piece_bytes(id);
  return repair_utf8(bytes);
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < impl_->special.size() && impl_->special[id];
}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(impl_->bytes.size());
}

int32_t Tokenizer::find_special(std::string_view text) const {
  const auto it = impl_->special_ids.find(std::string(text));
  return it == impl_->special_ids.end() ? -1 : it->second;
}

std::string Detokenizer::push(int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  held_ += tokenizer_->piece_bytes(id);
  std::string out;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Char c = decode_utf8(held_, at);
    if (c.incomplete) break;
    if (c.valid)
      out.append(held_, at, c.length);
    else
      out += kReplacementUtf8;
    at += c.length;
  }
  held_.erase(0, at);
  return out;
}

std::string Detokenizer::finish() {
  std::string out = repair_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace omnistage::tokenizer
