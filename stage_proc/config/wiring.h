// The graph: edges with their connectors, and the checks between stages.
#pragma once

#include "stage_proc/config/readers.h"

namespace omnistage::config {

// Fills config->edges from input_sources, `edges`, `connectors` and the stages'
// input_/output_connectors, then checks ids, names, sources, circles, entry and final stages.
// REQUIRES: entries sorted by stage_id.
void wire_stages(const Value& document, std::vector<StageEntry>* entries, Problems* problems,
                 std::vector<EdgeConfig>* edges);

}  // namespace omnistage::config
