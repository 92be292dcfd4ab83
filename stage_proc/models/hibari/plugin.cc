// The plug-in's one exported function, see stage_proc/models/generation_model.h.
#include <ATen/Parallel.h>

#include <memory>
#include <string>
#include <utility>

#include "stage_proc/models/generation_model.h"
#include "stage_proc/models/hibari/code2wav.h"
#include "stage_proc/models/hibari/guarded.h"
#include "stage_proc/models/hibari/talker.h"

namespace omnistage::hibari {
namespace {

using Made = Result<std::unique_ptr<models::GenerationModel>>;

template <typename Model>
Made warmed_up(std::unique_ptr<Model> model) {
  OMS_RETURN_IF_ERROR(model->warm_up());
  return std::unique_ptr<models::GenerationModel>(std::move(model));
}

Made make(uint32_t abi, const models::GenerationModelOptions& options) {
  constexpr int32_t kThreadsMax = 256;
  if (abi != models::kModelPluginAbi)
    return invalid("model plug-in hibari: made for plug-in ABI " +
                   std::to_string(models::kModelPluginAbi) + ", the stage has " +
                   std::to_string(abi) + "; rebuild both");
  if (options.threads < 1 || options.threads > kThreadsMax)
    return invalid("model plug-in hibari: threads must be in 1.." + std::to_string(kThreadsMax) +
                   ", got " + std::to_string(options.threads));
  at::set_num_threads(options.threads);
  if (options.family == "hibari_code2wav") return warmed_up(std::make_unique<Code2WavModel>());
  if (options.family == "hibari_talker") {
    OMS_ASSIGN_OR_RETURN(std::unique_ptr<TalkerModel> talker, TalkerModel::load(options));
    return warmed_up(std::move(talker));
  }
  return invalid("model plug-in hibari: unknown family '" + options.family +
                 "'; available: hibari_talker, hibari_code2wav");
}

}  // namespace
}  // namespace omnistage::hibari

extern "C" __attribute__((visibility("default")))
omnistage::Result<std::unique_ptr<omnistage::models::GenerationModel>>
omnistage_make_generation_model(uint32_t abi,
                                const omnistage::models::GenerationModelOptions& options) {
  return omnistage::hibari::guarded("model plug-in hibari",
                                    [&] { return omnistage::hibari::make(abi, options); });
}
