//! Results on their way from agents to a database, while everything that carries them is killed again and again. Agents and
//! the coordinator are processes of this program, small ones over the same outbox, broker and store as those of linerate.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use linerate_broker::{Broker, Confirmations, Credentials};
use linerate_model::campaign::{Event, RunState};
use linerate_store::outbox::Outbox;
use linerate_store::{Place, StoreWriter};
use linerate_testkit::peer::LONG;
use linerate_testkit::postgres::Postgres;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::world::{World, meta, patiently, runtime};
use crate::{Sizes, agents, rate, row};

/// Each with an outbox of its own.
const AGENTS: u32 = 64;
/// Processes that they are in.
const PROCESSES: u32 = 4;
/// So often each of the four is killed.
const KILLS: u32 = 5;
/// Results that an agent has at once.
const WINDOW: u64 = 32;
/// How many it has made is noted after so many: after it was killed it makes some once more, under the same names.
const NOTE_EVERY: u64 = 50;
/// What was handed over, and is not confirmed, is asked for again after this.
const AGAIN: Duration = Duration::from_secs(10);
const RUN: &str = "run";

/// Prints what it comes to.
pub fn measure(sizes: &Sizes) {
    let Some(mut database) = Postgres::start("lost") else { return };
    let mut world = World::new("lost");
    runtime().block_on(world.operator());
    // Of each agent as many.
    let count = sizes.results.div_ceil(AGENTS) * AGENTS;
    let write = |name: String, text: String| {
        std::fs::write(world.folder.join(name), text).expect("a file");
    };
    write("database".into(), database.address());
    write("results".into(), count.div_ceil(AGENTS).to_string());
    write("operator.json".into(), world.operator.text());
    for number in 0..AGENTS {
        write(format!("{number}.json"), world.agent(&format!("a{number}")).text());
    }
    let mut players = Players::start(&world.folder);
    let begun = Instant::now();
    for kill in 1..=4 * KILLS {
        let wanted = count * kill / (4 * KILLS + 1);
        players.until(&database, |players, kept| kept >= wanted || players.are_done());
        match kill % 4 {
            0 => world.nats.again(),
            1 => database.again(),
            2 => {
                players.coordinator.end();
                players.coordinator = players.role(&["as-coordinator"]);
            }
            _ => {
                let number = (kill / 4) % PROCESSES;
                players.agents[number as usize].end();
                players.agents[number as usize] = players.some(number);
            }
        }
    }
    // They end once nothing waits in their outboxes.
    players.until(&database, |players, _| players.are_done());
    for those in &mut players.agents {
        let ended = those.0.wait().expect("it ends");
        assert!(ended.success(), "{ended}");
    }
    let again = players.again;
    drop(players);
    let seconds = begun.elapsed().as_secs_f64();
    let query = "SELECT count(*), count(DISTINCT slot), min(slot), max(slot) FROM linerate.run";
    let found = database.ask(query);
    let what =
        format!("results kept, their turns, the first and the last, after {} kills", 4 * KILLS);
    let wanted = format!("{count}|{count}|0|{}", count.saturating_sub(1));
    row(&what, &wanted, &found);
    row("of these a second", "", &format!("{:.0}", f64::from(count) / seconds));
    row("coordinators that ended by themselves", "", &again.to_string());
    assert_eq!(found, wanted);
}

/// A process that is killed when this is dropped.
struct Process(Child);

impl Process {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The processes between the broker and the database.
struct Players {
    folder: PathBuf,
    coordinator: Process,
    agents: Vec<Process>,
    /// How often a coordinator ended by itself: it may give a database up.
    again: u32,
}

impl Players {
    fn start(folder: &Path) -> Self {
        let coordinator = role(folder, &["as-coordinator"]);
        let (folder, agents) = (folder.to_owned(), Vec::new());
        let mut players = Self { folder, coordinator, agents, again: 0 };
        players.agents = (0..PROCESSES).map(|number| players.some(number)).collect();
        players
    }

    fn role(&self, words: &[&str]) -> Process {
        role(&self.folder, words)
    }

    /// One of the processes with agents.
    fn some(&self, number: u32) -> Process {
        let each = AGENTS / PROCESSES;
        let (first, last) = (number * each, (number + 1) * each);
        self.role(&["as-agents", &first.to_string(), &last.to_string()])
    }

    /// Whether all agents have ended.
    fn are_done(&mut self) -> bool {
        self.agents.iter_mut().all(|those| those.0.try_wait().is_ok_and(|ended| ended.is_some()))
    }

    /// Waits for a state that what is kept comes to.
    fn until(&mut self, database: &Postgres, mut holds: impl FnMut(&mut Self, u32) -> bool) {
        let mut progress = (0, Instant::now());
        loop {
            let kept = match database.ask("SELECT to_regclass('linerate.head')").is_empty() {
                true => 0,
                false => database.ask("SELECT runs FROM linerate.head").parse().unwrap_or(0),
            };
            if holds(self, kept) {
                return;
            }
            if kept > progress.0 {
                progress = (kept, Instant::now());
            }
            assert!(progress.1.elapsed() < 2 * LONG, "{kept} are kept, and no more come");
            if self.coordinator.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                self.again += 1;
                self.coordinator = self.role(&["as-coordinator"]);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn role(folder: &Path, words: &[&str]) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let (name, rest) = words.split_first().expect("a role");
    command.arg(name).arg(folder).args(rest).stdin(Stdio::null()).stdout(Stdio::null());
    Process(command.spawn().expect("it starts"))
}

fn credentials(folder: &Path, name: &str) -> Credentials {
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).expect("a file");
    Credentials::read(&path, &text).expect("credentials")
}

fn number(text: &str) -> u32 {
    text.trim().parse().expect("a number")
}

/// A process with some of the agents, which ends when a store has all their results.
pub fn agents(folder: &Path, first: &str, last: &str) -> ExitCode {
    let each = number(&std::fs::read_to_string(folder.join("results")).expect("a file"));
    runtime().block_on(async {
        let mut all = JoinSet::new();
        for agent in number(first)..number(last) {
            let outbox = folder.join(format!("{agent}.db"));
            let credentials = credentials(folder, &format!("{agent}.json"));
            all.spawn(async move {
                let broker = patiently(|| Broker::connect(&credentials)).await;
                let confirmations = patiently(|| broker.confirmations()).await;
                let outbox = Outbox::open(&outbox).expect("nobody else has it");
                Agent { broker, outbox, confirmations, first: agent * each }.deliver(each).await;
            });
        }
        all.join_all().await;
    });
    ExitCode::SUCCESS
}

struct Agent {
    broker: Broker,
    outbox: Outbox,
    confirmations: Confirmations,
    first: u32,
}

impl Agent {
    /// Makes so many results, and keeps each until a store has it.
    async fn deliver(mut self, count: u32) {
        let mut made = self.outbox.epoch().expect("a disk");
        // What was handed over before it was killed is asked for at once.
        let mut sent: BTreeMap<String, Instant> = BTreeMap::new();
        loop {
            let mut waiting = self.outbox.waiting().expect("a disk").count;
            while waiting < WINDOW && made < u64::from(count) {
                let slot = u64::from(self.first) + made;
                let turn = format!("{RUN}.{slot}.1");
                self.outbox.put(&turn, 0, &agents::outcome(&turn, 1)).expect("a disk");
                (made, waiting) = (made + 1, waiting + 1);
                if made.is_multiple_of(NOTE_EVERY) || made == u64::from(count) {
                    self.outbox.raise(made).expect("a disk");
                }
            }
            if waiting == 0 {
                return;
            }
            for turn in self.outbox.turns().expect("a disk") {
                if sent.get(&turn).is_some_and(|sent| sent.elapsed() < AGAIN) {
                    continue;
                }
                if self.broker.is_confirmed(&turn).await.unwrap_or(false) {
                    self.outbox.remove(&turn).expect("a disk");
                } else if let Some(body) = self.outbox.body(&turn).expect("a disk")
                    && self.broker.hand_over(&turn, body).await.is_ok()
                {
                    sent.insert(turn, Instant::now());
                }
            }
            let listen =
                tokio::time::timeout(Duration::from_millis(200), self.confirmations.next());
            let mut heard = listen.await.ok().flatten();
            while let Some(turn) = heard {
                sent.remove(&turn);
                self.outbox.remove(&turn).expect("a disk");
                let more =
                    tokio::time::timeout(Duration::from_millis(1), self.confirmations.next());
                heard = more.await.ok().flatten();
            }
        }
    }
}

/// A process that keeps what comes, and says so, until it is killed; it ends by itself where it cannot keep any more.
pub fn coordinator(folder: &Path) -> ExitCode {
    let address = std::fs::read_to_string(folder.join("database")).expect("a file");
    let place = Place::from(OsString::from(address));
    let opened = match place.exists() {
        Ok(true) => place.open(),
        Ok(false) => place.create(&meta()),
        Err(error) => Err(error),
    };
    let known = || -> Result<BTreeSet<u32>, linerate_store::StoreError> {
        Ok(place.read()?.runs_after(0)?.into_iter().map(|(run, _)| run.slot).collect())
    };
    let ended = opened.and_then(|writer| Ok((writer, known()?)));
    let ended = ended.and_then(|(writer, known)| take(folder, writer, known));
    if let Err(error) = ended {
        eprintln!("coordinator: {error}");
    }
    ExitCode::FAILURE
}

/// A runtime that a thread of its own drives: a database has another.
fn driven() -> Handle {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

fn take(
    folder: &Path,
    mut writer: Box<dyn StoreWriter>,
    mut known: BTreeSet<u32>,
) -> Result<(), linerate_store::StoreError> {
    let handle = driven();
    let operator = credentials(folder, "operator.json");
    let broker = handle.block_on(patiently(|| Broker::connect(&operator)));
    let mut ingest = handle.block_on(patiently(|| broker.ingest(RUN)));
    while let Some(arrived) = handle.block_on(ingest.next()) {
        let slot = arrived.outcome.turn.split('.').nth(1).map(number).expect("a turn of ours");
        if known.insert(slot) {
            let ended =
                Event::RunEnded { slot, attempt: 1, extra: false, state: RunState::Counted };
            writer.keep_run("", &rate::counted(slot), &ended)?;
        }
        let broker = broker.clone();
        handle.spawn(async move {
            // Where it is not heard the result comes again.
            let _ = broker.confirm(&arrived).await;
        });
    }
    Ok(())
}
