// Tagger: part-of-speech tags (Penn Treebank) from an averaged perceptron. A word with one dominant
// tag is answered from a table; any other is scored from its spelling, its neighbours and the two
// tags before it.
//
// Immutable after load; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/json_reader.h"
#include "stage_proc/models/hibari/text/string_index.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

class Tagger {
 public:
  // `path`: tagger.json.
  static Result<Tagger> load(const std::string& path);

  // One tag for each word; words must not be empty.
  std::vector<std::string> operator()(const std::vector<Text>& words) const;

 private:
  struct Weight {
    double value;
    uint8_t tag;
  };

  bool read_model(JsonReader& reader);
  bool read_tags(JsonReader& reader);
  bool read_known_words(JsonReader& reader);
  bool read_weights(JsonReader& reader);
  bool read_tag(JsonReader& reader, std::string_view name, uint8_t* out) const;
  std::string context_word(TextView word) const;
  std::string predict(const std::vector<std::string>& features) const;

  std::unique_ptr<StringPool> pool_;  // the strings that the indexes point to
  StringIndex tags_, known_words_, vocabulary_, features_;
  std::vector<uint8_t> known_tags_;     // of known_words_
  std::vector<uint32_t> first_weight_;  // of features_, plus the end
  std::vector<Weight> weights_;
};

}  // namespace omnistage::hibari
