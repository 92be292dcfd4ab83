#include "stage_proc/models/hibari/text/g2p.h"

#include <algorithm>

#include "stage_proc/models/hibari/text/compound.h"
#include "stage_proc/models/hibari/text/stress.h"

namespace omnistage::hibari {
namespace {

// Pieces of a token: capitals before a capitalised word, numbers, runs of dashes, words, single
// marks.
const Text kPiece =
    UR"(^['‘’]+|[A-ZÀ-ÖØ-Þ](?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ])|(?:^-)?(?:\d?[,.]?\d)+|[-_]+|['‘’]{2,})"
    UR"(|[^\W\d_]*?(?:['‘’][^\W\d_])*?[a-zß-öø-ÿ](?=[A-ZÀ-ÖØ-Þ])|[^\W\d_]+(?:['‘’][^\W\d_])*)"
    UR"(|[^\w\-'‘’]|['‘’]+$)";
// [text](/phonemes/) sets the phonemes of a text.
const Text kLink = UR"(\[([^\]]+)\]\(([^\)]*)\))";
const Text kUnknownPart = UR"([^\W\d_]+(?:['’][^\W\d_]+)*|\d+(?:[,.]\d+)*|[^\w\s]+)";

const char32_t* spoken_sign(char32_t sign) {
  switch (sign) {
    case U'/':
      return U"slˈæʃ";
    case U'=':
      return U"ˈikwᵊlz";
    case U'+':
      return U"plˈʌs";
    case U'&':
      return U"ænd";
    case U'@':
      return U"æt";
    case U'%':
      return U"pəɹsˈɛnt";
    case U'#':
      return U"hˈæʃ";
    case U'*':
      return U"ˈæstəɹˌɪsk";
    case U'~':
      return U"tˈɪldə";
    case U'^':
      return U"kˈɛɹət";
    case U'<':
      return U"lˈɛs ðən";
    case U'>':
      return U"ɡɹˈATəɹ ðən";
    case U'—':
      return U"—";
    default:
      return U"";
  }
}

bool is_mark_tag(std::string_view tag) {
  for (std::string_view mark :
       {".", ",", "-LRB-", "-RRB-", "``", "\"\"", "''", ":", "$", "#", "NFP"}) {
    if (tag == mark) return true;
  }
  return false;
}

// Phonemes of a mark: brackets and quotes by their tag, else the characters the model has a symbol
// for.
Text mark_phonemes(const Token& token) {
  if (token.tag == "-LRB-") return U"(";
  if (token.tag == "-RRB-") return U")";
  if (token.tag == "``") return U"“";
  if (token.tag == "\"\"" || token.tag == "''") return U"”";
  Text out;
  for (char32_t c : token.text) {
    if (contains(kSpokenMarks, c)) out += c;
  }
  return out;
}

bool all_basic_letters(TextView text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80 && is_letter(c); });
}

// Currency signs wait for the last number of the amount that follows them.
class CurrencyTracker {
 public:
  void start(TextView sign) { sign_ = sign; }
  bool active() const { return !sign_.empty(); }
  void visit(Token* piece, bool amount_ends) {
    if (piece->tag != "CD") {
      sign_.clear();
    } else if (amount_ends) {
      piece->currency = sign_;
    }
  }

 private:
  Text sign_;
};

// "2" between letters is read "to": "B2B".
bool reads_as_to(const std::vector<Token>& pieces, size_t j) {
  return j > 0 && j + 1 < pieces.size() && pieces[j].text == U"2" &&
         is_letter(pieces[j - 1].text.back()) && is_letter(pieces[j + 1].text.front());
}

Context context_before(const Token& token, TextView phonemes, const Context& after) {
  Context out;
  out.vowel_next = after.vowel_next;
  for (char32_t c : phonemes) {
    if (contains(kPauseMarks, c)) {
      out.vowel_next = std::nullopt;
      break;
    }
    if (contains(kVowels, c) || contains(kConsonants, c)) {
      out.vowel_next = contains(kVowels, c);
      break;
    }
  }
  out.to_next = token.text == U"to" || token.text == U"To" ||
                (token.text == U"TO" && (token.tag == "TO" || token.tag == "IN"));
  return out;
}

}  // namespace

Result<G2p> G2p::load(const std::string& model_dir) {
  auto path = [&](const char* name) { return model_dir + "/" + name; };
  OMS_ASSIGN_OR_RETURN(NormalizerTables tables, NormalizerTables::load(path("normalize.json")));
  OMS_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::make(std::move(tables)));
  OMS_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(path("tokenizer_exceptions.json")));
  OMS_ASSIGN_OR_RETURN(OovNet oov, OovNet::load(path("oov.json"), path("oov.safetensors")));
  OMS_ASSIGN_OR_RETURN(Tagger tagger, Tagger::load(path("tagger.json")));
  OMS_ASSIGN_OR_RETURN(Lexicon lexicon,
                       Lexicon::load(path("lexicon_us_gold.json"), path("lexicon_us_silver.json")));
  G2p g2p(std::move(normalizer), std::move(tokenizer), std::move(tagger), std::move(lexicon),
          std::move(oov));
  OMS_ASSIGN_OR_RETURN(g2p.piece_, Regex::compile(kPiece));
  OMS_ASSIGN_OR_RETURN(g2p.link_, Regex::compile(kLink));
  OMS_ASSIGN_OR_RETURN(g2p.unknown_part_, Regex::compile(kUnknownPart));
  return g2p;
}

void G2p::add_tokens(TextView text, std::vector<Token>* out) const {
  std::vector<RawToken> raw = tokenizer_(text);
  std::vector<Text> texts;
  for (const RawToken& token : raw) texts.push_back(token.text);
  std::vector<std::string> tags = tagger_(texts);
  for (size_t i = 0; i < raw.size(); ++i) {
    Token& token = out->emplace_back();
    token.text = std::move(raw[i].text);
    token.tag = std::move(tags[i]);
    token.space_after = raw[i].space_after;
  }
}

std::vector<Token> G2p::tokens(TextView line) const {
  std::vector<Token> out;
  size_t at = 0;
  link_.for_each(line, [&](const RegexMatch& match) {
    add_tokens(line.substr(at, match.start() - at), &out);
    Token& token = out.emplace_back();
    token.text = match.group(1);
    token.tag = "NN";
    token.space_after = match.end() < line.size() && is_space(line[match.end()]);
    TextView target = match.group(2);
    if (target.size() > 1 && target.front() == U'/' && target.back() == U'/') {
      target.remove_prefix(1);
      while (!target.empty() && target.back() == U'/') target.remove_suffix(1);
      token.phonemes = target;
    }
    at = match.end();
  });
  add_tokens(line.substr(at), &out);
  return out;
}

std::vector<Token> G2p::pieces(const Token& token) const {
  std::vector<Token> out;
  if (!token.phonemes) {
    piece_.for_each(token.text, [&](const RegexMatch& match) {
      Token& piece = out.emplace_back();
      piece.text = match.text();
      piece.tag = token.tag;
    });
  }
  if (out.empty()) out.push_back(token);
  out.back().space_after = token.space_after;
  return out;
}

std::vector<G2p::Word> G2p::words(const std::vector<Token>& tokens) const {
  std::vector<Word> out;
  CurrencyTracker currency;
  bool open = false;  // the last word may take further pieces
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<Token> parts = pieces(tokens[i]);
    const bool last_number = i + 1 == tokens.size() || tokens[i + 1].tag != "CD";
    for (size_t j = 0; j < parts.size(); ++j) {
      Token& piece = parts[j];
      if (piece.phonemes) {
      } else if (piece.tag == "$" && currency_words(piece.text) != nullptr) {
        currency.start(piece.text);
        piece.phonemes = Text();
      } else if (piece.tag == ":" && (piece.text == U"-" || piece.text == U"–")) {
        piece.phonemes = U"—";
      } else if (is_mark_tag(piece.tag) && !all_basic_letters(piece.text)) {
        piece.phonemes = mark_phonemes(piece);
      } else if (currency.active()) {
        currency.visit(&piece, j + 1 == parts.size() && last_number);
      } else if (reads_as_to(parts, j)) {
        piece.alias = U"to";
      }
      const bool settled = piece.phonemes || piece.alias;
      if (!settled && open && !out.back().back().space_after && out.back().size() < kPiecesMax) {
        piece.is_head = false;
        out.back().push_back(piece);
        continue;
      }
      open = !settled && !piece.space_after;
      out.push_back({piece});
    }
  }
  return out;
}

void G2p::read_single(Token* token, Context* context) const {
  if (!token->phonemes) token->phonemes = lexicon_(*token, *context);
  if (!token->phonemes) token->phonemes = read_unknown(token->text);
  *context = context_before(*token, *token->phonemes, *context);
}

// Reads the longest groups of pieces that the lexicon knows, from the end of the word to its start.
// False when a piece is left that nothing knows.
bool G2p::read_groups(Word* word, Context* context) const {
  size_t left = 0, right = word->size();
  while (left < right) {
    const auto first = word->begin() + static_cast<ptrdiff_t>(left);
    const auto last = word->begin() + static_cast<ptrdiff_t>(right);
    const bool settled =
        std::any_of(first, last, [](const Token& t) { return t.alias || t.phonemes; });
    // A group of dashes and quotes alone is in no dictionary (a single "." or "/" may be read in
    // addresses).
    const bool silent = right - left > 1 &&
                        std::all_of(first, last, [](const Token& t) { return is_glue(t.text); });
    const bool joinable = !settled && !silent;
    Token joined;
    Lexicon::Reading reading;
    if (joinable) {
      joined = join_tokens(first, last);
      reading = lexicon_(joined, *context);
    }
    if (reading) {
      std::for_each(first, last, [](Token& t) { t.phonemes = Text(); });
      first->phonemes = *reading;
      *context = context_before(joined, *reading, *context);
      right = left;
      left = 0;
    } else if (left + 1 < right) {
      ++left;
    } else {
      Token& piece = (*word)[--right];
      left = 0;
      if (piece.phonemes) continue;
      if (!is_glue(piece.text)) return false;
      piece.phonemes = Text();
    }
  }
  return true;
}

void G2p::read_compound(Word* word, Context* context) const {
  if (read_groups(word, context)) {
    settle_compound(word);
    return;
  }
  const Token joined = join_tokens(word->begin(), word->end());
  for (Token& piece : *word) piece.phonemes = Text();
  word->front().phonemes = read_unknown(joined.text);
}

// Letters go to the network, digits to the number reader, signs to a small table.
Text G2p::read_unknown(TextView text) const {
  Text out;
  unknown_part_.for_each(text, [&](const RegexMatch& match) {
    const TextView part = match.text();
    Text phonemes;
    if (digit_value(part[0]) >= 0) {
      Text digits;
      for (char32_t c : part) {
        const int value = digit_value(c);
        if (value < 0 && c != U',' && c != U'.') break;
        digits += value < 0 ? c : U'0' + static_cast<char32_t>(value);
      }
      phonemes = lexicon_.number(digits, U"", false).value_or(Text());
      // Raised or circled digits count as letters above, so that letters may follow.
      const Text rest =
          digits.size() < part.size() ? read_unknown(part.substr(digits.size())) : Text();
      if (!rest.empty()) phonemes += U" " + rest;
    } else if (is_letter(part[0])) {
      phonemes = oov_(part);
    } else {
      for (char32_t c : part) phonemes += spoken_sign(c);
    }
    if (phonemes.empty()) return;
    if (!out.empty()) out += U' ';
    out += phonemes;
  });
  return out;
}

Text G2p::operator()(TextView line) const {
  std::vector<Word> spoken = words(tokens(normalizer_(line)));
  Context context;
  for (auto word = spoken.rbegin(); word != spoken.rend(); ++word) {
    if (word->size() == 1) {
      read_single(&word->front(), &context);
    } else {
      read_compound(&*word, &context);
    }
  }
  Text out;
  for (const Word& word : spoken) {
    Text phonemes = joined_phonemes(word);
    for (char32_t& c :
         phonemes) {  // the acoustic model has its own symbols for the tap and the glottal stop
      if (c == U'ɾ') c = U'T';
      if (c == U'ʔ') c = U't';
    }
    out += phonemes;
    if (word.back().space_after) out += U' ';
  }
  return Text(trim(out));
}

}  // namespace omnistage::hibari
