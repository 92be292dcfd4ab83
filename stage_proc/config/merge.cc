#include "stage_proc/config/merge.h"

#include <array>
#include <filesystem>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::config {
namespace {

constexpr int kWholeTree = 1000;

bool merges_inside(std::string_view key) {
  constexpr std::array<std::string_view, 4> kKeys = {"env", "default_sampling_params",
                                                     "engine_args", "engine_extras"};
  for (std::string_view item : kKeys)
    if (item == key) return true;
  return false;
}

// Lays `overlay` over `base`, going `levels` maps deep; where one of both is no map the overlay
// replaces.
void merge_maps(const Value& overlay, int levels, Value* base) {
  if (levels <= 0 || !overlay.is_map() || !base->is_map()) {
    *base = overlay;
    return;
  }
  for (const auto& [key, value] : overlay.map) {
    if (Value* old = base->find(key))
      merge_maps(value, levels - 1, old);
    else
      base->set(key, value);
  }
}

void merge_stage(const Value& overlay, int levels, Value* base) {
  if (!overlay.is_map() || !base->is_map()) {
    *base = overlay;
    return;
  }
  for (const auto& [key, value] : overlay.map) {
    Value* old = base->find(key);
    if (old != nullptr && merges_inside(key))
      merge_maps(value, levels, old);
    else
      base->set(key, value);
  }
}

// The scalar of stage_id, or empty when the entry is broken (the reader reports that later).
std::string id_of(const Value& stage) {
  const Value* id = stage.is_map() ? stage.find("stage_id") : nullptr;
  return id != nullptr && id->is_scalar() ? id->scalar : std::string();
}

void merge_stages(const Value& overlay, int levels, bool may_add, Value* base) {
  if (!overlay.is_list() || !base->is_list()) {
    *base = overlay;
    return;
  }
  const size_t known =
      base->list.size();  // duplicates inside the overlay stay visible as duplicates
  for (const Value& stage : overlay.list) {
    const std::string id = id_of(stage);
    size_t i = 0;
    while (i < known && (id.empty() || id_of(base->list[i]) != id)) ++i;
    if (i < known)
      merge_stage(stage, levels, &base->list[i]);
    else if (may_add)
      base->list.push_back(stage);
  }
}

void merge_platforms(const Value& overlay, Value* base) {
  if (!overlay.is_map() || !base->is_map()) {
    *base = overlay;
    return;
  }
  for (const auto& [name, section] : overlay.map) {
    Value* old = base->find(name);
    if (old == nullptr || !old->is_map() || !section.is_map()) {
      base->set(name, section);
      continue;
    }
    for (const auto& [key, value] : section.map) {
      Value* below = old->find(key);
      if (below != nullptr && key == "stages")
        merge_stages(value, kWholeTree, true, below);
      else
        old->set(key, value);
    }
  }
}

void merge_documents(const Value& overlay, Value* base) {
  for (const auto& [key, value] : overlay.map) {
    Value* old = base->find(key);
    if (old == nullptr)
      base->set(key, value);
    else if (key == "connectors")
      merge_maps(value, kWholeTree, old);
    else if (key == "stages")
      merge_stages(value, kWholeTree, true, old);
    else if (key == "platforms")
      merge_platforms(value, old);
    else
      *old = value;
  }
  base->file = overlay.file;
  base->line = overlay.line;
}

Result<Value> resolve(Value document, int depth) {
  const Value* base_name = document.find("base_config");
  if (base_name == nullptr) return document;
  if (!base_name->is_scalar() || base_name->scalar.empty())
    return invalid(
        base_name->where("must be the name of a YAML file, got " + describe(*base_name)));
  if (depth >= kBaseConfigDepthMax)
    return invalid(base_name->where("more than " + std::to_string(kBaseConfigDepthMax) +
                                    " files inherit from each other; is there a circle?"));
  std::filesystem::path path = base_name->scalar;
  if (path.is_relative()) path = std::filesystem::path(*base_name->file).parent_path() / path;
  Result<Value> loaded = load_yaml(path.string());
  if (!loaded.ok() && loaded.status().code() == StatusCode::kNotFound)
    return Status(StatusCode::kNotFound, base_name->where(loaded.status().message()));
  if (!loaded.ok()) return loaded.status();
  if (!loaded->is_map())
    return invalid(loaded->where("a deploy file must be a map, got " + describe(*loaded)));
  OMS_ASSIGN_OR_RETURN(Value base, resolve(std::move(loaded).value(), depth + 1));
  document.erase("base_config");
  merge_documents(document, &base);
  return base;
}

}  // namespace

Result<Value> resolve_base_config(Value document) {
  if (!document.is_map())
    return invalid(document.where("a deploy file must be a map, got " + describe(document)));
  return resolve(std::move(document), 0);
}

Result<Value> apply_platform(Value document, const std::string& platform) {
  const Value* platforms = document.find("platforms");
  if (platforms == nullptr) return document;
  if (!platforms->is_map())
    return invalid(platforms->where("must be a map, got " + describe(*platforms)));
  Value chosen;
  for (const auto& [name, section] : platforms->map) {
    if (!section.is_map()) return invalid(section.where("must be a map, got " + describe(section)));
    for (const auto& [key, value] : section.map) {
      if (key != "stages") return invalid(value.where("unknown key; a platform has: stages"));
      if (!value.is_list()) return invalid(value.where("must be a list, got " + describe(value)));
      for (const Value& stage : value.list)
        if (id_of(stage).empty()) return invalid(stage.where("must be a map with a stage_id"));
      if (name == platform) chosen = value;
    }
  }
  document.erase("platforms");
  Value* stages = document.find("stages");
  if (chosen.is_list() && stages != nullptr) merge_stages(chosen, 1, false, stages);
  return document;
}

Result<Value> flatten_stage(Value stage) {
  for (const char* key : {"engine_args", "engine_extras", "runtime"}) {
    const Value* found = stage.find(key);
    if (found == nullptr) continue;
    const Value nested = *found;
    stage.erase(key);
    if (nested.is_null()) continue;
    if (!nested.is_map()) return invalid(nested.where("must be a map, got " + describe(nested)));
    const bool is_runtime = std::string_view(key) == "runtime";
    for (const auto& [name, value] : nested.map) {
      if (is_runtime && name != "devices" && name != "num_replicas" && name != "env")
        return invalid(value.where("unknown key; runtime has: devices, num_replicas, env"));
      if (name == "stage_id")
        return invalid(value.where("stage_id belongs directly into the stage"));
      Value* old = stage.find(name);
      if (old != nullptr && std::string_view(key) == "engine_args")
        merge_maps(value, kWholeTree, old);
      else
        stage.set(name, value);
    }
  }
  return stage;
}

}  // namespace omnistage::config
