// The first words between client and supervisor: connect, Hello, Welcome. Blocks the caller up to a
// time limit; pure apart from the sockets given.
#pragma once

#include <string>
#include <vector>

#include "capi/client/supervisor_process.h"
#include "capi/state/stage_graph.h"
#include "shm/control/control_socket.h"

namespace omnistage::capi {

// Connects to run_dir/omnistage.sock. Errors: kNotFound when nothing listens there, kInvalid for a
// path too long.
Result<UniqueFd> connect_to(const std::string& run_dir);

// Says Hello and waits for the Welcome. Errors: the supervisor's own words if it refuses; how it
// ended if `supervisor` (may be null) ended; kBusy when the time is over.
Result<control::Welcome> shake_hands(control::ControlSocket& socket, SupervisorProcess* supervisor,
                                     int64_t timeout_ns);

std::vector<StageNode> to_nodes(const control::Welcome& welcome);

}  // namespace omnistage::capi
