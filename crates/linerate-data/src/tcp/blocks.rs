//! What blocks of bytes say at their beginning, in dialects in which they say anything.

use linerate_dialect::habits::{BlockReport, BlockTimes};
use linerate_engine::stream::BlockWriter;
use linerate_model::plan::TcpPlan;
use linerate_model::sample::{ReportedTcp, TcpSample};
use linerate_session::flow::BytesIn;
use linerate_wire::iperf2::burst::{self, Burst};
use linerate_wire::nuttcp::block::{self, Said};

/// What a receiver hears of the blocks that it reads.
pub(super) enum Blocks {
    /// Nothing.
    Silent,
    /// How their sender's connection fares.
    Told(block::Reader),
    /// When they were written.
    Timed(Box<burst::Reader>, BlockTimes),
}

impl Blocks {
    pub(super) fn new(what: BlockReport, tcp: &TcpPlan) -> Self {
        match what {
            _ if tcp.discard => Self::Silent,
            BlockReport::Nothing => Self::Silent,
            BlockReport::Retransmits | BlockReport::Window => {
                Self::Told(block::Reader::new(tcp.block as usize))
            }
            BlockReport::Times(times) => {
                Self::Timed(Box::new(burst::Reader::new(times.header as usize)), times)
            }
        }
    }

    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], now_ns: u64, flow: &mut BytesIn) {
        match self {
            Self::Silent => {}
            Self::Told(reader) => {
                if let Some(said) = reader.read(bytes) {
                    flow.on_block_report(block_report(said));
                }
            }
            Self::Timed(reader, times) => {
                let at_ns = now_ns.saturating_add(times.ahead_ns);
                reader.read(bytes, |burst| {
                    flow.on_block(burst.length.into(), burst.written_ns, at_ns);
                });
            }
        }
    }
}

/// Says in each block what its receiver hears of it.
pub(super) struct BlockReporter {
    what: BlockReport,
    /// Blocks that have gone, or were begun.
    blocks: u64,
    /// When the kernel is asked again, since the start.
    again_ns: u64,
}

/// What blocks say is so old at most, in nanoseconds: far less than any interval, and seldom enough to cost nothing.
const REPORT_EVERY_NS: u64 = 5_000_000;

impl BlockReporter {
    pub(super) fn new(what: BlockReport) -> Option<Self> {
        (what != BlockReport::Nothing).then_some(Self { what, blocks: 0, again_ns: 0 })
    }

    #[inline]
    pub(super) fn mark(
        &mut self,
        writer: &mut BlockWriter,
        (at_ns, now_ns): (u64, u64),
        sample: impl FnOnce() -> Option<TcpSample>,
    ) {
        let Some(bytes) = writer.fresh() else { return };
        self.blocks = self.blocks.saturating_add(1);
        if let BlockReport::Times(BlockTimes { began_ns, ahead_ns, .. }) = self.what {
            let (number, length) = (self.blocks, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            let written_ns = at_ns.saturating_add(ahead_ns);
            return Burst { began_ns, written_ns, number, length }.write(bytes);
        }
        if self.blocks == 1 {
            return block::write_first(bytes);
        }
        if now_ns < self.again_ns {
            return;
        }
        self.again_ns = now_ns.saturating_add(REPORT_EVERY_NS);
        let Some(tcp) = sample() else { return };
        let short = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let window = self.what == BlockReport::Window;
        let window_kb = tcp.cwnd_bytes.filter(|_| window).map(|bytes| short(bytes / 1_024));
        let retransmits = short(tcp.retransmits.unwrap_or(0));
        block::write(Said { retransmits, window_kb }, bytes);
    }
}

fn block_report(said: Said) -> ReportedTcp {
    let cwnd_bytes = said.window_kb.map(|kb| u64::from(kb) * 1_024);
    ReportedTcp { retransmits: said.retransmits.into(), cwnd_bytes }
}
