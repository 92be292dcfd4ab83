// The size rule of every struct: shorter ones read as zero, longer ones must be zero beyond what is
// known.
#include <gtest/gtest.h>

#include "capi/abi/checks.h"

namespace omnistage::capi {
namespace {

struct NewerOptions {
  oms_queue_options options;
  uint64_t future;
};

TEST(StructRules, MissingTailIsZero) {
  oms_pipeline_options given;
  std::memset(&given, 0xFF, sizeof(given));
  given.struct_size = 16;
  oms_pipeline_options own;
  ASSERT_TRUE(copy_in(&given, own, "options").ok());
  EXPECT_EQ(own.max_inflight, 0xFFFFFFFFu);
  EXPECT_NE(own.config_path, nullptr);
  EXPECT_EQ(own.bin_dir, nullptr);
  EXPECT_EQ(own.close_timeout_ns, 0);
}

TEST(StructRules, UnknownTailHasToBeZero) {
  NewerOptions given{};
  given.options.struct_size = sizeof(given);
  given.options.capacity = 5;
  oms_queue_options own;
  EXPECT_TRUE(copy_in(&given.options, own, "options").ok());
  EXPECT_EQ(own.capacity, 5u);
  given.future = 1;
  const Status refused = copy_in(&given.options, own, "options");
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_NE(refused.message().find("options"), std::string::npos);
}

TEST(StructRules, ImpossibleSizesAreRefused) {
  oms_queue_options given{}, own;
  for (uint32_t size : {0u, 4u, 7u, kStructBytesMax + 1}) {
    given.struct_size = size;
    EXPECT_EQ(copy_in(&given, own, "options").code(), StatusCode::kInvalid) << size;
    EXPECT_EQ(copy_out(own, &given, "options").code(), StatusCode::kInvalid) << size;
  }
  EXPECT_EQ(copy_in(static_cast<oms_queue_options*>(nullptr), own, "options").code(),
            StatusCode::kInvalid);
}

TEST(StructRules, OutStructsAreFilledAsFarAsTheyGo) {
  oms_stats own{};
  own.inflight = 3;
  own.submitted = 4;
  own.finished = 5;
  struct {
    oms_stats stats;
    uint64_t future;
  } longer;
  std::memset(&longer, 0xEE, sizeof(longer));
  longer.stats.struct_size = sizeof(longer);
  ASSERT_TRUE(copy_out(own, &longer.stats, "stats").ok());
  EXPECT_EQ(longer.stats.struct_size, sizeof(longer));
  EXPECT_EQ(longer.stats.submitted, 4u);
  EXPECT_EQ(longer.future, 0u);

  oms_stats shorter;
  std::memset(&shorter, 0xEE, sizeof(shorter));
  shorter.struct_size = 16;
  ASSERT_TRUE(copy_out(own, &shorter, "stats").ok());
  EXPECT_EQ(shorter.submitted, 4u);
  EXPECT_EQ(shorter.finished, 0xEEEEEEEEEEEEEEEEu);  // beyond the caller's struct: not touched
}

TEST(StructRules, InitWritesExactlyTheGivenSize) {
  struct {
    oms_request request;
    uint64_t guard;
  } memory;
  std::memset(&memory, 0xEE, sizeof(memory));
  oms_request_init(&memory.request, sizeof(memory.request));
  EXPECT_EQ(memory.request.struct_size, sizeof(oms_request));
  EXPECT_EQ(memory.request.inputs, nullptr);
  EXPECT_EQ(memory.guard, 0xEEEEEEEEEEEEEEEEu);
  std::memset(&memory, 0xEE, sizeof(memory));
  oms_request_init(&memory.request, 16);
  EXPECT_EQ(memory.request.struct_size, 16u);
  EXPECT_EQ(memory.request.inputs, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.request.params), 0xEEEEEEEEEEEEEEEEu);
  oms_request_init(nullptr, sizeof(oms_request));
  oms_request_init(&memory.request, 2);  // too small for anything: nothing is written
  EXPECT_EQ(memory.request.struct_size, 16u);
}

TEST(StructRules, ErrorsAreCutAtACharacter) {
  oms_error error{};
  error.struct_size = sizeof(error);
  const std::string text(238, 'a');
  EXPECT_EQ(report(&error, Status(StatusCode::kInvalid, text + "\xc3\xa4"), 2), OMS_E_INVALID);
  EXPECT_EQ(std::string(error.message), text);
  EXPECT_EQ(error.stage_index, 2);
  EXPECT_EQ(error.code, OMS_E_INVALID);
  error.code = 0;
  EXPECT_EQ(report(&error, Status(StatusCode::kTimeout, "x")), OMS_TIMEOUT);
  EXPECT_EQ(error.code, 0);  // not an error, not filled
  EXPECT_EQ(report(nullptr, Status(StatusCode::kFull, "x")), OMS_E_FULL);
}

TEST(StructRules, ExceptionsStopAtTheWall) {
  oms_error error{};
  error.struct_size = sizeof(error);
  EXPECT_EQ(guarded(&error, []() -> oms_status { throw std::bad_alloc(); }), OMS_E_NO_MEMORY);
  EXPECT_EQ(guarded(&error, []() -> oms_status { throw std::runtime_error("boom"); }),
            OMS_E_INTERNAL);
  EXPECT_EQ(std::string(error.message), "boom");
  EXPECT_EQ(guarded(&error, []() -> oms_status { throw 5; }), OMS_E_INTERNAL);
}

}  // namespace
}  // namespace omnistage::capi
