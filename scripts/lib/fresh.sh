# scripts/setup --check-fresh: a minimal Debian 12 with an empty cache. Everything runs in a mount and process
# namespace of its own: whatever happens to the script, mounts and processes are gone with it; the folder is
# removed on exit. Sourced by setup.
# shellcheck shell=bash

# fresh_sources DIR: copies those apt sources of this machine that are Debian 12's own into DIR/etc/apt.
fresh_sources() {
  local file
  mkdir -p "$1/etc/apt/sources.list.d"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list; do
    [[ -s $file ]] && grep -Eq '\bbookworm(-security|-updates)?( |$)' "$file" && cp "$file" "$1${file}"
  done
  # Proxies and the like; rules about what to keep are this machine's business.
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    [[ -s $file ]] && grep -q '^ *Acquire::' "$file" && { mkdir -p "$1/etc/apt/apt.conf.d"; cp "$file" "$1$file"; }
  done
  return 0
}

# The address debootstrap takes packages from: the first one of the copied sources.
fresh_mirror() {
  grep -hE '^(URIs:|deb ).*' "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* 2>/dev/null |
    grep -v security | grep -oE '[a-z+]+:/[^] ]+' | head -1 || true
}

# Settings that a person carries to a new machine behind the same network: certificates, pip, proxies, names.
fresh_settings() {
  local dir=$1 name value
  mkdir -p "$dir/etc/ssl/certs" "$dir/usr/local/share" "$dir/root"
  cp /etc/resolv.conf /etc/hosts "$dir/etc/" 2>/dev/null || true
  if [[ -d /usr/local/share/ca-certificates ]]; then cp -r /usr/local/share/ca-certificates "$dir/usr/local/share/"; fi
  [[ -r /etc/pip.conf ]] && cp /etc/pip.conf "$dir/etc/"
  for name in .config/pip/pip.conf .pip/pip.conf; do
    [[ -r ${HOME:-/root}/$name ]] && { mkdir -p "$dir/root/${name%/*}"; cp "${HOME:-/root}/$name" "$dir/root/$name"; }
  done
  {
    while IFS='=' read -r -d '' name value; do
      case $name in
        PIP_FIND_LINKS) [[ -d $value ]] || continue ;;
        PIP_* | *_proxy | *_PROXY | SSL_CERT_* | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE) ;;
        *) continue ;;
      esac
      printf 'export %s=%q\n' "$name" "$value"
    done </proc/self/environ
  } >"$dir/root/carried.sh"
}

# The certificates of this machine must outlive the installation of ca-certificates, which writes its own bundle.
fresh_certificates() {
  mkdir -p "$1/etc/ssl/carried"
  if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then
    cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/carried/ca.crt"
    cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
    sed -i 's#/etc/ssl/certs/ca-certificates.crt#/etc/ssl/carried/ca.crt#' "$1/root/carried.sh"
    # An apt source may be reached over https before ca-certificates is there.
    mkdir -p "$1/etc/apt/apt.conf.d"
    echo 'Acquire::https::CAInfo "/etc/ssl/carried/ca.crt";' >"$1/etc/apt/apt.conf.d/90carried-certificates"
    for name in etc/pip.conf root/.config/pip/pip.conf root/.pip/pip.conf; do
      [[ -e $1/$name ]] && sed -i 's#/etc/ssl/certs/ca-certificates.crt#/etc/ssl/carried/ca.crt#' "$1/$name"
    done
  fi
  return 0
}

# What runs inside; prints lines "figure NAME VALUE" for the table.
fresh_inside() {
  cat <<'TEXT'
set -eu
. /root/carried.sh
export LC_ALL=C.UTF-8 HOME=/root
cd /root/omnistage
installed() { dpkg-query -W -f '${Installed-Size}\n' | awk '{ s += $1 } END { printf "%d %d\n", NR, s / 1024 }'; }
seconds() { # seconds NAME COMMAND...
  name=$1; shift
  start=$(date +%s%N)
  "$@" || { echo "figure $name FAILED"; exit 1; }
  end=$(date +%s%N)
  echo "figure $name $(( (end - start) / 1000000 )) ms"
}
before=$(installed)
sizes() {
  set -- $before $(installed)
  echo "figure Debian packages added: $(( $3 - $1 )), $(( $4 - $2 )) MB"
  echo "figure cache: $(du -sm /root/.cache/omnistage | cut -f1) MB"
  [ ! -d build ] || echo "figure build folder: $(du -sm build | cut -f1) MB"
}
trap sizes EXIT
seconds "Debian packages:" scripts/setup --only packages
seconds "libtorch and models:" scripts/setup
seconds "set-up again:" scripts/setup
case $FRESH_MODE in setup) exit ;; esac
seconds "first speak (builds):" scripts/speak --seed 1 --out /root/first.wav "Why is the sky blue?" </dev/null
seconds "second speak:" scripts/speak --seed 1 --out /root/second.wav "Why is the sky blue?" </dev/null
cmp /root/first.wav /root/second.wav || { echo "figure the two answers differ"; exit 1; }
case $FRESH_MODE in
  quick) seconds "scripts/test --quick:" scripts/test --quick ;;
  full) seconds "scripts/test:" scripts/test ;;
esac
TEXT
}

check_fresh() {
  local mode=$1 dir mirror status=0 started=$SECONDS
  ((EUID == 0)) || die --code=3 "--check-fresh needs root (debootstrap and chroot)"
  command -v debootstrap >/dev/null || die --code=3 "--check-fresh needs the Debian package debootstrap"
  dir=$(mktemp -d "${OMNISTAGE_FRESH_DIR:-/tmp}/omnistage-fresh.XXXXXX")
  chmod 755 "$dir"
  # shellcheck disable=SC2064
  trap "end_child; clear_ticker; rm -rf --one-file-system '$dir' '$dir.log'" EXIT
  trap 'say "interrupted"; exit 130' INT TERM HUP
  mkdir "$dir/root"
  fresh_sources "$dir"
  mirror=$(fresh_mirror "$dir")
  [[ -n $mirror ]] || die "cannot find the address of Debian 12 in this machine's /etc/apt"
  cp -r "$dir/etc" "$dir.etc"
  # shellcheck disable=SC2064
  trap "end_child; clear_ticker; say 'removing $dir'; rm -rf --one-file-system '$dir' '$dir.etc' '$dir.log'" EXIT
  fresh_progress() { tick "making a minimal Debian 12 in $dir, $((SECONDS - started)) s"; }
  run_logged "$dir.log" fresh_progress unshare --mount --propagation private --pid --fork --kill-child \
    debootstrap --variant=minbase bookworm "$dir" "$mirror" || { tail -5 "$dir.log" >&2; die "debootstrap failed"; }
  say "minimal Debian 12 after $((SECONDS - started)) s, $(du -sm "$dir" | cut -f1) MB"
  rm -rf "$dir/etc/apt/sources.list" "$dir/etc/apt/sources.list.d"
  cp -r "$dir.etc/apt/." "$dir/etc/apt/"
  fresh_settings "$dir"
  fresh_certificates "$dir"
  git clone --quiet --no-hardlinks "$oms_root" "$dir/root/omnistage"
  fresh_inside >"$dir/root/run.sh"
  # </dev/null: nobody answers questions. The namespaces end with the command, and all processes and mounts in them.
  # shellcheck disable=SC2016
  FRESH_MODE=$mode run_logged_here unshare --mount --propagation private --pid --fork --kill-child \
    bash -euc '
      cd "$1"
      mount -t proc proc proc
      mount -t tmpfs -o mode=755 dev dev
      mkdir dev/shm dev/pts
      mount -t tmpfs -o mode=1777 shm dev/shm
      for name in null zero full random urandom tty; do touch "dev/$name"; mount --bind "/dev/$name" "dev/$name"; done
      ln -s /proc/self/fd dev/fd
      exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin FRESH_MODE="$FRESH_MODE" bash /root/run.sh
    ' fresh "$dir" | tee "$dir.log" || status=$?
  say "figures of this run:"
  sed -n 's/^figure /  /p' "$dir.log"
  printf '  the whole check %s s\n' "$((SECONDS - started))"
  ((status == 0)) || die "the fresh system failed; see above"
}

run_logged_here() { "$@" </dev/null 2>&1; }
