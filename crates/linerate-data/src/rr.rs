//! Threads that ask and answer.

pub(crate) mod connections;
mod tally;

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use linerate_engine::clock;
use linerate_engine::datagram::{self, DatagramPort, Duty, Ladder, SendBatch, local_errno};
use linerate_model::local_errors::{Errno, LocalSendErrors};
use linerate_model::plan::{EngineChoice, RrPlan, Traffic};
use linerate_model::sample::{RrReport, ThreadUse};
use linerate_session::pacer::Pacer;
use linerate_session::sender::Quota;
use linerate_wire::native::message::RespondReport;
use linerate_wire::native::stream::{HELLO_BYTES, UdpHello};

use super::{Carrier, Context, LOOK_UP, Shared, thread_use, wait_for_start};
use tally::{Flight, Tally};

/// A UDP request that has no answer after this long never gets one.
const UNANSWERED_NS: u64 = 1_000_000_000;
/// An asking end that takes no answer for this long takes none any more.
const UNREAD_NS: u64 = 3_000_000_000;
/// Requests that leave in a row before what was answered is read, where they are late: a socket's usual buffer holds the
/// answers to many more.
const ASKED_IN_A_ROW: u64 = 32;
/// Bytes of a UDP request that distinguish it from the others, where it has as many.
const ID_BYTES: usize = 8;

/// The asking end.
pub(super) fn request(context: &Context, carrier: Carrier) -> RrReport {
    let plan = &context.streams.agreed.plan;
    let Traffic::Rr(rr) = &plan.traffic else { return RrReport::default() };
    let started = wait_for_start(context, || std::thread::sleep(LOOK_UP / 4));
    let Some((start_ns, thread)) = started else { return RrReport::default() };
    let mut tally = Tally::new(context, start_ns, thread);
    clock::sleep_until(start_ns);
    let result = match carrier {
        Carrier::Dial(dial) => connections::ask(context, rr, &dial, &mut tally),
        carrier => ask(context, rr, carrier, start_ns, &mut tally),
    };
    let report = tally.report(context, clock::monotonic_ns());
    RrReport { error: result.err().map(|e| format!("request/response failed: {e}")), ..report }
}

fn ask(
    context: &Context,
    rr: &RrPlan,
    carrier: Carrier,
    start_ns: u64,
    tally: &mut Tally,
) -> io::Result<()> {
    let plan = &context.streams.agreed.plan;
    let wanted = Quota::transactions(plan, context.id.index);
    let id_bytes = ID_BYTES.min(rr.request as usize).min(rr.response as usize);
    // Over TCP answers come in order, and no name is on the wire that could come twice.
    let is_udp = matches!(carrier, Carrier::Datagrams(..));
    let is_named = is_udp && context.streams.habits.echoes;
    let mut flight = Flight::new(if is_named { id_bytes } else { ID_BYTES });
    let mut pacer = rr.rate.and_then(|rate| {
        // One "bit" a transaction.
        Pacer::new(rate, 1, context.id.index, plan.streams, 1, 1_000_000)
    });
    let limit = most_in_flight(rr, is_named);
    let mut conversation = Conversation::new(context, carrier, rr, pacer.is_some())?;
    let mut launched_measured = 0u64;
    loop {
        let now = clock::monotonic_ns();
        let ended = tally.is_over(now);
        context.shared.keep_time(if ended { 0 } else { now });
        tally.roll(context, now, false);
        if ended {
            tally.roll(context, now, true);
        }
        let enough = wanted.is_some_and(|wanted| launched_measured >= wanted);
        // The last requests get their time too, or a loss or a stall at the end would not count.
        let end = tally.end_ns.map_or(u64::MAX, |end| end.saturating_sub(start_ns));
        let owed = pacer.as_ref().is_some_and(|pacer| pacer.due_ns(pacer.slot()) < end);
        let done = if ended { !owed } else { enough };
        if context.shared.stopping() || (done && flight.len() == 0) || tally.is_given_up(now) {
            if is_udp {
                tally.unanswered += flight.expire(now, tally.measured_ns);
            }
            tally.leave(&flight, pacer.as_ref(), start_ns, now);
            return Ok(());
        }
        let (mut next_due, mut reads) = (None, 1);
        if !done {
            match &mut pacer {
                None => {
                    let mut due = limit.saturating_sub(flight.len());
                    if let Some(wanted) = wanted {
                        due = due
                            .min(usize::try_from(wanted - launched_measured).unwrap_or(usize::MAX));
                    }
                    for _ in 0..due {
                        let (id, stale) = flight.launch(now, now);
                        tally.lose(stale);
                        launched_measured += u64::from(now >= tally.measured_ns);
                        tally.drop_here(now, conversation.ask(id)?);
                    }
                    conversation.flush()?;
                }
                Some(pacer) => {
                    for asked in 0.. {
                        let elapsed = clock::monotonic_ns().saturating_sub(start_ns);
                        let intended = pacer.due_ns(pacer.slot()).min(end);
                        if elapsed < intended || asked >= ASKED_IN_A_ROW {
                            next_due = Some(start_ns.saturating_add(intended));
                            if asked > 1 {
                                // Who is late reads more than was asked, or answers would pile up.
                                reads = 2 * asked;
                            }
                            break;
                        }
                        if intended >= end
                            || flight.len() >= limit
                            || wanted.is_some_and(|wanted| launched_measured >= wanted)
                        {
                            break;
                        }
                        // No coordinated omission: the clock runs from the time that was planned, and
                        // a late request is sent at once, however late.
                        let from = start_ns.saturating_add(intended);
                        let sent = start_ns.saturating_add(elapsed);
                        tally.leaves(from, sent);
                        let (id, stale) = flight.launch(from, sent);
                        tally.lose(stale);
                        launched_measured += u64::from(from >= tally.measured_ns);
                        pacer.taken(1, elapsed);
                        tally.drop_here(from, conversation.ask(id)?);
                        conversation.flush()?;
                    }
                }
            }
        }
        for read in 0..reads {
            // The first alone waits.
            let until = if read == 0 { next_due } else { Some(now) };
            if conversation.take(until, |id| land(id, &mut flight, tally))? == 0 {
                break;
            }
        }
        // By the time before it was read: who stood still since has the answers in its socket.
        if is_udp {
            tally.unanswered += flight.expire(now, tally.measured_ns);
        }
    }
}

/// An answer came, with the name of its request or to the oldest.
fn land(id: Option<u64>, flight: &mut Flight, tally: &mut Tally) {
    let now = clock::monotonic_ns();
    let landed = match id {
        Some(id) => flight.land(id),
        None => flight.land_oldest(),
    };
    if let Some(from) = landed {
        tally.land(from, now);
    }
}

/// Requests of such a plan that are under way at once on one stream.
fn most_in_flight(rr: &RrPlan, is_named: bool) -> usize {
    usize::try_from(rr.most_in_flight(is_named)).unwrap_or(usize::MAX)
}

/// A port for requests and their answers. `waits`: a call waits for what comes.
fn open(
    context: &Context,
    rr: &RrPlan,
    at: datagram::Context,
    waits: bool,
) -> io::Result<Box<dyn DatagramPort>> {
    let largest = rr.request.max(rr.response) as usize;
    let mut config = context.port(Duty::Both, largest.max(HELLO_BYTES), None);
    if !waits {
        (config.receive_wait, config.send_wait) = (Duration::ZERO, Duration::ZERO);
    }
    Ladder::new(EngineChoice::Send, config, at).open()
}

/// What carries a conversation.
enum Link {
    Port(Box<dyn DatagramPort>),
    Tcp(TcpStream),
}

/// One connection, seen from the asking end. What it carries counts, whether a transaction is made of it or not.
struct Conversation<'a> {
    shared: &'a Shared,
    link: Link,
    request: Vec<u8>,
    pending: Vec<u8>,
    buffer: Vec<u8>,
    response: usize,
    id_bytes: usize,
    echoes: bool,
    partial: usize,
    open_loop: bool,
}

impl<'a> Conversation<'a> {
    fn new(
        context: &'a Context,
        carrier: Carrier,
        rr: &RrPlan,
        open_loop: bool,
    ) -> io::Result<Self> {
        let response = rr.response as usize;
        let (link, buffer) = match carrier {
            Carrier::Datagrams(at, _) => {
                (Link::Port(open(context, rr, at, !open_loop)?), Vec::new())
            }
            Carrier::Tcp(tcp) => {
                tcp.set_nodelay(true)?;
                tcp.set_read_timeout(Some(LOOK_UP))?;
                tcp.set_write_timeout(Some(Duration::from_secs(3)))?;
                (Link::Tcp(tcp), vec![0; response.max(65_536)])
            }
            Carrier::Dial(_) | Carrier::Doorway(_) => return Err(ErrorKind::Unsupported.into()),
        };
        Ok(Self {
            shared: &context.shared,
            link,
            request: vec![0x5a; rr.request as usize],
            pending: Vec::new(),
            buffer,
            response,
            id_bytes: ID_BYTES.min(rr.request as usize).min(response),
            echoes: context.streams.habits.echoes,
            partial: 0,
            open_loop,
        })
    }

    /// Asks; the errno is that with which this host dropped the request (UDP).
    fn ask(&mut self, id: u64) -> io::Result<Option<Errno>> {
        let dropped = match &mut self.link {
            Link::Port(port) => {
                let name = id.to_le_bytes();
                for (slot, byte) in self.request.iter_mut().zip(name).take(self.id_bytes) {
                    *slot = byte;
                }
                // Not sent is not answered; the tally will say so.
                send_one(&mut **port, &self.request)?
            }
            Link::Tcp(_) => {
                self.pending.extend_from_slice(&self.request);
                None
            }
        };
        if dropped.is_none() {
            self.shared.add_sent(self.request.len() as u64);
        }
        Ok(dropped)
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Link::Tcp(tcp) = &mut self.link
            && !self.pending.is_empty()
        {
            tcp.write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }

    /// Takes answers, waiting for the first: as long as the link's time-out, or until `until_ns`.
    /// Calls `each` with the identity (UDP) or `None` (TCP: in order) of each and counts them.
    fn take(
        &mut self,
        until_ns: Option<u64>,
        mut each: impl FnMut(Option<u64>),
    ) -> io::Result<usize> {
        if self.open_loop && !self.readable(until_ns) {
            return Ok(0);
        }
        match &mut self.link {
            Link::Port(port) => {
                let mut answers = 0;
                let failed = match port.recv() {
                    Ok(arrivals) => {
                        for message in arrivals.messages() {
                            self.shared.add_received(message.most_bytes());
                            if message.bytes.len() != self.response || message.truncated {
                                continue;
                            }
                            let mut name = [0; 8];
                            for (slot, byte) in
                                name.iter_mut().zip(message.bytes).take(self.id_bytes)
                            {
                                *slot = *byte;
                            }
                            each(Some(u64::from_le_bytes(name)).filter(|_| self.echoes));
                            answers += 1;
                        }
                        return Ok(answers);
                    }
                    Err(e) => e,
                };
                if passing(&failed) || answers_earlier(&mut **port, &failed) {
                    return Ok(0);
                }
                Err(failed)
            }
            Link::Tcp(tcp) => {
                let got = match tcp.read(&mut self.buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(bytes) => bytes,
                    Err(e) if passing(&e) => return Ok(0),
                    Err(e) => return Err(e),
                };
                self.shared.add_received(got as u64);
                self.partial += got;
                let answers = self.partial / self.response;
                self.partial %= self.response;
                for _ in 0..answers {
                    each(None);
                }
                Ok(answers)
            }
        }
    }

    /// Waits until there is something to read or the time has come; true for the former.
    fn readable(&mut self, until_ns: Option<u64>) -> bool {
        use std::os::fd::AsFd;
        let now_ns = clock::monotonic_ns();
        match &mut self.link {
            Link::Port(port) => port.wait_readable(until_ns, now_ns),
            Link::Tcp(tcp) => linerate_engine::sys::wait_readable(tcp.as_fd(), until_ns, now_ns),
        }
    }
}

fn passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Whether a call failed with what the network said of an earlier datagram.
fn answers_earlier(port: &mut dyn DatagramPort, error: &io::Error) -> bool {
    port.take_errors() || error.kind() == ErrorKind::ConnectionRefused
}

/// Sends one datagram; the errno is that with which this host dropped it.
fn send_one(port: &mut dyn DatagramPort, datagram: &[u8]) -> io::Result<Option<Errno>> {
    let batch = SendBatch { bytes: datagram, segment: datagram.len(), train: 1 };
    // A call may fail with the answer to an earlier datagram, and twice where two came.
    let mut earlier = 0;
    loop {
        let Err(error) = port.send(&batch) else { return Ok(None) };
        let local = local_errno(&error);
        let answer = local.is_none_or(Errno::may_answer_earlier) && answers_earlier(port, &error);
        match local {
            _ if error.kind() == ErrorKind::Interrupted => {}
            _ if answer && earlier < 3 => earlier += 1,
            Some(errno) => return Ok(Some(errno)),
            // The peer's word, and no drop of this host.
            None if answer => return Ok(None),
            None => return Err(error),
        }
    }
}

/// The answering end. Ends when the asking end closes (TCP), or has marked its end or asked all where it marks that (UDP),
/// or when the control side says so.
pub(super) fn respond(context: &Context, carrier: Carrier) -> RespondReport {
    let Traffic::Rr(rr) = &context.streams.agreed.plan.traffic else {
        return RespondReport::default();
    };
    let mut answers = Answers::default();
    let result = match carrier {
        Carrier::Datagrams(at, hello) => respond_udp(context, rr, at, hello, &mut answers),
        Carrier::Tcp(tcp) => respond_tcp(context, rr, &tcp, &mut answers),
        Carrier::Doorway(door) => connections::respond(context, rr, &door, &mut answers),
        Carrier::Dial(_) => Err(ErrorKind::Unsupported.into()),
    };
    let (thread, span_ns) = answers
        .begun
        .map(|(thread, at_ns)| {
            (thread_use().since(thread), clock::monotonic_ns().saturating_sub(at_ns))
        })
        .unwrap_or_default();
    RespondReport {
        answered: answers.count,
        local_errors: answers.dropped_here,
        thread,
        span_ns,
        error: result.err().map(|e| format!("answering failed: {e}")),
    }
}

/// What the answering end keeps.
#[derive(Default)]
struct Answers {
    count: u64,
    dropped_here: LocalSendErrors,
    /// The thread's use and the time when the first request came: nothing is its work before.
    begun: Option<(ThreadUse, u64)>,
}

impl Answers {
    fn begin(&mut self, context: &Context) {
        if self.begun.is_none() {
            self.begun = Some((thread_use(), clock::monotonic_ns()));
            context.begun();
        }
    }
}

fn respond_udp(
    context: &Context,
    rr: &RrPlan,
    at: datagram::Context,
    hello: Option<UdpHello>,
    answers: &mut Answers,
) -> io::Result<()> {
    let mut port = open(context, rr, at, true)?;
    let mut response = vec![0xa5; rr.response as usize];
    let id_bytes = ID_BYTES.min(rr.request as usize).min(rr.response as usize);
    let habits = &context.streams.habits;
    // Where the asking end marks its end, as many as it was to ask end it as well: all marks may be lost.
    let wanted = Quota::transactions(&context.streams.agreed.plan, context.id.index);
    let wanted = wanted.filter(|_| habits.end_marks > 0);
    while !context.shared.stopping() && wanted.is_none_or(|wanted| answers.count < wanted) {
        // One at a time: the next waits in the port.
        let heard = port.recv().map(|arrivals| {
            arrivals.messages().next().map(|message| {
                for (slot, byte) in response.iter_mut().zip(message.bytes).take(id_bytes) {
                    *slot = *byte;
                }
                let is_whole = !message.truncated && message.bytes.len() == rr.request as usize;
                (message.most_bytes(), is_whole, super::is_hello_again(hello, message.bytes))
            })
        });
        let (got, is_whole, again) = match heard {
            Ok(Some(heard)) => heard,
            Ok(None) => continue,
            Err(e) if passing(&e) || answers_earlier(&mut *port, &e) => {
                context.shared.look_after_peer(clock::monotonic_ns());
                continue;
            }
            Err(e) => return Err(e),
        };
        let now = clock::monotonic_ns();
        // Anybody can send requests from the peer's address, so that being idle is no measure.
        context.shared.look_after_peer(now);
        context.shared.keep_time(now);
        // What comes counts, whether it is a request or not.
        context.shared.add_sent(got);
        context.shared.keep_rate(got, false);
        if got == 0 && habits.end_marks > 0 {
            return Ok(());
        }
        if again {
            super::answer_again(context, &mut *port, hello);
            continue;
        }
        if !is_whole {
            continue;
        }
        context.shared.keep_rate(response.len() as u64, true);
        answers.begin(context);
        if let Some(errno) = send_one(&mut *port, &response)? {
            answers.dropped_here.count(errno, 1);
            continue;
        }
        answers.count += 1;
        context.shared.add_sent(response.len() as u64);
    }
    Ok(())
}

fn respond_tcp(
    context: &Context,
    rr: &RrPlan,
    mut socket: &TcpStream,
    answers: &mut Answers,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(LOOK_UP))?;
    socket.set_write_timeout(Some(LOOK_UP))?;
    let request = rr.request as usize;
    let flight = most_in_flight(rr, false);
    let most = if context.streams.habits.tells_flight { flight } else { usize::MAX };
    let mut buffer = vec![0; request.max(65_536)];
    let response = vec![0xa5; rr.response as usize];
    let mut many = Vec::new();
    let mut partial = 0usize;
    loop {
        if context.shared.stopping() {
            return Ok(());
        }
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                partial += bytes;
                let now = clock::monotonic_ns();
                context.shared.look_after_peer(now);
                context.shared.keep_time(now);
                // What comes counts, whether it is a whole request or not.
                context.shared.add_sent(bytes as u64);
                context.shared.keep_rate(bytes as u64, false);
            }
            Err(e) if passing(&e) => {
                context.shared.look_after_peer(clock::monotonic_ns());
                continue;
            }
            Err(e) => return Err(e),
        }
        answers.begin(context);
        let whole = partial / request;
        partial %= request;
        if whole > most {
            return Err(io::Error::other("more requests came at once than the plan allows"));
        }
        if whole == 1 {
            context.shared.add_sent(response.len() as u64);
            context.shared.keep_rate(response.len() as u64, true);
            write_out(context, socket, &response)?;
        } else {
            // At most 64 KiB of requests came, but responses may be large: in bounded pieces.
            let at_once = (65_536 / response.len().max(1)).max(1);
            let mut left = whole;
            while left > 0 {
                let now = left.min(at_once);
                many.clear();
                for _ in 0..now {
                    many.extend_from_slice(&response);
                }
                context.shared.add_sent(many.len() as u64);
                context.shared.keep_rate(many.len() as u64, true);
                if context.shared.stopping() {
                    return Ok(());
                }
                write_out(context, socket, &many)?;
                left -= now;
            }
        }
        answers.count += whole as u64;
    }
}

/// Writes all of it, unless the test ends or the asking end, which may ask and never read, takes nothing
/// for too long.
fn write_out(context: &Context, mut socket: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let mut moved_ns = clock::monotonic_ns();
    while !bytes.is_empty() && !context.shared.stopping() {
        let written = socket.write(bytes);
        let now = clock::monotonic_ns();
        // After each piece: who reads steadily lets it wait for nothing.
        context.shared.look_after_peer(now);
        context.shared.keep_time(now);
        match written {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(taken) => {
                bytes = bytes.get(taken..).unwrap_or_default();
                moved_ns = now;
            }
            Err(e) if passing(&e) => {
                if now.saturating_sub(moved_ns) > UNREAD_NS {
                    return Err(e);
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
