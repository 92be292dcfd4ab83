// The plug-in file as the stage process uses it: opened at run time, one function, no libtorch in
// the host.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "stage_proc/models/generation_model.h"
#include "tests/unit/hibari/hibari_dir.h"

namespace omnistage::models {
namespace {

MakeGenerationModel entry_point() {
  static void* library =
      dlopen(OMS_BUILD_DIR "/lib/omnistage/libomnistage_model_hibari.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return reinterpret_cast<MakeGenerationModel>(dlsym(library, kModelPluginSymbol));
}

TEST(HibariPlugin, MakesBothFamilies) {
  const MakeGenerationModel make = entry_point();
  ASSERT_NE(make, nullptr);
  for (const char* family : {"hibari_talker", "hibari_code2wav"}) {
    auto model =
        make(kModelPluginAbi, {.family = family, .model_dir = hibari::testing::model_dir()});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_EQ((*model)->info().family, family);
    EXPECT_TRUE((*model)->open({}).ok());
  }
}

TEST(HibariPlugin, RefusesWhatItDoesNotKnow) {
  const MakeGenerationModel make = entry_point();
  ASSERT_NE(make, nullptr);
  const auto message = [&](uint32_t abi, const GenerationModelOptions& options) {
    return make(abi, options).status().message();
  };
  EXPECT_NE(message(kModelPluginAbi + 1, {.family = "hibari_code2wav"}).find("ABI"),
            std::string::npos);
  EXPECT_NE(message(kModelPluginAbi, {.family = "hibari_singer"}).find("hibari_singer"),
            std::string::npos);
  EXPECT_NE(message(kModelPluginAbi, {.family = "hibari_code2wav", .threads = 0}).find("threads"),
            std::string::npos);
  EXPECT_NE(message(kModelPluginAbi, {.family = "hibari_talker", .model_dir = "/nonexistent"})
                .find("/nonexistent"),
            std::string::npos);
}

}  // namespace
}  // namespace omnistage::models
