#!/bin/sh
# Size of a report on many runs, and the time in which headless Chromium opens it, in turn with an
# empty page: the difference is what the page itself takes.
# Usage: bench/report.sh [RUNS] [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
runs=${1:-1000}
rounds=${2:-7}
browser=$(command -v chromium || command -v chromium-browser || true)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM

cargo build --release -q --target-dir target -p linerate
target/release/linerate udp --local -b 20M -t 1s --interval 100ms --json > "$folder/run.json"
i=0
while [ "$i" -lt "$runs" ]; do
    # Different in its numbers, so that compression finds no more than it would.
    jq -c --argjson i "$i" '.id += "-\($i)" | .intervals |= map(
        .receiver.bits_per_second *= (1 + (($i * 7919 + .end_s * 104729) % 1000) / 5000)
        | .receiver.jitter_s *= (1 + (($i * 31 + .end_s * 7) % 97) / 97)
        | .sender.cpu.core_percent = (($i * 13 + .end_s * 17) % 100)
        | .receiver.cpu.core_percent = (($i * 29 + .end_s * 11) % 100))' "$folder/run.json"
    i=$((i + 1))
done > "$folder/runs.jsonl"

echo "== $runs runs, $(wc -c < "$folder/runs.jsonl") bytes of records"
/usr/bin/time -f "made in %e s with %M kB" target/release/linerate report "$folder/runs.jsonl" -o "$folder/report.html"
echo "size $(wc -c < "$folder/report.html") bytes (at most 5000000)"
[ "$(wc -c < "$folder/report.html")" -lt 5000000 ]
if [ -z "$browser" ]; then
    echo "SKIP: chromium is not installed: NO TIME TAKEN"
    exit 0
fi
printf '<!doctype html><title>empty</title>' > "$folder/empty.html"

# Milliseconds from the start of the browser until it has the whole page.
open_page() {
    before=$(date +%s%N)
    "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync \
        --user-data-dir="$folder/profile-$1-$2" --dump-dom "file://$folder/$1.html" > /dev/null 2>&1
    echo $((($(date +%s%N) - before) / 1000000))
}
open_page empty warm > /dev/null
open_page report warm > /dev/null
round=0
while [ "$round" -lt "$rounds" ]; do
    echo "$(open_page empty "$round") $(open_page report "$round")"
    round=$((round + 1))
done > "$folder/times"
awk '{ print "empty " $1 " ms, report " $2 " ms, the page itself " $2 - $1 " ms" }' "$folder/times"
middle() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }
empty=$(awk '{ print $1 }' "$folder/times" | middle)
report=$(awk '{ print $2 }' "$folder/times" | middle)
echo "medians: empty $empty ms, report $report ms, the page itself $((report - empty)) ms (at most 2000)"
[ $((report - empty)) -le 2000 ]
