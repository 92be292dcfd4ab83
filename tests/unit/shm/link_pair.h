// Two connected links in one process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "shm/link/link.h"

namespace omnistage::shm {

inline LinkIdentity stage(uint32_t index, const std::string& name) {
  return {LinkIdentity::Role::kStage, index, 7, name};
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string text_of(const Record& record) {
  return {reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size()};
}

struct LinkPair {
  std::unique_ptr<Link> a, b;

  explicit LinkPair(LinkOptions options = {}, bool connect = true)
      : LinkPair(options, options, connect) {}
  LinkPair(LinkOptions options_a, LinkOptions options_b, bool connect = true) {
    UniqueFd x, y;
    EXPECT_TRUE(make_socketpair(x, y).ok());
    auto made_a = Link::create(std::move(x), stage(1, "alpha"), stage(2, "beta"), options_a);
    auto made_b = Link::create(std::move(y), stage(2, "beta"), stage(1, "alpha"), options_b);
    EXPECT_TRUE(made_a.ok()) << made_a.status().to_string();
    EXPECT_TRUE(made_b.ok()) << made_b.status().to_string();
    a = std::move(*made_a);
    b = std::move(*made_b);
    if (connect) sockets();
  }

  // What the control threads would do.
  void sockets() {
    for (Link* link : {a.get(), b.get()})
      if (link != nullptr) {
        Status status = link->on_socket();
        EXPECT_TRUE(status.ok()) << status.to_string();
      }
  }
};

constexpr RecordKind kKind = kFirstUserKind + 5;

}  // namespace omnistage::shm
