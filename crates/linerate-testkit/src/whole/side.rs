//! One end: its conversation, its threads, and what its kernel holds for it.

use std::collections::{BTreeMap, VecDeque};

use linerate_dialect::{Conversation, Seen};

use super::data::{Shared, Thread};

/// Control bytes that the kernels on the way hold for an end that does not read.
const SOCKET_BYTES: usize = 64 << 10;

/// The same of a slow reader, whose window is full.
const SLOW_SOCKET_BYTES: usize = 16;

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
    /// It reads a few bytes at a time.
    pub(super) slow: bool,
    /// It reads nothing before this, on the world's clock.
    pub(super) looks_ns: u64,
    /// Its own kernel takes few control bytes at a time …
    pub(super) few: bool,
    /// … and none before this, on the world's clock.
    pub(super) carries_ns: u64,
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
            slow: false,
            looks_ns: 0,
            few: false,
            carries_ns: 0,
            ended: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.dead || self.ended
    }

    /// Up to so many of the bytes that have come.
    pub(super) fn take(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(mut piece) = self.inbox.pop_front() {
            if let Some(rest) = piece.len().checked_sub(most - bytes.len()).filter(|rest| *rest > 0)
            {
                self.inbox.push_front(piece.split_off(piece.len() - rest));
            }
            bytes.append(&mut piece);
            if bytes.len() == most {
                break;
            }
        }
        bytes
    }

    /// Control bytes that its kernel still takes in.
    pub(super) fn room(&self) -> usize {
        let held: usize = self.inbox.iter().map(Vec::len).sum();
        let most = match (self.reads || self.is_over(), self.slow) {
            (true, false) => SOCKET_BYTES,
            (true, true) => SLOW_SOCKET_BYTES,
            (false, _) => 0,
        };
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
            received: self.received,
            moved: self.moved,
            data_silence_ns: self.heard_ns.map_or(u64::MAX, |at| now_ns.saturating_sub(at)),
            ran_ns: u64::MAX,
            over: self.over,
            ..Seen::default()
        }
    }
}
