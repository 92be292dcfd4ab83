#include "stage_proc/models/hibari/text/json_reader.h"
#include "stage_proc/models/hibari/text/normalizer.h"

namespace omnistage::hibari {
namespace {

constexpr size_t kEntriesMax = 4096;

bool read_text(JsonReader& reader, Text* out) {
  std::string_view value;
  if (!reader.string(&value)) return false;
  *out = decode_utf8(value);
  return true;
}

bool read_words(JsonReader& reader, NormalizerTables::Words* out) {
  return reader.object([&](std::string_view key) {
    if (out->size() >= kEntriesMax) return reader.fail("more than 4096 entries");
    Text value;
    if (!read_text(reader, &value)) return false;
    out->emplace_back(decode_utf8(key), std::move(value));
    return true;
  });
}

bool read_list(JsonReader& reader, std::vector<Text>* out) {
  return reader.array([&] {
    if (out->size() >= kEntriesMax) return reader.fail("more than 4096 entries");
    return read_text(reader, &out->emplace_back());
  });
}

bool read_plurals(JsonReader& reader, NormalizerTables::Plurals* out) {
  return reader.object([&](std::string_view key) {
    if (out->size() >= kEntriesMax) return reader.fail("more than 4096 entries");
    std::vector<Text> forms;
    if (!read_list(reader, &forms)) return false;
    if (forms.size() != 2) return reader.fail("expected a singular and a plural");
    out->emplace_back(decode_utf8(key), std::make_pair(std::move(forms[0]), std::move(forms[1])));
    return true;
  });
}

}  // namespace

Result<NormalizerTables> NormalizerTables::load(const std::string& path) {
  StringPool pool;
  OMS_ASSIGN_OR_RETURN(JsonReader reader, JsonReader::open(path, &pool));
  NormalizerTables t;
  reader.object([&](std::string_view key) {
    if (key == "months") return read_words(reader, &t.months);
    if (key == "titles") return read_words(reader, &t.titles);
    if (key == "abbreviations") return read_words(reader, &t.abbreviations);
    if (key == "symbols") return read_words(reader, &t.symbols);
    if (key == "units") return read_plurals(reader, &t.units);
    if (key == "currency") return read_plurals(reader, &t.currency);
    if (key == "roman_cardinal") return read_list(reader, &t.roman_cardinal);
    if (key == "roman_ordinal") return read_list(reader, &t.roman_ordinal);
    return reader.fail("unknown table '" + std::string(key) + "'");
  });
  reader.finish();
  OMS_RETURN_IF_ERROR(reader.status());
  if (t.months.size() != 12) return invalid(path + ": months needs 12 entries");
  for (const auto* words : {&t.titles, &t.abbreviations, &t.symbols}) {
    if (words->empty())
      return invalid(path + ": titles, abbreviations and symbols must not be empty");
  }
  if (t.units.empty() || t.currency.empty() || t.roman_cardinal.empty() ||
      t.roman_ordinal.empty()) {
    return invalid(path + ": units, currency, roman_cardinal and roman_ordinal must not be empty");
  }
  return t;
}

}  // namespace omnistage::hibari
