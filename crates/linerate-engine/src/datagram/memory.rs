//! `memory`: a network of queues in this process. A port without a socket, for tests.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{
    Arrivals, Capabilities, Config, Context, Counters, DatagramPort, Duty, Engine, SendBatch, Slot,
    Stamps, Taken,
};
use crate::clock;

/// Datagrams that one call takes or brings.
const BATCH: usize = 16;
/// Room for payload in bytes, where none is asked for.
const USUAL_ROOM: u32 = 1 << 20;

/// What is sent from one address to another waits for the port that was opened the other way around.
#[derive(Debug)]
pub struct Memory {
    stamps: Stamps,
    /// By sender and receiver.
    queues: Mutex<BTreeMap<(SocketAddr, SocketAddr), Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    inside: Mutex<Inside>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    datagrams: VecDeque<Datagram>,
    bytes: usize,
    /// Most of them; set by who receives.
    room: Option<usize>,
    drops: u32,
}

#[derive(Debug)]
struct Datagram {
    bytes: Vec<u8>,
    queued_ns: u64,
    drops: u32,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// A network whose ports stamp arrivals so.
    pub fn new(stamps: Stamps) -> Self {
        assert_ne!(
            stamps,
            Stamps::Realtime,
            "queues are stamped by the monotonic clock or not at all"
        );
        Self { stamps, queues: Mutex::default() }
    }

    fn queue(&self, from: SocketAddr, to: SocketAddr) -> Arc<Queue> {
        Arc::clone(locked(&self.queues).entry((from, to)).or_default())
    }
}

impl Engine for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self, config: &Config, context: &Context) -> io::Result<Box<dyn DatagramPort>> {
        let inbound = self.queue(context.remote, context.local);
        let room = config.receive_buffer.unwrap_or(USUAL_ROOM) as usize;
        locked(&inbound.inside).room = Some(room);
        Ok(Box::new(MemoryPort {
            inbound,
            outbound: self.queue(context.local, context.remote),
            stamps: self.stamps.clone(),
            stride: config.datagram,
            memory: vec![0; config.datagram * BATCH],
            slots: Vec::with_capacity(BATCH),
            most: if config.duty == Duty::Both { 1 } else { BATCH },
            wait: config.receive_wait,
            room,
        }))
    }
}

struct MemoryPort {
    inbound: Arc<Queue>,
    outbound: Arc<Queue>,
    stamps: Stamps,
    stride: usize,
    memory: Vec<u8>,
    slots: Vec<Slot>,
    /// Most messages of a call.
    most: usize,
    wait: Duration,
    room: usize,
}

impl MemoryPort {
    fn wait_for(&self, wait: Duration) -> MutexGuard<'_, Inside> {
        let is_empty = |inside: &mut Inside| inside.datagrams.is_empty();
        let inside = locked(&self.inbound.inside);
        let waited = self.inbound.filled.wait_timeout_while(inside, wait, is_empty);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl DatagramPort for MemoryPort {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_batch: BATCH,
            max_train: 1,
            merges: false,
            stamps: self.stamps.clone(),
            send_buffer: None,
            receive_buffer: Some(self.room as u64),
        }
    }

    fn send(&mut self, batch: &SendBatch<'_>) -> io::Result<Taken> {
        let mut inside = locked(&self.outbound.inside);
        let mut datagrams = 0;
        for bytes in batch.bytes.chunks(batch.segment.max(1)).take(BATCH) {
            datagrams += 1;
            let room = inside.room.unwrap_or(USUAL_ROOM as usize);
            if inside.bytes + bytes.len() > room {
                inside.drops = inside.drops.wrapping_add(1);
                continue;
            }
            inside.bytes += bytes.len();
            let (queued_ns, drops) = (clock::monotonic_ns(), inside.drops);
            inside.datagrams.push_back(Datagram { bytes: bytes.to_vec(), queued_ns, drops });
        }
        self.outbound.filled.notify_all();
        Ok(Taken { datagrams })
    }

    fn recv(&mut self) -> io::Result<Arrivals<'_>> {
        let queue = Arc::clone(&self.inbound);
        drop(self.wait_for(self.wait));
        let mut inside = locked(&queue.inside);
        self.slots.clear();
        for index in 0..self.most {
            let Some(datagram) = inside.datagrams.pop_front() else { break };
            inside.bytes -= datagram.bytes.len();
            let (offset, length) = (index * self.stride, datagram.bytes.len().min(self.stride));
            self.memory[offset..offset + length].copy_from_slice(&datagram.bytes[..length]);
            self.slots.push(Slot {
                offset,
                length,
                segment: None,
                stamp_ns: (self.stamps == Stamps::Monotonic).then_some(datagram.queued_ns),
                drops: Some(datagram.drops).filter(|drops| *drops > 0),
                truncated: length < datagram.bytes.len(),
            });
        }
        if self.slots.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Arrivals::new(&self.memory, &self.slots, self.slots.len() == self.most))
    }

    fn wait_readable(&mut self, until_ns: Option<u64>, now_ns: u64) -> bool {
        let longest = Duration::from_millis(20);
        let left = until_ns.map(|until| Duration::from_nanos(until.saturating_sub(now_ns)));
        !self.wait_for(left.map_or(longest, |left| left.min(longest))).datagrams.is_empty()
    }

    fn counters(&self) -> Counters {
        let inside = locked(&self.inbound.inside);
        Counters {
            drops: Some(inside.drops),
            unread_bytes: u32::try_from(inside.bytes).ok(),
            path_mtu: None,
        }
    }
}
