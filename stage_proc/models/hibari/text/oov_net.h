// OovNet: reads words that no dictionary knows. A small character transformer (4 pre-norm layers, 4
// heads) gives a fixed number of output slots per character; runs of the same symbol collapse and
// blanks drop. Plain float arithmetic in a fixed order: a word's reading depends on nothing but the
// word.
//
// Immutable after load; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/unicode.h"
#include "stage_proc/models/safetensors.h"

namespace omnistage::hibari {

class OovNet {
 public:
  // `alphabet_path`: oov.json; `weights_path`: oov.safetensors as made by
  // scripts/convert_hibari.py.
  static Result<OovNet> load(const std::string& alphabet_path, const std::string& weights_path);

  // Phonemes; empty when the word has no character the network knows. Characters past the network's
  // longest word are not read.
  Text operator()(TextView word) const;

 private:
  // y = x * weight + bias; weight is [in, out], row-major.
  struct Linear {
    size_t in = 0, out = 0;
    std::vector<float> weight, bias;
    void apply(const std::vector<float>& x, size_t rows, std::vector<float>* y) const;
  };
  struct Norm {
    std::vector<float> weight, bias;
    std::vector<float> apply(const std::vector<float>& x) const;
  };
  struct Layer {
    Norm norm1, norm2;
    Linear in_proj, out_proj, linear1, linear2;
  };

  Status read_alphabet(const std::string& path);
  Status read_weights(const std::string& path);
  static Status read_vector(const SafetensorsFile& file, const std::string& name,
                            std::vector<int64_t> shape, std::vector<float>* out);
  static Status read_linear(const SafetensorsFile& file, const std::string& name, size_t in,
                            size_t out, Linear* linear);
  static Status read_norm(const SafetensorsFile& file, const std::string& name, size_t size,
                          Norm* norm);
  std::vector<float> attention(const std::vector<float>& qkv, size_t rows) const;
  std::vector<float> logits(const std::vector<uint32_t>& ids) const;

  std::unordered_map<char32_t, uint32_t> input_;  // character -> row of the embedding
  std::vector<char32_t> output_;                  // class - 1 -> phoneme; class 0 is the blank
  size_t slots_ = 0, longest_ = 0, width_ = 0;
  std::vector<float> embedding_, position_;
  std::vector<Layer> layers_;
  Norm norm_;
  Linear head_;
};

}  // namespace omnistage::hibari
