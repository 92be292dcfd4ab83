#include "stage_proc/main/model_factory.h"

#include <dlfcn.h>
#include <sched.h>

#include <cstdlib>

#include "shm/base/log.h"
#include "stage_proc/engine/ar_core.h"
#include "stage_proc/engine/generation_core.h"
#include "stage_proc/models/echo/echo.h"
#include "stage_proc/models/generation_model.h"
#include "stage_proc/models/kernels/kernels.h"
#include "stage_proc/models/smollm2/smollm2.h"
#include "stage_proc/supervisor/process.h"

namespace omnistage {

using models::GenerationModel;

namespace {

int32_t compute_threads(const config::StageConfig& stage) {
  if (stage.threads > 0) return stage.threads;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::clamp(CPU_COUNT(&set), 1, config::kThreadsMax);
}

bool is_echo(const std::string& family) {
  return family == "echo" || family.starts_with("echo_");
}

// OMNISTAGE_CPU limits every stage to the instructions of an older CPU. The plug-ins read it too;
// it is checked here so that a misspelt value is an error for each family.
Result<std::string> forced_kernel() {
  const char* value = std::getenv("OMNISTAGE_CPU");
  const std::string name = value != nullptr ? value : "";
  if (name.empty()) return std::string("auto");
  if (name == "base") return std::string("scalar");
  if (name == "avx2") return std::string("avx2");
  if (name == "avx512") return std::string("avx512vnni");
  return invalid("OMNISTAGE_CPU must be base, avx2 or avx512, got '" + name.substr(0, 64) + "'");
}

Result<std::unique_ptr<engine::StageCore>> make_ar_core(const config::StageConfig& stage,
                                                        const std::string& kernel,
                                                        bool has_downstream) {
  models::ArModelOptions options;
  OMS_ASSIGN_OR_RETURN(const kernels::KernelTable* table, kernels::select_kernels(kernel));
  OMS_LOG(kInfo, "stage", std::string("CPU kernels: ") + table->name);
  options.kernel = table->name;
  options.model_dir = stage.model_path;
  options.threads = compute_threads(stage);
  OMS_ASSIGN_OR_RETURN(std::unique_ptr<models::ArModel> model,
                       models::smollm2::make_smollm2(options));
  engine::ArCoreConfig config;
  config.max_num_seqs = stage.max_num_seqs;
  config.max_num_batched_tokens = stage.max_num_batched_tokens;
  config.max_model_len = stage.max_model_len;
  config.has_downstream = has_downstream;
  OMS_ASSIGN_OR_RETURN(std::unique_ptr<engine::ArCore> core,
                       engine::ArCore::create(std::move(model), std::move(config)));
  return std::unique_ptr<engine::StageCore>(std::move(core));
}

models::GenerationModelOptions generation_options(const config::DeployConfig& config,
                                                  const config::StageConfig& stage) {
  models::GenerationModelOptions options;
  options.family = stage.family;
  options.model_dir = stage.model_path;
  options.threads = compute_threads(stage);
  for (int consumer : config.consumers_of(stage.stage_id)) {
    const config::EdgeConfig* edge = config.edge(stage.stage_id, consumer);
    if (edge == nullptr) continue;
    const config::ConnectorConfig& connector = edge->connector;
    options.chunk_frames = connector.codec_chunk_frames;
    options.initial_chunk_frames = connector.initial_codec_chunk_frames > 0
                                       ? connector.initial_codec_chunk_frames
                                       : connector.codec_chunk_frames;
  }
  return options;
}

// The library stays loaded for the life of the process.
Result<std::unique_ptr<GenerationModel>> make_plugin_model(
    const models::GenerationModelOptions& options) {
  const std::string group = options.family.substr(0, options.family.find('_'));
  OMS_ASSIGN_OR_RETURN(const std::string folder, own_folder());
  const std::string path = folder + "/../lib/omnistage/libomnistage_model_" + group + ".so";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return Status(StatusCode::kNotFound,
                  "model family '" + options.family + "' cannot be loaded: " + (why ? why : path));
  }
  auto make =
      reinterpret_cast<models::MakeGenerationModel>(::dlsym(library, models::kModelPluginSymbol));
  if (make == nullptr) {
    return Status(StatusCode::kUnsupported, path + " is no model plug-in");
  }
  return make(models::kModelPluginAbi, options);
}

}  // namespace

Result<std::unique_ptr<engine::StageCore>> make_core(const config::DeployConfig& config,
                                                     const config::StageConfig& stage,
                                                     TensorAllocator& allocator) {
  const bool has_downstream = !config.consumers_of(stage.stage_id).empty();
  OMS_ASSIGN_OR_RETURN(const std::string kernel, forced_kernel());
  if (stage.family == "smollm2") return make_ar_core(stage, kernel, has_downstream);
  const models::GenerationModelOptions options = generation_options(config, stage);
  OMS_ASSIGN_OR_RETURN(
      std::shared_ptr<GenerationModel> model,
      is_echo(stage.family) ? models::make_echo_model(options) : make_plugin_model(options));
  engine::GenerationCoreConfig core_config;
  core_config.max_num_seqs = stage.max_num_seqs;
  core_config.has_downstream = has_downstream;
  OMS_ASSIGN_OR_RETURN(std::unique_ptr<engine::GenerationCore> core,
                       engine::GenerationCore::create(std::move(model), allocator, core_config));
  return std::unique_ptr<engine::StageCore>(std::move(core));
}

}  // namespace omnistage
