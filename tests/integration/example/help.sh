#!/usr/bin/env bash
# help.sh OMNISTAGE SOURCE_DIR: every option of `omnistage speak` is in the help of scripts/speak, and the other way round.
set -euo pipefail
options() { grep -oE '^ +(-[a-z], *)?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort; }
options < <("$1" speak --help) >"${TMPDIR:-/tmp}/oms-help.$$"
trap 'rm -f "${TMPDIR:-/tmp}/oms-help.$$"' EXIT
[[ -s ${TMPDIR:-/tmp}/oms-help.$$ ]]
options < <("$2/scripts/speak" --help) | diff "${TMPDIR:-/tmp}/oms-help.$$" -
