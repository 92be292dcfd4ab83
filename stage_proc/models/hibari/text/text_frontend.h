// TextFrontend: English text -> sentences -> phonemes -> ids of the hibari acoustic model. Reads
// the asset files of the hibari-tts package (scripts/convert_hibari.py makes oov.safetensors from
// its network) from one directory.
//
// Immutable and safe for concurrent use after load. Input is UTF-8; invalid bytes are read as
// U+FFFD, which is silent. Time grows with the length of the text; callers bound it
// (limits::kTextInputBytesMax).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::hibari {

class TextFrontend {
 public:
  // The acoustic model was trained on sentences of at most this many phonemes.
  static constexpr size_t kPhonemesMax = 400;

  // Errors name the file: NOT_FOUND when one is missing, INVALID when its content is not as
  // expected.
  static Result<std::shared_ptr<const TextFrontend>> load(const std::string& model_dir);
  ~TextFrontend();
  TextFrontend(const TextFrontend&) = delete;
  TextFrontend& operator=(const TextFrontend&) = delete;

  // Lines and sentences; never an empty one. White space between them is dropped, and so are quotes
  // and brackets that close a sentence.
  std::vector<std::string> split_sentences(std::string_view text) const;

  // One phoneme string per sentence, longer ones cut at clause marks, else at spaces: each has 1 to
  // kPhonemesMax characters. Sentences with nothing to say give none.
  std::vector<std::string> phonemize(std::string_view text) const;

  // Phoneme ids with a 0 at both ends; characters outside the model's alphabet are skipped.
  std::vector<int64_t> ids(std::string_view phonemes) const;

  // False when the text has letters but (nearly) none that English rules can read, as in Chinese,
  // Arabic or Russian text: at least one letter in five must be Latin.
  bool speakable(std::string_view text) const;

 private:
  struct Parts;
  explicit TextFrontend(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace omnistage::hibari
