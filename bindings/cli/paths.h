// Where things lie relative to this program: in a build tree and when installed.
#pragma once

#include <string>

namespace omnistage_cli {

// The folder of the running program; empty if the system does not tell.
std::string program_folder();
// $OMNISTAGE_DEPLOY, else speak.yaml around the program. Empty: not found, `tried` lists the
// places.
std::string default_deploy(std::string& tried);
// omnistage-supervisor in $OMNISTAGE_BIN_DIR or beside the program.
std::string supervisor_program();

}  // namespace omnistage_cli
