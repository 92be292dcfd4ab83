#include "stage_proc/models/kernels/worker_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <vector>

namespace omnistage::kernels {
namespace {

TEST(WorkerPool, EveryPartRunsOnce) {
  for (const int32_t threads : {1, 2, 3, 5}) {
    WorkerPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    std::vector<int> hits(static_cast<size_t>(threads));
    for (int round = 0; round < 200; ++round) {
      pool.run([&](int32_t part, int32_t parts) {
        if (parts == threads) ++hits[static_cast<size_t>(part)];
      });
    }
    for (int hit : hits) EXPECT_EQ(hit, 200);
  }
}

TEST(WorkerPool, SplitCoversEveryIndexOnce) {
  WorkerPool pool(3);
  for (const int32_t count : {0, 1, 2, 3, 4, 17, 100}) {
    std::vector<int> hits(static_cast<size_t>(count));
    pool.split(count, [&](int32_t begin, int32_t end, int32_t part) {
      EXPECT_GE(part, 0);
      EXPECT_LT(part, 3);
      for (int32_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
    });
    for (int hit : hits) EXPECT_EQ(hit, 1);
  }
}

TEST(WorkerPool, WorksAgainAfterSleeping) {
  WorkerPool pool(2);
  int64_t sums[2] = {};
  for (int round = 1; round <= 5; ++round) {
    pool.run([&](int32_t part, int32_t) { sums[part] += round; });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // past the spinning
  }
  EXPECT_EQ(sums[0], 15);
  EXPECT_EQ(sums[1], 15);
}

}  // namespace
}  // namespace omnistage::kernels
