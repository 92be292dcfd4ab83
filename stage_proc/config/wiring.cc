#include "stage_proc/config/wiring.h"

#include <algorithm>
#include <map>
#include <set>

namespace omnistage::config {
namespace {

using Named = std::map<std::string, ConnectorConfig>;
constexpr size_t kConnectorsMax = 64;

Named read_connectors(const Value& document, Problems* problems) {
  Named named;
  const Value* found = document.find("connectors");
  if (found == nullptr || found->is_null()) return named;
  if (!found->is_map() || found->map.size() > kConnectorsMax) {
    problems->add(*found, "must be a map of at most " + std::to_string(kConnectorsMax) +
                              " connectors, got " + describe(*found));
    return named;
  }
  for (const auto& [name, value] : found->map) {
    if (name.size() > limits::kNameBytesMax)
      problems->add(value, "a connector name has at most " + std::to_string(limits::kNameBytesMax) +
                               " bytes");
    named[name] = read_connector(value, name, problems);
  }
  return named;
}

class Wiring {
 public:
  Wiring(const Value& document, std::vector<StageEntry>* entries, Problems* problems)
      : document_(document),
        entries_(*entries),
        problems_(*problems),
        named_(read_connectors(document, problems)) {}

  void run(std::vector<EdgeConfig>* edges) {
    check_identities();
    read_edges();
    check_sources();
    for (StageEntry& entry : entries_) {
      read_stage_connectors(entry, "input_connectors", "from_stage_");
      read_stage_connectors(entry, "output_connectors", "to_stage_");
    }
    for (const StageEntry& entry : entries_)
      for (int source : entry.config.input_sources)
        edges->push_back(make_edge(source, entry.config.stage_id));
    if (!problems_.empty()) return;  // what follows would only repeat the fault in other words
    check_circles();
    check_ends();
  }

 private:
  StageEntry* find(int stage_id) {
    for (StageEntry& entry : entries_)
      if (entry.config.stage_id == stage_id) return &entry;
    return nullptr;
  }

  bool has_edge(int from, int to) {
    const StageEntry* entry = find(to);
    if (entry == nullptr) return false;
    const auto& sources = entry->config.input_sources;
    return std::find(sources.begin(), sources.end(), from) != sources.end();
  }

  void check_identities() {
    std::set<int> ids;
    std::set<std::string> names;
    for (const StageEntry& entry : entries_) {
      const Value* id = entry.value.find("stage_id");
      const Value* name = entry.value.find("model_stage");
      if (!ids.insert(entry.config.stage_id).second)
        problems_.add(id != nullptr ? *id : entry.value,
                      "stage " + std::to_string(entry.config.stage_id) + " is given twice");
      else if (!names.insert(entry.config.name).second)
        problems_.add(name != nullptr ? *name : entry.value,
                      "two stages have the name " + entry.config.name);
    }
  }

  // `edges` adds to stages whose sources nobody gave and must agree with the others.
  void read_edges() {
    const Value* found = document_.find("edges");
    if (found == nullptr || found->is_null()) return;
    if (!found->is_list() || found->list.size() > limits::kStagesMax * limits::kStagesMax) {
      problems_.add(*found, "must be a list of {from, to}, got " + describe(*found));
      return;
    }
    for (const Value& item : found->list) {
      if (!item.is_map()) {
        problems_.add(item, "must be a map {from, to}, got " + describe(item));
        continue;
      }
      Fields fields(item, &problems_);
      int from = -1;
      int to = -1;
      for (const char* key : {"from", "to"})
        if (fields.get(key) == nullptr) problems_.add(item, std::string("needs `") + key + "`");
      fields.read_int("from", 0, limits::kStagesMax - 1, &from);
      fields.read_int("to", 0, limits::kStagesMax - 1, &to);
      fields.finish("an edge");
      if (from < 0 || to < 0) continue;
      add_edge(item, from, to);
    }
  }

  void add_edge(const Value& at, int from, int to) {
    StageEntry* entry = find(to);
    for (int id : {from, to})
      if (find(id) == nullptr) {
        problems_.add(at, "there is no stage " + std::to_string(id));
        return;
      }
    if (has_edge(from, to)) return;
    if (entry->sources_given || !entry->config.input_sources.empty())
      problems_.add(at, "stage " + std::to_string(to) + " does not name " + std::to_string(from) +
                            " among its input_sources");
    else
      from_edges_[to].push_back(from);
  }

  void check_sources() {
    for (auto& [to, sources] : from_edges_) find(to)->config.input_sources = sources;
    for (StageEntry& entry : entries_) {
      const Value* given = entry.value.find("input_sources");
      const Value& at = given != nullptr ? *given : entry.value;
      std::set<int> seen;
      for (int source : entry.config.input_sources) {
        if (source == entry.config.stage_id)
          problems_.add(at, "a stage cannot be its own source");
        else if (find(source) == nullptr)
          problems_.add(at, "there is no stage " + std::to_string(source));
        else if (!seen.insert(source).second)
          problems_.add(at, "source " + std::to_string(source) + " is given twice");
      }
    }
  }

  void read_stage_connectors(const StageEntry& entry, const char* key, const std::string& prefix) {
    const Value* found = entry.value.find(key);
    if (found == nullptr || found->is_null()) return;
    if (!found->is_map()) {
      problems_.add(*found, "must be a map, got " + describe(*found));
      return;
    }
    for (const auto& [name, value] : found->map) {
      Value number = value;
      number.kind = Value::Kind::kScalar;
      number.quoted = false;
      number.scalar = name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : "";
      const std::optional<int64_t> other = as_int(number);
      if (!other || *other < 0 || *other >= limits::kStagesMax) {
        problems_.add(value, "must be named " + prefix + "N with the stage_id N");
        continue;
      }
      const int self = entry.config.stage_id;
      const bool incoming = prefix[0] == 'f';
      const int from = incoming ? static_cast<int>(*other) : self;
      const int to = incoming ? self : static_cast<int>(*other);
      if (!has_edge(from, to)) {
        problems_.add(value, "there is no edge from stage " + std::to_string(from) + " to stage " +
                                 std::to_string(to));
        continue;
      }
      assign(value, from, to);
    }
  }

  // By name or inline; both ends of an edge may name it and must then mean the same.
  void assign(const Value& value, int from, int to) {
    ConnectorConfig connector;
    if (value.is_scalar()) {
      auto known = named_.find(value.scalar);
      if (known == named_.end()) {
        problems_.add(value, "there is no connector " + describe(value) + " under `connectors`");
        return;
      }
      connector = known->second;
    } else {
      connector = read_connector(value, "edge_" + std::to_string(from) + "_" + std::to_string(to),
                                 &problems_);
    }
    auto [place, fresh] = chosen_.try_emplace({from, to}, connector);
    if (!fresh && place->second.name != connector.name)
      problems_.add(value, "the other end of this edge names connector " + place->second.name);
  }

  EdgeConfig make_edge(int from, int to) {
    EdgeConfig edge;
    edge.from = from;
    edge.to = to;
    auto found = chosen_.find({from, to});
    if (found != chosen_.end()) {
      edge.connector = found->second;
    } else if (auto automatic = named_.find("auto"); automatic != named_.end()) {
      edge.connector = automatic->second;
    } else {
      edge.connector.name = "auto";
      edge.connector.kind = "SharedMemoryConnector";
    }
    return edge;
  }

  // Stages are removed as soon as all their sources are; what stays is in or behind a circle.
  void check_circles() {
    std::set<int> done;
    bool moved = true;
    while (moved) {
      moved = false;
      for (const StageEntry& entry : entries_) {
        const auto& sources = entry.config.input_sources;
        if (done.count(entry.config.stage_id) != 0) continue;
        if (std::all_of(sources.begin(), sources.end(),
                        [&](int id) { return done.count(id) != 0 || find(id) == nullptr; }))
          moved = done.insert(entry.config.stage_id).second;
      }
    }
    for (const StageEntry& entry : entries_)
      if (done.count(entry.config.stage_id) == 0) {
        problems_.add(entry.value, "stage " + std::to_string(entry.config.stage_id) +
                                       " feeds itself through its input_sources");
        return;
      }
  }

  void check_ends() {
    bool final_output = false;
    for (const StageEntry& entry : entries_) {
      final_output = final_output || entry.config.final_output;
      bool consumed = entry.config.final_output;
      for (const StageEntry& other : entries_)
        consumed = consumed || has_edge(entry.config.stage_id, other.config.stage_id);
      if (!consumed)
        problems_.add(entry.value, "stage " + std::to_string(entry.config.stage_id) +
                                       " has no consumer and no final_output");
    }
    if (!final_output && problems_.empty())
      problems_.add(*document_.find("stages"), "no stage has final_output: true");
  }

  const Value& document_;
  std::vector<StageEntry>& entries_;
  Problems& problems_;
  Named named_;
  std::map<int, std::vector<int>> from_edges_;
  std::map<std::pair<int, int>, ConnectorConfig> chosen_;
};

}  // namespace

void wire_stages(const Value& document, std::vector<StageEntry>* entries, Problems* problems,
                 std::vector<EdgeConfig>* edges) {
  Wiring(document, entries, problems).run(edges);
}

}  // namespace omnistage::config
