# Debian packages by name, from packages.txt. Sourced by setup.
# shellcheck shell=bash

# wanted_packages SET...: names of all packages in these sets.
wanted_packages() {
  local set name rest wanted=" $* "
  while read -r set name rest; do
    [[ $set == \#* || -z $name ]] || [[ $wanted != *" $set "* ]] || printf '%s\n' "$name"
  done <"$oms_scripts/packages.txt"
}

# missing_packages SET...: those that are not installed. One dpkg-query, about 20 ms.
missing_packages() {
  local names state name
  local -A installed=()
  mapfile -t names < <(wanted_packages "$@")
  while read -r state name; do
    [[ $state == ii ]] && installed[$name]=1
  done < <(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${names[@]}" 2>/dev/null || true)
  for name in "${names[@]}"; do
    [[ -n ${installed[$name]:-} ]] || printf '%s\n' "$name"
  done
}

packages_progress() { tick "installing Debian packages (log: $oms_apt_log), ${SECONDS} s"; }

install_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    die --code=3 "this is no Debian system; install the counterparts of: $(wanted_packages "$@" | paste -sd' ')"
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null || { [[ ! -t 0 ]] && ! sudo -n true 2>/dev/null; }; then
      die --code=3 "no root and no sudo: ask an administrator to run: apt-get install ${missing[*]}"
    fi
    as_root=(sudo)
    [[ -t 0 ]] && { sudo -v || die --code=3 "sudo was refused; ask an administrator to run: apt-get install ${missing[*]}"; }
  fi
  oms_apt_log=$(mktemp "${TMPDIR:-/tmp}/omnistage-apt.XXXXXX")
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local options=(-q -o DPkg::Lock::Timeout=600) status=0
  run_logged "$oms_apt_log" packages_progress \
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" update || status=$?
  # An outdated list is no reason to stop: the packages may be in it, or in apt's cache.
  ((status == 0)) || say "apt-get update failed; trying with the package lists that are there"
  status=0
  run_logged "$oms_apt_log" packages_progress \
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y \
    --no-install-recommends "${missing[@]}" || status=$?
  if ((status != 0)); then
    if grep -qi 'no space left on device\|not have enough free space' "$oms_apt_log"; then
      die "the disk is full: free some space, then run scripts/setup again (log: $oms_apt_log)"
    fi
    grep '^E:' "$oms_apt_log" | tail -3 >&2 || true
    die "cannot install: ${missing[*]}; see $oms_apt_log"
  fi
  rm -f "$oms_apt_log"
}
