//! What one change is worth: runs without and with it in turn, compared.

use std::sync::Arc;

use linerate_analysis::compare::{self, Margin, Options, Verdict};
use linerate_analysis::set::{Data, Set};
use linerate_ask::doctor::DoctorArgs;
use linerate_ask::target::Found;
use linerate_ask::usage;
use linerate_experiment::doubts;
use linerate_model::doctor::{DoctorDocument, Finding, Gain, Proof};
use linerate_model::plan::Direction;
use linerate_model::record::{Doubt, ErrorKind, ErrorRecord, Status, TestEnd};
use linerate_model::setting::{Applied, Setting};
use linerate_runner::agent::{DeviceChoice, HostAgent, set, still};
use linerate_runner::client::Request;

use super::TakeOver;
use crate::{Env, trial};

/// Smallest change that matters, as a share.
const MARGIN: f64 = 0.02;
/// Compared of every run.
const METRIC: &str = "received_bps";

/// Proves what the change of a finding is worth, and writes it into the document.
pub(super) fn prove(
    args: &DoctorArgs,
    id: &str,
    found: &Found,
    document: &mut DoctorDocument,
    env: &mut Env<'_>,
    take_over: TakeOver<'_>,
) -> Result<(), ErrorRecord> {
    let setting = setting(id, &document.findings)?;
    provable(id)?;
    let way = if of_receiving(id) { Direction::Reverse } else { Direction::Forward };
    let request = args.run(found, way, of_datagrams(id))?;
    let device = document.here.host.nic.as_ref().map(|nic| DeviceChoice::Named(nic.name.clone()));
    let device = device.filter(|_| setting.name.of_device());
    let mut host = take_over()?;
    let mut runs = Runs::default();
    let done =
        turns(args.pairs, host.as_mut(), device.as_ref(), &setting, &request, &mut runs, env);
    let left = match host.restore() {
        Ok(restoration) => restoration.left(),
        Err(error) => vec![format!("{}: {}", error.what, error.why)],
    };
    let mut proof = judged(id, setting, runs);
    proof.error = done.err().or_else(|| not_back(&left));
    proof.left = left;
    if proof.error.is_none()
        && let Some(finding) =
            document.findings.iter_mut().find(|f| f.id == id && f.host == TestEnd::Client)
    {
        finding.effect = format!("measured here: {}", proof.words);
    }
    document.proof = Some(proof);
    Ok(())
}

/// Makes the change of a proof for good where its runs show that it helps. `set` makes it so that nothing puts it back; it
/// is told the interface, if the change is of one.
pub fn keep(
    document: &mut DoctorDocument,
    set: impl FnOnce(Option<&str>, &Setting) -> Result<Applied, ErrorRecord>,
) {
    let DoctorDocument { proof, here, .. } = document;
    let Some(proof) = proof.as_mut().filter(|proof| helps(proof)) else { return };
    let device = here.host.nic.as_ref().map(|nic| nic.name.as_str());
    let device = device.filter(|_| proof.setting.name.of_device());
    let refused =
        |why: String| ErrorRecord::new(ErrorKind::Unable, "cannot keep the change", why, &[]);
    match set(device, &proof.setting) {
        Ok(applied) if applied.holds() => proof.kept = true,
        Ok(applied) => proof.error = Some(refused(applied.why.unwrap_or_default())),
        Err(error) => {
            if error.kind == ErrorKind::Restore {
                proof.left.push(error.why.clone());
            }
            proof.error = Some(error);
        }
    }
}

/// Whether all runs were made, the host is as before, and the whole interval of the gain lies above 0.
fn helps(proof: &Proof) -> bool {
    let whole = proof.error.is_none() && proof.left.is_empty();
    let differs = proof.verdict.as_deref() == Some(Verdict::Different.name());
    whole && differs && proof.gain_percent.is_some_and(|gain| gain.low > 0.0)
}

/// A host that is not as before is an error, whatever the runs say.
pub(crate) fn not_back(left: &[String]) -> Option<ErrorRecord> {
    let what = "the host is not as it was before";
    (!left.is_empty()).then(|| ErrorRecord::new(ErrorKind::Restore, what, left.join("; "), &[]))
}

/// The change of the finding of that name, of this host.
fn setting(id: &str, findings: &[Finding]) -> Result<Setting, ErrorRecord> {
    let here = || findings.iter().filter(|finding| finding.host == TestEnd::Client);
    let provable: Vec<&str> = here()
        .filter(|f| f.setting.is_some() && unseen(&f.id).is_none())
        .map(|f| f.id.as_str())
        .collect();
    let hint = match &provable[..] {
        [] => "no finding of this host has a change that linerate makes itself".to_owned(),
        ids => format!("one of {}", ids.join(", ")),
    };
    let what = format!("cannot prove `{id}`");
    match here().find(|finding| finding.id == id) {
        Some(Finding { setting: Some(setting), .. }) => Ok(setting.clone()),
        Some(_) => {
            Err(usage::error(what, "linerate cannot make its change itself, with undo", &[&hint]))
        }
        None => Err(usage::error(what, "it was not found on this host", &[&hint])),
    }
}

const ASKED_PAST: &str = "whoever may change it is not held to it (SO_RCVBUFFORCE, SO_SNDBUFFORCE)";
const OWN_BUFFER: &str =
    "linerate's own sockets for datagrams ask for a buffer, and do not take the default";
const ONE_END: &str = "it changes the packets of this end alone, and TCP's two ends agree on the smaller all the same";

/// Changes that no run of linerate's would show, each with why.
const UNSEEN: [(&str, &str); 8] = [
    ("buffers.rmem-max", ASKED_PAST),
    ("buffers.wmem-max", ASKED_PAST),
    ("buffers.rmem-default", OWN_BUFFER),
    ("buffers.wmem-default", OWN_BUFFER),
    ("path.jumbo", ONE_END),
    ("path.mtu-mismatch", ONE_END),
    (
        "offload.udp-gro-forwarding",
        "it is of datagrams that this host forwards, and in a run it forwards none",
    ),
    (
        "tcp.mtu-probing",
        "it acts only where large packets vanish on the way, and there no run without it ends",
    ),
];

fn unseen(id: &str) -> Option<&'static str> {
    UNSEEN.iter().find(|(unseen, _)| *unseen == id).map(|(_, why)| *why)
}

fn provable(id: &str) -> Result<(), ErrorRecord> {
    let Some(why) = unseen(id) else { return Ok(()) };
    Err(usage::error(
        format!("cannot prove `{id}`"),
        format!("{why}, so that linerate's own runs are the same without and with it"),
        &["try it with the program and on the path that it is for"],
    ))
}

/// What the change is of shows where this host receives.
fn of_receiving(id: &str) -> bool {
    let families = [
        "buffers.tcp-rmem",
        UDP_MEMORY,
        "tcp.autotuning",
        "offload.gro",
        "offload.rx",
        "nic.ring",
        "nic.rx",
        "nic.rps",
        "nic.irq",
        "nic.queues",
        "softnet",
    ];
    families.iter().any(|family| id.starts_with(family))
}

/// What the change is of shows in datagrams, and not in a byte stream.
fn of_datagrams(id: &str) -> bool {
    id.starts_with("offload.udp") || id == UDP_MEMORY
}

/// The kernel drops received datagrams beyond it (`__udp_enqueue_schedule_skb` of net/ipv4/udp.c).
const UDP_MEMORY: &str = "buffers.udp-memory";

#[derive(Default)]
struct Runs {
    without: Vec<f64>,
    with: Vec<f64>,
    /// Of each run.
    doubts: Vec<Vec<Doubt>>,
}

/// Pairs of runs, each pair the other way round than the one before, so that what drifts is in both alike.
fn turns(
    pairs: u32,
    host: &mut dyn HostAgent,
    device: Option<&DeviceChoice>,
    setting: &Setting,
    request: &Request,
    runs: &mut Runs,
    env: &mut Env<'_>,
) -> Result<(), ErrorRecord> {
    // The first run finds everything cold: it counts in neither.
    run(request, env)?;
    for pair in 0..pairs {
        let mut figures = [0.0; 2];
        for with in if pair % 2 == 0 { [false, true] } else { [true, false] } {
            let mut applied = None;
            if with {
                applied = Some(set(host, device, setting)?);
            } else if let Some(error) = not_back(&host.restore()?.left()) {
                return Err(error);
            }
            let (figure, doubts) = run(request, env)?;
            figures[usize::from(with)] = figure;
            runs.doubts.push(doubts);
            if let Some(applied) = applied {
                still(host, device, &applied)?;
            }
        }
        let [without, with] = figures;
        runs.without.push(without);
        runs.with.push(with);
    }
    Ok(())
}

/// The rate received in a run, and its doubts. What was no whole test is run again once.
fn run(request: &Request, env: &mut Env<'_>) -> Result<(f64, Vec<Doubt>), ErrorRecord> {
    let mut record = env.executor.run(request, env.watcher, &env.stop);
    if record.status == Status::Complete && trial::voids(&record).is_some() {
        record = env.executor.run(request, env.watcher, &env.stop);
    }
    let unable = |why: &str, hints: &[&str]| {
        ErrorRecord::new(ErrorKind::Unable, "cannot compare a run", why, hints)
    };
    if record.status == Status::Complete
        && let Some(doubt) = trial::voids(&record)
    {
        return Err(unable(&doubt.text, &[doubt.kind.advice()]));
    }
    match (record.status, record.error) {
        (Status::Complete, _) => {
            let received = record.summary.and_then(|summary| summary.received_bps);
            let figure = received.ok_or_else(|| unable("it has no received rate", &[]))?;
            Ok((figure, record.doubts))
        }
        (_, Some(error)) => Err(error),
        (..) => Err(ErrorRecord::new(ErrorKind::Unable, "a run failed", "it gave no reason", &[])),
    }
}

/// What the runs show.
fn judged(id: &str, setting: Setting, runs: Runs) -> Proof {
    let mut proof = Proof {
        id: id.to_owned(),
        setting,
        metric: METRIC.to_owned(),
        without: runs.without,
        with: runs.with,
        margin_percent: MARGIN * 100.0,
        verdict: None,
        gain_percent: None,
        words: "too few runs were made to say".to_owned(),
        doubts: doubts::summed(runs.doubts.iter().map(Vec::as_slice)),
        left: Vec::new(),
        kept: false,
        error: None,
    };
    compared(&mut proof);
    for doubt in &proof.doubts {
        proof.words.push_str(&format!("; doubt: {}", doubt.text));
    }
    proof
}

/// Fills in what the runs show, as far as there are enough of them.
fn compared(proof: &mut Proof) {
    let set = |label: &str, values: &[f64]| Set {
        label: label.to_owned(),
        unit: Some("bit/s".to_owned()),
        data: Data::Runs { values: Arc::new(values.to_vec()), boots: None },
        notes: Vec::new(),
    };
    if proof.without.len() < 3 {
        return;
    }
    let sets = [set("without", &proof.without), set("with", &proof.with)];
    let options = Options { margin: Margin::Relative(MARGIN), paired: true, ..Options::default() };
    let Ok(analysis) = compare::compare(&sets, &options) else { return };
    let Some(comparison) = analysis.comparisons.first() else { return };
    let base = proof.without.iter().sum::<f64>() / proof.without.len() as f64;
    let percent = |difference: f64| difference / base * 100.0;
    proof.gain_percent = match (comparison.difference, &comparison.ci) {
        (Some(gain), Some(ci)) if base > 0.0 => {
            Some(Gain { mean: percent(gain), low: percent(ci.low), high: percent(ci.high) })
        }
        _ => None,
    };
    proof.verdict = comparison.verdict.map(|verdict| verdict.name().to_owned());
    proof.words = words(comparison.verdict, proof.gain_percent, proof.without.len());
}

fn words(verdict: Option<Verdict>, gain: Option<Gain>, pairs: usize) -> String {
    let margin = MARGIN * 100.0;
    match (verdict, gain) {
        (Some(Verdict::Equivalent), _) => format!("no difference larger than {margin:.0} %"),
        (Some(Verdict::Different), Some(gain @ Gain { mean, low, high })) => match mean >= 0.0 {
            true => format!("worth {}", gain.words(0)),
            false => {
                let cost = Gain { mean: -mean, low: -high, high: -low };
                format!("costs {}", cost.words(0))
            }
        },
        (Some(Verdict::Inconclusive), Some(Gain { low, high, .. })) => {
            let digits = Gain { mean: high, low, high }.decimals(0);
            format!(
                "not settled after {pairs} pairs: between {low:+.digits$} and {high:+.digits$} %; --pairs for more"
            )
        }
        _ => "the runs allow no verdict".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::doctor::{Goal, HostDetails};
    use linerate_model::host::NicFacts;
    use linerate_model::plan::{TcpPlan, TestPlan, Traffic};
    use linerate_model::record::{DoubtKind, ProgramFacts, RunRecord, Summary};
    use linerate_model::setting::{Outcome, ReadBack, Restoration, SettingValue};
    use linerate_runner::agent::{Reply, Request as Ask};
    use linerate_runner::client::Target;
    use linerate_runner::signals::Stop;
    use linerate_session::observer::Observer;
    use linerate_testkit::records;
    use linerate_testkit::settings::applied;

    use super::*;
    use crate::{Executor, SystemClock};

    /// A host whose runs all have this doubt, and how many there were.
    struct Doubtful(DoubtKind, u32);

    impl Executor for Doubtful {
        fn run(&mut self, _: &Request, _: &mut dyn Observer, _: &Stop) -> RunRecord {
            self.1 += 1;
            let received_bps = Some(1e9 + 1e6 * f64::from(self.1 % 3));
            RunRecord {
                summary: Some(Summary { received_bps, ..Summary::default() }),
                doubts: vec![Doubt::new(self.0.clone(), "a core was lost 40 % of the time")],
                ..records::empty("tcp")
            }
        }
    }

    /// All that is set holds until it is put back.
    struct Willing;

    impl HostAgent for Willing {
        fn name(&self) -> &str {
            "willing"
        }

        fn ask(&mut self, request: Ask) -> Result<Reply, ErrorRecord> {
            let read = |name| ReadBack {
                name,
                device: None,
                value: Some(SettingValue::Switch(true)),
                why: None,
            };
            Ok(match request {
                Ask::Apply { settings, .. } => {
                    Reply::Applied(settings.into_iter().map(applied).collect())
                }
                Ask::Read { names, .. } => Reply::Read(names.into_iter().map(read).collect()),
                _ => Reply::Restored(Restoration::default()),
            })
        }
    }

    /// Three pairs of runs with this doubt: what came of them, and how many runs were made.
    fn proven(kind: DoubtKind) -> (Result<(), ErrorRecord>, Proof, u32) {
        let (mut executor, mut runs) = (Doubtful(kind, 0), Runs::default());
        let setting = Setting::new("offload.tso", SettingValue::Switch(true)).unwrap();
        let plan = TestPlan::new(Traffic::Tcp(TcpPlan::new(131_072)));
        let request = Request::new(Target::Local, plan);
        let done = {
            let clock = SystemClock::default();
            let mut env = Env {
                executor: &mut executor,
                clock: &clock,
                stop: Stop::default(),
                watcher: &mut (),
            };
            turns(3, &mut Willing, None, &setting, &request, &mut runs, &mut env)
        };
        (done, judged("offload.tso", setting, runs), executor.1)
    }

    #[test]
    fn doubts_of_the_runs_are_those_of_the_proof() {
        let (done, proof, made) = proven(DoubtKind::HostBusy);
        done.unwrap();
        assert_eq!((made, proof.without.len(), proof.with.len()), (7, 3, 3), "the first is cold");
        let doubt = "in 6 of 6 trials, first: a core was lost 40 % of the time";
        assert_eq!(proof.doubts, [Doubt::new(DoubtKind::HostBusy, doubt)]);
        assert!(proof.words.ends_with(&format!("; doubt: {doubt}")), "{}", proof.words);
    }

    #[test]
    fn a_run_without_its_link_is_run_again_once() {
        let (done, proof, made) = proven(DoubtKind::LinkLost);
        let error = done.unwrap_err();
        assert_eq!((made, error.why.as_str()), (2, "a core was lost 40 % of the time"));
        assert!(proof.without.is_empty() && proof.verdict.is_none());
    }

    fn said(without: &[f64], with: &[f64]) -> String {
        let setting = Setting::new("offload.tso", SettingValue::Switch(true)).unwrap();
        let runs = Runs { without: without.to_vec(), with: with.to_vec(), doubts: Vec::new() };
        judged("offload.tso", setting, runs).words
    }

    #[test]
    fn a_change_is_tried_by_traffic_that_it_is_of() {
        for (id, receives, is_of_datagrams) in [
            ("offload.udp-segmentation", false, true),
            ("buffers.udp-memory", true, true),
            ("buffers.tcp-rmem", true, false),
            ("buffers.tcp-wmem", false, false),
        ] {
            assert_eq!((of_receiving(id), of_datagrams(id)), (receives, is_of_datagrams), "{id}");
        }
    }

    #[test]
    fn a_change_that_no_run_shows_is_not_proven() {
        let found = |id: &str| Finding {
            id: id.to_owned(),
            host: TestEnd::Client,
            severity: linerate_model::doctor::Severity::Warning,
            what: String::new(),
            why: String::new(),
            change: Vec::new(),
            undo: Vec::new(),
            setting: Setting::new("offload.tso", SettingValue::Switch(true)).ok(),
            effect: String::new(),
        };
        for (id, why) in UNSEEN {
            assert!(provable(id).unwrap_err().why.starts_with(why), "{id}");
            let findings = [found(id), found("offload.tso")];
            assert_eq!(setting("no.such", &findings).unwrap_err().hints, ["one of offload.tso"]);
        }
        provable("offload.tso").unwrap();
    }

    /// Only what helps is kept, and what the kernel refuses or rounds then is an error.
    #[test]
    fn only_a_change_that_helps_is_kept() {
        let kept = |without: &[f64], with: &[f64], outcome: Option<Outcome>| {
            let setting = Setting::new("offload.tso", SettingValue::Switch(true)).unwrap();
            let runs = Runs { without: without.to_vec(), with: with.to_vec(), doubts: Vec::new() };
            let mut here = HostDetails::default();
            here.host.nic = Some(NicFacts { name: "eth7".into(), ..NicFacts::default() });
            let mut document = DoctorDocument {
                format: linerate_model::doctor::FORMAT,
                kind: "doctor".into(),
                started: String::new(),
                linerate: ProgramFacts { version: String::new() },
                command: Vec::new(),
                target: None,
                goal: Goal::default(),
                checks: 0,
                findings: Vec::new(),
                unknown: Vec::new(),
                proof: Some(judged("offload.tso", setting, runs)),
                here,
                far: None,
            };
            let mut asked = None;
            keep(&mut document, |device, setting| {
                asked = device.map(str::to_owned);
                let left = || not_back(&["MTU of eth7: busy".to_owned()]).unwrap();
                let outcome = outcome.ok_or_else(left)?;
                Ok(Applied { outcome, ..applied(setting.clone()) })
            });
            let proof = document.proof.unwrap();
            (asked, proof.kept, proof.error.map(|error| error.what), proof.left)
        };
        let less = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0];
        let more = [118.0, 119.0, 117.0, 119.5, 116.5, 118.0];
        let (less, more) = (&less[..], &more[..]);
        let eth7 = || Some("eth7".to_owned());
        let nothing = Vec::<String>::new;
        assert_eq!(kept(less, more, Some(Outcome::Set)), (eth7(), true, None, nothing()));
        let refused = || Some("cannot keep the change".to_owned());
        for outcome in [Outcome::Refused, Outcome::Rounded] {
            let expected = (eth7(), false, refused(), nothing());
            assert_eq!(kept(less, more, Some(outcome)), expected);
        }
        let (_, is_kept, error, left) = kept(less, more, None);
        assert_eq!((is_kept, error.is_some()), (false, true));
        assert_eq!(left, ["MTU of eth7: busy"], "it is not said to be as before");
        assert_eq!(kept(more, less, Some(Outcome::Set)), (None, false, None, nothing()));
        assert_eq!(kept(less, less, Some(Outcome::Set)), (None, false, None, nothing()));
    }

    #[test]
    fn what_a_change_is_worth_is_said_with_its_interval() {
        let base = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0];
        let more: Vec<f64> =
            base.iter().zip([18.0, 17.0, 19.0, 18.5, 17.5, 18.0]).map(|(a, b)| a + b).collect();
        assert_eq!(said(&base, &more), "worth 18 % (17 to 19)");
        assert_eq!(said(&more, &base), "costs 15 % (15 to 16)");
        let same: Vec<f64> =
            base.iter().zip([0.1, -0.1, 0.2, -0.2, 0.1, -0.1]).map(|(a, b)| a + b).collect();
        assert_eq!(said(&base, &same), "no difference larger than 2 %");
        let wild: Vec<f64> =
            base.iter().zip([30.0, -30.0, 25.0, -20.0, 10.0, 5.0]).map(|(a, b)| a + b).collect();
        assert!(said(&base, &wild).starts_with("not settled after 6 pairs"));
        assert_eq!(said(&base[..2], &more[..2]), "too few runs were made to say");
        // A small gain is not none.
        let little: Vec<f64> =
            base.iter().zip([0.4, 0.3, 0.5, 0.45, 0.35, 0.4]).map(|(a, b)| a + b).collect();
        assert_eq!(said(&base, &little), "worth 0.4 % (0.3 to 0.5)");
        assert_eq!(said(&little, &base), "costs 0.4 % (0.3 to 0.5)");
    }
}
