#include "stage_proc/models/hibari/text/tagger.h"

#include <algorithm>

namespace omnistage::hibari {
namespace {

constexpr size_t kTagsMax = 64;
constexpr size_t kEntriesMax = 2'000'000;

// What a word looks like, for words too rare to have weights of their own.
Text shape(TextView word) {
  if (all_letters(word)) {
    if (is_lower_text(word)) return U"x";
    if (is_upper_text(word)) return word.size() > 1 ? U"XX" : U"X1";
    return is_upper(word[0]) && is_lower_text(word.substr(1)) ? U"Xx" : U"xX";
  }
  if (all_digits(word)) return U"d";
  Text out;
  for (char32_t c : word.substr(0, 4)) out += digit_value(c) >= 0 ? U'd' : is_letter(c) ? U'x' : c;
  return out;
}

Text normal_form(TextView word) {
  if (word[0] != U'-' && contains(word, U'-')) return U"!HYPHEN";
  if (word.size() == 4 && all_digits(word)) return U"!YEAR";
  if (digit_value(word[0]) >= 0) return U"!DIGITS";
  return to_lower(word);
}

// The last three characters of a UTF-8 string.
std::string_view last_three(std::string_view text) {
  size_t at = text.size();
  for (int count = 0; at > 0 && count < 3; ++count) {
    do --at;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80);
  }
  return text.substr(at);
}

}  // namespace

Result<Tagger> Tagger::load(const std::string& path) {
  Tagger tagger;
  tagger.pool_ = std::make_unique<StringPool>();
  OMS_ASSIGN_OR_RETURN(JsonReader reader, JsonReader::open(path, tagger.pool_.get()));
  tagger.read_model(reader);
  reader.finish();
  OMS_RETURN_IF_ERROR(reader.status());
  if (tagger.tags_.size() == 0 || tagger.weights_.empty())
    return invalid(path + ": tags or weights are missing");
  return tagger;
}

bool Tagger::read_model(JsonReader& reader) {
  return reader.object([&](std::string_view key) {
    if (key == "tags") return read_tags(reader);
    if (tags_.size() == 0) return reader.fail("'tags' must come first");
    if (key == "tagdict") return read_known_words(reader);
    if (key == "weights") return read_weights(reader);
    if (key != "vocab") return reader.fail("unknown key '" + std::string(key) + "'");
    vocabulary_.reserve(32768);
    return reader.array([&] {
      std::string_view word;
      if (!reader.string(&word)) return false;
      if (vocabulary_.size() >= kEntriesMax) return reader.fail("too many words");
      vocabulary_.insert(word);
      return true;
    });
  });
}

bool Tagger::read_tags(JsonReader& reader) {
  return reader.array([&] {
    std::string_view tag;
    if (!reader.string(&tag)) return false;
    if (tags_.size() >= kTagsMax) return reader.fail("more than 64 tags");
    tags_.insert(tag);
    return true;
  });
}

bool Tagger::read_tag(JsonReader& reader, std::string_view name, uint8_t* out) const {
  const uint32_t number = tags_.find(name);
  if (number == StringIndex::kNone) return reader.fail("unknown tag '" + std::string(name) + "'");
  *out = static_cast<uint8_t>(number);
  return true;
}

bool Tagger::read_known_words(JsonReader& reader) {
  known_words_.reserve(16384);
  return reader.object([&](std::string_view word) {
    std::string_view name;
    uint8_t tag = 0;
    if (!reader.string(&name) || !read_tag(reader, name, &tag)) return false;
    if (known_words_.size() >= kEntriesMax) return reader.fail("too many words");
    const uint32_t number = known_words_.insert(word);
    if (number != known_tags_.size())
      return reader.fail("word '" + std::string(word) + "' occurs twice");
    known_tags_.push_back(tag);
    return true;
  });
}

bool Tagger::read_weights(JsonReader& reader) {
  features_.reserve(81920);
  weights_.reserve(300'000);
  first_weight_.push_back(0);
  return reader.object([&](std::string_view feature) {
    if (features_.insert(feature) + 1 != first_weight_.size()) {
      return reader.fail("feature '" + std::string(feature) + "' occurs twice");
    }
    const bool read = reader.object([&](std::string_view name) {
      Weight weight = {};
      if (!read_tag(reader, name, &weight.tag) || !reader.number(&weight.value)) return false;
      if (weights_.size() >= kEntriesMax) return reader.fail("too many weights");
      weights_.push_back(weight);
      return true;
    });
    first_weight_.push_back(static_cast<uint32_t>(weights_.size()));
    return read;
  });
}

std::string Tagger::context_word(TextView word) const {
  std::string form = encode_utf8(normal_form(word));
  if (vocabulary_.size() == 0 || vocabulary_.find(form) != StringIndex::kNone) return form;
  return "<" + encode_utf8(shape(word)) + ">";
}

// The tag with the highest sum; of equal sums the one whose name is last in order. NN when no
// feature is known. Sums are taken in the order of the features, which makes them exact reruns of
// the training code.
std::string Tagger::predict(const std::vector<std::string>& features) const {
  double scores[kTagsMax] = {};
  bool any = false;
  for (const std::string& feature : features) {
    const uint32_t number = features_.find(feature);
    if (number == StringIndex::kNone) continue;
    for (uint32_t i = first_weight_[number]; i < first_weight_[number + 1]; ++i) {
      scores[weights_[i].tag] += weights_[i].value;
      any = true;
    }
  }
  if (!any) return "NN";
  uint32_t best = 0;
  for (uint32_t tag = 1; tag < tags_.size(); ++tag) {
    const bool better = scores[tag] > scores[best] ||
                        (scores[tag] == scores[best] && tags_.key(tag) > tags_.key(best));
    if (better) best = tag;
  }
  return std::string(tags_.key(best));
}

std::vector<std::string> Tagger::operator()(const std::vector<Text>& words) const {
  std::vector<std::string> context = {"-START2-", "-START-"};
  for (const Text& word : words) context.push_back(context_word(word));
  context.insert(context.end(), {"-END-", "-END2-"});

  std::vector<std::string> tags;
  std::string previous = "-START-", before = "-START2-";
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = encode_utf8(words[i]);
    std::string tag;
    if (const uint32_t known = known_words_.find(word); known != StringIndex::kNone) {
      tag = tags_.key(known_tags_[known]);
    } else {
      const std::string* at = &context[i + 2];
      auto with = [](const char* name, std::string_view value) {
        return std::string(name).append(value);
      };
      tag = predict(
          {"b", with("s3=", last_three(word)), with("p1=", encode_utf8(words[i].substr(0, 1))),
           with("w=", at[0]), with("sh=", encode_utf8(shape(words[i]))), i == 0 ? "i0" : "i+",
           with("t-1=", previous), with("t-2=", before), with("t-12=", previous + "," + before),
           with("w-1=", at[-1]), with("s3-1=", last_three(at[-1])), with("w-2=", at[-2]),
           with("w+1=", at[1]), with("s3+1=", last_three(at[1])), with("w+2=", at[2])});
    }
    before = std::move(previous);
    previous = tag;
    tags.push_back(std::move(tag));
  }
  return tags;
}

}  // namespace omnistage::hibari
