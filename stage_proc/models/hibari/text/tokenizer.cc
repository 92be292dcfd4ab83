#include "stage_proc/models/hibari/text/tokenizer.h"

#include <algorithm>
#include <iterator>

#include "stage_proc/models/hibari/text/json_reader.h"

namespace omnistage::hibari {
namespace {

constexpr size_t kSpecialCasesMax = 65536;
constexpr size_t kPiecesMax = 16;

// Character classes for Latin text. kLower and kUpper stand inside brackets.
const Text kLetter = UR"([^\W\d_])";
const Text kLower = U"a-zß-öø-ÿ";
const Text kUpper = U"A-ZÀ-ÖØ-Þ";
const Text kQuotes = U"'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉";
const Text kMarks = U"…,:;!?¿¡()[]{}<>_#*&。？！，、；：～·";
const Text kIcons = U"™®©°§¶†‡•";
const Text kCurrency =
    UR"(\$|£|€|¥|฿|US\$|C\$|A\$|₽|₹|₩|₪|₺|₴|₦|₫|₱|₲|₵|₸|₼|₾|₿)";
const Text kUnits =
    U"km|km²|km³|m|m²|m³|dm|dm²|dm³|cm|cm²|cm³|mm|mm²|mm³|ha|µm|nm|yd|in|ft|kg|g|mg|µg|t|lb|oz|m/"
    U"s|km/h"
    U"|kmh|mph|hPa|Pa|mbar|mb|MB|kb|KB|gb|GB|tb|TB|T|G|M|K|%";
const Text kUrl =
    UR"(^(?:(?:https?|ftp)://|www\.)\S+$|^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$)"
    UR"(|^(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|co|uk|de|fr|info|biz|us|ca|au|tv|me|ly|ai)(?:/\S*)?$)";

using Patterns = std::vector<Text>;

void add_each(TextView characters, Patterns* out) {
  for (char32_t c : characters) out->push_back(regex_escape(TextView(&c, 1)));
}

// One alternation of all patterns, each wrapped as `open` + pattern + `close`.
Text any_of(const Patterns& patterns, TextView open, TextView close) {
  Text out;
  for (const Text& pattern : patterns) {
    if (!out.empty()) out += U'|';
    out += open;
    out += pattern;
    out += close;
  }
  return out;
}

Patterns prefix_patterns() {
  Patterns out = {U"§", U"%", U"=", U"—", U"–", UR"(\+(?![0-9]))"};
  add_each(kMarks, &out);
  out.push_back(UR"(\.\.+)");
  add_each(kQuotes, &out);
  out.push_back(kCurrency);
  add_each(kIcons, &out);
  return out;
}

Patterns suffix_patterns() {
  Patterns out = {U"…", U"……"};
  add_each(kMarks, &out);
  out.push_back(UR"(\.\.+)");
  add_each(kQuotes, &out);
  add_each(kIcons, &out);
  for (const char32_t* word : {U"'s", U"'S", U"’s", U"’S", U"—", U"–"}) out.push_back(word);
  out.push_back(UR"((?<=[0-9])\+)");
  out.push_back(UR"((?<=°[FfCcKk])\.)");
  out.push_back(U"(?<=[0-9])(?:" + kCurrency + U")");
  out.push_back(U"(?<=[0-9])(?:" + kUnits + U")");
  out.push_back(U"(?<=[0-9" + kLower + UR"(%²\-\+)" + regex_escape(kMarks) + regex_escape(kQuotes) +
                UR"(])\.)");
  out.push_back(U"(?<=[" + kUpper + U"][" + kUpper + UR"(])\.)");
  return out;
}

Patterns infix_patterns() {
  Patterns out = {UR"(\.\.+)", U"…"};
  add_each(kIcons, &out);
  out.push_back(UR"((?<=[0-9])[+\-\*^](?=[0-9-]))");
  out.push_back(U"(?<=[" + kLower + regex_escape(kQuotes) + UR"(])\.(?=[)" + kUpper +
                regex_escape(kQuotes) + U"])");
  out.push_back(U"(?<=" + kLetter + U"),(?=" + kLetter + U")");
  out.push_back(UR"((?<=[^\W_])(?:-|–|—|--|---|——|~)(?=)" + kLetter + U")");
  out.push_back(UR"((?<=[^\W_])[:<>=/](?=)" + kLetter + U")");
  return out;
}

}  // namespace

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  Tokenizer tokenizer;
  OMS_RETURN_IF_ERROR(tokenizer.read_special_cases(path));
  OMS_RETURN_IF_ERROR(tokenizer.compile_patterns());
  return tokenizer;
}

Status Tokenizer::read_special_cases(const std::string& path) {
  StringPool pool;
  OMS_ASSIGN_OR_RETURN(JsonReader reader, JsonReader::open(path, &pool));
  reader.object([&](std::string_view key) {
    if (key.empty()) return reader.fail("empty special case");
    if (special_.size() >= kSpecialCasesMax) return reader.fail("more than 65536 special cases");
    Pieces pieces;
    const bool read = reader.array([&] {
      std::string_view piece;
      if (!reader.string(&piece)) return false;
      if (piece.empty() || pieces.size() >= kPiecesMax)
        return reader.fail("empty piece or more than 16");
      pieces.push_back(decode_utf8(piece));
      return true;
    });
    if (!read) return false;
    if (pieces.empty()) return reader.fail("special case '" + std::string(key) + "' has no pieces");
    special_[decode_utf8(key)] = std::move(pieces);
    return true;
  });
  reader.finish();
  return reader.status();
}

Status Tokenizer::compile_patterns() {
  OMS_ASSIGN_OR_RETURN(prefix_, Regex::compile(any_of(prefix_patterns(), U"^(?:", U")")));
  OMS_ASSIGN_OR_RETURN(suffix_, Regex::compile(any_of(suffix_patterns(), U"(?:", U")$")));
  OMS_ASSIGN_OR_RETURN(infix_, Regex::compile(any_of(infix_patterns(), U"(?:", U")")));
  OMS_ASSIGN_OR_RETURN(url_, Regex::compile(kUrl, /*ignore_case=*/true));
  return Status();
}

const Tokenizer::Pieces* Tokenizer::special(TextView text) const {
  const auto it = special_.find(Text(text));
  return it == special_.end() ? nullptr : &it->second;
}

std::vector<RawToken> Tokenizer::operator()(TextView text) const {
  std::vector<RawToken> out;
  size_t at = 0;
  while (true) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (at == text.size()) return out;
    size_t end = at;
    while (end < text.size() && end - at < kRunMax && !is_space(text[end])) ++end;
    for (Text& piece : split(text.substr(at, end - at))) out.push_back({std::move(piece), false});
    out.back().space_after = end < text.size();
    at = end;
  }
}

Tokenizer::Pieces Tokenizer::split(TextView run) const {
  if (const Pieces* known = special(run)) return *known;
  Pieces out, after;
  const TextView core = peel(run, &out, &after);
  split_core(core, &out);
  out.insert(out.end(), std::make_move_iterator(after.rbegin()),
             std::make_move_iterator(after.rend()));
  return out.size() > 1 ? rejoin(std::move(out)) : out;
}

// Takes marks off both ends until nothing comes off or the rest is a special case. Returns the
// rest.
TextView Tokenizer::peel(TextView core, Pieces* before, Pieces* after) const {
  size_t last_size = static_cast<size_t>(-1);
  RegexMatch match;
  while (!core.empty() && core.size() != last_size && special(core) == nullptr) {
    last_size = core.size();
    const size_t prefix = prefix_.search(core, 0, &match) ? match.end() : 0;
    if (prefix > 0 && prefix < core.size() && special(core.substr(prefix)) != nullptr) {
      before->emplace_back(core.substr(0, prefix));
      return core.substr(prefix);
    }
    // Looking at the rest alone: a lookbehind must not see the prefix.
    const size_t suffix =
        suffix_.search(core.substr(prefix), 0, &match) ? match.end() - match.start() : 0;
    const size_t kept = core.size() - suffix;
    if (suffix > 0 && kept > 0 && special(core.substr(0, kept)) != nullptr) {
      after->emplace_back(core.substr(kept));
      return core.substr(0, kept);
    }
    if (prefix > 0) before->emplace_back(core.substr(0, prefix));
    if (suffix > 0 && prefix + suffix <= core.size()) {
      after->emplace_back(core.substr(kept));
      core.remove_suffix(suffix);
    }
    core.remove_prefix(prefix);
  }
  return core;
}

void Tokenizer::split_core(TextView core, Pieces* out) const {
  if (core.empty()) return;
  if (const Pieces* known = special(core)) {
    out->insert(out->end(), known->begin(), known->end());
    return;
  }
  if (url_.matches_at_start(core)) {
    out->emplace_back(core);
    return;
  }
  size_t start = 0;
  infix_.for_each(core, [&](const RegexMatch& match) {
    if (match.start() == 0) return;
    if (match.start() > start) out->emplace_back(core.substr(start, match.start() - start));
    out->emplace_back(match.text());
    start = match.end();
  });
  if (start < core.size()) out->emplace_back(core.substr(start));
}

Tokenizer::Pieces Tokenizer::rejoin(Pieces pieces) const {
  Pieces out;
  for (size_t i = 0; i < pieces.size();) {
    size_t used = 0;
    for (size_t count : {3, 2}) {
      if (i + count > pieces.size()) continue;
      Text joined;
      for (size_t k = 0; k < count; ++k) joined += pieces[i + k];
      if (const Pieces* known = special(joined)) {
        out.insert(out.end(), known->begin(), known->end());
        used = count;
        break;
      }
    }
    if (used == 0) {
      out.push_back(std::move(pieces[i]));
      used = 1;
    }
    i += used;
  }
  return out;
}

}  // namespace omnistage::hibari
