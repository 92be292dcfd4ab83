#include <array>
#include <bit>

#include "stage_proc/config/readers.h"
#include "stage_proc/config/unsupported.h"

namespace omnistage::config {
namespace {

constexpr std::string_view kShm = "SharedMemoryConnector";
constexpr uint64_t kRingBytesMin = 128 * 1024;  // two records of the largest size
constexpr uint64_t kRingBytesMax = 64ull << 20;
constexpr size_t kRampEntriesMax = 64;

// A list or the text "4,4,8"; at least two sizes, as in the reference.
void read_ramp(Fields* fields, std::vector<int>* out) {
  const Value* found = fields->get("codec_chunk_ramp");
  if (found == nullptr) return;
  Value as_list = *found;
  if (found->is_scalar()) {
    as_list.kind = Value::Kind::kList;
    for (size_t begin = 0; begin <= found->scalar.size();) {
      const size_t comma = std::min(found->scalar.find(',', begin), found->scalar.size());
      Value item = *found;
      item.quoted = false;
      item.scalar = found->scalar.substr(begin, comma - begin);
      const size_t first = item.scalar.find_first_not_of(' ');
      item.scalar.erase(0, std::min(first, item.scalar.size()));
      item.scalar.erase(item.scalar.find_last_not_of(' ') + 1);
      as_list.list.push_back(std::move(item));
      begin = comma + 1;
    }
  }
  const bool sized =
      as_list.is_list() && as_list.list.size() >= 2 && as_list.list.size() <= kRampEntriesMax;
  std::vector<int> sizes;
  for (const Value& item : as_list.list) {
    const std::optional<int64_t> size = as_int(item);
    if (size && *size >= 1 && *size <= kChunkFramesMax) sizes.push_back(static_cast<int>(*size));
  }
  if (!sized || sizes.size() != as_list.list.size()) {
    fields->problems().add(*found, "must be 2.." + std::to_string(kRampEntriesMax) +
                                       " chunk sizes of 1.." + std::to_string(kChunkFramesMax) +
                                       " frames, got " + describe(*found));
    return;
  }
  *out = std::move(sizes);
}

void read_extra(const Value& value, Problems* problems, ConnectorConfig* out) {
  if (!value.is_map()) {
    problems->add(value, "must be a map, got " + describe(value));
    return;
  }
  Fields fields(value, problems);
  refuse_unsupported(Scope::kConnectorExtra, &fields);
  fields.read_int("codec_chunk_frames", 1, kChunkFramesMax, &out->codec_chunk_frames);
  fields.read_int("initial_codec_chunk_frames", 0, kChunkFramesMax,
                  &out->initial_codec_chunk_frames);
  fields.read_int("codec_left_context_frames", 0, kChunkFramesMax, &out->codec_left_context_frames);
  read_ramp(&fields, &out->codec_chunk_ramp);
  int64_t ring_bytes = 0;
  if (fields.read_int("ring_bytes", kRingBytesMin, kRingBytesMax, &ring_bytes)) {
    if (std::has_single_bit(static_cast<uint64_t>(ring_bytes)))
      out->ring_bytes = static_cast<uint64_t>(ring_bytes);
    else
      problems->add(*fields.get("ring_bytes"),
                    "must be a power of two, got " + std::to_string(ring_bytes));
  }
  fields.finish("extra");
}

}  // namespace

ConnectorConfig read_connector(const Value& value, const std::string& name, Problems* problems) {
  ConnectorConfig out;
  out.name = name;
  out.kind = kShm;
  if (!value.is_map()) {
    problems->add(value, "must be a map {name, extra}, got " + describe(value));
    return out;
  }
  Fields fields(value, problems);
  std::string kind;
  if (fields.read_text("name", limits::kNameBytesMax, &kind) && kind != kShm) {
    constexpr auto kOthers = std::to_array<std::string_view>(
        {"MooncakeStoreConnector", "MooncakeConnector", "MooncakeTransferEngineConnector",
         "MoriTransferEngineConnector", "NixlConnector", "YuanrongConnector",
         "YuanrongTransferEngineConnector"});
    bool known = false;
    for (std::string_view other : kOthers) known = known || other == kind;
    if (known)
      problems->add(*fields.get("name"),
                    kind +
                        " is not supported: there are no network connectors in this release; use " +
                        std::string(kShm),
                    StatusCode::kUnsupported);
    else
      problems->add(*fields.get("name"),
                    "unknown connector; must be " + std::string(kShm) + ", got " + kind);
  } else if (kind.empty() && value.find("name") == nullptr) {
    problems->add(value, "needs a name: " + std::string(kShm));
  }
  if (const Value* extra = fields.get("extra")) read_extra(*extra, problems, &out);
  fields.finish("a connector");
  return out;
}

}  // namespace omnistage::config
