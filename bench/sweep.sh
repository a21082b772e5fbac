#!/bin/sh
# The whole default sweep, both ways and zoomed (11 rates x 2 directions, trials of 2 s), through a router
# whose token buckets carry FORWARD and REVERSE Mbit/s: ends in less than 3 minutes, and each bend
# is bracketed around size / (size + 42) of the bucket's rate. Needs root, iproute2 and ethtool.
# Usage: bench/sweep.sh [FORWARD [REVERSE]]
set -eu
cd "$(dirname "$0")/.."
forward=${1:-40}
reverse=${2:-90}

# LINERATE names a program that is built already.
[ -n "${LINERATE:-}" ] || cargo build --release --target-dir target -p linerate
linerate=${LINERATE:-$PWD/target/release/linerate}

lab=lrsweep$$
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    for space in a r b; do ip netns del "$lab$space" 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 1' INT TERM

for space in a r b; do
    ip netns add "$lab$space"
    ip -n "$lab$space" link set lo up
done
ip link add eth0 netns "${lab}a" type veth peer name left netns "${lab}r"
ip link add right netns "${lab}r" type veth peer name eth0 netns "${lab}b"
for end in "a eth0 10.77.1.1" "r left 10.77.1.254" "r right 10.77.2.254" "b eth0 10.77.2.2"; do
    set -- $end
    ip -n "$lab$1" addr add "$3/24" dev "$2"
    ip -n "$lab$1" link set "$2" up
    ip netns exec "$lab$1" ethtool -K "$2" gso off gro off tso off tx-udp-segmentation off
done
ip -n "${lab}a" route add default via 10.77.1.254
ip -n "${lab}b" route add default via 10.77.2.254
ip netns exec "${lab}r" sysctl -qw net.ipv4.ip_forward=1
for bucket in "right $forward" "left $reverse"; do
    set -- $bucket
    tc -n "${lab}r" qdisc add dev "$1" root tbf rate "$2mbit" burst "$(($2 * 750))" latency 10ms
done

ip netns exec "${lab}b" "$linerate" serve --json-lines >/dev/null 2>&1 &
server=$!
sleep 1
begun=$(date +%s)
ip netns exec "${lab}a" "$linerate" sweep 10.77.2.2 --both-ways --zoom
took=$(($(date +%s) - begun))
truth() { awk "BEGIN { printf \"%.2f\", $1 * 1472 / 1514 }"; }
echo "truth: $(truth "$forward") Mbit/s client to server, $(truth "$reverse") Mbit/s back"
echo "took $took s; the target is less than 180 s"
[ "$took" -lt 180 ]
