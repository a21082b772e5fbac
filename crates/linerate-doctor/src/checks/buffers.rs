//! Room for data in sockets.

use linerate_model::doctor::Severity::{self, Problem, Warning};

use crate::Check;
use crate::case::{Case, bytes_words, time_words};
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check { id: "buffers.rmem-max", judge: rmem_max },
    Check { id: "buffers.wmem-max", judge: wmem_max },
    Check { id: "buffers.rmem-default", judge: rmem_default },
    Check { id: "buffers.wmem-default", judge: wmem_default },
    Check { id: "buffers.tcp-rmem", judge: |case| tcp(case, "net.ipv4.tcp_rmem") },
    Check { id: "buffers.tcp-wmem", judge: |case| tcp(case, "net.ipv4.tcp_wmem") },
    Check { id: "buffers.udp-memory", judge: udp_memory },
    Check { id: "buffers.udp-overflow", judge: udp_overflow },
];

/// What the kernel starts with on 64 bits (`SK_RMEM_MAX` of include/net/sock.h).
const KERNEL_DEFAULT: u64 = 212_992;
/// The same on 32 bits, at least: less was set by somebody.
const LEAST_DEFAULT: u64 = 160 << 10;
/// A receiver that is not on its core for so long, microseconds, loses nothing if its buffer holds it: two
/// turns of others under the kernel's scheduler.
const RECEIVER_AWAY_US: u64 = 10_000;
/// A sender's buffer covers the time between two of its turns, microseconds.
const SENDER_AWAY_US: u64 = 2_000;
/// The kernel allows 6 MiB and 4 MiB where there is memory (`tcp_init` of net/ipv4/tcp.c); a host of 128 MiB
/// still 1 MiB, and one of 64 MiB half of it.
const LEAST_TCP: u64 = 512 << 10;
/// A receiver of linerate's asks for a buffer of so much.
const LEAST_UDP_MEMORY: u64 = 4 << 20;
/// The kernel's parameters are of 32 bits, with a sign.
const MOST_TCP: u64 = (1 << 31) - 1;
/// A socket gets no more (`SO_RCVBUF` of net/core/sock.c), whatever the parameter.
const MOST_ASKED: u64 = 1 << 30;
/// Less than a hundredth of a second of 200 Mbit/s.
const LITTLE_TCP: u64 = 256 << 10;

fn rmem_max(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let why = "a UDP receiver that waits for its core loses what its buffer does not hold";
    socket(case, "net.core.rmem_max", RECEIVER_AWAY_US, why)
}

fn wmem_max(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let why = "a sender that finds its buffer full waits, and trains of datagrams get shorter";
    socket(case, "net.core.wmem_max", SENDER_AWAY_US, why)
}

fn socket(case: &Case<'_>, name: &str, away_us: u64, why: &str) -> Result<Option<Draft>, String> {
    let now = case.number(name)?;
    let need = case.bytes_in_us(away_us);
    if now >= need.clamp(LEAST_DEFAULT, MOST_ASKED) {
        return Ok(None);
    }
    let why = match need {
        0..=LEAST_DEFAULT => format!("{why}; the kernel's own default is 160 KiB or more"),
        _ => format!(
            "{why}; {} bring {} in {} ms",
            case.goal_words(),
            bytes_words(need),
            away_us / 1_000
        ),
    };
    let then = need.max(4 << 20).checked_next_power_of_two().unwrap_or(need).min(MOST_ASKED);
    let what = format!("sockets may ask for {} ({name})", bytes_words(now));
    Ok(Some(
        found(short_of(now, need), what, why)
            .sysctl(name, &now.to_string(), &then.to_string())
            .source("Documentation/admin-guide/sysctl/net.rst; udp(7)"),
    ))
}

/// How grave it is that something is smaller than what is needed.
fn short_of(now: u64, need: u64) -> Severity {
    if now < need / 8 { Problem } else { Warning }
}

fn rmem_default(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let why = "programs that set no buffer lose datagrams in short bursts";
    usual(case, "net.core.rmem_default", why)
}

fn wmem_default(case: &Case<'_>) -> Result<Option<Draft>, String> {
    usual(
        case,
        "net.core.wmem_default",
        "programs that set no buffer send datagrams in short trains",
    )
}

fn usual(case: &Case<'_>, name: &str, why: &str) -> Result<Option<Draft>, String> {
    let now = case.number(name)?;
    Ok((now < KERNEL_DEFAULT / 2).then(|| {
        found(
            Warning,
            format!("sockets that ask for nothing get {} ({name})", bytes_words(now)),
            format!("{why}; the kernel's own default is 208 KiB"),
        )
        .sysctl(name, &now.to_string(), &KERNEL_DEFAULT.to_string())
        .source("Documentation/admin-guide/sysctl/net.rst")
    }))
}

fn udp_memory(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let name = "net.ipv4.udp_mem";
    let text = case.host.sysctl(name)?;
    let most = text.split_whitespace().nth(2).and_then(|pages| pages.parse::<u64>().ok());
    let most = most.ok_or_else(|| format!("{name} is no three numbers: {text:?}"))?;
    let page = (*case.host.system.page_bytes.get()?).max(1);
    let bytes = most.saturating_mul(page);
    let then = LEAST_UDP_MEMORY.div_ceil(page) * 4;
    Ok((bytes < LEAST_UDP_MEMORY).then(|| {
        found(
            Warning,
            format!("all UDP sockets of this host together may hold {} ({name})", bytes_words(bytes)),
            "it is less than the buffer of one receiver, which then loses what the buffer has room for",
        )
        .sysctl(name, text, &format!("{} {} {then}", then / 2, then / 4 * 3))
        .source("Documentation/networking/ip-sysctl.rst; udp(7)")
    }))
}

fn tcp(case: &Case<'_>, name: &str) -> Result<Option<Draft>, String> {
    let text = case.host.sysctl(name)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [least, usual, most] = words[..] else {
        return Err(format!("{name} is no three numbers: {text:?}"));
    };
    let now: u64 = most.parse().map_err(|_| format!("{name} is no three numbers: {text:?}"))?;
    let window = case.tcp_window_bytes();
    let need = window.max(LEAST_TCP);
    if now >= need {
        return Ok(None);
    }
    let severity = if now < LITTLE_TCP { Problem } else { short_of(now, need) };
    let why = if window > now {
        format!(
            "{} over a round trip of {} have {} on their way, and the buffer needs twice that",
            case.goal_words(),
            time_words(case.goal.rtt_s.unwrap_or(0.0)),
            bytes_words(window / 2)
        )
    } else {
        "the window cannot grow beyond it, so a long round trip or a short absence of the reader stops the sender"
            .to_owned()
    };
    let why = match need {
        0..=MOST_TCP => why,
        _ => format!(
            "{why}; no buffer is larger than 2 GiB, so that one connection cannot carry this, and more streams can"
        ),
    };
    let then = need.max(6 << 20).checked_next_power_of_two().unwrap_or(need).min(MOST_TCP);
    let draft = found(severity, format!("TCP buffers grow to {} ({name})", bytes_words(now)), why);
    let draft = match then > now {
        true => draft.sysctl(name, text, &format!("{least} {usual} {then}")),
        false => draft.run("linerate tcp HOST -P 4  # more streams, until they carry it", ""),
    };
    Ok(Some(draft.source("RFC 6349 section 3.3.1; Documentation/networking/ip-sysctl.rst")))
}

fn udp_overflow(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let watched = case.host.watched.get()?;
    let lost = watched.udp_receive_buffer_errors.ok_or("the counter is not there")?;
    Ok((lost > 0).then(|| {
        found(
            Warning,
            format!("sockets of this host dropped {lost} datagrams in {} ms", watched.for_ms),
            "some receiver is slower than what comes, or its buffer is too small",
        )
        .run("ss -uanm  # whose: the last number of skmem is d, its drops", "")
        .source("measured while it was watched: UdpRcvbufErrors of /proc/net/snmp")
    }))
}
