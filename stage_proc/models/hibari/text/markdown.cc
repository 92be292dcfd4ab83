#include "stage_proc/models/hibari/text/markdown.h"

#include <algorithm>

namespace omnistage::hibari {
namespace {

constexpr int kLinkWordsMax = 16;  // of a link target with a title; then it was no link
constexpr TextView kInlineMarks = U"*_`~[";
constexpr TextView kRuleMarks = U"-*_=|:+~";
constexpr TextView kTrailingMarks = U".,;:!?)]}\"'”’>";
constexpr TextView kSchemes[] = {U"https://", U"http://", U"ftp://"};

bool only(TextView word, TextView characters) {
  return word.find_first_not_of(characters) == TextView::npos;
}

bool is_word_character(char32_t c) {
  return is_letter(c) || digit_value(c) >= 0;
}

char32_t at(TextView text, size_t i) {
  return i < text.size() ? text[i] : U'\0';
}

bool is_fence(TextView word) {
  return word.starts_with(U"```") || word.starts_with(U"~~~");
}

// Where a URL starts and how long its scheme is; npos when the word has none.
size_t find_url(TextView word, size_t* scheme) {
  const Text lower = to_lower(word);
  for (TextView name : kSchemes) {
    if (const size_t hit = lower.find(name); hit != Text::npos) {
      *scheme = name.size();
      return hit;
    }
  }
  const size_t first = lower.find_first_not_of(U"(<\"'“‘");
  *scheme = 0;
  return first != Text::npos && TextView(lower).substr(first).starts_with(U"www.") ? first
                                                                                   : Text::npos;
}

// "(https://www.example.com/a?b)." -> "(example.com)."
Text url_to_host(TextView word) {
  size_t scheme = 0;
  const size_t start = find_url(word, &scheme);
  if (start == TextView::npos) return Text(word);
  const size_t last = word.find_last_not_of(kTrailingMarks);
  const size_t end = last == TextView::npos ? 0 : last + 1;
  if (end <= start + scheme) return Text(word);
  TextView host = word.substr(start + scheme, end - start - scheme);
  if (const size_t user = host.substr(0, host.find_first_of(U"/?#")).rfind(U'@');
      user != TextView::npos) {
    host.remove_prefix(user + 1);
  }
  host = host.substr(0, host.find_first_of(U"/?#:<>\"'"));
  if (to_lower(host.substr(0, 4)) == U"www.") host.remove_prefix(4);
  Text out(word.substr(0, start));
  std::erase(out, U'<');
  out += host;
  for (char32_t c : word.substr(end)) {
    if (c != U'>') out += c;
  }
  return out;
}

Text drop_html_tags(TextView word) {
  Text out;
  for (size_t i = 0; i < word.size(); ++i) {
    const char32_t next = at(word, i + 1);
    const size_t close =
        word[i] == U'<' && (is_letter(next) || next == U'/') ? word.find(U'>', i) : TextView::npos;
    if (close == TextView::npos) {
      out += word[i];
    } else {
      i = close;
    }
  }
  return out;
}

// Emphasis, code ticks, brackets and escapes. Between digits a star multiplies; inside a word an
// underscore or a bracket separates.
Text drop_inline_marks(TextView word) {
  Text out;
  for (size_t i = 0; i < word.size(); ++i) {
    const char32_t c = word[i], before = i > 0 ? word[i - 1] : U'\0';
    size_t run = 1;
    while (at(word, i + run) == c) ++run;
    const char32_t after = at(word, i + run);
    const bool inside = is_word_character(before) && is_word_character(after);
    if (c == U'`' || (c == U'~' && run == 2)) {
      i += run - 1;
    } else if (c == U'*') {
      if (digit_value(before) >= 0 && digit_value(after) >= 0)
        out += run == 1 ? U" times " : U" to the power of ";
      i += run - 1;
    } else if (c == U'_') {
      if (inside) out += U'_';
      i += run - 1;
    } else if (c == U'[' || c == U']') {
      if (inside) out += U' ';
    } else if (c == U'\\' && after != U'\0' && !is_word_character(at(word, i + 1))) {
      // an escape: the next character is meant as itself
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void MarkdownWords::feed(char32_t c) {
  if (c == U'\n' || is_space(c)) {
    end_word();
    skip_to_space_ = false;
    if (c == U'\n') end_line();
    return;
  }
  if (skip_to_space_) return;
  word_ += c;
  if (!word_announced_ && !contains(kInlineMarks, c)) {
    word_announced_ = true;
    if (fence_.empty() && link_words_left_ == 0) sink_->word_starts(c);
  }
  if (word_.size() < kWordMax) return;
  size_t scheme = 0;
  skip_to_space_ = find_url(word_, &scheme) != Text::npos;
  end_word();
}

void MarkdownWords::finish() {
  end_word();
  end_line();
  last_number_ = 0;
  fence_.clear();
  skip_to_space_ = false;
}

void MarkdownWords::end_word() {
  Text word = std::move(word_);
  word_.clear();
  word_announced_ = false;
  if (word.empty()) return;
  if (line_start_ && is_fence(word) && (fence_.empty() || word.starts_with(fence_))) {
    fence_ = fence_.empty() ? word.substr(0, 3) : Text();
    line_start_ = false;
    skip_to_space_ = true;
    link_words_left_ = 0;
    return;
  }
  if (!fence_.empty()) {
    line_start_ = false;
    return;
  }
  if (line_start_ && take_line_mark(word)) return;
  list_number_.clear();
  line_start_ = false;
  word = clean(std::move(word));
  if (!word.empty()) sink_->word(std::move(word));
}

void MarkdownWords::end_line() {
  if (!list_number_.empty()) sink_->word(std::move(list_number_));
  list_number_.clear();
  line_start_ = true;
  link_words_left_ = 0;
  if (fence_.empty()) sink_->line_break();
}

// Headings, bullets, check boxes, quote marks, rules and table bars at the start of a line.
bool MarkdownWords::take_line_mark(TextView word) {
  if (word.size() <= 6 && only(word, U"#")) return true;
  if (only(word, U">") || only(word, U"|")) return true;
  if (word == U"-" || word == U"*" || word == U"+" || word == U"•" || word == U"[" || word == U"]")
    return true;
  if (word == U"[x]" || word == U"[X]" || word == U"[]") return true;
  if (word.size() >= 3 && only(word, kRuleMarks)) return true;
  return list_number_.empty() && take_list_number(word);
}

// "1." or "2)": a list when it starts at one or goes on from the item before.
bool MarkdownWords::take_list_number(TextView word) {
  if (word.size() < 2 || word.size() > 4 || (word.back() != U'.' && word.back() != U')'))
    return false;
  const TextView digits = word.substr(0, word.size() - 1);
  if (!all_ascii_digits(digits)) return false;
  uint32_t number = 0;
  for (char32_t c : digits) number = number * 10 + (c - U'0');
  if (number != 1 && number != last_number_ + 1) return false;
  last_number_ = number;
  list_number_ = word;
  return true;
}

// "](target)" inside the word; a target with spaces goes on in the next words.
void MarkdownWords::drop_link_targets(Text* word) {
  if (link_words_left_ > 0) {
    const size_t close = word->find(U')');
    link_words_left_ = close == Text::npos ? link_words_left_ - 1 : 0;
    word->erase(0, close == Text::npos ? Text::npos : close + 1);
  }
  for (size_t open; (open = word->find(U"](")) != Text::npos;) {
    int depth = 1;
    size_t end = open + 2;
    for (; end < word->size() && depth > 0; ++end) {
      depth += (*word)[end] == U'(' ? 1 : (*word)[end] == U')' ? -1 : 0;
    }
    if (depth > 0) link_words_left_ = kLinkWordsMax;
    word->erase(open, end - open);
  }
}

Text MarkdownWords::clean(Text word) {
  drop_link_targets(&word);
  if (word == U"*" || word == U"**") return word == U"*" ? U"times" : U"";
  if (only(word, U"|")) return word.empty() ? Text() : Text(U",");
  word = replace_all(word, U"![", U"[");
  word = url_to_host(word);
  word = drop_html_tags(word);
  word = drop_inline_marks(word);
  return Text(trim(word));
}

}  // namespace omnistage::hibari
