#include "stage_proc/tokenizer/splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

namespace omnistage::tokenizer {
namespace {

// PCRE2's \s leaves out or adds a few characters against Unicode's White_Space, so the class is
// spelled out.
#define OMS_SPACE \
  R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
constexpr const char* kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d"
    R"(| ?\p{L}+| ?\p{N}+| ?[^\p{L}\p{N})" OMS_SPACE
    "]+"
    "|[" OMS_SPACE "]+(?![^" OMS_SPACE "])|[" OMS_SPACE "]+";
#undef OMS_SPACE

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchFree {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
using Code = std::unique_ptr<pcre2_code, CodeFree>;
using Match = std::unique_ptr<pcre2_match_data, MatchFree>;

Result<Code> compile(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                          &error, &offset, nullptr));
  if (code == nullptr) {
    char text[128] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    return internal_error(std::string("tokenizer pattern does not compile: ") + text);
  }
  pcre2_jit_compile(code.get(),
                    PCRE2_JIT_COMPLETE);  // without JIT the interpreter gives the same matches
  return code;
}

class SmolLmSplitter final : public WordSplitter {
 public:
  SmolLmSplitter(Code number, Code words) : number_(std::move(number)), words_(std::move(words)) {}

  void split(std::string_view text, std::vector<std::string_view>& words) const override {
    Match match(pcre2_match_data_create(1, nullptr));
    size_t begin = 0;
    while (begin < text.size()) {
      size_t at = text.size(), end = text.size();
      find(number_.get(), text, begin, match.get(), at, end);
      split_plain(text.substr(begin, at - begin), match.get(), words);
      if (at < end) words.push_back(text.substr(at, end - at));
      begin = end;
    }
  }

 private:
  static bool find(const pcre2_code* code, std::string_view text, size_t from,
                   pcre2_match_data* match, size_t& begin, size_t& end) {
    const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  from, PCRE2_NO_UTF_CHECK, match, nullptr);
    if (count < 1) return false;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
    begin = range[0];
    end = range[1];
    return end > begin;
  }

  // A number never reaches this part, and its lookahead ends where the part ends.
  void split_plain(std::string_view text, pcre2_match_data* match,
                   std::vector<std::string_view>& words) const {
    size_t at = 0;
    while (at < text.size()) {
      size_t begin = at, end = text.size();
      // No match means a limit of the matcher (the pattern itself covers every character): take the
      // rest as one word.
      if (!find(words_.get(), text, at, match, begin, end)) begin = at, end = text.size();
      if (begin > at) words.push_back(text.substr(at, begin - at));
      words.push_back(text.substr(begin, end - begin));
      at = end;
    }
  }

  Code number_;
  Code words_;
};

}  // namespace

Result<std::unique_ptr<WordSplitter>> make_smollm_splitter() {
  OMS_ASSIGN_OR_RETURN(Code number, compile(R"(\p{N})"));
  OMS_ASSIGN_OR_RETURN(Code words, compile(kGpt2Pattern));
  return std::unique_ptr<WordSplitter>(new SmolLmSplitter(std::move(number), std::move(words)));
}

}  // namespace omnistage::tokenizer
