#include <gtest/gtest.h>

#include <set>
#include <string>

#include "omnistage/omnistage.h"
#include "shm/base/status.h"

namespace {

struct Row {
  const char* name;
  oms_status number;
};

#define ROW_(name, number, text) {#name, number},
const Row kRows[] = {OMS_STATUS_LIST(ROW_)};
#undef ROW_

TEST(StatusTable, NamesAndNumbersAreThoseOfTheModules) {
  std::set<oms_status> numbers;
  for (const Row& row : kRows) {
    EXPECT_TRUE(numbers.insert(row.number).second) << row.name;
    EXPECT_STREQ(oms_status_name(row.number), row.name);
    EXPECT_GT(std::string(oms_status_text(row.number)).size(), 5u);
    const std::string inner =
        omnistage::status_code_name(static_cast<omnistage::StatusCode>(row.number));
    const std::string prefix = row.number < 0 ? "OMS_E_" : "OMS_";
    EXPECT_EQ(prefix + inner, row.name);
  }
}

TEST(StatusTable, UnknownNumbersHaveANameToo) {
  for (oms_status status : {-15, 4, INT32_MAX, INT32_MIN}) {
    EXPECT_STREQ(oms_status_name(status), "OMS_UNKNOWN");
    EXPECT_NE(oms_status_text(status), nullptr);
  }
}

TEST(Library, TellsItsVersion) {
  EXPECT_EQ(oms_abi_version(), OMS_ABI_VERSION);
  const std::string version = oms_version_string();
  EXPECT_EQ(version.find(std::to_string(OMS_ABI_MAJOR) + "."), 0u) << version;
}

}  // namespace
