// G2p: one line of English text to the acoustic model's phoneme alphabet. Normalise, tokenise, tag,
// look each word up from the end of the line to its start (a word's reading may depend on the sound
// after it), let the network read unknown words, and settle the stress of compounds.
//
// Immutable after load; any thread.
#pragma once

#include <string>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/lexicon.h"
#include "stage_proc/models/hibari/text/normalizer.h"
#include "stage_proc/models/hibari/text/oov_net.h"
#include "stage_proc/models/hibari/text/regex.h"
#include "stage_proc/models/hibari/text/tagger.h"
#include "stage_proc/models/hibari/text/token.h"
#include "stage_proc/models/hibari/text/tokenizer.h"

namespace omnistage::hibari {

class G2p {
 public:
  static Result<G2p> load(const std::string& model_dir);

  // Words separated by spaces; marks that the model knows stay in place. Empty when nothing is
  // spoken.
  Text operator()(TextView line) const;

  const Normalizer& normalizer() const { return normalizer_; }

 private:
  // Pieces written without a space between them ("mother-in-law", "$5") are read together.
  using Word = std::vector<Token>;
  // Longer ones are read in parts: trying all groupings takes time in the cube of the number of
  // pieces.
  static constexpr size_t kPiecesMax = 48;

  G2p(Normalizer normalizer, Tokenizer tokenizer, Tagger tagger, Lexicon lexicon, OovNet oov)
      : normalizer_(std::move(normalizer)),
        tokenizer_(std::move(tokenizer)),
        tagger_(std::move(tagger)),
        lexicon_(std::move(lexicon)),
        oov_(std::move(oov)) {}

  std::vector<Token> tokens(TextView line) const;
  void add_tokens(TextView text, std::vector<Token>* out) const;
  std::vector<Word> words(const std::vector<Token>& tokens) const;
  std::vector<Token> pieces(const Token& token) const;
  void read_single(Token* token, Context* context) const;
  void read_compound(Word* word, Context* context) const;
  bool read_groups(Word* word, Context* context) const;
  Text read_unknown(TextView text) const;

  Normalizer normalizer_;
  Tokenizer tokenizer_;
  Tagger tagger_;
  Lexicon lexicon_;
  OovNet oov_;
  Regex piece_, link_, unknown_part_;
};

}  // namespace omnistage::hibari
