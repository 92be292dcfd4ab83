#include "stage_proc/config/value.h"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::config {
namespace {

using FileName = std::shared_ptr<const std::string>;

Status at(const FileName& file, int line, const std::string& path, const std::string& message) {
  return invalid(*file + ":" + std::to_string(line) + ": " + (path.empty() ? "" : path + ": ") +
                 message);
}

// Copies yaml-cpp's graph into a tree; aliases are expanded, hence the node bound.
class Converter {
 public:
  explicit Converter(FileName file) : file_(std::move(file)) {}

  Status convert(const YAML::Node& node, const std::string& path, int depth, Value* out) {
    out->file = file_;
    out->line = node.Mark().line + 1;
    out->key_path = path;
    if (++nodes_ > kValueNodesMax)
      return at(file_, out->line, path,
                "more than " + std::to_string(kValueNodesMax) + " values in one file");
    if (depth > kValueDepthMax)
      return at(file_, out->line, path,
                "nested deeper than " + std::to_string(kValueDepthMax) + " levels");
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return Status();
      case YAML::NodeType::Scalar:
        return convert_scalar(node, out);
      case YAML::NodeType::Sequence:
        return convert_list(node, path, depth, out);
      case YAML::NodeType::Map:
        return convert_map(node, path, depth, out);
    }
    return internal_error("unknown YAML node type");
  }

 private:
  Status convert_scalar(const YAML::Node& node, Value* out) {
    out->kind = Value::Kind::kScalar;
    out->scalar = node.Scalar();
    out->quoted = node.Tag() == "!";
    if (out->scalar.size() > kScalarBytesMax)
      return at(file_, out->line, out->key_path,
                "text longer than " + std::to_string(kScalarBytesMax) + " bytes");
    return Status();
  }

  Status convert_list(const YAML::Node& node, const std::string& path, int depth, Value* out) {
    out->kind = Value::Kind::kList;
    for (const YAML::Node& item : node) {
      Value child;
      OMS_RETURN_IF_ERROR(
          convert(item, path + "[" + std::to_string(out->list.size()) + "]", depth + 1, &child));
      out->list.push_back(std::move(child));
    }
    return Status();
  }

  Status convert_map(const YAML::Node& node, const std::string& path, int depth, Value* out) {
    out->kind = Value::Kind::kMap;
    for (const auto& item : node) {
      const int line = item.first.Mark().line + 1;
      if (!item.first.IsScalar() || item.first.Scalar().empty())
        return at(file_, line, path, "a key must be text");
      const std::string& key = item.first.Scalar();
      std::string child_path = path.empty() ? key : path + "." + key;
      if (out->find(key) != nullptr) return at(file_, line, child_path, "this key is given twice");
      Value child;
      OMS_RETURN_IF_ERROR(convert(item.second, std::move(child_path), depth + 1, &child));
      child.line = line;  // where the key stands is where a reader looks
      out->map.push_back({key, std::move(child)});
    }
    return Status();
  }

  FileName file_;
  size_t nodes_ = 0;
};

}  // namespace

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : map)
    if (name == key) return &value;
  return nullptr;
}

Value* Value::find(std::string_view key) {
  return const_cast<Value*>(static_cast<const Value*>(this)->find(key));
}

void Value::set(std::string key, Value value) {
  if (Value* old = find(key))
    *old = std::move(value);
  else
    map.push_back({std::move(key), std::move(value)});
}

void Value::erase(std::string_view key) {
  std::erase_if(map, [&](const auto& item) { return item.key == key; });
}

std::string Value::where(const std::string& message) const {
  std::string text = (file ? *file : std::string("?")) + ":" + std::to_string(line) + ": ";
  if (!key_path.empty()) text += key_path + ": ";
  return text + message;
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "nothing";
    case Value::Kind::kList:
      return "a list";
    case Value::Kind::kMap:
      return "a map";
    case Value::Kind::kScalar:
      break;
  }
  constexpr size_t kShown = 60;
  std::string shown = value.scalar.substr(0, kShown);
  if (value.scalar.size() > kShown) shown += "...";
  return value.quoted ? "'" + shown + "'" : shown;
}

Result<Value> parse_yaml(const std::string& text, const std::string& file) {
  auto name = std::make_shared<const std::string>(file);
  if (text.size() > kDeployBytesMax)
    return invalid(file + ": larger than " + std::to_string(kDeployBytesMax) + " bytes");
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      return at(name, documents[1].Mark().line + 1, "", "only one YAML document is allowed");
    Value root;
    root.file = name;
    root.line = 1;
    if (!documents.empty())
      OMS_RETURN_IF_ERROR(Converter(name).convert(documents[0], "", 0, &root));
    return root;
  } catch (const YAML::Exception& error) {
    return at(name, error.mark.is_null() ? 1 : error.mark.line + 1, "", "YAML: " + error.msg);
  } catch (const std::exception& error) {
    return invalid(file + ": cannot be read as YAML: " + error.what());
  }
}

Result<Value> load_yaml(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(StatusCode::kNotFound, path + ": cannot be opened: " + strerror(errno));
  std::string text(kDeployBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof()))
    return invalid(path + ": cannot be read (is it a folder?)");
  text.resize(static_cast<size_t>(in.gcount()));
  return parse_yaml(text, path);
}

}  // namespace omnistage::config
