# Helpers of all scripts: messages, folders, long commands with progress. Sourced, never run.
# shellcheck shell=bash

oms_scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
oms_root=$(dirname "$oms_scripts")
oms_name=${0##*/}

# One line on stderr, so that what a script prints for others stays clean.
say() { printf '%s: %s\n' "$oms_name" "$*" >&2; }
die() {
  local code=1
  if [[ $1 == --code=* ]]; then code=${1#--code=}; shift; fi
  clear_ticker
  say "$*"
  exit "$code"
}

oms_cache_dir() {
  if [[ -n ${OMNISTAGE_CACHE:-} ]]; then
    printf '%s\n' "$OMNISTAGE_CACHE"
  elif [[ -n ${XDG_CACHE_HOME:-} ]]; then
    printf '%s\n' "$XDG_CACHE_HOME/omnistage"
  elif [[ -n ${HOME:-} ]]; then
    printf '%s\n' "$HOME/.cache/omnistage"
  else
    die "HOME is not set; set OMNISTAGE_CACHE to a folder for downloads"
  fi
}

megabytes() { printf '%d MB' $((($1 + 999999) / 1000000)); }

# Processes that may run at once: the cores this process is allowed to use.
oms_jobs() { nproc; }

# --- a line that moves on a terminal, or a plain line now and then in a log ---
oms_ticker_open=0
oms_ticker_last=-100
tick() {
  if [[ -t 2 ]]; then
    printf '\r\033[K%s: %s' "$oms_name" "$*" >&2
    oms_ticker_open=1
  elif ((SECONDS - oms_ticker_last >= 15)); then
    say "$*"
    oms_ticker_last=$SECONDS
  fi
}
clear_ticker() {
  if ((oms_ticker_open)); then printf '\r\033[K' >&2; oms_ticker_open=0; fi
}

# run_logged LOG FUNCTION COMMAND...: runs COMMAND in the background with its output in LOG and calls FUNCTION
# (may be `:`) twice a second; returns the command's status. The child is ended when the script is.
oms_child=
run_logged() {
  local log=$1 progress=$2 status=0
  shift 2
  oms_ticker_last=-100
  "$@" >"$log" 2>&1 </dev/null &
  oms_child=$!
  while kill -0 "$oms_child" 2>/dev/null; do
    "$progress"
    sleep 0.5 || true
  done
  wait "$oms_child" || status=$?
  oms_child=
  clear_ticker
  return "$status"
}

end_child() {
  [[ -n $oms_child ]] || return 0
  local children
  children=$(ps -o pid= --ppid "$oms_child" 2>/dev/null || true)
  # shellcheck disable=SC2086
  kill -TERM "$oms_child" $children 2>/dev/null || true
  wait "$oms_child" 2>/dev/null || true
  oms_child=
}

# lock_file FILE WHAT: takes an exclusive lock on file descriptor 9 for the rest of the script; says so if
# somebody else holds it.
lock_file() {
  exec 9>>"$1" || die "cannot write $1"
  if ! flock -n 9; then
    say "another process is $2; waiting for it"
    flock 9 || die "cannot lock $1"
  fi
}
