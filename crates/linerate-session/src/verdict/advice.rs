//! What to try: only what this host can do, and nothing that the evidence contradicts.

use linerate_model::host::HostFacts;
use linerate_model::limits;
use linerate_model::plan::{Dialect, PlanDirection, Receiving, RrPlan, Sending};
use linerate_model::record::{CpuFigures, Figures, HostFigures};

use super::Case;
use super::cpu::End;

/// The smallest socket buffer that is worth asking for, in bytes.
const WORTHWHILE_WINDOW: u64 = 8 << 20;

/// Which buffer of a socket.
#[derive(Clone, Copy)]
pub(super) enum Buffer {
    Send,
    Receive,
}

impl End<'_> {
    pub(super) fn what_else_runs(&self) -> String {
        format!("on the {}, `top -1`: which programs take its cores", self.name)
    }
}

impl Case<'_> {
    fn host(&self, name: &str) -> Option<&HostFacts> {
        if name == "client" { Some(&self.record.client) } else { self.record.server.as_ref() }
    }

    /// Whether a linerate of a known host is at that end and its counters are missed: all of them, or those of its
    /// interface, which the kernel did not name in time.
    pub(super) fn is_unread(&self, name: &str, counters: Option<&HostFigures>) -> bool {
        let ours = self.host(name).filter(|host| host.cores.is_some());
        ours.is_some_and(|host| counters.is_none() || host.nic.is_none())
    }

    fn is_one_host(&self) -> bool {
        let server = self.record.server.as_ref().and_then(|s| s.boot_id.as_ref());
        server.is_some() && server == self.record.client.boot_id.as_ref()
    }

    /// Ways in which each stream has a thread at each end.
    fn ways(&self) -> usize {
        if self.record.asked.direction == PlanDirection::Both { 2 } else { 1 }
    }

    /// `--cpu` with an idle core for the data thread of one end, in the order client/server. Several would share it.
    pub(super) fn other_core(&self, end: &End<'_>) -> Option<String> {
        let cpu = end.cpu.filter(|_| self.ways() * usize::from(self.record.asked.streams) == 1)?;
        let now = cpu.core?;
        let idle = cpu.idle_cores.as_ref()?;
        let nic = self.host(end.name).and_then(|h| h.nic.as_ref());
        let nic = nic.map_or(&[][..], |nic| &nic.irq_cores);
        // On one host the other end's core is none, idle for half of the time or not.
        let taken: Vec<u32> = match self.is_one_host() {
            true => self.cpus().filter_map(|cpu| cpu.core).collect(),
            false => Vec::new(),
        };
        let free = || idle.iter().filter(|core| !taken.contains(core));
        let other = free().find(|core| !nic.contains(core)).or_else(|| free().next())?;
        let option = match end.name {
            "client" => format!("--cpu {other}"),
            _ => format!("--cpu /{other}"),
        };
        Some(match nic.contains(&now) && !nic.contains(other) {
            true => format!("{option} (core {now} also takes the NIC's interrupts)"),
            false => option,
        })
    }

    /// Of both ends, in all directions.
    fn cpus(&self) -> impl Iterator<Item = &CpuFigures> {
        let Figures { sender, receiver, forward, reverse, rr } = &self.record.totals;
        let pairs = forward.iter().chain(reverse);
        let senders = sender.iter().chain(pairs.clone().filter_map(|pair| pair.sender.as_ref()));
        let receivers = receiver.iter().chain(pairs.filter_map(|pair| pair.receiver.as_ref()));
        let rr = rr.iter().flat_map(|rr| [rr.cpu.as_ref(), rr.server_cpu.as_ref()]);
        let senders = senders.map(|sender| sender.cpu.as_ref());
        senders.chain(receivers.map(|receiver| receiver.cpu.as_ref())).chain(rr).flatten()
    }

    /// Streams for the cores that are idle at both ends, no more than twice as many as now, nor than a test may have.
    pub(super) fn more_streams(&self) -> Option<String> {
        let streams = usize::from(self.record.asked.streams);
        // netperf's tests have one.
        let is_one = self.record.asked.dialect == Dialect::Netperf;
        let most = if is_one { 1 } else { usize::try_from(limits::STREAMS.max).ok()? };
        let idle = self.cpus().filter_map(|cpu| Some(cpu.idle_cores.as_ref()?.len())).min()?;
        let free = idle / self.ways() / if self.is_one_host() { 2 } else { 1 };
        let then = (streams + free.min(streams)).min(most);
        (then > streams)
            .then(|| format!("--streams {then}: more threads, for the cores that are idle"))
    }

    /// Eight times as many requests in flight, as far as a test may have them.
    pub(super) fn more_outstanding(&self) -> Option<String> {
        let plan = self.rr_plan();
        let now = plan.most_in_flight(self.is_named());
        let outstanding = now.saturating_mul(8).min(limits::OUTSTANDING.max);
        let outstanding = u32::try_from(outstanding).unwrap_or(u32::MAX);
        let more = RrPlan { outstanding, rate: None, ..plan }.most_in_flight(self.is_named());
        (more > now).then(|| format!("--outstanding {more}: more requests in flight"))
    }

    pub(super) fn discard_advice(&self) -> Option<String> {
        (self.record.asked.receive == Some(Receiving::Copy.into()))
            .then(|| "--rx truncate: what the path carries without the copy".to_owned())
    }

    pub(super) fn sendfile_advice(&self) -> Option<String> {
        (self.record.asked.send == Some(Sending::Copy.into()))
            .then(|| "--tx sendfile: sends without copying".to_owned())
    }

    /// Twice the buffer of that end, with the command that allows it where its host does not.
    pub(super) fn larger_window(&self, name: &str, buffer: Buffer) -> Option<String> {
        let granted = self.record.agreed.as_ref().and_then(|agreed| agreed.window_granted);
        let host = self.host(name);
        let (now, most, sysctl, word) = match buffer {
            Buffer::Send => (
                granted.and_then(|w| w.send_bytes),
                host.and_then(|h| h.wmem_max_bytes),
                "wmem_max",
                "send",
            ),
            Buffer::Receive => (
                granted.and_then(|w| w.receive_bytes),
                host.and_then(|h| h.rmem_max_bytes),
                "rmem_max",
                "receive",
            ),
        };
        // Linux grants twice what is asked, for its own bookkeeping (socket(7)).
        let now = now?;
        let wanted = now.max(WORTHWHILE_WINDOW).checked_next_power_of_two()?;
        let wanted = wanted.min(limits::WINDOW_BYTES.max);
        if wanted.saturating_mul(2) <= now {
            return None;
        }
        let option = format!("--window {}Mi", wanted >> 20);
        // One that has more than its host allows was forced by root, and will be again; a server does so for
        // itself, and for a client no further than its owner said.
        let own = name == "client" || self.record.target.is_none();
        let forced = own && most.is_some_and(|most| now > most.saturating_mul(2));
        Some(match most.filter(|most| *most < wanted && !forced) {
            Some(most) => format!(
                "sysctl -w net.core.{sysctl}={wanted} on the {name} ({most} now), then {option}: a larger {word} buffer"
            ),
            None => {
                let asked = now / 2;
                let asked = match asked.is_multiple_of(1 << 20) {
                    true => format!("{}Mi", asked >> 20),
                    false => format!("{}Ki", asked >> 10),
                };
                format!(
                    "{option}: a larger {word} buffer ({asked} now; the kernel doubles what is asked)"
                )
            }
        })
    }
}
