// Dictionary: word -> phonemes, some by part of speech. A lower-case entry also answers for the
// capitalised word and the other way round, unless that form has an entry of its own.
//
// Immutable after load; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/json_reader.h"
#include "stage_proc/models/hibari/text/string_index.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

// One entry; views into the dictionary's storage.
class Pronunciation {
 public:
  // The reading for a tag, else the default one. False when the entry says that there is none (the
  // word has to be spelled).
  bool get(std::string_view tag, std::string_view* phonemes) const;
  bool has(std::string_view tag) const;
  bool depends_on_tag() const { return !by_tag_.empty(); }

 private:
  friend class Dictionary;
  struct Reading {
    std::string_view tag, phonemes;
    bool exists = true;
  };
  std::string_view plain_;
  std::vector<Reading> by_tag_;
};

class Dictionary {
 public:
  static Result<Dictionary> load(const std::string& path);

  // Null when the word is unknown.
  const Pronunciation* find(TextView word) const;
  bool contains(TextView word) const { return find(word) != nullptr; }
  size_t size() const { return words_.size(); }

 private:
  const Pronunciation* find_exact(TextView word) const;
  static bool read_entry(JsonReader& reader, Pronunciation* out);

  std::unique_ptr<StringPool> pool_;
  StringIndex words_;
  std::vector<Pronunciation> entries_;
};

}  // namespace omnistage::hibari
