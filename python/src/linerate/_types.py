"""What events and records hold; made by tools/make_types.py of the program's own schema."""

from __future__ import annotations

from typing import Literal, TypedDict


class AddressPair(TypedDict):
    """`ADDRESS:PORT` of two sockets; IPv6 in brackets."""

    # The client's.
    client: str
    # The server's.
    server: str


class _Addresses(TypedDict):
    # The control connection.
    control: AddressPair


class Addresses(_Addresses, total=False):
    """Addresses and ports of both ends, as the client's sockets have them."""

    # Each stream's, over both directions; in the order of `streams`.
    streams: list[AddressPair]


class CoreFigures(TypedDict):
    """One core."""

    # Its number.
    core: int
    # All but idle and steal.
    core_percent: float
    # irq + softirq.
    softirq_percent: float


class _CpuFigures(TypedDict):
    # The data thread's own time, percent of one core.
    thread_percent: float
    # All data threads of this end and direction together, percent of one core.
    threads_percent: float


class CpuFigures(_CpuFigures, total=False):
    """CPU of one end, from the first datagram or byte until nothing more is sent; of a row, over its
    interval. Of several streams the busiest thread and its core are shown here; all are in
    `streams`."""

    # Its core, where the end reports it.
    core: int | None
    # That core, all but idle and steal.
    core_percent: float | None
    # Cores of this host that were idle half of the time or more, ascending (totals only).
    idle_cores: list[int] | None
    # Of the time, the thread neither ran nor stood ready nor slept: interrupts or the hypervisor took
    # its core from under it. Reported only where it hardly slept, because sleep cannot be
    # distinguished from it otherwise.
    interrupted_percent: float | None
    # The cores that take the interface's interrupts.
    irq_cores: list[CoreFigures]
    # CPU of this host, all cores together, that this test's data threads did not use, percent of one
    # core; softirq that the kernel does not count to a thread is left out where it keeps that apart
    # (totals only).
    others_percent: float | None
    # Of the time, the thread stood ready and waited for a core (the kernel's run delay): other threads,
    # other programs or its cgroup's CPU limit kept it from running. Absent where the kernel does not
    # report it.
    ready_percent: float | None
    # irq + softirq.
    softirq_percent: float | None
    # Time the hypervisor gave to others.
    steal_percent: float | None
    # system.
    system_percent: float | None
    # user + nice.
    user_percent: float | None


class CpuPlan(TypedDict):
    """Cores of the data threads, in stream order."""

    # Of the receivers.
    receiver: list[int]
    # Of the senders.
    sender: list[int]


class Cut(TypedDict):
    """Where what both ends run is less than, or other than, what was asked. Part of the message and of the record, and in
    neither is there one: what cannot be had is refused, or reported by a doubt."""

    # Agreed, in words.
    agreed: str
    # Asked, in words.
    asked: str
    # What: `duration`, `window`, `engine`, `feature` …
    what: str
    # Why.
    why: str


class _Doubt(TypedDict):
    # Which.
    kind: DoubtKind
    # In words, with its numbers.
    text: str


class Doubt(_Doubt, total=False):
    """Why a result may not mean what it seems to."""

    # Whose host or process it is about, where it is one's.
    host: TestEnd | None


DoubtKind = Literal[
    "clock-stepped",
    "host-busy",
    "peer-values-missing",
    "offload-merging",
    "timer-late",
    "engine-fallback",
    "stopped",
    "link-lost",
    "local-send-errors",
    "counters-disagree",
    "degraded",
    "bytes-not-copied",
    "rate-changed",
    "shared-host",
] | str


ErrorKind = Literal[
    "usage",
    "out_of_range",
    "no_core",
    "tcp_option",
    "dialect",
    "plan",
    "plan_changed",
    "resume",
    "unknown_host",
    "no_address",
    "refused",
    "no_route",
    "no_permission",
    "bind",
    "reset",
    "timed_out",
    "connect",
    "not_linerate",
    "version",
    "key",
    "policy",
    "busy",
    "protocol",
    "udp_blocked",
    "tcp_stream",
    "unable",
    "listen",
    "authentication",
    "server_error",
    "server_lost",
    "server_stopped",
    "stream",
    "test",
    "interrupted",
    "output",
    "report",
    "metric",
    "accounting",
    "no_end",
    "unfinished",
    "out_of_time",
    "generator",
    "invalid",
    "no_store",
    "locked",
    "exists",
    "foreign",
    "damaged",
    "disk_full",
    "store",
    "boot_id",
    "permission",
    "host_gone",
    "reboot",
    "setting",
    "not_restored",
    "restore",
    "journal",
    "helper_lost",
    "command",
    "systemd",
] | str


class _ErrorRecord(TypedDict):
    # The exit code of the command.
    exit_code: int
    # Stable name, such as `refused` or `no_route`.
    kind: ErrorKind
    # What was tried, on what.
    what: str
    # Why it failed.
    why: str


class ErrorRecord(_ErrorRecord, total=False):
    """What went wrong."""

    # What to try.
    hints: list[str]


class Figures(TypedDict, total=False):
    """Figures of an interval, of the totals or of a stream: `sender` and `receiver`; `forward` and
    `reverse` with such a pair each in a test of both directions; `rr` in a request/response test."""

    # Client to server, in a test of both directions.
    forward: Pair | None
    # What the receiving end measured.
    receiver: ReceiverFigures | None
    # Server to client, in a test of both directions.
    reverse: Pair | None
    # Transactions and latency.
    rr: RrFigures | None
    # What the sending end measured.
    sender: SenderFigures | None


class HostFacts(TypedDict, total=False):
    """What a host is: reported once a run, by the host itself. What is not known is absent."""

    # Changes with every boot: /proc/sys/kernel/random/boot_id.
    boot_id: str | None
    # Cores on line.
    cores: int | None
    # CPU model name, as in /proc/cpuinfo.
    cpu_model: str | None
    # Node name, as in `uname -n`.
    hostname: str
    # Kernel release, as in `uname -r`.
    kernel: str | None
    # Version of linerate that ran there.
    linerate: str
    # The interface that the test's packets use, as the routing table has it.
    nic: NicFacts | None
    # Distribution, as `PRETTY_NAME` of os-release.
    os: str | None
    # Largest receive buffer a process may ask for, net.core.rmem_max, in bytes.
    rmem_max_bytes: int | None
    # Largest send buffer a process may ask for, net.core.wmem_max, in bytes.
    wmem_max_bytes: int | None


class HostFigures(TypedDict, total=False):
    """What a host's own counters gained over the run, the wait for the last datagrams included. They count the whole host (or network
    namespace), other programs' packets too."""

    # The interface's receive drops.
    nic_rx_dropped: int | None
    # The interface's received packets (a train may count as one).
    nic_rx_packets: int | None
    # The interface's transmit drops.
    nic_tx_dropped: int | None
    # The interface's transmitted packets (a train may count as one).
    nic_tx_packets: int | None
    # Most bytes of packets that waited in the interface's queueing disciplines at the end of an
    # interval.
    qdisc_backlog_bytes: int | None
    # Drops of the interface's queueing disciplines.
    qdisc_dropped: int | None
    # softnet_stat column 2.
    softnet_dropped: int | None
    # softnet_stat column 3.
    softnet_squeezed: int | None
    # Time that a cgroup's CPU limit throttled linerate, of all cores added up: it may be longer than the test.
    throttled_s: float | None
    # UDP InCsumErrors.
    udp_checksum_errors: int | None
    # UDP RcvbufErrors of /proc/net/snmp and snmp6.
    udp_receive_buffer_errors: int | None
    # UDP SndbufErrors.
    udp_send_buffer_errors: int | None


class _Interval(TypedDict):
    # Since the start of the measured time.
    end_s: float
    # Since the start of the measured time.
    start_s: float


class Interval(_Interval, total=False):
    """One interval of the test."""

    # Client to server, in a test of both directions.
    forward: Pair | None
    # What the receiving end measured.
    receiver: ReceiverFigures | None
    # Server to client, in a test of both directions.
    reverse: Pair | None
    # Transactions and latency.
    rr: RrFigures | None
    # What the sending end measured.
    sender: SenderFigures | None


# What limited a test.
Limit = Literal[
    "requested-rate",
    "sender-cpu",
    "sender-host",
    "path",
    "receiver-cpu",
    "receiver-buffer",
    "tcp-window",
    "tcp-congestion",
    "round-trip",
    "other-work",
    "unknown",
]


class _LossRuns(TypedDict):
    # How many.
    count: int
    # Runs of 1, 2, 3-4, 5-8 … datagrams; trailing zeros are left out.
    lengths: list[int]
    # Datagrams in the longest.
    longest: int
    # Datagrams in the mean one.
    mean: float


class LossRuns(_LossRuns, total=False):
    """Runs of loss, RFC 3357."""

    # Least distance between two runs, in sequence numbers.
    least_distance: int | None


class NicFacts(TypedDict, total=False):
    """The network interface of a test."""

    # Kernel driver; absent for interfaces without a device (lo, veth).
    driver: str | None
    # Cores that the interface's interrupts go to now, or went to since boot where the kernel does not
    # say: at least a twentieth of the count of the core with most, in /proc/interrupts.
    irq_cores: list[int]
    # MTU in bytes.
    mtu: int | None
    # Interface name.
    name: str
    # Offloads by the kernel's feature names, in the order of its feature bits.
    offloads: list[Offload]
    # Link speed in Mbit/s, where the driver knows it.
    speed_mbps: int | None


class Offload(TypedDict):
    """One offload of an interface."""

    # The kernel's feature name, such as `tx-udp-segmentation` or `rx-gro`. `ethtool -k` prints the
    # same, but for a dozen older features: `rx-gro` is its `generic-receive-offload`.
    name: str
    # Whether it is on.
    on: bool


class _OneWayDelay(TypedDict):
    # The true value may be off by this much either way.
    clock_error_s: float
    # Values behind them.
    count: int
    # Largest.
    max: float
    # Median.
    p50: float
    # 90 %.
    p90: float
    # 99 %.
    p99: float
    # 99.9 %.
    p999: float


class OneWayDelay(_OneWayDelay, total=False):
    """One-way delay with the error of the clocks behind it."""

    # Mean.
    mean: float | None
    # Least.
    min: float | None
    # 99.99 %.
    p9999: float | None
    # Of several streams: each quantile is the largest of theirs, which that of all values together
    # does not exceed.
    upper_bounds: bool


class _PacingFigures(TypedDict):
    # Largest gap.
    gap_max_ns: int
    # Median gap between send calls.
    gap_p50_ns: int
    # 99th percentile of the gap.
    gap_p99_ns: int


class PacingFigures(_PacingFigures, total=False):
    """How well a sender kept its schedule."""

    # What the gap should be; absent at `max`.
    gap_nominal_ns: int | None
    # 99th percentile of send time less due time; absent at `max`.
    lateness_p99_ns: int | None
    # Distance of the achieved from the asked rate, in parts per million; absent at `max`.
    mean_error_ppm: float | None


class Pair(TypedDict, total=False):
    """Both ends of one direction."""

    # What the receiving end measured.
    receiver: ReceiverFigures | None
    # What the sending end measured.
    sender: SenderFigures | None


class _PlanRecord(TypedDict):
    # native, iperf3 …
    dialect: str
    # forward, reverse, both; `discard` for a send-only test.
    direction: str
    # Report interval.
    interval_s: float
    # udp, tcp or rr.
    protocol: str
    # Each way.
    streams: int
    # Warm-up.
    warmup_s: float


class PlanRecord(_PlanRecord, total=False):
    """A plan in the record's words."""

    # TCP write and read.
    block_bytes: int | None
    # Longest burst at the asked rate.
    burst_s: float | None
    # Bytes, when the test ends by them.
    bytes: int | None
    # UDP checksums on.
    checksum: bool | None
    # TCP congestion control.
    congestion: str | None
    # Cores.
    cpu: CpuPlan | None
    # UDP payload.
    datagram_bytes: int | None
    # Datagrams, when the test ends by them.
    datagrams: int | None
    # Differentiated services code point.
    dscp: int | None
    # Measured time, when the test ends by time; beside an amount, the most of it.
    duration_s: float | None
    # auto, gso, mmsg, send; in `agreed` the one that the sending end ran last.
    engine: str | None
    # 4 or 6.
    ip: int | None
    # TCP maximum segment size.
    mss_bytes: int | None
    # TCP_NODELAY.
    nodelay: bool | None
    # rr: requests in flight on each stream.
    outstanding: int | None
    # Asked payload rate of one direction; null is unlimited.
    rate_bps: int | None
    # Asked datagrams per second, when that is how the rate was given.
    rate_pps: int | None
    # Asked transactions per second (rr, open loop).
    rate_tps: int | None
    # How the TCP receiver reads: `copy`, or `discard` (MSG_TRUNC, nothing copied).
    receive: str | None
    # In `agreed` the one that the receiving end ran, which chooses for itself.
    receive_engine: str | None
    # rr: bytes of a request.
    request_bytes: int | None
    # rr: bytes of a response.
    response_bytes: int | None
    # How the TCP sender writes: `copy`, or `sendfile` (nothing copied).
    send: str | None
    # Most datagrams handed to the kernel as one train.
    train_datagrams: int | None
    # rr: udp or tcp.
    transport: str | None
    # Socket buffers asked for.
    window_bytes: int | None
    # Socket buffers granted, as read back.
    window_granted: WindowGranted | None


class ProgramFacts(TypedDict):
    """The program that made a record."""

    # Semantic version.
    version: str


class _Quantiles(TypedDict):
    # Values behind them.
    count: int
    # Largest.
    max: float
    # Median.
    p50: float
    # 90 %.
    p90: float
    # 99 %.
    p99: float
    # 99.9 %.
    p999: float


class Quantiles(_Quantiles, total=False):
    """Quantiles in seconds."""

    # Mean.
    mean: float | None
    # Least.
    min: float | None
    # 99.99 %.
    p9999: float | None
    # Of several streams: each quantile is the largest of theirs, which that of all values together
    # does not exceed.
    upper_bounds: bool


class _ReceiverFigures(TypedDict):
    # `bytes` x 8 / `seconds`.
    bits_per_second: float
    # Payload of unique datagrams, or bytes read.
    bytes: int
    # Measured time: from the first arrival to the last, and no shorter than the sender's time.
    seconds: float


class ReceiverFigures(_ReceiverFigures, total=False):
    """What a receiving end measured."""

    # Arrived with a header that fails its check.
    corrupt: int | None
    # CPU.
    cpu: CpuFigures | None
    # Unique datagrams.
    datagrams: int | None
    # Datagrams per second.
    datagrams_per_second: float | None
    # The largest, likewise (rows only).
    delay_variation_max_s: float | None
    # Its mean in the interval, above the least delay until the interval's end (rows only).
    delay_variation_mean_s: float | None
    # RFC 5481: delay less the least delay.
    delay_variation_s: Quantiles | None
    # Of those: in the receiver's socket buffer.
    dropped_receiver: int | None
    # Arrived more than once.
    duplicates: int | None
    # The host's own counters (totals only).
    host: HostFigures | None
    # RFC 3550 A.8.
    jitter_s: float | None
    # Of the reordered: later than the receive window.
    late: int | None
    # Runs of loss, RFC 3357.
    loss_runs: LossRuns | None
    # Sent and never arrived.
    lost: int | None
    # Of those: between the two hosts' sockets.
    lost_path: int | None
    # `lost` / sent.
    lost_ratio: float | None
    # When the clocks' distance is known.
    one_way_delay_s: OneWayDelay | None
    # Of the unique datagrams of a test by time: arrived more than 5 % of that time after it was
    # over, or were read more than 100 ms after that. A queue held them, so the path or the
    # receiver carries less than was sent, although nothing is lost (totals only).
    overdue: int | None
    # From the first arrival until the last datagram was read (totals only).
    read_seconds: float | None
    # Largest reordering extent, RFC 4737 section 4.2.
    reorder_extent_max: int | None
    # Arrived after a later one, RFC 4737.
    reordered: int | None
    # Packets the socket dropped, as the kernel counts (a merged train is one).
    socket_drops: int | None
    # Of those: one or the other; the kernel counts a merged train as one.
    unattributed: int | None
    # By both hosts' wall clocks as they are, which may be apart (iperf 2's `--trip-times`).
    wall_clock_delay_s: WallClockDelay | None


class _RrFigures(TypedDict):
    # Measured time.
    seconds: float
    # Completed.
    transactions: int
    # Completed per second.
    transactions_per_second: float


class RrFigures(_RrFigures, total=False):
    """Transactions and their latency."""

    # CPU of the client's data threads.
    cpu: CpuFigures | None
    # The client host's own counters (totals only).
    host: HostFigures | None
    # Requests sent more than 1 ms after they were due (open loop).
    late_sends: int | None
    # The histogram in HdrHistogram's V2 form, base64, nanoseconds (totals only).
    latency_histogram: str | None
    # From the intended send time (open loop) or the actual one to the response.
    latency_s: Quantiles | None
    # Requests that the client's own host dropped, by errno (UDP); they are among those without an
    # answer.
    local_send_errors: dict[str, int]
    # CPU of the server's data threads.
    server_cpu: CpuFigures | None
    # The server host's own counters (totals only).
    server_host: HostFigures | None
    # Answers that the server's own host dropped, by errno (UDP).
    server_local_send_errors: dict[str, int]
    # Requests never answered (UDP).
    unanswered: int | None
    # Requests of the measured time that had no answer when it ended. What was answered within a second
    # after that is in the latency and makes no transaction.
    unfinished: int | None


class _RunEvent(TypedDict):
    # Since the start of the measured time.
    at_s: float
    # What it was.
    kind: str


class RunEvent(_RunEvent, total=False):
    """Something that whoever watched a test did while it ran."""

    # Counted from 1 (mark).
    number: int | None
    # Asked payload rate of the forward direction from then on (rate).
    rate_bps: int | None


class _RunRecord(TypedDict):
    # What was asked.
    asked: PlanRecord
    # The client's host.
    client: HostFacts
    # Why the result may not mean what it seems to.
    doubts: list[Doubt]
    # Always 1.
    format: int
    # Unique, and sorts by time.
    id: str
    # One entry an interval.
    intervals: list[Interval]
    # The program.
    linerate: ProgramFacts
    # RFC 3339, UTC.
    started: str
    # Whether it came to its end.
    status: Status
    # The whole measured time.
    totals: Figures


class RunRecord(_RunRecord, total=False):
    """One test, whole."""

    # Addresses and ports of both ends.
    addresses: Addresses | None
    # What both ends ran.
    agreed: PlanRecord | None
    # The command line that repeats this test.
    command: list[str]
    # Nothing writes them; what differs is a doubt [`Degraded`](DoubtKind::Degraded).
    cuts: list[Cut]
    # What went wrong, when it is not complete.
    error: ErrorRecord | None
    # What whoever watched it did while it ran, by time.
    events: list[RunEvent]
    # How it was found out what the server speaks, where the user did not say and it is not linerate's.
    found: str | None
    # Name of the run in reports and comparisons, as its user gave it.
    label: str | None
    # The profile that options of it came from, by its name; `asked` has what they were.
    profile: str | None
    # The server's host.
    server: HostFacts | None
    # The same per stream.
    streams: list[StreamRecord]
    # The figures that are asked for first.
    summary: Summary | None
    # Host name or address as the user gave it.
    target: str | None
    # Title in place of the command line, as its user gave it.
    title: str | None
    # What limited the test.
    verdict: Verdict | None


class _SenderFigures(TypedDict):
    # `bytes` x 8 / `seconds`.
    bits_per_second: float
    # Payload that the kernel took.
    bytes: int
    # Measured time.
    seconds: float


class SenderFigures(_SenderFigures, total=False):
    """What a sending end measured."""

    # Datagrams offered to the kernel: `datagrams` + `refused_locally`.
    attempted: int | None
    # CPU.
    cpu: CpuFigures | None
    # Datagrams that the kernel took.
    datagrams: int | None
    # Datagrams per second.
    datagrams_per_second: float | None
    # Datagrams due but given up, because catching up is bounded.
    given_up: int | None
    # The host's own counters (totals only).
    host: HostFigures | None
    # Wake-ups later than the burst limit.
    late_wakeups: int | None
    # The same by errno, adding up to `refused_locally`; `unknown` where the kernel did not say why.
    local_send_errors: dict[str, int]
    # How well the schedule was kept.
    pacing: PacingFigures | None
    # Datagrams that the sending host itself dropped.
    refused_locally: int | None
    # TCP state.
    tcp: TcpFigures | None


# Whether a run came to its end.
Status = Literal["complete", "partial", "failed", "invalid"]


class _StreamRecord(TypedDict):
    # forward or reverse.
    direction: str
    # Counted from 0 within its direction.
    stream: int


class StreamRecord(_StreamRecord, total=False):
    """One stream."""

    # Client to server, in a test of both directions.
    forward: Pair | None
    # What the receiving end measured.
    receiver: ReceiverFigures | None
    # Server to client, in a test of both directions.
    reverse: Pair | None
    # Transactions and latency.
    rr: RrFigures | None
    # What the sending end measured.
    sender: SenderFigures | None


class Summary(TypedDict, total=False):
    """The figures that are asked for first, flat, with the same keys for every kind of test; each is one of
    `totals` again. What a kind does not have is absent. Of a test of both directions the plain keys are the
    forward direction's."""

    # Own CPU of the client: its busiest data thread, percent of a core.
    client_cpu_percent: float | None
    # What limited the test.
    limit: Limit | None
    # Lost datagrams as a share of those that fell into the measured time.
    lost_ratio: float | None
    # 99th percentile of delay variation (udp) or of latency (rr), seconds.
    p99_s: float | None
    # Payload received, bit/s.
    received_bps: float | None
    # Segments retransmitted (tcp).
    retransmits_segments: int | None
    # The same as `lost_ratio`.
    reverse_lost_ratio: float | None
    # The same as `p99_s`.
    reverse_p99_s: float | None
    # The same as `received_bps`, of the reverse direction of a test of both.
    reverse_received_bps: float | None
    # The same as `retransmits_segments`.
    reverse_retransmits_segments: int | None
    # The same as `sent_bps`.
    reverse_sent_bps: float | None
    # Payload sent, bit/s.
    sent_bps: float | None
    # Own CPU of the server, likewise.
    server_cpu_percent: float | None
    # Transactions completed per second (rr).
    transactions_per_second: float | None


class TcpFigures(TypedDict, total=False):
    """TCP, as the sending kernel sees it. Counters are the growth over the span. Round trip, window and
    delivery rate are values of a moment: in a row those at its end, in the totals the mean of the rows."""

    # Share of the time with data to send.
    busy_ratio: float | None
    # Bytes that the peer acknowledged.
    bytes_acked: int | None
    # Congestion control in use.
    congestion: str | None
    # Congestion window, of all streams together.
    cwnd_bytes: int | None
    # The largest of the rows (totals only).
    cwnd_max_bytes: int | None
    # The smallest of the rows (totals only).
    cwnd_min_bytes: int | None
    # The kernel's own estimate of the delivery rate, all streams together.
    delivery_rate_bps: int | None
    # Least round trip.
    min_rtt_s: float | None
    # Sending maximum segment size.
    mss_bytes: int | None
    # Path MTU.
    pmtu_bytes: int | None
    # Segments sent again.
    retransmits: int | None
    # The largest of the rows (totals only).
    rtt_max_s: float | None
    # Smoothed round trip.
    rtt_s: float | None
    # Its mean deviation.
    rtt_variation_s: float | None
    # Share of the time limited by the receiver's window.
    rwnd_limited_ratio: float | None
    # Share of the time limited by the send buffer.
    sndbuf_limited_ratio: float | None


# An end of a test.
TestEnd = Literal["client", "server"]


class _Verdict(TypedDict):
    # Up to three things to try, each a flag or a command that exists.
    advice: list[str]
    # Why, in sentences.
    because: list[str]
    # The numbers behind it; each name ends in its unit.
    evidence: dict[str, float]
    # The limit; of two directions, that of the one which falls further short.
    limit: Limit


class Verdict(_Verdict, total=False):
    """What limited a test, with the evidence."""

    # Which of two directions it is of; absent in a test of one, and in records of before it was told.
    direction: str | None


class _WallClockDelay(TypedDict):
    # Standard deviation.
    deviation: float
    # Largest.
    max: float
    # Mean.
    mean: float
    # Least.
    min: float


class WallClockDelay(_WallClockDelay, total=False):
    """One-way delay of datagrams, or of blocks over TCP from the write to when their last byte was read, from the sender's wall
    clock to the receiver's. What these clocks differ by is in it."""

    # Values behind it; absent where a peer reported it, which counts what ends a stream as well, and fewer than there
    # were where its sums would be too large.
    count: int | None


class WindowGranted(TypedDict, total=False):
    """What the kernel granted of a socket buffer: `SO_SNDBUF` and `SO_RCVBUF` as read back, which on
    Linux is twice what was asked. The least of all streams and both directions."""

    # Receiver's `SO_RCVBUF`.
    receive_bytes: int | None
    # Sender's `SO_SNDBUF`.
    send_bytes: int | None


class StartEvent(TypedDict):
    """Both ends agreed; the record holds no figures yet."""

    event: Literal["start"]
    # What is known so far.
    record: RunRecord


class _IntervalEvent(TypedDict):
    event: Literal["interval"]
    # Since the start of the measured time.
    end_s: float
    # Since the start of the measured time.
    start_s: float


class IntervalEvent(_IntervalEvent, total=False):
    """An interval is over at both ends."""

    # Client to server, in a test of both directions.
    forward: Pair | None
    # What the receiving end measured.
    receiver: ReceiverFigures | None
    # Server to client, in a test of both directions.
    reverse: Pair | None
    # Transactions and latency.
    rr: RrFigures | None
    # What the sending end measured.
    sender: SenderFigures | None


class _EndEvent(TypedDict):
    event: Literal["end"]


class EndEvent(_EndEvent, total=False):
    """The test is over."""

    # Why there is none.
    error: ErrorRecord | None
    # The whole record.
    record: RunRecord | None


# A line of udp, tcp and rr.
Event = StartEvent | IntervalEvent | EndEvent
