#include "stage_proc/models/hibari/text/oov_net.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "stage_proc/models/hibari/text/json_reader.h"

namespace omnistage::hibari {
namespace {

constexpr size_t kHeads = 4;
constexpr size_t kLayersMax = 16;
constexpr uint32_t kSymbolsMax = 4096;
constexpr uint32_t kSlotsMax = 16;
constexpr uint32_t kWordMax = 256;
constexpr int64_t kWidthMax = 1024;
constexpr float kNormEpsilon = 1e-5f;

// y[rows, out] += x[rows, in] * w[in, out]. Each sum runs over `in` in order, whatever the vector
// width, so that all variants give the same bits (the build forbids contraction to fused
// operations).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(OMNISTAGE_SANITIZED)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void multiply_add(const float* x, const float* w, size_t rows, size_t in, size_t out, float* __restrict y) {
  for (size_t k = 0; k < in; ++k) {
    const float* row = w + k * out;
    for (size_t r = 0; r < rows; ++r) {
      const float factor = x[r * in + k];
      float* to = y + r * out;
      for (size_t j = 0; j < out; ++j) to[j] += factor * row[j];
    }
  }
}

void add(const std::vector<float>& x, std::vector<float>* sum) {
  for (size_t i = 0; i < x.size(); ++i) (*sum)[i] += x[i];
}

void gelu(std::vector<float>* x) {
  for (float& v : *x) v = v * (std::erf(v / 1.4142135f) + 1.0f) * 0.5f;
}

void softmax(float* x, size_t n) {
  const float top = *std::max_element(x, x + n);
  float sum = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - top);
  for (size_t i = 0; i < n; ++i) x[i] /= sum;
}

bool read_symbols(JsonReader& reader, std::vector<char32_t>* out) {
  return reader.array([&] {
    std::string_view symbol;
    if (!reader.string(&symbol)) return false;
    const Text text = decode_utf8(symbol);
    if (text.size() != 1 || out->size() >= kSymbolsMax) {
      return reader.fail("expected at most 4096 single characters");
    }
    out->push_back(text[0]);
    return true;
  });
}

}  // namespace

void OovNet::Linear::apply(const std::vector<float>& x, size_t rows, std::vector<float>* y) const {
  y->resize(rows * out);
  for (size_t r = 0; r < rows; ++r)
    std::copy(bias.begin(), bias.end(), y->begin() + static_cast<ptrdiff_t>(r * out));
  multiply_add(x.data(), weight.data(), rows, in, out, y->data());
}

std::vector<float> OovNet::Norm::apply(const std::vector<float>& x) const {
  const size_t width = weight.size();
  std::vector<float> y(x.size());
  for (size_t at = 0; at < x.size(); at += width) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < width; ++i) sum += x[at + i];
    const double mean = sum / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) squares += (x[at + i] - mean) * (x[at + i] - mean);
    const float scale =
        1.0f / std::sqrt(static_cast<float>(squares / static_cast<double>(width)) + kNormEpsilon);
    for (size_t i = 0; i < width; ++i) {
      y[at + i] = (x[at + i] - static_cast<float>(mean)) * scale * weight[i] + bias[i];
    }
  }
  return y;
}

// Full self-attention over the characters; rows of qkv hold query, key and value side by side.
std::vector<float> OovNet::attention(const std::vector<float>& qkv, size_t rows) const {
  const size_t head_width = width_ / kHeads, stride = 3 * width_;
  const float divisor = std::sqrt(static_cast<float>(head_width));
  std::vector<float> out(rows * width_, 0.0f), scores(rows);
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t q = 0; q < rows; ++q) {
      const float* query = qkv.data() + q * stride + h * head_width;
      for (size_t k = 0; k < rows; ++k) {
        const float* key = qkv.data() + k * stride + width_ + h * head_width;
        float dot = 0;
        for (size_t i = 0; i < head_width; ++i) dot += query[i] * key[i];
        scores[k] = dot / divisor;
      }
      softmax(scores.data(), rows);
      float* to = out.data() + q * width_ + h * head_width;
      for (size_t k = 0; k < rows; ++k) {
        const float* value = qkv.data() + k * stride + 2 * width_ + h * head_width;
        for (size_t i = 0; i < head_width; ++i) to[i] += scores[k] * value[i];
      }
    }
  }
  return out;
}

std::vector<float> OovNet::logits(const std::vector<uint32_t>& ids) const {
  const size_t rows = ids.size();
  std::vector<float> x(rows * width_), y, wide;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < width_; ++i) {
      x[r * width_ + i] = embedding_[ids[r] * width_ + i] + position_[r * width_ + i];
    }
  }
  for (const Layer& layer : layers_) {
    layer.in_proj.apply(layer.norm1.apply(x), rows, &wide);
    layer.out_proj.apply(attention(wide, rows), rows, &y);
    add(y, &x);
    layer.linear1.apply(layer.norm2.apply(x), rows, &wide);
    gelu(&wide);
    layer.linear2.apply(wide, rows, &y);
    add(y, &x);
  }
  head_.apply(norm_.apply(x), rows, &y);
  return y;
}

Text OovNet::operator()(TextView word) const {
  std::vector<uint32_t> ids;
  for (char32_t c : word) {
    if (ids.size() == longest_) break;
    if (const auto it = input_.find(c); it != input_.end()) ids.push_back(it->second);
  }
  Text out;
  if (ids.empty()) return out;
  const std::vector<float> scores = logits(ids);
  const size_t classes = output_.size() + 1;
  size_t previous = 0;
  for (size_t at = 0; at + classes <= scores.size(); at += classes) {
    const auto first = scores.begin() + static_cast<ptrdiff_t>(at);
    const size_t best = static_cast<size_t>(
        std::max_element(first, first + static_cast<ptrdiff_t>(classes)) - first);
    if (best != previous && best != 0) out += output_[best - 1];
    previous = best;
  }
  return out;
}

Result<OovNet> OovNet::load(const std::string& alphabet_path, const std::string& weights_path) {
  OovNet net;
  OMS_RETURN_IF_ERROR(net.read_alphabet(alphabet_path));
  OMS_RETURN_IF_ERROR(net.read_weights(weights_path));
  return net;
}

Status OovNet::read_alphabet(const std::string& path) {
  StringPool pool;
  OMS_ASSIGN_OR_RETURN(JsonReader reader, JsonReader::open(path, &pool));
  std::vector<char32_t> input;
  uint32_t slots = 0, longest = 0;
  reader.object([&](std::string_view key) {
    if (key == "in") return read_symbols(reader, &input);
    if (key == "out") return read_symbols(reader, &output_);
    if (key == "slots") return reader.integer(kSlotsMax, &slots);
    if (key == "maxlen") return reader.integer(kWordMax, &longest);
    return reader.fail("unknown key '" + std::string(key) + "'");
  });
  reader.finish();
  OMS_RETURN_IF_ERROR(reader.status());
  if (input.empty() || output_.empty() || slots == 0 || longest == 0) {
    return invalid(path + ": in, out, slots and maxlen are all needed");
  }
  // Row 0 of the embedding is padding.
  for (size_t i = 0; i < input.size(); ++i) input_.emplace(input[i], static_cast<uint32_t>(i + 1));
  if (input_.size() != input.size()) return invalid(path + ": 'in' repeats a character");
  slots_ = slots;
  longest_ = longest;
  return Status();
}

Status OovNet::read_vector(const SafetensorsFile& file, const std::string& name,
                           std::vector<int64_t> shape, std::vector<float>* out) {
  OMS_ASSIGN_OR_RETURN(TensorView view, file.get(name, Dtype::kF32, shape));
  out->resize(view.bytes / sizeof(float));
  std::memcpy(out->data(), view.data, view.bytes);
  return Status();
}

Status OovNet::read_linear(const SafetensorsFile& file, const std::string& name, size_t in,
                           size_t out, Linear* linear) {
  linear->in = in;
  linear->out = out;
  const int64_t rows = static_cast<int64_t>(in), columns = static_cast<int64_t>(out);
  OMS_RETURN_IF_ERROR(read_vector(file, name + ".weight", {rows, columns}, &linear->weight));
  return read_vector(file, name + ".bias", {columns}, &linear->bias);
}

Status OovNet::read_norm(const SafetensorsFile& file, const std::string& name, size_t size,
                         Norm* norm) {
  const int64_t width = static_cast<int64_t>(size);
  OMS_RETURN_IF_ERROR(read_vector(file, name + ".weight", {width}, &norm->weight));
  return read_vector(file, name + ".bias", {width}, &norm->bias);
}

Status OovNet::read_weights(const std::string& path) {
  OMS_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  OMS_ASSIGN_OR_RETURN(TensorView embedding, file.get("emb.weight"));
  if (embedding.shape.size() != 2 || embedding.shape[1] < 1 || embedding.shape[1] > kWidthMax ||
      embedding.shape[1] % static_cast<int64_t>(kHeads) != 0) {
    return invalid(
        path +
        ": tensor 'emb.weight' must be [characters, width] with a width up to 1024 that 4 divides");
  }
  const int64_t width = embedding.shape[1];
  width_ = static_cast<size_t>(width);
  OMS_RETURN_IF_ERROR(read_vector(file, "emb.weight",
                                  {static_cast<int64_t>(input_.size()) + 1, width}, &embedding_));
  OMS_RETURN_IF_ERROR(
      read_vector(file, "pos", {static_cast<int64_t>(longest_), width}, &position_));
  for (size_t i = 0; i < kLayersMax; ++i) {
    const std::string name = "layers." + std::to_string(i);
    if (!file.contains(name + ".norm1.weight")) break;
    Layer& layer = layers_.emplace_back();
    OMS_ASSIGN_OR_RETURN(TensorView inner, file.get(name + ".linear1.bias"));
    const size_t inner_width = inner.bytes / sizeof(float);
    OMS_RETURN_IF_ERROR(read_norm(file, name + ".norm1", width_, &layer.norm1));
    OMS_RETURN_IF_ERROR(read_norm(file, name + ".norm2", width_, &layer.norm2));
    OMS_RETURN_IF_ERROR(
        read_linear(file, name + ".self_attn.in_proj", width_, 3 * width_, &layer.in_proj));
    OMS_RETURN_IF_ERROR(
        read_linear(file, name + ".self_attn.out_proj", width_, width_, &layer.out_proj));
    OMS_RETURN_IF_ERROR(read_linear(file, name + ".linear1", width_, inner_width, &layer.linear1));
    OMS_RETURN_IF_ERROR(read_linear(file, name + ".linear2", inner_width, width_, &layer.linear2));
  }
  if (layers_.empty()) return invalid(path + ": no layers");
  OMS_RETURN_IF_ERROR(read_norm(file, "norm", width_, &norm_));
  return read_linear(file, "head", width_, slots_ * (output_.size() + 1), &head_);
}

}  // namespace omnistage::hibari
