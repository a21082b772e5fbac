//! The server's second answer: what it measured.

use super::{Frame, Kind, PROC_STAT};

/// Of its words.
mod word {
    pub(super) const BYTES_RECEIVED: usize = 0;
    pub(super) const RECEIVE_CALLS: usize = 2;
    pub(super) const RECEIVE_BUFFER: usize = 3;
    pub(super) const BYTES_SENT: usize = 4;
    pub(super) const SEND_CALLS: usize = 6;
    pub(super) const SEND_BUFFER: usize = 7;
    pub(super) const TRANSACTIONS: usize = 9;
    pub(super) const ELAPSED: usize = 10;
    pub(super) const CPU_ALL: usize = 11;
    pub(super) const CPU_USER: usize = 12;
    pub(super) const CPU_SYSTEM: usize = 13;
    pub(super) const CPU_SOFTIRQ: usize = 16;
    pub(super) const CPU_METHOD: usize = 18;
    pub(super) const CPUS: usize = 19;
    pub(super) const PEAK_CPU: usize = 20;
    pub(super) const PEAK_SHARE: usize = 21;
    pub(super) const RETRANSMITS: usize = 26;
}

/// Where the name of the congestion control is, and how long with its NUL.
const CONGESTION: (usize, usize) = (276, 16);
/// Ways to measure CPUs have smaller numbers.
const MOST_METHODS: u32 = 32;
/// A test lasts no longer, in seconds: what is beyond it is no time.
const MOST_SECONDS: f32 = 1e9;

/// What the server's CPUs did, in hundredths of a percent of all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuShare {
    /// How many there are.
    pub cpus: u32,
    /// All but idle.
    pub busy: u32,
    /// In user space.
    pub user: u32,
    /// In the kernel.
    pub system: u32,
    /// In interrupts.
    pub softirq: u32,
    /// The busiest one's number, and its own share.
    pub peak: (u32, u32),
}

/// What the server measured. What it does not say is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Results {
    /// Bytes that it received.
    pub received: u64,
    /// Calls that brought them; over UDP datagrams.
    pub receive_calls: u32,
    /// Bytes that it sent.
    pub sent: u64,
    /// Calls that took them; over UDP datagrams, of which 32 bits travel: see [`Self::datagrams_sent`].
    pub send_calls: u32,
    /// Requests that it answered.
    pub transactions: u32,
    /// How long it worked, in nanoseconds.
    pub elapsed_ns: u64,
    /// `SO_RCVBUF` at the end, in bytes.
    pub receive_buffer: Option<u32>,
    /// `SO_SNDBUF` at the end, in bytes.
    pub send_buffer: Option<u32>,
    /// Only of use where the response has promised it: else these words may hold anything.
    pub cpu: Option<CpuShare>,
    /// TCP segments that it sent again.
    pub retransmits: Option<u32>,
    /// Of TCP.
    pub congestion: Option<String>,
}

impl Results {
    /// The message that says so, or `error`, for which a client ends.
    pub fn encode(&self, error: u32) -> Frame {
        let mut frame = Frame::new(Kind::OMNI_RESULTS, error);
        for (n, bytes) in [(word::BYTES_RECEIVED, self.received), (word::BYTES_SENT, self.sent)] {
            frame.set(n, (bytes >> 32) as u32);
            frame.set(n + 1, bytes as u32);
        }
        frame.set(word::RECEIVE_CALLS, self.receive_calls);
        frame.set(word::SEND_CALLS, self.send_calls);
        frame.set(word::RECEIVE_BUFFER, self.receive_buffer.unwrap_or(0));
        frame.set(word::SEND_BUFFER, self.send_buffer.unwrap_or(0));
        frame.set(word::TRANSACTIONS, self.transactions);
        frame.set_real(word::ELAPSED, (self.elapsed_ns as f64 / 1e9) as f32);
        if let Some(cpu) = self.cpu {
            let shares = [
                (word::CPU_ALL, cpu.busy),
                (word::CPU_USER, cpu.user),
                (word::CPU_SYSTEM, cpu.system),
                (word::CPU_SOFTIRQ, cpu.softirq),
                (word::PEAK_SHARE, cpu.peak.1),
            ];
            for (n, share) in shares {
                frame.set_real(n, share as f32 / 100.0);
            }
            frame.set(word::CPU_METHOD, PROC_STAT);
            frame.set(word::CPUS, cpu.cpus);
            frame.set(word::PEAK_CPU, cpu.peak.0);
        }
        frame.set_or_default(word::RETRANSMITS, self.retransmits);
        if let Some(name) = &self.congestion {
            frame.set_name(CONGESTION.0, CONGESTION.1, name);
        }
        frame
    }

    /// What an answer says, whatever its kind: see [`Kind::is_answer`]. `cpu`: the response has promised
    /// its figures.
    ///
    /// # Errors
    /// The server's error where it says one.
    pub fn read(frame: &Frame, cpu: bool) -> Result<Self, u32> {
        if frame.head() != 0 {
            return Err(frame.head());
        }
        let wide = |n: usize| (u64::from(frame.word(n)) << 32) | u64::from(frame.word(n + 1));
        let seconds = frame.real(word::ELAPSED).filter(|s| (0.0..MOST_SECONDS).contains(s));
        let congestion = frame.name(CONGESTION.0, CONGESTION.1);
        // 2.6.0 has five words fewer here, so that something else stands where these are read. Its names are elsewhere too.
        let retransmits = Some(frame.word(word::RETRANSMITS)).filter(|n| *n != u32::MAX);
        Ok(Self {
            received: wide(word::BYTES_RECEIVED),
            receive_calls: frame.word(word::RECEIVE_CALLS),
            sent: wide(word::BYTES_SENT),
            send_calls: frame.word(word::SEND_CALLS),
            transactions: frame.word(word::TRANSACTIONS),
            elapsed_ns: seconds.map_or(0, |s| (f64::from(s) * 1e9) as u64),
            receive_buffer: frame.positive(word::RECEIVE_BUFFER),
            send_buffer: frame.positive(word::SEND_BUFFER),
            cpu: if cpu { CpuShare::read(frame) } else { None },
            retransmits: retransmits.filter(|_| congestion.is_some()),
            congestion,
        })
    }

    /// Datagrams that it sent, where each has so many bytes: 32 bits of the calls travel, and the bytes say the rest.
    pub fn datagrams_sent(&self, size: Option<u32>) -> u64 {
        let by_bytes = size.and_then(|size| self.sent.checked_div(size.into()));
        let by_bytes = by_bytes.filter(|count| *count as u32 == self.send_calls);
        by_bytes.unwrap_or(self.send_calls.into())
    }
}

impl CpuShare {
    /// `None` where it is no share of anything.
    fn read(frame: &Frame) -> Option<Self> {
        let share = |n: usize| {
            let percent = frame.real(n).filter(|percent| (0.0..=100.5).contains(percent))?;
            Some((percent * 100.0).round() as u32)
        };
        // In 2.6.0 the number of some interface card stands here.
        frame.positive(word::CPU_METHOD).filter(|method| *method <= MOST_METHODS)?;
        let cpus = frame.positive(word::CPUS)?;
        Some(Self {
            cpus,
            busy: share(word::CPU_ALL)?,
            user: share(word::CPU_USER).unwrap_or(0),
            system: share(word::CPU_SYSTEM).unwrap_or(0),
            softirq: share(word::CPU_SOFTIRQ).unwrap_or(0),
            peak: (frame.word(word::PEAK_CPU), share(word::PEAK_SHARE).unwrap_or(0)),
        })
    }
}
