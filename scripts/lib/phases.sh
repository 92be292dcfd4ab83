# The phases of scripts/test: what each does, its budget in minutes, and the closing table. Sourced by test,
# which holds the build lock.
# shellcheck shell=bash

all_phases=(setup lint release links unit integration stress asan tsan fuzz cuda)
quick_phases=(setup lint release links unit integration stress)

# Minutes; printed beside what was needed. A slow machine is not a failure, so nothing is enforced here.
declare -A phase_budget=([setup]=7 [lint]=1 [release]=12 [links]=1 [unit]=5 [integration]=7 [stress]=5 [asan]=8 [tsan]=6 [fuzz]=5 [cuda]=2)
declare -A phase_passed=() phase_failed=() phase_skipped=() phase_minutes=() phase_note=()

# run_ctest PHASE BUILD JOBS ARGUMENT...: runs ctest with its output shown and kept, and adds up its counts.
run_ctest() {
  local phase=$1 folder=$oms_root/build/$2 jobs=$3 status=0 log=$oms_root/build/$1.log total failed skipped
  shift 3
  # ctest exits 0 when no test matches a label; such a phase shows as "0 passed".
  ctest --test-dir "$folder" --output-on-failure --no-tests=ignore -j "$jobs" "$@" 2>&1 </dev/null |
    tee "$log" | grep --line-buffered -vE '^ *Start ' || status=${PIPESTATUS[0]}
  total=$(grep -oE 'tests failed out of [0-9]+' "$log" | grep -oE '[0-9]+$' | tail -1 || true)
  failed=$(grep -oE '[0-9]+ tests failed out of' "$log" | grep -oE '^[0-9]+' | tail -1 || true)
  skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test.*\*\*\*(Skipped|Not Run)' "$log" || true)
  phase_passed[$phase]=$((${phase_passed[$phase]:-0} + ${total:-0} - ${failed:-0} - skipped))
  phase_failed[$phase]=$((${phase_failed[$phase]:-0} + ${failed:-0}))
  phase_skipped[$phase]=$((${phase_skipped[$phase]:-0} + skipped))
  if ((status != 0)); then
    phase_note[$phase]=$(sed -n '/^The following tests FAILED/,$ s/^[[:space:]]*[0-9]* - \([^ ]*\).*/\1/p' "$log" | paste -sd' ')
    return 1
  fi
}

# Names of the tests with label regex $2 and name regex $3 in build $1 that are also build targets.
test_targets() {
  local folder=$oms_root/build/$1
  ctest --test-dir "$folder" -N -L "$2" -R "$3" | sed -nE 's/^ *Test +#[0-9]+: (.*)$/\1/p' | sort >"$folder/.wanted"
  ninja -C "$folder" -t targets all | sed -nE 's/^([A-Za-z0-9_]+): phony$/\1/p' | sort | comm -12 - "$folder/.wanted"
}

# Where data races matter: everything that is shared between threads or processes, and the engine core.
readonly tsan_tests='shm|ring|edge|segment|pool|lease|credit|wait|engine|scheduler|runner|transfer|adapter|link|capi|client|log'

phase_setup() { "$oms_scripts/setup" --tests </dev/null; }
phase_lint() { "$oms_scripts/lint" </dev/null; }
phase_release() { build_preset release; }
phase_links() { "$oms_scripts/lint" --links release </dev/null; }
phase_unit() { run_ctest unit release "$(nproc)" -L '^(unit|conformance)$'; }
phase_integration() { run_ctest integration release 1 -L '^(integration|golden)$'; }
phase_stress() { run_ctest stress release 1 -L '^(sim|stress|chaos)$'; }
phase_asan() {
  build_preset asan
  run_ctest asan asan "$(nproc)" -L '^(unit|conformance|sim)$' || return 1
  run_ctest asan asan 1 -L '^integration$'
}
phase_tsan() {
  local targets
  build_preset tsan build.ninja
  mapfile -t targets < <(test_targets tsan '^(unit|conformance|sim)$' "$tsan_tests")
  ((${#targets[@]})) || { say "no test matches the names that TSan watches"; return 1; }
  build_preset tsan "${targets[@]}"
  run_ctest tsan tsan "$(nproc)" -L '^(unit|conformance|sim)$' -R "$tsan_tests"
}
phase_fuzz() {
  local targets
  build_preset fuzz build.ninja
  mapfile -t targets < <(test_targets fuzz '^fuzz$' '.')
  ((${#targets[@]})) || { say "there are no fuzz targets"; return 1; }
  build_preset fuzz "${targets[@]}"
  run_ctest fuzz fuzz "$(nproc)" -L '^fuzz$'
}
# Compiles and links the CUDA parts and their test; running it takes a GPU, see tests/device/run.
phase_cuda() {
  if ! command -v nvcc >/dev/null && [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
    phase_note[cuda]="skipped: no nvcc"
    say "no nvcc on this machine; the CUDA parts are not compiled"
    return 0
  fi
  build_preset cuda build.ninja
  build_preset cuda device_kernels_cuda
}

print_table() {
  local phase passed=0 failed=0 skipped=0 total=0
  printf '\n%-12s %8s %8s %8s %8s %8s\n' phase minutes budget passed failed skipped
  for phase in "$@"; do
    [[ -n ${phase_minutes[$phase]:-} ]] || continue
    printf '%-12s %8s %8s %8s %8s %8s  %s\n' "$phase" "${phase_minutes[$phase]}" "${phase_budget[$phase]}" \
      "${phase_passed[$phase]:--}" "${phase_failed[$phase]:--}" "${phase_skipped[$phase]:--}" "${phase_note[$phase]:-}"
    passed=$((passed + ${phase_passed[$phase]:-0}))
    failed=$((failed + ${phase_failed[$phase]:-0}))
    skipped=$((skipped + ${phase_skipped[$phase]:-0}))
    total=$((total + ${phase_seconds[$phase]}))
  done
  printf '%-12s %8s %8s\n\n' all "$(awk "BEGIN { printf \"%.1f\", $total / 60 }")" 58
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
}

# A phase that failed before any test could counts as one failure, so that the closing line cannot hide it.
count_failure() {
  if [[ ${phase_failed[$1]:-0} == 0 ]]; then phase_failed[$1]=1; fi
}

phase_log() {
  if [[ -e $oms_root/build/$1.log ]]; then echo "log: build/$1.log"; else echo "see above"; fi
}

declare -A phase_seconds=()
run_phases() {
  local phase started status bad=0
  for phase in "$@"; do
    printf '\n== %s ==\n' "$phase"
    started=$SECONDS
    status=0
    # A subshell would lose the counts; a build step that dies must not cost the table, hence the exit trap.
    trap 'end_child; clear_ticker; phase_broke "$phase" "$started"; print_table "${all_phases[@]}"' EXIT
    "phase_$phase" || status=$?
    trap - EXIT
    phase_seconds[$phase]=$((SECONDS - started))
    phase_minutes[$phase]=$(awk "BEGIN { printf \"%.1f\", ${phase_seconds[$phase]} / 60 }")
    printf -- '-- %s: %s min of %s\n' "$phase" "${phase_minutes[$phase]}" "${phase_budget[$phase]}"
    if ((status != 0)); then
      bad=1
      count_failure "$phase"
      say "phase $phase failed${phase_note[$phase]:+: ${phase_note[$phase]}}; $(phase_log "$phase")"
      # Nothing can be tested without these.
      [[ $phase == setup || $phase == release ]] && break
    fi
  done
  print_table "$@"
  return "$bad"
}

phase_broke() {
  phase_seconds[$1]=$((SECONDS - $2))
  phase_minutes[$1]=$(awk "BEGIN { printf \"%.1f\", ${phase_seconds[$1]} / 60 }")
  count_failure "$1"
  phase_note[$1]="did not build or did not run"
}
