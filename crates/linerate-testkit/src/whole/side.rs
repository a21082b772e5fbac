//! One end: its conversation, its threads, and what its kernel holds for it.

use std::collections::{BTreeMap, VecDeque};

use linerate_dialect::{Conversation, Seen};

use super::data::{Shared, Thread};

/// Control bytes that the kernels on the way hold for an end that does not read.
const SOCKET_BYTES: usize = 64 << 10;

/// One end.
pub(super) struct Side<'a> {
    pub(super) talk: &'a mut dyn Conversation,
    /// Its clock less the world's.
    pub(super) clock: u64,
    pub(super) inbox: VecDeque<Vec<u8>>,
    /// What it sent arrives no sooner than what it sent before.
    pub(super) last_piece_ns: u64,
    /// Nothing more comes from the peer.
    pub(super) closed: bool,
    pub(super) closed_said: bool,
    pub(super) threads: BTreeMap<u16, Thread>,
    /// When each thread looks next, on the world's clock.
    pub(super) wakes: Wakes,
    pub(super) shared: Shared,
    /// Those who start threads are done.
    pub(super) complete: bool,
    pub(super) threads_over_said: bool,
    /// It does nothing any more.
    pub(super) dead: bool,
    pub(super) reads: bool,
    pub(super) ended: bool,
}

impl<'a> Side<'a> {
    pub(super) fn new(talk: &'a mut dyn Conversation, clock: u64) -> Self {
        Self {
            talk,
            clock,
            inbox: VecDeque::new(),
            last_piece_ns: 0,
            closed: false,
            closed_said: false,
            threads: BTreeMap::new(),
            wakes: Wakes::default(),
            shared: Shared::default(),
            complete: false,
            threads_over_said: false,
            dead: false,
            reads: true,
            ended: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.dead || self.ended
    }

    /// Control bytes that its kernel still takes in.
    pub(super) fn room(&self) -> usize {
        let held: usize = self.inbox.iter().map(Vec::len).sum();
        let most = if self.reads || self.is_over() { SOCKET_BYTES } else { 0 };
        most.saturating_sub(held)
    }
}

/// When each thread looks next, on the world's clock.
#[derive(Debug, Default)]
pub(super) struct Wakes(BTreeMap<u16, u64>);

impl Wakes {
    /// Whether `at_ns` comes before what is planned; then it is the plan.
    pub(super) fn is_sooner(&mut self, stream: u16, now_ns: u64, at_ns: u64) -> bool {
        let planned = self.0.get(&stream).filter(|at| **at >= now_ns);
        let sooner = planned.is_none_or(|planned| at_ns < *planned);
        if sooner {
            self.0.insert(stream, at_ns);
        }
        sooner
    }

    /// Whether it is due now; then nothing is planned any more.
    pub(super) fn remove_if_now(&mut self, stream: u16, now_ns: u64) -> bool {
        let due = self.0.get(&stream) == Some(&now_ns);
        if due {
            self.0.remove(&stream);
        }
        due
    }
}

impl Shared {
    pub(super) fn seen(&self, now_ns: u64) -> Seen {
        Seen {
            arrived: self.arrived,
            received: self.arrived,
            moved: self.moved,
            data_silence_ns: self.heard_ns.map_or(u64::MAX, |at| now_ns.saturating_sub(at)),
            ran_ns: u64::MAX,
            over: self.over,
            ..Seen::default()
        }
    }
}
