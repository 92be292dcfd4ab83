// Tensors over links: leases, slabs that come and go, returns from any thread, ends in every order.
#include <sys/socket.h>

#include <numeric>
#include <thread>

#include "shm/base/clock.h"
#include "shm/base/limits.h"
#include "shm/wait/wait_set.h"
#include "tests/unit/shm/link_pair.h"

namespace omnistage::shm {
namespace {

HostTensor filled(TensorPool& pool, int64_t floats, float first) {
  auto tensor = pool.allocate(DType::kF32, {floats});
  EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
  std::iota(tensor->as<float>(), tensor->as<float>() + floats, first);
  return std::move(*tensor);
}

struct TensorPair : LinkPair {
  std::shared_ptr<TensorPool> pool = TensorPool::create(64u << 20);
  TensorPair() { a->attach_pool(pool); }
};

TEST(LinkTensor, ViewShowsTheBytesAndTheLeaseComesBack) {
  TensorPair pair;
  HostTensor tensor = filled(*pair.pool, 5000, 3.0f);
  auto ref = pair.a->lease(tensor.data.get(), tensor.bytes());
  ASSERT_TRUE(ref.ok()) << ref.status().to_string();
  tensor.data.reset();
  EXPECT_EQ(pair.pool->stats().blocks, 1u);
  auto view = pair.b->open_tensor(*ref);  // fetches the slab from the socket itself
  ASSERT_TRUE(view.ok()) << view.status().to_string();
  const float* floats = reinterpret_cast<const float*>(view->get());
  EXPECT_EQ(floats[0], 3.0f);
  EXPECT_EQ(floats[4999], 5002.0f);
  view->reset();
  pair.b->flush_returns();
  EXPECT_EQ(pair.pool->stats().leases, 1u);
  Record record;
  EXPECT_FALSE(pair.a->poll(record));  // returns are not shown
  EXPECT_EQ(pair.pool->stats().leases, 0u);
  EXPECT_EQ(pair.pool->stats().blocks, 0u);
}

// A producer that waits for pool memory must hear of it, although poll() shows it no record.
TEST(LinkTensor, ReturnedLeasesEndTheProducersWait) {
  TensorPair pair;
  auto waits = WaitSet::create();
  waits->add(pair.a.get());
  HostTensor tensor = filled(*pair.pool, 100, 0.0f);
  TensorRef ref = *pair.a->lease(tensor.data.get(), tensor.bytes());
  ASSERT_TRUE(pair.b->open_tensor(ref).ok());
  while (waits->wait(0).ok()) {
  }
  pair.b->flush_returns();
  EXPECT_TRUE(waits->wait(kNever).ok());
  Record record;
  EXPECT_FALSE(pair.a->poll(record));
  EXPECT_TRUE(waits->wait(kNever).ok());
  EXPECT_EQ(waits->wait(0).code(), StatusCode::kTimeout);
  waits->remove(pair.a.get());
}

TEST(LinkTensor, PartOfABlockCanBeLeased) {
  TensorPair pair;
  HostTensor tensor = filled(*pair.pool, 1000, 0.0f);
  auto ref = pair.a->lease(tensor.data.get() + 400, 40);
  ASSERT_TRUE(ref.ok());
  auto view = pair.b->open_tensor(*ref);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*reinterpret_cast<const float*>(view->get()), 100.0f);
  EXPECT_EQ(pair.a->lease(tensor.data.get() + 3990, 40).status().code(), StatusCode::kNotFound);
  std::byte local[8];
  EXPECT_EQ(pair.a->lease(local, 8).status().code(), StatusCode::kNotFound);
}

TEST(LinkTensor, UnsentLeaseIsTakenBack) {
  TensorPair pair;
  HostTensor tensor = filled(*pair.pool, 100, 0.0f);
  auto ref = pair.a->lease(tensor.data.get(), tensor.bytes());
  ASSERT_TRUE(ref.ok());
  pair.a->unlease(*ref);
  pair.a->unlease(*ref);
  EXPECT_EQ(pair.pool->stats().leases, 0u);
}

TEST(LinkTensor, WrongReferencesAreRefused) {
  TensorPair pair;
  HostTensor tensor = filled(*pair.pool, 100, 0.0f);
  TensorRef good = *pair.a->lease(tensor.data.get(), tensor.bytes());
  auto refused = [&](auto change) {
    TensorRef ref = good;
    change(ref);
    return pair.b->open_tensor(ref).status().code() == StatusCode::kProtocol;
  };
  EXPECT_TRUE(refused([](TensorRef& r) { r.slab = 99; }));
  EXPECT_TRUE(refused([](TensorRef& r) { r.offset = 0; }));
  EXPECT_TRUE(refused([](TensorRef& r) { r.offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](TensorRef& r) { r.bytes = UINT64_MAX; }));
  EXPECT_TRUE(refused([](TensorRef& r) { r.bytes = 1u << 30; }));
  EXPECT_TRUE(refused([](TensorRef& r) { r.bytes = 0; }));
  EXPECT_TRUE(refused([](TensorRef& r) { r.reserved = 1; }));
  EXPECT_TRUE(pair.b->open_tensor(good).ok());
}

TEST(LinkTensor, ViewOutlivesBothLinksAndTheOwnersData) {
  TensorPair pair;
  HostTensor tensor = filled(*pair.pool, 5000, 1.0f);
  TensorRef ref = *pair.a->lease(tensor.data.get(), tensor.bytes());
  auto view = *pair.b->open_tensor(ref);
  tensor.data.reset();
  pair.b.reset();
  ASSERT_TRUE(pair.a->on_socket().ok());
  EXPECT_EQ(pair.pool->stats().leases, 1u) << "the view still reads";
  pair.a.reset();
  (void)pair.pool->allocate(DType::kU8, {1});
  EXPECT_EQ(pair.pool->stats().leases, 1u);
  EXPECT_EQ(reinterpret_cast<const float*>(view.get())[4999], 5000.0f);
  view.reset();
  (void)pair.pool->allocate(DType::kU8, {1});
  EXPECT_EQ(pair.pool->stats().leases, 0u);
  EXPECT_EQ(pair.pool->stats().blocks, 0u);
}

TEST(LinkTensor, EndOfTheConsumerReturnsItsLeases) {
  TensorPair pair;
  HostTensor tensor = filled(*pair.pool, 5000, 1.0f);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.a->lease(tensor.data.get(), tensor.bytes()).ok());
  tensor.data.reset();
  pair.b.reset();
  ASSERT_TRUE(pair.a->on_socket().ok());
  EXPECT_TRUE(pair.a->peer_dead());
  EXPECT_EQ(pair.pool->stats().leases, 0u);
  EXPECT_EQ(pair.pool->stats().blocks, 0u);
}

TEST(LinkTensor, ViewsDroppedOnOtherThreadsComeBack) {
  TensorPair pair;
  auto waits = WaitSet::create();
  waits->add(pair.b.get());
  HostTensor tensor = filled(*pair.pool, 100, 1.0f);
  constexpr int kViews = 1000;  // more than one return record
  std::vector<std::shared_ptr<std::byte>> views;
  for (int i = 0; i < kViews; ++i)
    views.push_back(*pair.b->open_tensor(*pair.a->lease(tensor.data.get(), 400)));
  EXPECT_EQ(pair.pool->stats().leases, static_cast<uint64_t>(kViews));
  std::thread dropper([&] { views.clear(); });
  // The drop wakes the sleeping data thread, whose next wait sends the returns.
  EXPECT_TRUE(waits->wait(kNever).ok());
  dropper.join();
  waits->ring();
  EXPECT_TRUE(waits->wait(kNever).ok());
  Record record;
  EXPECT_FALSE(pair.a->poll(record));
  EXPECT_EQ(pair.pool->stats().leases, 0u);
  waits->remove(pair.b.get());
}

TEST(LinkTensor, EmptySlabsAreWithdrawnFromThePeer) {
  TensorPair pair;
  std::vector<HostTensor> tensors;
  std::vector<TensorRef> refs;
  for (int i = 0; i < 6; ++i) {
    tensors.push_back(filled(*pair.pool, 1 << 20, static_cast<float>(i)));  // 4 MiB
    refs.push_back(*pair.a->lease(tensors.back().data.get(), tensors.back().bytes()));
    ASSERT_TRUE(pair.b->open_tensor(refs.back()).ok());
  }
  const uint64_t slabs = pair.pool->stats().slabs;
  tensors.clear();
  pair.b->flush_returns();
  Record record;
  EXPECT_FALSE(pair.a->poll(record));
  EXPECT_LT(pair.pool->stats().slabs, slabs);
  pair.a->flush_returns();  // tells the peer
  pair.sockets();
  EXPECT_FALSE(pair.b->peer_dead());
  int known = 0;
  for (TensorRef& ref : refs) known += pair.b->open_tensor(ref).ok();
  EXPECT_LT(known, 6);
}

TEST(LinkTensor, UnreadAnnouncementsEndInAgainAndLoseNothing) {
  UniqueFd x, y;
  ASSERT_TRUE(make_socketpair(x, y).ok());
  const int least = 1;  // the kernel rounds up to its minimum: a few messages
  ASSERT_EQ(setsockopt(x.get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
  auto a = *Link::create(std::move(x), stage(1, "alpha"), stage(2, "beta"), {});
  auto b = *Link::create(std::move(y), stage(2, "beta"), stage(1, "alpha"), {});
  ASSERT_TRUE(a->on_socket().ok());
  auto pool = TensorPool::create(256u << 20);
  a->attach_pool(pool);
  std::vector<HostTensor> tensors;
  std::vector<TensorRef> refs;
  Status last;
  for (int i = 0; i < 40 && last.ok(); ++i) {
    // Each fills a slab of its own.
    auto tensor = pool->allocate(DType::kU8, {i == 0 ? 1 << 20 : 2 << 20});
    ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
    auto ref = a->lease(tensor->data.get(), 16);
    last = ref.status();
    if (ref.ok()) refs.push_back(*ref);
    tensors.push_back(std::move(*tensor));
  }
  ASSERT_EQ(last.code(), StatusCode::kAgain) << last.to_string();
  EXPECT_EQ(pool->stats().leases, refs.size());
  ASSERT_TRUE(b->on_socket().ok());
  auto late = a->lease(tensors.back().data.get(), 16);
  ASSERT_TRUE(late.ok()) << late.status().to_string();
  refs.push_back(*late);
  for (const TensorRef& ref : refs) EXPECT_TRUE(b->open_tensor(ref).ok());
}

}  // namespace
}  // namespace omnistage::shm
