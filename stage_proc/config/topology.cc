#include "stage_proc/config/topology.h"

#include <array>

namespace omnistage::config {
namespace {

constexpr std::array<FamilyInfo, 6> kFamilies = {{
    {"echo", false, true, true, "text"},
    {"echo_audio", false, true, true, ""},
    {"echo_sink", false, true, true, "audio"},
    {"hibari_code2wav", false, false, true, "audio"},
    {"hibari_talker", true, false, true, ""},
    {"smollm2", true, true, false, "text"},
}};

const std::vector<PipelineTopology>& pipelines() {
  constexpr auto kAr = ExecutionType::kLlmAr;
  constexpr auto kGeneration = ExecutionType::kLlmGeneration;
  static const std::vector<PipelineTopology> all = {
      {"echo",
       {
           {0, "head", "echo", "", kGeneration, {}, true},
           {1, "middle", "echo_audio", "", kGeneration, {0}, false},
           {2, "tail", "echo_sink", "", kGeneration, {1}, true},
       }},
      {"speak",
       {
           {0, "thinker", "smollm2", "smollm2-135m-instruct", kAr, {}, true},
           {1, "talker", "hibari_talker", "hibari", kGeneration, {0}, false},
           {2, "code2wav", "hibari_code2wav", "", kGeneration, {1}, true},
       }},
      {"tts",
       {
           {0, "talker", "hibari_talker", "hibari", kGeneration, {}, false},
           {1, "code2wav", "hibari_code2wav", "", kGeneration, {0}, true},
       }},
  };
  return all;
}

template <typename Items>
std::string joined_names(const Items& items) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += item.name;
  }
  return text;
}

}  // namespace

const StageTopology* PipelineTopology::stage(int stage_id) const {
  for (const StageTopology& item : stages)
    if (item.stage_id == stage_id) return &item;
  return nullptr;
}

const FamilyInfo* find_family(std::string_view name) {
  for (const FamilyInfo& item : kFamilies)
    if (item.name == name) return &item;
  return nullptr;
}

const PipelineTopology* find_pipeline(std::string_view name) {
  for (const PipelineTopology& item : pipelines())
    if (item.name == name) return &item;
  return nullptr;
}

std::string family_names() {
  return joined_names(kFamilies);
}
std::string pipeline_names() {
  return joined_names(pipelines());
}

std::vector<std::string> known_pipelines() {
  std::vector<std::string> names;
  for (const PipelineTopology& item : pipelines()) names.emplace_back(item.name);
  return names;
}

}  // namespace omnistage::config
