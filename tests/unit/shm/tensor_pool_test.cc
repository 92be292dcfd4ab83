// TensorPool: blocks, bounds, owners and leases.
#include "shm/pool/tensor_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "shm/base/limits.h"
#include "shm/pool/lease_table.h"
#include "tests/unit/shm/processes.h"

namespace omnistage::shm {
namespace {

HostTensor take(TensorPool& pool, int64_t bytes) {
  auto tensor = pool.allocate(DType::kU8, {bytes});
  EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
  return tensor.ok() ? std::move(*tensor) : HostTensor{};
}

TEST(TensorPool, BlocksAreAlignedDisjointAndFreed) {
  auto pool = TensorPool::create(64u << 20);
  EXPECT_EQ(pool->stats().slab_bytes, 0u);
  std::mt19937 random(3);
  std::vector<std::pair<HostTensor, int>> live;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() > 60 || (!live.empty() && random() % 3 == 0)) {
      size_t at = random() % live.size();
      auto& [tensor, fill] = live[at];
      for (size_t k = 0; k < tensor.bytes(); k += 61)
        ASSERT_EQ(tensor.data.get()[k], static_cast<std::byte>(fill));
      live.erase(live.begin() + static_cast<long>(at));
      continue;
    }
    HostTensor tensor = take(*pool, 1 + static_cast<int64_t>(random() % 200000));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(tensor.data.get()) % 64, 0u);
    ASSERT_TRUE(pool->contains(tensor.data.get()));
    std::memset(tensor.data.get(), i, tensor.bytes());
    live.emplace_back(std::move(tensor), i);
  }
  EXPECT_EQ(pool->stats().blocks, live.size());
  live.clear();
  EXPECT_EQ(pool->stats().blocks, 0u);
  EXPECT_LE(pool->stats().slab_bytes, limits::kSlabBytesMax + (64u << 10));
}

TEST(TensorPool, LargestBlockAndBeyond) {
  auto pool = TensorPool::create(64u << 20);
  HostTensor tensor = take(*pool, limits::kSlabBytesMax);
  std::memset(tensor.data.get(), 1, tensor.bytes());
  EXPECT_EQ(pool->allocate(DType::kU8, {limits::kSlabBytesMax + 1}).status().code(),
            StatusCode::kInvalid);
  EXPECT_EQ(pool->allocate(DType::kF32, {1ll << 40, 1ll << 40}).status().code(),
            StatusCode::kInvalid);
  EXPECT_EQ(pool->allocate(DType::kF32, {-1}).status().code(), StatusCode::kInvalid);
}

TEST(TensorPool, EmptyTensorsNeedNoBlock) {
  auto pool = TensorPool::create(1u << 20);
  auto tensor = pool->allocate(DType::kF32, {1ll << 40, 0});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->data, nullptr);
  EXPECT_EQ(pool->stats().slabs, 0u);
}

TEST(TensorPool, BoundIsKeptAndNamed) {
  auto pool = TensorPool::create(4u << 20);
  std::vector<HostTensor> tensors;
  Status status;
  while (status.ok()) {
    auto tensor = pool->allocate(DType::kU8, {500'000});
    status = tensor.status();
    if (tensor.ok()) tensors.push_back(std::move(*tensor));
    ASSERT_LE(tensors.size(), 9u);
  }
  EXPECT_EQ(status.code(), StatusCode::kNoMemory);
  EXPECT_NE(status.message().find("500000"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("4194304"), std::string::npos) << status.message();
  EXPECT_GE(tensors.size(), 5u);
  EXPECT_LE(pool->stats().slab_bytes, 4u << 20);
  tensors.pop_back();
  EXPECT_TRUE(pool->allocate(DType::kU8, {500'000}).ok());
}

TEST(TensorPool, BlockLivesUntilOwnerAndLeasesAreGone) {
  auto pool = TensorPool::create(1u << 24);
  HostTensor tensor = take(*pool, 1000);
  TensorRef one = *pool->lease(1, tensor.data.get(), 1000);
  TensorRef two = *pool->lease(2, tensor.data.get(), 1000);
  tensor.data.reset();
  EXPECT_EQ(pool->stats().blocks, 1u);
  pool->return_lease(2, one.lease, one.generation);  // not its lease
  pool->return_lease(1, one.lease, one.generation + 1);
  pool->return_lease(1, 1'000'000, one.generation);
  EXPECT_EQ(pool->stats().leases, 2u);
  pool->return_lease(1, one.lease, one.generation);
  pool->return_lease(1, one.lease, one.generation);  // late
  EXPECT_EQ(pool->stats().leases, 1u);
  EXPECT_EQ(pool->stats().blocks, 1u);
  pool->consumer_died(2);
  pool->return_lease(2, two.lease, two.generation);
  EXPECT_EQ(pool->stats().blocks, 0u);
  EXPECT_EQ(pool->stats().leases, 0u);
}

TEST(TensorPool, GenerationsTellReusedSlotsApart) {
  LeaseTable table;
  uint32_t slot, generation, again;
  ASSERT_TRUE(table.add(1, {1, 64}, slot, generation));
  ASSERT_TRUE(table.take(1, slot, generation));
  uint32_t old = generation;
  ASSERT_TRUE(table.add(1, {1, 128}, again, generation));
  EXPECT_EQ(again, slot);
  EXPECT_FALSE(table.take(1, slot, old));
  EXPECT_TRUE(table.take(1, slot, generation));
}

TEST(TensorPool, LeaseTableIsBounded) {
  LeaseTable table;
  uint32_t slot, generation;
  for (uint32_t i = 0; i < LeaseTable::kLeasesMax; ++i)
    ASSERT_TRUE(table.add(1 + i % 2, {1, 64}, slot, generation));
  EXPECT_FALSE(table.add(1, {1, 64}, slot, generation));
  EXPECT_EQ(table.take_all(2).size(), LeaseTable::kLeasesMax / 2);
  EXPECT_TRUE(table.add(1, {1, 64}, slot, generation));
}

TEST(TensorPool, TensorsKeepThePoolAlive) {
  const size_t fds = open_fds(), maps = shared_mappings();
  HostTensor tensor;
  {
    auto pool = TensorPool::create(1u << 24);
    tensor = take(*pool, 100);
  }
  std::memset(tensor.data.get(), 7, 100);
  tensor.data.reset();
  EXPECT_EQ(open_fds(), fds);
  EXPECT_EQ(shared_mappings(), maps);
}

TEST(TensorPool, ManyThreads) {
  auto pool = TensorPool::create(64u << 20);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 1000; ++i) {
        auto tensor = pool->allocate(DType::kU8, {1 + static_cast<int64_t>(random() % 50000)});
        ASSERT_TRUE(tensor.ok());
        auto ref = pool->lease(t + 1, tensor->data.get(), tensor->bytes());
        ASSERT_TRUE(ref.ok());
        if (random() % 2) tensor->data.reset();
        pool->return_lease(t + 1, ref->lease, ref->generation);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->stats().blocks, 0u);
  EXPECT_EQ(pool->stats().leases, 0u);
}

}  // namespace
}  // namespace omnistage::shm
