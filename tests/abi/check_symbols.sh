#!/bin/bash
# Three lists of names have to agree: declared in the header, listed in the version script, exported by the library.
# And the library needs nothing beyond the C and C++ runtimes.
# usage: check_symbols.sh LIBRARY HEADER MAP SANITIZER
set -euo pipefail
library=$1 header=$2 map=$3 sanitizer=$4
declared=$(grep -oE '\boms_[a-z0-9_]+\(' "$header" | tr -d '(' | sort -u)
listed=$(grep -oE '\boms_[a-z0-9_]+;' "$map" | tr -d ';' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
bad=0
compare() {
  if ! difference=$(diff <(echo "$2") <(echo "$4")); then
    printf '%s (<) and %s (>) differ:\n%s\n' "$1" "$3" "$difference"
    bad=1
  fi
}
compare header "$declared" 'version script' "$listed"
# A sanitizer build exports the marks of its runtime too.
[[ -n $sanitizer ]] || compare 'version script' "$listed" library "$exported"
[[ $(wc -l <<<"$declared") -ge 30 ]] || { echo "only $(wc -l <<<"$declared") names found in $header"; bad=1; }
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
while read -r name; do
  case $name in
    libstdc++.so.6 | libgcc_s.so.1 | libm.so.6 | libc.so.6 | ld-linux-*) ;;
    libasan.so.* | libubsan.so.* | libtsan.so.*) [[ -n $sanitizer ]] || { echo "needs $name"; bad=1; } ;;
    *) echo "needs $name"; bad=1 ;;
  esac
done <<<"$needed"
readelf -d "$library" | grep -q 'SONAME.*libomnistage\.so\.0\]' || { echo 'the soname is not libomnistage.so.0'; bad=1; }
exit $bad
