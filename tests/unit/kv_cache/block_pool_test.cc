// BlockPool and BlockTable: counts, order of reuse, sharing, and that misuse ends the process.
#include "cache/kv/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace omnistage::cache {
namespace {

TEST(BlockPool, OptionsAreChecked) {
  EXPECT_TRUE(BlockPool::validate({.num_blocks = 1, .block_size = 1}).ok());
  Status status = BlockPool::validate({.num_blocks = 0, .block_size = 16});
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_NE(status.message().find("num_blocks"), std::string::npos);
  status = BlockPool::validate({.num_blocks = 4, .block_size = 4097});
  EXPECT_NE(status.message().find("block_size must be in [1, 4096], got 4097"), std::string::npos);
}

TEST(BlockPool, HandsOutEachBlockOnce) {
  BlockPool pool({.num_blocks = 5, .block_size = 4});
  std::set<int32_t> seen;
  for (int i = 0; i < 5; ++i) seen.insert(pool.allocate());
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(pool.free(), 0);
  EXPECT_EQ(pool.used(), 5);
  for (int32_t block : seen) pool.release(block);
  EXPECT_EQ(pool.free(), 5);
  pool.check_invariants();
}

TEST(BlockPool, ReusesTheBlockThatWasFreeForLongest) {
  BlockPool pool({.num_blocks = 3, .block_size = 4});
  int32_t a = pool.allocate();
  pool.release(a);
  EXPECT_NE(pool.allocate(), a);
  EXPECT_NE(pool.allocate(), a);
  EXPECT_EQ(pool.allocate(), a);
}

TEST(BlockTable, GrowsByWholeBlocksAllOrNothing) {
  BlockPool pool({.num_blocks = 3, .block_size = 4});
  BlockTable table(pool);
  EXPECT_TRUE(table.grow_to(0));
  EXPECT_EQ(table.blocks().size(), 0u);
  EXPECT_TRUE(table.grow_to(1));
  EXPECT_TRUE(table.grow_to(4));
  EXPECT_EQ(table.blocks().size(), 1u);
  EXPECT_TRUE(table.grow_to(5));
  EXPECT_EQ(table.blocks().size(), 2u);
  EXPECT_EQ(table.missing_for(13), 2);
  EXPECT_FALSE(table.grow_to(13));
  EXPECT_EQ(table.blocks().size(), 2u);
  EXPECT_EQ(pool.free(), 1);
  table.clear();
  EXPECT_EQ(pool.free(), 3);
}

TEST(BlockTable, ClearGivesTheEndOfTheSequenceBackFirst) {
  BlockPool pool({.num_blocks = 3, .block_size = 1});
  BlockTable table(pool);
  ASSERT_TRUE(table.grow_to(3));
  std::vector<int32_t> before(table.blocks().begin(), table.blocks().end());
  table.clear();
  ASSERT_TRUE(table.grow_to(3));
  std::vector<int32_t> after(table.blocks().begin(), table.blocks().end());
  std::reverse(before.begin(), before.end());
  EXPECT_EQ(before, after);
}

TEST(BlockTable, SharedBlocksAreFreeWhenTheLastTableGoes) {
  BlockPool pool({.num_blocks = 4, .block_size = 2});
  BlockTable first(pool);
  ASSERT_TRUE(first.grow_to(4));
  {
    BlockTable second = first.share();
    EXPECT_EQ(pool.references(first.blocks()[0]), 2u);
    ASSERT_TRUE(second.grow_to(6));
    first.clear();
    EXPECT_EQ(pool.used(), 3);
    pool.check_invariants();
  }
  EXPECT_EQ(pool.used(), 0);
}

TEST(BlockTable, MoveLeavesAnEmptyTable) {
  BlockPool pool({.num_blocks = 4, .block_size = 2});
  BlockTable a(pool);
  ASSERT_TRUE(a.grow_to(4));
  BlockTable b(std::move(a));
  a.clear();  // NOLINT: the moved-from table is defined to be empty
  EXPECT_EQ(pool.used(), 2);
  BlockTable c(pool);
  ASSERT_TRUE(c.grow_to(2));
  c = std::move(b);
  EXPECT_EQ(pool.used(), 2);
  pool.check_invariants();
}

TEST(BlockPool, RandomUseKeepsTheInvariants) {
  std::mt19937_64 random(7);
  BlockPool pool({.num_blocks = 37, .block_size = 3});
  std::vector<BlockTable> tables;
  for (int step = 0; step < 4000; ++step) {
    switch (random() % 4) {
      case 0:
        tables.emplace_back(pool);
        break;
      case 1:
        if (!tables.empty()) {
          BlockTable& table = tables[random() % tables.size()];
          int64_t tokens = static_cast<int64_t>(random() % 60);
          bool fits = table.missing_for(tokens) <= pool.free();
          EXPECT_EQ(table.grow_to(tokens), fits);
        }
        break;
      case 2:
        if (!tables.empty()) tables.push_back(tables[random() % tables.size()].share());
        break;
      default:
        if (!tables.empty()) {
          std::swap(tables[random() % tables.size()], tables.back());
          tables.pop_back();
        }
    }
    if (step % 64 == 0) pool.check_invariants();
  }
  tables.clear();
  EXPECT_EQ(pool.used(), 0);
  pool.check_invariants();
}

TEST(BlockPoolDeathTest, MisuseEndsTheProcess) {
  BlockPool pool({.num_blocks = 2, .block_size = 2});
  EXPECT_DEATH(pool.release(0), "release\\(\\) of a free block");
  EXPECT_DEATH(pool.release(2), "not of this pool");
  EXPECT_DEATH(pool.retain(-1), "not of this pool");
  EXPECT_DEATH(pool.retain(1), "retain\\(\\) of a free block");
  EXPECT_DEATH(
      {
        for (int i = 0; i < 3; ++i) (void)pool.allocate();
      },
      "empty pool");
}

}  // namespace
}  // namespace omnistage::cache
