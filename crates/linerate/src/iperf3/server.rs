//! The server: linerate's, which runs any number of tests at once, with iperf3's screen for each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use linerate_model::test_event::TestEvent;
use linerate_model::units::{BitRate, Nanos};
use linerate_runner::logins::{self, Logins, Settings};
use linerate_runner::server::{self, Event};
use linerate_runner::signals::Stop;

use super::screen::Screen;
use super::{Done, Options, Out, options, words};
use linerate_ask::iperf3::Line;

pub(super) fn run(line: &Line, out: &Arc<Mutex<Out>>) -> Done {
    let mut wanted = server::Options {
        bind: line.bind,
        port: line.port,
        one_off: line.one_off,
        rows: true,
        max_rate: BitRate::new(line.server_limit_bps),
        ..server::Options::default()
    };
    // iperf3 has no limit of its own but a day.
    let longest = line.server_max_s.unwrap_or(86_400 + 600);
    wanted.max_duration = Nanos::from_secs(longest);
    if line.interval_s > 0.0 {
        wanted.interval = Nanos((line.interval_s * 1e9) as u64);
    }
    if wanted.bind.is_none() && line.ip == Some(4) {
        wanted.bind = Some(std::net::Ipv4Addr::UNSPECIFIED.into());
    }
    wanted.only_v6 = line.ip == Some(6);
    wanted.no_data = Duration::from_millis(line.receive_timeout_ms);
    if let Some(core) = line.affinity.0 {
        stay_on(core).map_err(|error| {
            Some(format!("iperf3: error - unable to set CPU affinity: {}", error.desc()))
        })?;
    }
    if let (Some(private_key), Some(users)) = (&line.private_key, &line.users) {
        let settings = Settings {
            private_key: private_key.clone(),
            users: users.clone(),
            pkcs1: line.pkcs1,
            skew_s: line.time_skew_s.unwrap_or(logins::SKEW_S),
        };
        let logins = Logins::open(&settings).map_err(|error| {
            let hint = error.hints.first().map(|hint| format!("; {hint}")).unwrap_or_default();
            Some(format!("iperf3: parameter error - {}: {}{hint}", error.what, error.why))
        })?;
        wanted.logins = Some(Arc::new(logins));
    }
    // This server never gets stuck and has nothing to restart; a one-off server that nobody used ends.
    wanted.idle = line.idle_timeout_s.filter(|_| line.one_off).map(Duration::from_secs);
    let mut events = Events {
        line: line.clone(),
        options: options(line),
        out: Arc::clone(out),
        screens: BTreeMap::new(),
        tests: 0,
    };
    let stop = Stop::at_signals().map_err(|e| Some(format!("iperf3: error - {e}")))?;
    let served = server::serve(&wanted, || Ok(stop.clone()), move |_, event| events.show(event));
    served.map_err(|error| {
        Some(format!("iperf3: error - unable to start listener for connections: {}", error.why))
    })
}

/// What happens, as iperf3 shows it.
struct Events {
    line: Line,
    options: Options,
    out: Arc<Mutex<Out>>,
    screens: BTreeMap<SocketAddr, Screen>,
    tests: u64,
}

impl Events {
    fn show(&mut self, event: Event) {
        let out = &mut *self.out.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Listening(..) => {
                self.tests += 1;
                Screen::new(&self.line, &self.options).listening(out, self.tests);
            }
            Event::Test { peer, event, .. } => {
                let fresh = || Screen::new(&self.line, &self.options);
                let screen = self.screens.entry(peer).or_insert_with(fresh);
                screen.event(out, &event, None);
                if let TestEvent::End(end) = &event {
                    let error = end.error.as_ref().map(words);
                    screen.end(out, error.as_deref());
                    if let Some(error) = error {
                        out.error(&format!("iperf3: error - {error}"));
                    }
                    self.screens.remove(&peer);
                    self.tests += 1;
                    if !self.line.one_off {
                        Screen::new(&self.line, &self.options).listening(out, self.tests);
                    }
                }
            }
            Event::Refused { peer, why, .. } => {
                out.error(&format!("iperf3: error - {}: {why}", peer.ip()));
            }
            Event::RefusedMore { network, count } => {
                out.error(&format!("iperf3: error - {network}: refused {count} times more"));
            }
            Event::LogDropped { events } => {
                // Ends of tests may be among them.
                self.screens.clear();
                out.error(&format!("iperf3: error - {events} events are not shown, as this output was read too slowly"));
            }
            _ => {}
        }
    }
}

/// `-A`: this thread, and all that it will start, run on that core only.
#[cfg(not(target_os = "macos"))]
fn stay_on(core: u16) -> nix::Result<()> {
    let mut cores = nix::sched::CpuSet::new();
    cores.set(usize::from(core))?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores)
}

/// Refused: macOS binds nothing to a core.
#[cfg(target_os = "macos")]
fn stay_on(_core: u16) -> nix::Result<()> {
    Err(nix::errno::Errno::ENOSYS)
}
