//! What was measured, and what follows from it.

use linerate_model::sample::DelayQuantiles;

use super::{Kind, Options, Unit, unit};

/// How certain the means are: whole widths, as shares of the means.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reached {
    /// So many runs.
    pub runs: usize,
    /// Of the throughput.
    pub throughput: f64,
    /// Of the CPU here; 0 where it is not measured.
    pub here: f64,
    /// Of the server's.
    pub there: f64,
}

/// What the CPUs of one end did, in percent of all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cpu {
    /// How many there are.
    pub count: u32,
    /// All but idle.
    pub busy: f64,
    /// In user space.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// In interrupts.
    pub softirq: f64,
    /// The busiest one's number and its own share.
    pub peak: (u32, f64),
}

/// What one end did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// Bytes.
    pub sent: f64,
    /// Calls; over UDP datagrams.
    pub send_calls: f64,
    /// Bytes.
    pub received: f64,
    /// Calls; over UDP datagrams.
    pub receive_calls: f64,
    /// `SO_SNDBUF` at the beginning and at the end, in bytes.
    pub send_buffer: (Option<u64>, Option<u64>),
    /// `SO_RCVBUF` likewise.
    pub receive_buffer: (Option<u64>, Option<u64>),
    /// Bytes a send call.
    pub send_size: Option<u32>,
    /// Bytes a receive call.
    pub receive_size: Option<u32>,
    /// Where it was asked for and is known.
    pub cpu: Option<Cpu>,
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// Of TCP.
    pub congestion: Option<String>,
}

/// What was measured: of one run, or the means of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// By this end's clock.
    pub elapsed_s: f64,
    /// This end.
    pub here: End,
    /// The server.
    pub there: End,
    /// Requests that were answered.
    pub transactions: f64,
    /// How long they took.
    pub latency: Option<DelayQuantiles>,
    /// Datagrams that this host did not send.
    pub refused: f64,
    /// In bytes.
    pub mss: Option<u32>,
    /// How sure the means are.
    pub reached: Reached,
    /// Those that these are the means of; of one run none.
    pub runs: Vec<Figures>,
}

impl Figures {
    /// Bytes that count: what arrived of a stream, both ways of transactions.
    pub(super) fn carried(&self, options: &Options) -> f64 {
        match options.test.kind() {
            Kind::Sends => self.there.received,
            Kind::Receives => self.here.received,
            Kind::Asks => {
                let (request, response) = options.sizes.unwrap_or_default();
                self.transactions * (f64::from(request) + f64::from(response))
            }
        }
    }

    /// A ratio: of several runs the mean of theirs, which is not the ratio of the means.
    fn mean_of(&self, ratio: impl Fn(&Self) -> f64) -> f64 {
        match self.runs.as_slice() {
            [] => ratio(self),
            runs => runs.iter().map(ratio).sum::<f64>() / runs.len() as f64,
        }
    }

    /// So much a second.
    pub(super) fn a_second(&self, amount: impl Fn(&Self) -> f64) -> f64 {
        self.mean_of(|run| if run.elapsed_s > 0.0 { amount(run) / run.elapsed_s } else { 0.0 })
    }

    /// In the unit of `-f`.
    pub fn throughput(&self, options: &Options) -> f64 {
        self.mean_of(|run| {
            let bytes = run.a_second(|run| run.carried(options));
            unit(options).0.of(bytes, run.a_second(|run| run.transactions), options.burst())
        })
    }

    /// This end, or the server.
    pub(super) fn end(&self, here: bool) -> &End {
        if here { &self.here } else { &self.there }
    }

    /// CPU time of that end in microseconds for each KiB or transaction; none where the CPU is unknown.
    pub(super) fn demand(&self, options: &Options, here: bool) -> Option<f64> {
        if !self.runs.is_empty() {
            let each = self.runs.iter().map(|run| run.demand(options, here));
            let each = each.collect::<Option<Vec<_>>>()?;
            return Some(each.iter().sum::<f64>() / each.len() as f64);
        }
        let cpu = self.end(here).cpu?;
        let work = match (unit(options).0, options.udp, options.test.kind()) {
            (Unit::Transactions, _, _) => self.transactions,
            (_, true, Kind::Sends) => self.here.sent / 1_024.0,
            _ => self.carried(options) / 1_024.0,
        };
        let time_us = cpu.busy / 100.0 * f64::from(cpu.count) * self.elapsed_s * 1e6;
        (work > 0.0).then(|| time_us / work)
    }

    /// The means of several runs; texts and sizes are of the last.
    pub fn mean(runs: &[Self]) -> Self {
        let Some(last) = runs.last() else { return Self::default() };
        let count = runs.len() as f64;
        let of = |get: &dyn Fn(&Self) -> f64| runs.iter().map(get).sum::<f64>() / count;
        let end = |get: &dyn Fn(&Self) -> &End| {
            let of = |figure: &dyn Fn(&End) -> f64| of(&|run| figure(get(run)));
            // A mean over those that are known would be one of other runs.
            let known = runs.iter().all(|run| get(run).cpu.is_some());
            let cpu = get(last).cpu.filter(|_| known).map(|cpu| {
                let of =
                    |share: &dyn Fn(&Cpu) -> f64| of(&|end| end.cpu.as_ref().map_or(0.0, share));
                Cpu {
                    busy: of(&|cpu| cpu.busy),
                    user: of(&|cpu| cpu.user),
                    system: of(&|cpu| cpu.system),
                    softirq: of(&|cpu| cpu.softirq),
                    ..cpu
                }
            });
            End {
                sent: of(&|end| end.sent),
                send_calls: of(&|end| end.send_calls),
                received: of(&|end| end.received),
                receive_calls: of(&|end| end.receive_calls),
                cpu,
                ..get(last).clone()
            }
        };
        Self {
            elapsed_s: of(&|run| run.elapsed_s),
            here: end(&|run| &run.here),
            there: end(&|run| &run.there),
            transactions: of(&|run| run.transactions),
            refused: of(&|run| run.refused),
            runs: if runs.len() > 1 { runs.to_vec() } else { vec![] },
            ..last.clone()
        }
    }
}
