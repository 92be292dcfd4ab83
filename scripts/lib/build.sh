# Building presets, one builder at a time per checkout. Sourced by speak and test.
# shellcheck shell=bash

# Torch files take up to 1.4 GB each to compile.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 1400000) }' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

# build_is_fresh speak: true when the programs of `speak` were built from the present sources and the set-up's
# files are in the cache. A few milliseconds.
build_is_fresh() {
  local stamp=$oms_root/build/release/.$1-built cache part
  [[ -e $stamp && -x $oms_root/build/release/bin/omnistage ]] || return 1
  cache=$(oms_cache_dir)
  for part in libtorch-2.11.0 models/smollm2-135m-instruct models/hibari; do
    [[ -e $cache/$part/.stamp ]] || return 1
  done
  cd "$oms_root"
  local newer
  newer=$(find include shm cache stage_proc capi bindings cmake scripts/pins.txt CMakeLists.txt CMakePresets.json \
    -newer "$stamp" -print -quit)
  cd "$OLDPWD"
  [[ -z $newer ]]
}

build_progress() {
  local last
  last=$(tail -c 400 "$oms_build_log" 2>/dev/null | grep -aoE '^\[[0-9]+/[0-9]+\]' | tail -1)
  tick "building $oms_preset ${last:-[configuring]}"
}

# Runs a build step with its output in build/<preset>.log; on failure shows the part that matters.
build_step() {
  local status=0
  run_logged "$oms_build_log" build_progress "$@" || status=$?
  ((status == 0)) && return
  if grep -qi 'no space left on device' "$oms_build_log"; then
    die --code=4 "the disk of $oms_root is full: free some space and run this again"
  fi
  grep -aE -A 12 'FAILED:|CMake Error|error:' "$oms_build_log" | head -40 >&2 || true
  die "building $oms_preset failed; the whole log: $oms_build_log"
}

# build_preset PRESET [TARGET...]: configures when needed and builds; without targets everything. The caller
# has the lock.
build_preset() {
  oms_preset=$1
  local folder=$oms_root/build/$1 cache tests=OFF bench=OFF
  shift
  oms_build_log=$oms_root/build/$oms_preset.log
  mkdir -p "$folder"
  cache=$(oms_cache_dir)
  # `speak` works without the packages of the tests; once they are installed the build takes the tests in.
  [[ -e /usr/include/gtest/gtest.h ]] && tests=ON
  [[ $tests == ON && $oms_preset == release ]] && bench=ON
  # CMake remembers all this; a difference means asking again.
  if [[ ! -e $folder/build.ninja ]] || ! grep -qx "OMNISTAGE_TESTS:BOOL=$tests" "$folder/CMakeCache.txt" ||
    ! grep -qx "OMNISTAGE_BENCH:BOOL=$bench" "$folder/CMakeCache.txt" ||
    ! grep -q "^OMNISTAGE_LIBTORCH:[A-Z]*=$cache/" "$folder/CMakeCache.txt"; then
    build_step env -C "$oms_root" cmake --preset "$oms_preset" -DOMNISTAGE_LIBTORCH="$cache/libtorch-2.11.0" \
      -DOMNISTAGE_TESTS="$tests" -DOMNISTAGE_BENCH="$bench"
  fi
  build_step cmake --build "$folder" -j "$(build_jobs)" -- "$@"
}

# What ends up in bin/ and lib/: the programs, libomnistage.so and the model plug-ins, but no tests and tools.
product_targets() {
  ninja -C "$oms_root/build/release" -t targets all |
    sed -nE 's#^((bin/omnistage|lib/)[^:]*): ((C|CXX)_(EXECUTABLE|SHARED|MODULE)_[A-Z_]*LINKER|CMAKE_SYMLINK_LIBRARY).*#\1#p'
}

lock_build() {
  mkdir -p "$oms_root/build"
  lock_file "$oms_root/build/.lock" "building in $oms_root"
}

# build_release speak|all
build_release() {
  lock_build
  trap 'end_child; clear_ticker; say "interrupted; run this again to continue"; exit 130' INT TERM HUP
  if [[ $1 == speak ]] && build_is_fresh speak; then return; fi  # somebody else built while we waited
  local began=$oms_root/build/.began targets=()
  touch "$began"
  build_preset release build.ninja
  if [[ $1 == speak ]]; then mapfile -t targets < <(product_targets); fi
  build_preset release "${targets[@]}"
  mv "$began" "$oms_root/build/release/.speak-built"
  exec 9>&-
  trap - INT TERM HUP
}

# setup_from_script ARGUMENT...: set-up whose questions (sudo) go to the terminal even when our standard input
# is a pipe.
setup_from_script() {
  if { : </dev/tty; } 2>/dev/null; then "$oms_scripts/setup" "$@" </dev/tty; else "$oms_scripts/setup" "$@" </dev/null; fi
}
