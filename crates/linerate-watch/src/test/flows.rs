//! Figures of each direction, and what they have in common.

use std::collections::BTreeMap;

use linerate_model::record::{CpuFigures, Figures, ReceiverFigures, SenderFigures};

/// One direction in an interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow<'a> {
    /// Of a test of both.
    pub(super) name: Option<&'static str>,
    pub(super) sender: Option<&'a SenderFigures>,
    pub(super) receiver: Option<&'a ReceiverFigures>,
}

impl Flow<'_> {
    pub(super) fn sent_bps(&self) -> Option<f64> {
        self.sender.map(|sender| sender.bits_per_second)
    }

    pub(super) fn received_bps(&self) -> Option<f64> {
        self.receiver.map(|receiver| receiver.bits_per_second)
    }
}

/// What was lost of one direction so far, by its place; absent where nobody reported it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lost {
    pub(super) path: Option<u64>,
    pub(super) receiver: Option<u64>,
    pub(super) either: Option<u64>,
    pub(super) local: Option<u64>,
    pub(super) retransmits: Option<u64>,
}

impl Lost {
    pub(super) fn add(&mut self, flow: &Flow<'_>) {
        let (sender, receiver) = (flow.sender, flow.receiver);
        for (sum, more) in [
            (&mut self.path, receiver.and_then(|r| r.lost_path)),
            (&mut self.receiver, receiver.and_then(|r| r.dropped_receiver)),
            (&mut self.either, receiver.and_then(|r| r.unattributed)),
            (&mut self.local, sender.and_then(|s| s.refused_locally)),
            (&mut self.retransmits, sender.and_then(|s| s.tcp.as_ref()?.retransmits)),
        ] {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        }
    }

    /// What is known, by the names that a record has for it.
    pub(super) fn known(&self) -> BTreeMap<&'static str, u64> {
        let places = [
            ("lost_path", self.path),
            ("dropped_receiver", self.receiver),
            ("unattributed", self.either),
            ("refused_locally", self.local),
            ("retransmits", self.retransmits),
        ];
        places.into_iter().filter_map(|(name, count)| Some((name, count?))).collect()
    }
}

/// The directions, forward first; none of requests and responses.
pub(super) fn flows(figures: &Figures) -> Vec<Flow<'_>> {
    let mut flows: Vec<Flow<'_>> = Vec::new();
    for (name, pair) in [("forward", &figures.forward), ("reverse", &figures.reverse)] {
        flows.extend(pair.as_ref().map(|pair| Flow {
            name: Some(name),
            sender: pair.sender.as_ref(),
            receiver: pair.receiver.as_ref(),
        }));
    }
    if figures.sender.is_some() || figures.receiver.is_some() {
        let (sender, receiver) = (figures.sender.as_ref(), figures.receiver.as_ref());
        flows.push(Flow { name: None, sender, receiver });
    }
    flows
}

/// CPU of the data threads at the client and at the server; of a test of one direction `reverse` says whose end
/// sends.
pub(super) fn cpus(figures: &Figures, reverse: bool) -> [Vec<&CpuFigures>; 2] {
    let mut ends = [Vec::new(), Vec::new()];
    if let Some(rr) = &figures.rr {
        ends[0].extend(&rr.cpu);
        ends[1].extend(&rr.server_cpu);
    }
    for flow in flows(figures) {
        let reverse = flow.name.map_or(reverse, |name| name == "reverse");
        let sender = flow.sender.and_then(|sender| sender.cpu.as_ref());
        let receiver = flow.receiver.and_then(|receiver| receiver.cpu.as_ref());
        let (client, server) = if reverse { (receiver, sender) } else { (sender, receiver) };
        ends[0].extend(client);
        ends[1].extend(server);
    }
    ends
}
