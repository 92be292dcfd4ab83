#include "stage_proc/models/hibari/text/dictionary.h"

namespace omnistage::hibari {
namespace {

constexpr size_t kWordsMax = 1'000'000;
constexpr size_t kReadingsMax = 16;
constexpr size_t kWordCharsMax = 256;  // longer ones are in no dictionary
constexpr std::string_view kDefault = "DEFAULT";

}  // namespace

bool Pronunciation::has(std::string_view tag) const {
  for (const Reading& reading : by_tag_) {
    if (reading.tag == tag) return true;
  }
  return false;
}

bool Pronunciation::get(std::string_view tag, std::string_view* phonemes) const {
  if (by_tag_.empty()) {
    *phonemes = plain_;
    return true;
  }
  const Reading* found = &by_tag_.front();  // the default reading comes first
  for (const Reading& reading : by_tag_) {
    if (reading.tag == tag) found = &reading;
  }
  *phonemes = found->phonemes;
  return found->exists;
}

Result<Dictionary> Dictionary::load(const std::string& path) {
  Dictionary d;
  d.pool_ = std::make_unique<StringPool>();
  OMS_ASSIGN_OR_RETURN(JsonReader reader, JsonReader::open(path, d.pool_.get()));
  // Few entries are shorter than 24 bytes; an estimate that is off only costs a rehash.
  d.words_.reserve(d.pool_->text.size() / 24);
  d.entries_.reserve(d.pool_->text.size() / 24);
  reader.object([&](std::string_view word) {
    if (d.words_.size() >= kWordsMax) return reader.fail("more than 1000000 words");
    if (d.words_.insert(word) != d.entries_.size()) {
      return reader.fail("word '" + std::string(word) + "' occurs twice");
    }
    return read_entry(reader, &d.entries_.emplace_back());
  });
  reader.finish();
  OMS_RETURN_IF_ERROR(reader.status());
  if (d.entries_.empty()) return invalid(path + ": the dictionary is empty");
  return d;
}

bool Dictionary::read_entry(JsonReader& reader, Pronunciation* out) {
  if (reader.peek() != '{') return reader.string(&out->plain_);
  const bool read = reader.object([&](std::string_view tag) {
    Pronunciation::Reading reading;
    reading.tag = tag;
    if (out->by_tag_.size() >= kReadingsMax) return reader.fail("more than 16 readings");
    if (reader.peek() == 'n') {
      reading.exists = false;
      if (!reader.null()) return false;
    } else if (!reader.string(&reading.phonemes)) {
      return false;
    }
    out->by_tag_.push_back(reading);
    if (tag == kDefault) std::swap(out->by_tag_.front(), out->by_tag_.back());
    return true;
  });
  if (read && !out->has(kDefault)) return reader.fail("an entry has no DEFAULT reading");
  return read;
}

const Pronunciation* Dictionary::find_exact(TextView word) const {
  if (word.size() > kWordCharsMax) return nullptr;
  const uint32_t number = words_.find(encode_utf8(word));
  return number == StringIndex::kNone ? nullptr : &entries_[number];
}

const Pronunciation* Dictionary::find(TextView word) const {
  if (const Pronunciation* exact = find_exact(word)) return exact;
  if (word.size() < 2) return nullptr;
  const Text lower = to_lower(word), capital = capitalize(lower);
  if (word == lower) return capital != lower ? find_exact(capital) : nullptr;
  return word == capital ? find_exact(lower) : nullptr;
}

}  // namespace omnistage::hibari
