#include "capi/state/stage_graph.h"

#include <gtest/gtest.h>

namespace omnistage::capi {
namespace {

StageNode node(uint32_t index, const std::string& name, std::vector<uint32_t> sources,
               uint32_t final_output, bool entry = false) {
  StageNode stage;
  stage.index = index;
  stage.name = name;
  stage.sources = std::move(sources);
  stage.final_output = final_output;
  stage.entry = entry;
  stage.state = StageState::kReady;
  return stage;
}

std::vector<StageNode> speak() {
  return {node(0, "thinker", {}, 1, true), node(1, "talker", {0}, 0), node(2, "code2wav", {1}, 2)};
}

TEST(StageGraph, FindsWhatARequestNeeds) {
  auto graph = StageGraph::create(speak());
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->outputs(), 3u);
  EXPECT_EQ(graph->ends(1), 1u);
  EXPECT_EQ(graph->needed(1), 1u);
  EXPECT_EQ(graph->ends(2), 4u);
  EXPECT_EQ(graph->needed(2), 7u);
  EXPECT_EQ(graph->ends(3), 5u);
  EXPECT_EQ(graph->entries(7), 1u);
}

TEST(StageGraph, FanInAndFanOut) {
  auto graph = StageGraph::create({node(0, "a", {}, 0, true), node(1, "b", {}, 0, true),
                                   node(2, "c", {0, 1}, 1), node(3, "d", {1}, 2)});
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->needed(1), 7u);
  EXPECT_EQ(graph->needed(2), 10u);
  EXPECT_EQ(graph->entries(graph->needed(2)), 2u);
}

TEST(StageGraph, ReadyNamesTheStageThatIsNot) {
  auto graph = StageGraph::create(speak());
  ASSERT_TRUE(graph.ok());
  graph->set_linked(0, true);
  graph->set_linked(2, true);
  int32_t culprit = 7;
  EXPECT_TRUE(graph->ready(7, culprit).ok());
  EXPECT_EQ(culprit, -1);

  StageNode changed = graph->at(1);
  changed.state = StageState::kStarting;
  ASSERT_TRUE(graph->update(changed).ok());
  EXPECT_EQ(graph->ready(7, culprit).code(), StatusCode::kBusy);
  EXPECT_EQ(graph->ready(7, culprit).message(), "stage 1 (talker) is starting");
  EXPECT_EQ(culprit, 1);
  EXPECT_TRUE(graph->ready(1, culprit).ok());

  changed.state = StageState::kFailed;
  changed.message = "no model";
  ASSERT_TRUE(graph->update(changed).ok());
  EXPECT_EQ(graph->ready(7, culprit).code(), StatusCode::kStageDied);
  EXPECT_EQ(graph->ready(7, culprit).message(), "stage 1 (talker) failed for good: no model");

  changed.state = StageState::kStopped;
  ASSERT_TRUE(graph->update(changed).ok());
  EXPECT_EQ(graph->ready(7, culprit).code(), StatusCode::kClosed);

  graph->set_linked(0, false);
  EXPECT_EQ(graph->ready(1, culprit).message(), "stage 0 (thinker) is being connected");
}

TEST(StageGraph, RefusesImpossibleDescriptions) {
  EXPECT_EQ(StageGraph::create({}).status().code(), StatusCode::kProtocol);
  auto stages = speak();
  stages[1].index = 5;
  EXPECT_FALSE(StageGraph::create(stages).ok());
  stages = speak();
  stages[1].sources = {9};
  EXPECT_FALSE(StageGraph::create(stages).ok());
  stages = speak();
  stages[1].sources = {1};
  EXPECT_FALSE(StageGraph::create(stages).ok());
  stages = speak();
  stages[0].entry = false;
  EXPECT_FALSE(StageGraph::create(stages).ok());
  stages = speak();
  stages[0].final_output = stages[2].final_output = 0;
  EXPECT_FALSE(StageGraph::create(stages).ok());
  stages = speak();
  stages[0].name = std::string(limits::kNameBytesMax + 1, 'x');
  EXPECT_FALSE(StageGraph::create(stages).ok());
  std::vector<StageNode> many;
  for (uint32_t i = 0; i <= limits::kStagesMax; ++i) many.push_back(node(i, "s", {}, 1, true));
  EXPECT_FALSE(StageGraph::create(many).ok());
  auto graph = StageGraph::create(speak());
  EXPECT_EQ(graph->update(node(3, "x", {}, 0)).code(), StatusCode::kProtocol);
}

}  // namespace
}  // namespace omnistage::capi
