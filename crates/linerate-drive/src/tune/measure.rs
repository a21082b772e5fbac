//! One figure of a setting: of a test, or of a search where a rate counts only up to some loss.

use linerate_analysis::metric::{Better, Metric};
use linerate_experiment::search::goal::Goal;
use linerate_experiment::search::{INVALID_CAP, Next, Search, Settings};
use linerate_model::plan::{Direction, EngineChoice, Traffic, Way};
use linerate_model::record::{Doubt, DoubtKind, ErrorKind, ErrorRecord, RunRecord, Status};
use linerate_model::search::GoalRecord;
use linerate_model::setting::Setting;
use linerate_model::units::{BitRate, Nanos};
use linerate_runner::client::Request;

use linerate_ask::tune::{LEAST_SEARCHED, Level};

use crate::Env;
use crate::trial::{self, Variation};

/// A setting that loses so much more than the default, as a share, is no better for the small delays of the rest.
const LOSES_MORE: f64 = 0.005;
/// Its bounds are this close, unless the width asks for closer ones.
const BOUNDS: f64 = 0.01;

/// What came of a setting.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The figure.
    pub value: Option<f64>,
    /// Ids of the runs.
    pub runs: Vec<String>,
    /// Of the runs.
    pub doubts: Vec<Doubt>,
    /// The last of them.
    pub record: Option<RunRecord>,
    /// Share of the datagrams that did not arrive, where what arrives is judged by its delay.
    pub lost: Option<f64>,
    /// Why there is no figure.
    pub failed: Option<String>,
    /// What cut into its runs, where that is why.
    pub cut: Option<DoubtKind>,
    /// The setting of this host that was refused, so that nothing ran.
    pub refused: Option<Setting>,
}

/// A level that is not what it says.
pub(super) struct NotHad {
    pub why: String,
    /// That is so whatever the other factors are.
    pub always: bool,
}

/// What is measured of every setting.
pub(super) struct Measure {
    pub metric: &'static Metric,
    /// Share of loss up to which a rate counts.
    pub loss: Option<f64>,
    pub width: f64,
    pub time: Nanos,
}

impl Measure {
    /// The figure of one setting. A setting that cannot run has none.
    ///
    /// # Errors
    /// What ends everything: no server any more, or Ctrl-C.
    pub fn run(&self, env: &mut Env<'_>, request: &Request) -> Result<Seen, ErrorRecord> {
        let mut seen = Seen::default();
        let done = match self.loss {
            Some(loss) => self.search(env, request, loss, &mut seen),
            None => self.test(env, request, &mut seen),
        };
        match done {
            Ok(()) => {}
            Err(error) if ends_all(&error.kind) => return Err(*error),
            Err(error) => {
                seen.failed = Some(format!("{}: {}", error.what, error.why));
                // That it was cut into once does not make this void.
                seen.cut = None;
            }
        }
        if seen.value.is_none() && seen.failed.is_none() {
            seen.failed = Some(format!("its runs have no {}", self.metric.name));
        }
        Ok(seen)
    }

    /// Share of the datagrams that a test lost, where small figures are wanted: those of the rest may be so because the
    /// late ones were lost.
    pub fn lost(&self, record: &RunRecord) -> Option<f64> {
        let receiver = record.totals.receiver.as_ref()?;
        receiver
            .lost_ratio
            .filter(|_| self.metric.better == Better::Lower && trial::voids(record).is_none())
    }

    fn test(
        &self,
        env: &mut Env<'_>,
        request: &Request,
        seen: &mut Seen,
    ) -> Result<(), Box<ErrorRecord>> {
        // What contradicts itself is repeated once, and so is what was no whole test.
        for _ in 0..2 {
            let (record, _) = trial::whole(env, request)?;
            let cut = trial::voids(&record);
            seen.failed = cut.map(|doubt| doubt.text.clone());
            seen.cut = cut.map(|doubt| doubt.kind.clone());
            let is_valid = record.status == Status::Complete && seen.failed.is_none();
            seen.value = self.metric.of(&record).filter(|_| is_valid);
            seen.lost = self.lost(&record).filter(|_| is_valid);
            seen.keep(record);
            if is_valid {
                break;
            }
        }
        Ok(())
    }

    /// The highest rate that keeps to the loss, by one good trial a load.
    fn search(
        &self,
        env: &mut Env<'_>,
        request: &Request,
        loss: f64,
        seen: &mut Seen,
    ) -> Result<(), Box<ErrorRecord>> {
        let min = LEAST_SEARCHED;
        let max = match &request.plan.traffic {
            Traffic::Udp(udp) => udp.rate.map(|rate| rate.bits_per_second(udp.size)),
            _ => None,
        };
        let max = max.and_then(BitRate::new);
        // Of a rate in datagrams small ones make few bits; without a limit the sender would flood.
        if let Some(max) = max.filter(|max| *max <= min) {
            seen.failed = Some(format!("its rate is {max}, and searches begin at {min}"));
            return Ok(());
        }
        let goal = Goal {
            name: "tune".to_owned(),
            loss,
            delay_p99: None,
            exceed: 0.0,
            time: self.time,
            sum: self.time,
            width: BOUNDS.min(self.width / 2.0),
        };
        let way = match request.plan.direction {
            Direction::Reverse => Way::Reverse,
            _ => Way::Forward,
        };
        let settings =
            Settings { way, min, max, goals: vec![goal], ci: None, shape: false, max_time: None };
        let mut search = Search::new(settings);
        let (mut in_a_row, mut cut) = (0, None);
        while let Next::Run { trial, .. } = search.next() {
            let (record, outcome) = trial::run(env, request, &trial, Variation::default())?;
            let doubt = trial::voids(&record);
            in_a_row = doubt.map_or(0, |_| in_a_row + 1);
            // So many, and the search gives a load up.
            if let Some(doubt) = doubt.filter(|_| in_a_row >= INVALID_CAP) {
                cut = Some(doubt.kind.clone());
            }
            seen.keep(record);
            search.take(outcome);
        }
        match search.goals().into_iter().next() {
            Some(GoalRecord { settled: true, lower_bps: Some(lower), .. }) => {
                seen.value = Some(lower);
            }
            Some(GoalRecord { settled: true, lower_bps: None, .. }) => {
                seen.failed = Some(format!("not even {min} kept to the loss"));
            }
            goal => {
                let why = goal.and_then(|goal| goal.irregular);
                let why = why.unwrap_or_else(|| "it did not settle".to_owned());
                seen.failed = Some(format!("its search has no figure: {why}"));
                seen.cut = cut;
            }
        }
        Ok(())
    }
}

impl Seen {
    /// Whether what cut into its runs is not the doing of these levels. To change a setting of an interface may take its
    /// link.
    pub fn is_void(&self, levels: &[&Level]) -> bool {
        let mut settings = levels.iter().filter_map(|level| level.setting());
        let takes_link = settings.any(|setting| setting.name.of_device());
        self.cut.as_ref().is_some_and(|cut| *cut != DoubtKind::LinkLost || !takes_link)
    }

    fn keep(&mut self, record: RunRecord) {
        self.runs.push(record.id.clone());
        self.doubts.extend(record.doubts.iter().cloned());
        self.record = Some(record);
    }
}

/// Errors that no other setting would mend.
fn ends_all(kind: &ErrorKind) -> bool {
    use ErrorKind as E;
    matches!(
        kind,
        E::Interrupted
            | E::UnknownHost
            | E::NoAddress
            | E::Refused
            | E::NoRoute
            | E::NoPermission
            | E::Bind
            | E::Reset
            | E::TimedOut
            | E::Connect
            | E::NotLinerate
            | E::Version
            | E::Key
            | E::Busy
            | E::UdpBlocked
            | E::Authentication
            | E::ServerLost
            | E::ServerStopped
            | E::HelperLost
            | E::Restore
    )
}

/// What is wrong with a setting that loses clearly more than the default did in its runs so far.
pub(super) fn loses_more(lost: f64, default: &[f64]) -> Option<String> {
    let usual = default.iter().sum::<f64>() / default.len() as f64;
    (lost > usual + LOSES_MORE).then(|| {
        let (lost, usual) = (100.0 * lost, 100.0 * usual);
        format!("it lost {lost:.1} % of the datagrams, the default {usual:.1} %")
    })
}

/// Why a level is not what it says on these hosts, as its test shows. Payloads up to `fits` are known to fit into a
/// frame.
pub(super) fn not_had(level: &Level, record: &RunRecord, fits: Option<u32>) -> Option<NotHad> {
    let agreed = record.agreed.as_ref()?;
    match level {
        Level::Window(asked) => {
            let granted = agreed.window_granted?;
            let least = [granted.send_bytes, granted.receive_bytes].into_iter().flatten().min()?;
            // What is read back is twice what is granted (socket(7)).
            let least = least / 2;
            let why = format!("a socket was granted {least} bytes (net.core.rmem_max, wmem_max)");
            (least < u64::from(*asked)).then_some(NotHad { why, always: true })
        }
        Level::Engine(asked) if *asked != EngineChoice::Auto => {
            let ran = agreed.engine.as_ref()?.name();
            // A datagram that leaves in fragments is refused by GSO, which smaller ones may have.
            let always = agreed.datagram_bytes.zip(fits).is_some_and(|(bytes, fits)| bytes <= fits);
            let why = format!("the sender fell back to {ran}");
            (ran != asked.name()).then_some(NotHad { why, always })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::{TcpPlan, TestPlan};
    use linerate_model::record::WindowGranted;
    use linerate_model::setting::SettingValue;
    use linerate_runner::client::Target;
    use linerate_runner::signals::Stop;
    use linerate_session::observer::Observer;
    use linerate_testkit::records;

    use super::*;
    use crate::{Executor, SystemClock};

    fn measure(name: &str) -> Measure {
        let metric = linerate_analysis::metric::find(name).unwrap();
        Measure { metric, loss: None, width: 0.02, time: Nanos::from_secs(1) }
    }

    /// The link is lost in so many tests, and then no more.
    struct Cut(u32);

    impl Executor for Cut {
        fn run(&mut self, _: &Request, _: &mut dyn Observer, _: &Stop) -> RunRecord {
            let cut = Doubt::new(DoubtKind::LinkLost, "no carrier");
            let doubts = if self.0 > 0 { vec![cut] } else { Vec::new() };
            self.0 = self.0.saturating_sub(1);
            RunRecord { doubts, ..records::udp_receiver_drops() }
        }
    }

    #[test]
    fn a_test_without_its_link_is_repeated_once_and_gives_no_figure() {
        for (cut, runs, failed) in [(0, 1, None), (1, 2, None), (2, 2, Some("no carrier"))] {
            let (mut executor, clock) = (Cut(cut), SystemClock::default());
            let mut env = Env {
                executor: &mut executor,
                clock: &clock,
                stop: Stop::default(),
                watcher: &mut (),
            };
            let plan = TestPlan::new(Traffic::Tcp(TcpPlan::new(131_072)));
            let request = Request::new(Target::Local, plan);
            let seen = measure("received_bps").run(&mut env, &request).unwrap();
            assert_eq!((seen.runs.len(), seen.failed.as_deref()), (runs, failed));
            assert_eq!(seen.cut, failed.map(|_| DoubtKind::LinkLost));
            assert_eq!(seen.value.is_some(), failed.is_none(), "{:?}", seen.value);
        }
    }

    #[test]
    fn a_link_that_a_setting_may_have_taken_is_held_against_it() {
        let level = |name: &str, value| Level::Setting(Setting::new(name, value).unwrap());
        let ring = level("ring.rx", SettingValue::Number(512));
        let memory = level("sysctl.net.core.rmem_max", SettingValue::Number(4_194_304));
        let void = |cut, levels: &[&Level]| Seen { cut, ..Seen::default() }.is_void(levels);
        for (level, lost) in [(&ring, false), (&memory, true), (&Level::Streams(2), true)] {
            assert_eq!(void(Some(DoubtKind::LinkLost), &[level]), lost, "{level:?}");
            assert!(void(Some(DoubtKind::Stopped), &[level]), "{level:?}");
            assert!(!void(None, &[level]), "{level:?}");
        }
        assert!(!void(Some(DoubtKind::LinkLost), &[&memory, &ring]));
    }

    #[test]
    fn a_window_is_had_if_half_of_what_is_read_back_is_it() {
        let mut record = records::udp_receiver_drops();
        let mut asked = |bytes: u32, send: Option<u64>, receive: Option<u64>| {
            let granted = WindowGranted { send_bytes: send, receive_bytes: receive };
            record.agreed.as_mut().unwrap().window_granted = Some(granted);
            not_had(&Level::Window(bytes), &record, None)
        };
        // net.core.rmem_max of 212,992, read back doubled.
        assert!(asked(262_144, Some(524_288), Some(425_984)).is_some_and(|found| found.always));
        assert!(asked(131_072, Some(262_144), Some(262_144)).is_none());
        assert!(asked(131_072, None, None).is_none(), "nobody knows");
    }

    #[test]
    fn to_lose_what_is_late_is_no_small_delay() {
        assert_eq!(loses_more(0.014, &[0.0, 0.02]), None);
        assert_eq!(
            loses_more(0.031, &[0.0, 0.002]).as_deref(),
            Some("it lost 3.1 % of the datagrams, the default 0.1 %")
        );
        assert_eq!(loses_more(0.9, &[]), None, "nothing to compare with");
        let record = records::udp_receiver_drops();
        assert!(measure("delay_variation_p99").lost(&record).is_some());
        assert_eq!(measure("received_bps").lost(&record), None);
    }

    #[test]
    fn an_engine_is_blamed_where_its_datagrams_fit() {
        let mut record = records::udp_receiver_drops();
        let agreed = record.agreed.as_mut().unwrap();
        agreed.engine = Some(EngineChoice::Send.into());
        agreed.datagram_bytes = Some(8_192);
        let always =
            |fits| not_had(&Level::Engine(EngineChoice::Gso), &record, fits).map(|n| n.always);
        assert_eq!(always(Some(8_192)), Some(true));
        assert_eq!(always(Some(1_472)), Some(false));
        assert_eq!(always(None), Some(false));
        assert!(not_had(&Level::Engine(EngineChoice::Send), &record, None).is_none());
    }
}
