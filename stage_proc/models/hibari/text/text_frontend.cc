#include "stage_proc/models/hibari/text/text_frontend.h"

#include <unordered_map>

#include "stage_proc/models/hibari/text/g2p.h"
#include "stage_proc/models/hibari/text/json_reader.h"
#include "stage_proc/models/hibari/text/regex.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {
namespace {

using Vocabulary = std::unordered_map<char32_t, int64_t>;
constexpr uint32_t kIdMax = 65535;

Status read_vocabulary(const std::string& path, Vocabulary* out) {
  StringPool pool;
  OMS_ASSIGN_OR_RETURN(JsonReader reader, JsonReader::open(path, &pool));
  reader.object([&](std::string_view key) {
    const Text symbol = decode_utf8(key);
    uint32_t id = 0;
    if (symbol.size() != 1)
      return reader.fail("symbol '" + std::string(key) + "' is not one character");
    if (!reader.integer(kIdMax, &id)) return false;
    (*out)[symbol[0]] = id;
    return true;
  });
  reader.finish();
  OMS_RETURN_IF_ERROR(reader.status());
  return out->empty() ? invalid(path + ": the vocabulary is empty") : Status();
}

// Whether a sentence ends at `end`, right after its mark, when `next` follows.
bool ends_sentence(const Normalizer& normalizer, TextView line, size_t end, char32_t next) {
  if (is_lower(next)) return false;
  if (line[end - 1] != U'.') return true;
  const size_t space = line.substr(0, end).rfind(U' ');
  const size_t begin = space == TextView::npos ? 0 : space + 1;
  TextView word = begin < end - 1 ? line.substr(begin, end - 1 - begin) : TextView();
  while (!word.empty() && contains(U"(\"“'‘", word.front())) word.remove_prefix(1);
  return !(normalizer.is_title(word) || (word.size() == 1 && is_upper(word[0])));
}

// Cuts at clause marks and joins what fits again; a piece without marks is cut at its last space
// that fits.
std::vector<Text> cut_phonemes(const Regex& clause, Text phonemes) {
  constexpr size_t kMax = TextFrontend::kPhonemesMax;
  if (phonemes.size() <= kMax) return {std::move(phonemes)};
  std::vector<Text> out;
  Text current;
  auto add = [&](TextView part) {
    if (!current.empty() && current.size() + part.size() + 1 > kMax)
      out.push_back(std::move(current)), current.clear();
    while (part.size() > kMax) {
      const size_t space = part.substr(0, kMax + 1).rfind(U' ');
      const size_t cut = space == TextView::npos || space == 0 ? kMax : space;
      out.emplace_back(part.substr(0, cut));
      part = trim(part.substr(cut));
    }
    if (!current.empty()) current += U' ';
    current += part;
  };
  size_t at = 0;
  clause.for_each(phonemes, [&](const RegexMatch& match) {
    add(TextView(phonemes).substr(at, match.start() - at));
    at = match.end();
  });
  add(TextView(phonemes).substr(at));
  if (!current.empty()) out.push_back(std::move(current));
  return out;
}

}  // namespace

struct TextFrontend::Parts {
  explicit Parts(G2p g) : g2p(std::move(g)) {}
  std::vector<Text> sentences(TextView text) const;

  G2p g2p;
  Vocabulary vocabulary;
  Regex line_break, sentence_end, clause;
};

TextFrontend::TextFrontend(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
TextFrontend::~TextFrontend() = default;

Result<std::shared_ptr<const TextFrontend>> TextFrontend::load(const std::string& model_dir) {
  Vocabulary vocabulary;
  OMS_RETURN_IF_ERROR(read_vocabulary(model_dir + "/vocab.json", &vocabulary));
  OMS_ASSIGN_OR_RETURN(G2p g2p, G2p::load(model_dir));
  auto parts = std::make_unique<Parts>(std::move(g2p));
  parts->vocabulary = std::move(vocabulary);
  OMS_ASSIGN_OR_RETURN(parts->line_break, Regex::compile(UR"(\n\s*\n|\n)"));
  OMS_ASSIGN_OR_RETURN(parts->sentence_end,
                       Regex::compile(UR"re((?<=[.!?…])["”’)\]]*\s+(?=\S))re"));
  OMS_ASSIGN_OR_RETURN(parts->clause, Regex::compile(UR"((?<=[,;:—])\s+)"));
  return std::shared_ptr<const TextFrontend>(new TextFrontend(std::move(parts)));
}

std::vector<Text> TextFrontend::Parts::sentences(TextView text) const {
  std::vector<Text> out;
  auto add_line = [&](TextView line) {
    line = trim(line);
    size_t cut = 0;
    sentence_end.for_each(line, [&](const RegexMatch& match) {
      if (!ends_sentence(g2p.normalizer(), line, match.start(), line[match.end()])) return;
      out.emplace_back(line.substr(cut, match.start() - cut));
      cut = match.end();
    });
    out.emplace_back(line.substr(cut));
  };
  text = trim(text);
  size_t at = 0;
  line_break.for_each(text, [&](const RegexMatch& match) {
    add_line(text.substr(at, match.start() - at));
    at = match.end();
  });
  add_line(text.substr(at));
  std::erase_if(out, [](const Text& sentence) { return trim(sentence).empty(); });
  return out;
}

std::vector<std::string> TextFrontend::split_sentences(std::string_view text) const {
  std::vector<std::string> out;
  for (const Text& sentence : parts_->sentences(decode_utf8(text)))
    out.push_back(encode_utf8(sentence));
  return out;
}

std::vector<std::string> TextFrontend::phonemize(std::string_view text) const {
  std::vector<std::string> out;
  for (const Text& sentence : parts_->sentences(decode_utf8(text))) {
    for (const Text& piece : cut_phonemes(parts_->clause, parts_->g2p(sentence))) {
      if (!piece.empty()) out.push_back(encode_utf8(piece));
    }
  }
  return out;
}

std::vector<int64_t> TextFrontend::ids(std::string_view phonemes) const {
  std::vector<int64_t> out = {0};
  for (char32_t c : decode_utf8(phonemes)) {
    if (const auto it = parts_->vocabulary.find(c); it != parts_->vocabulary.end())
      out.push_back(it->second);
  }
  out.push_back(0);
  return out;
}

bool TextFrontend::speakable(std::string_view text) const {
  size_t letters = 0, latin = 0;
  for (char32_t c : decode_utf8(text)) {
    letters += is_letter(c);
    latin += is_latin_letter(c);
  }
  return letters == 0 || latin * 5 >= letters;
}

}  // namespace omnistage::hibari
