#!/bin/sh
# Two measurements of `linerate compare` and `linerate ministat`:
#  1. how often the same setting, measured twice, is called different (10,000 trials; two minutes);
#  2. time and memory for ten million values, beside Debian's ministat where that is installed.
# Usage: bench/compare.sh [TRIALS]
set -eu
cd "$(dirname "$0")/.."

cargo build --release --target-dir target -p linerate
cargo build --release --target-dir target -p linerate-report --example false_alarms
echo "== false alarms"
target/release/examples/false_alarms "${1:-10000}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
awk 'BEGIN { srand(1); for (i = 0; i < 10000000; i++)
    printf "%.2f\n", 294963 + 1826 * sqrt(-2 * log(1 - rand())) * cos(6.283185307 * rand()) }' \
    > "$folder/ten-million.stat"

measure() {
    for round in 1 2 3; do
        /usr/bin/time -f "%e s, %M kB: $1" "$@" > "$folder/out" || true
    done
    # Two programs that did not run would have said the same.
    [ -s "$folder/out" ] || { echo "$1 printed nothing; Debian's package time has /usr/bin/time" >&2; exit 1; }
}
echo "== ten million values (80,000 kB as doubles), best of three counts"
measure target/release/linerate ministat -n "$folder/ten-million.stat"
cp "$folder/out" "$folder/ours"
if command -v ministat > /dev/null; then
    measure ministat -n "$folder/ten-million.stat"
    cmp "$folder/ours" "$folder/out"
    echo "same text"
else
    echo "SKIP: ministat is not installed: NOTHING TO COMPARE THE TIME WITH"
fi
measure target/release/linerate compare "$folder/ten-million.stat"
