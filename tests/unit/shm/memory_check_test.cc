// The memory check against made-up /proc and cgroup trees.
#include "shm/segment/memory_check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace omnistage::shm {
namespace {

namespace fs = std::filesystem;

class MemoryCheck : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "oms-memory-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    file("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable:     500 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void v2(const std::string& mount_root, const std::string& group) {
    file("/proc/self/mountinfo", "31 23 0:28 " + mount_root +
                                     " /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n");
    file("/proc/self/cgroup", "0::" + group + "\n");
  }

  std::string root_;
};

TEST_F(MemoryCheck, MemAvailableAlone) {
  MemoryHeadroom headroom = memory_headroom(root_);
  EXPECT_EQ(headroom.bytes, 500u * 1024);
  EXPECT_EQ(headroom.limit, "MemAvailable");
  EXPECT_TRUE(check_memory(400 * 1024, "x", root_).ok());
  Status status = check_memory(490 * 1024, "the ring of stage 3", root_);  // leaves less than 5 %
  EXPECT_EQ(status.code(), StatusCode::kNoMemory);
  for (const char* part : {"501760", "512000", "MemAvailable", "the ring of stage 3"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST_F(MemoryCheck, TightestAncestorOfV2Counts) {
  v2("/", "/a/b/c");
  file("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  file("/sys/fs/cgroup/a/b/memory.max", "300000\n");
  file("/sys/fs/cgroup/a/b/memory.current", "100000\n");
  file("/sys/fs/cgroup/a/memory.max", "250000\n");
  file("/sys/fs/cgroup/a/memory.current", "200000\n");
  MemoryHeadroom headroom = memory_headroom(root_);
  EXPECT_EQ(headroom.bytes, 50000u);
  EXPECT_EQ(headroom.limit, "/sys/fs/cgroup/a/memory.max");
}

TEST_F(MemoryCheck, PageCacheCountsAsFree) {
  v2("/", "/a");
  file("/sys/fs/cgroup/a/memory.max", "300000\n");
  file("/sys/fs/cgroup/a/memory.current", "290000\n");
  file("/sys/fs/cgroup/a/memory.stat", "anon 1000\ninactive_file 200000\nactive_file 5\n");
  EXPECT_EQ(memory_headroom(root_).bytes, 210000u);
}

TEST_F(MemoryCheck, UsedAboveTheLimitIsZero) {
  v2("/", "/a");
  file("/sys/fs/cgroup/a/memory.max", "1000\n");
  file("/sys/fs/cgroup/a/memory.current", "2000\n");
  EXPECT_EQ(memory_headroom(root_).bytes, 0u);
  EXPECT_FALSE(check_memory(1, "x", root_).ok());
}

TEST_F(MemoryCheck, ContainerSeesItsOwnRoot) {
  v2("/docker/abc", "/docker/abc/inner");
  file("/sys/fs/cgroup/memory.max", "70000\n");
  file("/sys/fs/cgroup/memory.current", "10000\n");
  file("/sys/fs/cgroup/inner/memory.max", "max\n");
  EXPECT_EQ(memory_headroom(root_).bytes, 60000u);
}

TEST_F(MemoryCheck, Version1) {
  file("/proc/self/mountinfo",
       "30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
       "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n");
  file("/proc/self/cgroup", "5:cpu:/x\n4:memory:/g/h\n0::/\n");
  file("/sys/fs/cgroup/memory/g/h/memory.limit_in_bytes", "9223372036854771712\n");
  file("/sys/fs/cgroup/memory/g/h/memory.usage_in_bytes", "1\n");
  file("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "100000\n");
  file("/sys/fs/cgroup/memory/g/memory.usage_in_bytes", "80000\n");
  file("/sys/fs/cgroup/memory/g/memory.stat", "inactive_file 1\ntotal_inactive_file 5000\n");
  MemoryHeadroom headroom = memory_headroom(root_);
  EXPECT_EQ(headroom.bytes, 25000u);
  EXPECT_EQ(headroom.limit, "/sys/fs/cgroup/memory/g/memory.limit_in_bytes");
}

TEST_F(MemoryCheck, GarbageSetsNoLimit) {
  file("/proc/meminfo", "nonsense");
  file("/proc/self/mountinfo", "a b\n - \n1 2 3 4 5 - cgroup2\n");
  file("/proc/self/cgroup", ":::::\n\n0:\n0::/../../etc\n");
  EXPECT_EQ(memory_headroom(root_).bytes, UINT64_MAX);
}

TEST(MemoryCheckReal, ThisMachineHasSomeAndNotEverything) {
  MemoryHeadroom headroom = memory_headroom();
  EXPECT_GT(headroom.bytes, 1u << 20);
  EXPECT_LT(headroom.bytes, uint64_t{1} << 50);
  EXPECT_EQ(check_memory(uint64_t{1} << 50, "a petabyte").code(), StatusCode::kNoMemory);
}

}  // namespace
}  // namespace omnistage::shm
