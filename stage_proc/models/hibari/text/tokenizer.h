// Tokenizer: splits a line into words and marks. Special cases (contractions, "Mr.", "10am") are
// kept or split as the table says; else marks are peeled off both ends of each run of non-space
// characters, what is left is split at inner marks (hyphens, slashes), and neighbouring pieces that
// spell a special case are joined again.
//
// Immutable after load; any thread.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/regex.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

struct RawToken {
  Text text;
  bool space_after = false;
};

class Tokenizer {
 public:
  // A longer run of non-space characters is cut into pieces of this size first: splitting takes
  // time in the square of the length, and no word is this long.
  static constexpr size_t kRunMax = 160;

  // `path`: tokenizer_exceptions.json.
  static Result<Tokenizer> load(const std::string& path);

  std::vector<RawToken> operator()(TextView text) const;

 private:
  using Pieces = std::vector<Text>;

  Status read_special_cases(const std::string& path);
  Status compile_patterns();
  const Pieces* special(TextView text) const;
  Pieces split(TextView run) const;
  TextView peel(TextView core, Pieces* before, Pieces* after) const;
  void split_core(TextView core, Pieces* out) const;
  Pieces rejoin(Pieces pieces) const;

  std::unordered_map<Text, Pieces> special_;
  Regex prefix_, suffix_, infix_, url_;
};

}  // namespace omnistage::hibari
