#include "stage_proc/models/smollm2/smollm2.h"

#include <filesystem>

#include "stage_proc/models/smollm2/quant_model.h"
#include "stage_proc/models/smollm2/reference_model.h"

namespace omnistage::models::smollm2 {
namespace {

constexpr int32_t kMaxThreads = 64;
constexpr int kMaxFolderEntries = 4096;

Result<std::string> only_gguf_in(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  if (error) {
    return Status(StatusCode::kNotFound, "model folder " + folder + ": " + error.message());
  }
  std::string found;
  int seen = 0;
  for (; it != std::filesystem::directory_iterator() && !error; it.increment(error)) {
    if (++seen > kMaxFolderEntries) return invalid("model folder " + folder + ": too many files");
    if (it->path().extension() != ".gguf") continue;
    if (!found.empty()) {
      return invalid("model folder " + folder + " holds more than one .gguf file: " + found +
                     " and " + it->path().string());
    }
    found = it->path().string();
  }
  if (error) return invalid("model folder " + folder + ": " + error.message());
  if (found.empty()) {
    return Status(StatusCode::kNotFound, "model folder " + folder + " holds no .gguf file");
  }
  return found;
}

Result<std::unique_ptr<ArModel>> load(const ArModelOptions& options) {
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return invalid("threads is " + std::to_string(options.threads) + " (1 to " +
                   std::to_string(kMaxThreads) + " are allowed)");
  }
  OMS_ASSIGN_OR_RETURN(const kernels::KernelTable* table, kernels::select_kernels(options.kernel));
  OMS_ASSIGN_OR_RETURN(const std::string path, only_gguf_in(options.model_dir));
  OMS_ASSIGN_OR_RETURN(const gguf::GgufFile file, gguf::GgufFile::open(path));
  OMS_ASSIGN_OR_RETURN(const ModelConfig config, read_config(file));
  OMS_ASSIGN_OR_RETURN(ChatText text, ChatText::create(file, config.vocab));
  auto pool = std::make_unique<kernels::WorkerPool>(options.threads);
  std::unique_ptr<ArModel> model;
  if (options.reference) {
    OMS_ASSIGN_OR_RETURN(FloatWeights weights, FloatWeights::load(file, config));
    model = std::make_unique<ReferenceModel>(config, std::move(text), std::move(weights),
                                             std::move(pool));
  } else {
    OMS_ASSIGN_OR_RETURN(QuantWeights weights, QuantWeights::load(file, config, pool.get()));
    model = std::make_unique<QuantModel>(config, std::move(text), std::move(weights),
                                         std::move(pool), *table);
  }
  return model;
}

}  // namespace

Result<std::unique_ptr<ArModel>> make_smollm2(const ArModelOptions& options) {
  try {
    return load(options);
  } catch (const std::exception& e) {  // allocation, thread start, file system
    return Status(StatusCode::kNoMemory, "model in " + options.model_dir + ": " + e.what());
  }
}

}  // namespace omnistage::models::smollm2
