//! Campaigns whose hosts go wrong: they boot by themselves, lose what was set, are away, or stay as they are.

use std::collections::BTreeMap;

use linerate_drive::campaign::{self, Ended};
use linerate_model::campaign::{CampaignState, Event, RunState, StoredRun};
use linerate_model::record::DoubtKind;
use linerate_model::setting::RestoreOutcome;
use linerate_store::Reader;
use linerate_testkit::whole::chance::Chance;

use crate::world::{Fate, Folder, World, error};
use crate::{PLAN, SLOTS, begin, check};

/// [`PLAN`] with other settings, and without reboots.
fn plan(settings: &str) -> String {
    let (head, _) = PLAN.split_once("[settings.here]").unwrap();
    format!("{}{settings}", head.replace("boots = 2", "boots = 0"))
}

/// One in which nothing is set on the host that reboots, and which is no client.
fn towards_dut() -> String {
    plan("[settings.to]\nfrom = \"local\"\nto = \"dut\"\n").replace("boots = 0", "boots = 2")
}

fn runs(folder: &Folder) -> Vec<StoredRun> {
    Reader::open(&folder.file("plan.db")).unwrap().runs().unwrap()
}

fn kept(folder: &Folder) -> Vec<Event> {
    let events = Reader::open(&folder.file("plan.db")).unwrap().events().unwrap();
    events.into_iter().map(|(_, event)| event).collect()
}

fn reboots(world: &World) -> usize {
    world.events().iter().filter(|event| *event == "reboot dut").count()
}

#[test]
fn a_host_that_boots_by_itself_is_noticed_wherever_it_does() {
    for test in 1..=6 {
        let fate = Fate { crash: Some((test, "dut")), ..Fate::default() };
        let (world, folder) = (World::default().fated(fate), Folder::new("crash"));
        assert_eq!(begin(&world, &folder, &towards_dut()).unwrap(), Ended::Done);
        check(&folder, &world, 6, &format!("test {test}"));
        let known: Vec<String> = runs(&folder).into_iter().filter_map(|run| run.boot_id).collect();
        let real = world.boots_at_tests().into_iter().map(|boots| format!("local-0/dut-{boots}"));
        assert_eq!(known, real.collect::<Vec<_>>(), "test {test}");
        assert_eq!(reboots(&world), 2, "test {test}: one real reboot for each boot of the design");
    }
}

#[test]
fn a_host_that_does_not_reboot_is_not_asked_for_ever() {
    let fate = Fate { no_reboot: true, ..Fate::default() };
    let (world, folder) = (World::default().fated(fate), Folder::new("stuck"));
    let plan = towards_dut().replace("boots = 2", "boots = 1");
    for kind in ["host_gone", "host_gone", "host_gone", "reboot", "reboot"] {
        assert_eq!(begin(&world, &folder, &plan).unwrap_err().kind.name(), kind);
    }
    assert_eq!(reboots(&world), 3);
    // By hand.
    world.boot("dut");
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Done);
    check(&folder, &world, 3, "by hand");
}

#[test]
fn a_reboot_command_that_failed_is_asked_again_once_it_is_mended() {
    let fate = Fate { reboots_fail: 3, ..Fate::default() };
    let (world, folder) = (World::default().fated(fate), Folder::new("mended"));
    let plan = towards_dut().replace("boots = 2", "boots = 1");
    for _ in 0..3 {
        let error = begin(&world, &folder, &plan).unwrap_err();
        assert_eq!((error.kind.name(), error.what.as_str()), ("reboot", "made up"));
    }
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Done);
    check(&folder, &world, 3, "mended");
    assert_eq!(reboots(&world), 4);
}

#[test]
fn a_host_is_put_back_before_it_has_too_much_to_undo() {
    let setting = |name: &str, tso: bool| {
        format!("[settings.{name}]\nfrom = \"dut\"\nto = \"peer\"\nset.dut.offload.tso = {tso}\n")
    };
    let plan = plan(&(setting("off", false) + &setting("on", true)));
    let plan = plan.replace("runs = 2", "runs = 60");
    let fate = Fate { most_orders: Some(50), ..Fate::default() };
    let (world, folder) = (World::default().fated(fate), Folder::new("orders"));
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Done);
    check(&folder, &world, 2 * 61, "orders");
    assert!(world.is_put_back());
}

#[test]
fn what_is_set_on_one_interface_is_put_back_before_another_is_set() {
    let setting = |to: &str| {
        format!("[settings.{to}]\nfrom = \"dut\"\nto = \"{to}\"\nset.dut.offload.tso = false\n")
    };
    let plan = plan(&(setting("peer") + &setting("other")));
    let plan = plan.replace("[defaults]", "[hosts.other]\naddress = \"other\"\n[defaults]");
    let (world, folder) = (World::default(), Folder::new("interfaces"));
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Done);
    check(&folder, &world, 6, "two interfaces");
    let two = world.events().iter().filter(|event| event.starts_with("two interfaces")).count();
    assert_eq!(two, 0);
}

#[test]
fn a_run_that_was_cut_began_when_it_did_and_not_when_that_was_noticed() {
    const BEGAN: &str = "2025-12-31T23:59:59Z";
    let (world, folder) = (World::stopped_at(Some(1)), Folder::new("began"));
    let plan = plan("[settings.here]\nfrom = \"local\"\nto = \"peer\"\n");
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Interrupted);
    // As its controller leaves it that is killed in the first run.
    let path = folder.file("plan.db");
    let mut store = linerate_store::Campaign::open(&path).unwrap();
    store.keep(BEGAN, &Event::RunBegan { slot: 0, attempt: 1, extra: false }).unwrap();
    drop(store);
    let again = world.again();
    let ended = again.run(|env| campaign::resume(None, &path, &mut again.clone(), env)).unwrap();
    assert_eq!(ended, Ended::Done);
    let cut = runs(&folder).into_iter().filter(|run| run.state == RunState::Cut);
    assert_eq!(cut.map(|run| run.started).collect::<Vec<_>>(), [BEGAN]);
}

#[test]
fn a_clock_that_is_set_between_two_boots_is_no_time_of_a_boot() {
    let steps = {
        let (world, folder) = (World::default(), Folder::new("clock-steps"));
        begin(&world, &folder, PLAN).unwrap();
        world.steps()
    };
    // In the first of two boots.
    let (world, folder) = (World::stopped_at(Some(steps * 3 / 8)), Folder::new("clock"));
    assert_eq!(begin(&world, &folder, PLAN).unwrap(), Ended::Interrupted);
    let path = folder.file("plan.db");
    let before = campaign::status(&path).unwrap();
    assert!(before.done > 0 && before.boots_done == 0, "{before:?}");
    let mut store = linerate_store::Campaign::open(&path).unwrap();
    let (boot, host) = (1, "dut".to_owned());
    let began = Event::BootBegan { boot, host: host.clone(), old: "a".into() };
    store.keep("1970-01-01T00:00:30Z", &began).unwrap();
    let proved = Event::BootProved { boot, host, boot_id: "b".into() };
    store.keep("2026-01-01T00:00:00Z", &proved).unwrap();
    drop(store);
    assert_eq!(campaign::status(&path).unwrap().eta_s, before.eta_s);
}

/// Tests from a host to the peer, which has another port than usual.
fn to_peer(from: &str, more: &str) -> String {
    let settings = format!("[settings.s]\nfrom = \"{from}\"\nto = \"peer\"\n{more}\n");
    plan(&settings).replace("address = \"peer\"", "address = \"peer\"\nport = 5301")
}

#[test]
fn a_server_that_is_away_is_awaited_where_the_test_goes_to() {
    for (more, port) in [("", 5301), ("port = 7000", 7000), ("dialect = \"netperf\"", 12_865)] {
        let (world, folder) = (World::failing(1, error("refused", 3)), Folder::new("port"));
        assert_eq!(begin(&world, &folder, &to_peer("local", more)).unwrap(), Ended::Done);
        assert_eq!(world.looked_at(), [("peer".to_owned(), port)], "{more}");
    }
    // What is no absence is not waited for.
    let (world, folder) = (World::failing(1, error("udp_blocked", 3)), Folder::new("blocked"));
    assert_eq!(begin(&world, &folder, &to_peer("local", "")).unwrap(), Ended::Done);
    assert!(world.looked_at().is_empty());
}

#[test]
fn a_server_that_a_client_elsewhere_does_not_reach_is_tried_from_there() {
    // Without another attempt.
    let plan = to_peer("dut", "dialect = \"netperf\"").replace("retries = 2", "retries = 0");
    let (world, folder) = (World::failing(1, error("refused", 3)), Folder::new("elsewhere"));
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Done);
    assert_eq!((world.looked_at(), world.tests()), (vec![], 4));
    let runs = runs(&folder);
    assert!(runs.iter().all(|run| run.attempt == 1 && run.error.is_none()), "{runs:?}");
    let gaps = kept(&folder).into_iter().filter(|event| match event {
        Event::Gap { host, seconds, .. } => host == "peer" && *seconds >= 5.0,
        _ => false,
    });
    assert_eq!(gaps.count(), 1);
    // So is a server of iperf 2 over UDP, which takes no connections.
    let udp = "dialect = \"iperf2\"\ntest = \"udp\"\nrate = \"10M\"";
    let udp = to_peer("local", udp).replace("retries = 2", "retries = 0");
    let (world, folder) = (World::failing(1, error("refused", 3)), Folder::new("iperf2"));
    assert_eq!(begin(&world, &folder, &udp).unwrap(), Ended::Done);
    assert_eq!((world.looked_at(), world.tests()), (vec![], 4));
    let gaps = kept(&folder).into_iter().filter(|event| matches!(event, Event::Gap { .. }));
    assert_eq!(gaps.count(), 1);
    // As long as a host is waited for.
    let world = World::failing(1, error("refused", 3));
    let world = world.fated(Fate { for_ever: true, ..Fate::default() });
    let folder = Folder::new("nowhere");
    let error = begin(&world, &folder, &plan).unwrap_err();
    assert_eq!(error.kind.name(), "host_gone");
    assert!(error.what.contains("peer port 12865 did not answer for 60 s"), "{error:?}");
    assert!(world.tests() > 5 && world.looked_at().is_empty(), "{}", world.tests());
    assert_eq!(self::runs(&folder).len(), 1);
}

#[test]
fn a_helper_that_is_killed_costs_an_attempt() {
    for order in 1..=6 {
        let fate = Fate { helper_lost: Some(order), ..Fate::default() };
        let (world, folder) = (World::default().fated(fate), Folder::new("helper"));
        assert_eq!(begin(&world, &folder, PLAN).unwrap(), Ended::Done, "order {order}");
        check(&folder, &world, SLOTS, &format!("order {order}"));
    }
    let fate = Fate { helper_lost: Some(1), for_ever: true, ..Fate::default() };
    let (world, folder) = (World::default().fated(fate), Folder::new("helpers"));
    assert_eq!(begin(&world, &folder, PLAN).unwrap_err().kind.name(), "helper_lost");
}

#[test]
fn a_greeting_that_is_cut_short_is_final_of_a_host_that_is_new_only() {
    let closed = || error("not_linerate", 3);
    let (world, folder) = (World::failing(1, closed()), Folder::new("greeting"));
    assert_eq!(begin(&world, &folder, PLAN).unwrap_err().kind.name(), "not_linerate");
    let (world, folder) = (World::failing(2, closed()), Folder::new("greeting"));
    assert_eq!(begin(&world, &folder, PLAN).unwrap(), Ended::Done);
    check(&folder, &world, SLOTS, "after a run");
    // A later controller knows it of the store.
    let folder = Folder::new("greeting");
    let world = World::failing(3, error("key", 3));
    assert_eq!(begin(&world, &folder, PLAN).unwrap_err().kind.name(), "key");
    let world = World::failing(1, closed());
    assert_eq!(begin(&world, &folder, PLAN).unwrap(), Ended::Done);
    check(&folder, &world, SLOTS, "by another controller");
}

#[test]
fn a_campaign_whose_host_is_not_put_back_is_no_success() {
    let plan = plan("[settings.off]\nfrom = \"dut\"\nto = \"peer\"\nset.dut.offload.tso = false\n");
    let fate = Fate { not_restored: Some(RestoreOutcome::Failed), ..Fate::default() };
    let (world, folder) = (World::default().fated(fate), Folder::new("left"));
    let error = begin(&world, &folder, &plan).unwrap_err();
    assert_eq!((error.kind.name(), error.exit_code), ("not_restored", 1));
    assert_eq!(error.why, "dut: feature tso of eth0: made up");
    let left = r#"["feature tso of eth0: made up"]"#;
    let events = world.events();
    assert!(events.contains(&format!("restored dut {left}")), "{events:?}");
    assert_eq!(*events.last().unwrap(), format!("over false {{\"dut\": {left}}}"));
    let status = || campaign::status(&folder.file("plan.db")).unwrap();
    let found = status();
    assert_eq!((found.state, found.done, found.total), (CampaignState::Failed, 3, 3));
    assert!(found.why.is_some_and(|why| why.contains("cannot put dut back")));
    // The next controller finds nothing left to run, and puts it back.
    let world = World::default();
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Done);
    assert_eq!((status().state, world.tests()), (CampaignState::Done, 0));
}

#[test]
fn what_others_changed_or_is_gone_makes_no_campaign_fail() {
    let plan = plan("[settings.off]\nfrom = \"dut\"\nto = \"peer\"\nset.dut.offload.tso = false\n");
    let steps = {
        let (world, folder) = (World::default(), Folder::new("steps-left"));
        begin(&world, &folder, &plan).unwrap();
        world.steps()
    };
    let others = || Fate { not_restored: Some(RestoreOutcome::ChangedByOthers), ..Fate::default() };
    let ends = || Fate { restore_ends: true, ..Fate::default() };
    let fails = || Fate { not_restored: Some(RestoreOutcome::Failed), ..Fate::default() };
    let half = Some(steps / 2);
    for (fate, stop, ended, words) in [
        (ends(), None, Ended::Done, "it puts itself back"),
        (others(), None, Ended::Done, "feature tso of eth0: made up"),
        (ends(), half, Ended::Interrupted, "it puts itself back"),
        (others(), half, Ended::Interrupted, "feature tso of eth0: made up"),
        (fails(), half, Ended::Interrupted, "feature tso of eth0: made up"),
    ] {
        let (world, folder) = (World::stopped_at(stop).fated(fate), Folder::new("not-as-before"));
        assert_eq!(begin(&world, &folder, &plan).unwrap(), ended, "{words}");
        let last = world.events().pop().unwrap();
        let over = format!("over {} {{\"dut\": [", ended == Ended::Done);
        assert!(last.starts_with(&over) && last.contains(words), "{last}");
    }
}

#[test]
fn a_figure_is_not_taken_from_the_first_part_of_an_output() {
    let command = "[settings.c]\nfrom = \"dut\"\ncommand = \"measure\"\nmetric = { column = 2 }\n";
    let plan = plan(command)
        .replace("warmup = 1\nruns = 2\nretries = 2", "warmup = 0\nruns = 1\nretries = 0");
    let prints = format!("{}rate 99\n", "rate 1\n".repeat(800_000));
    let fate = Fate { prints: Some(prints), ..Fate::default() };
    let (world, folder) = (World::default().fated(fate), Folder::new("cut"));
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Short);
    let runs = runs(&folder);
    assert_eq!((runs.len(), runs[0].state, runs[0].value), (1, RunState::Failed, None));
    let why = "the command printed more than 4 MiB, and its end is not known";
    assert_eq!(runs[0].error.as_deref(), Some(why));
}

#[test]
fn a_run_that_was_not_the_test_that_was_asked_for_is_repeated() {
    let fate = || Fate { doubt: Some((4, DoubtKind::LinkLost)), ..Fate::default() };
    let (world, folder) = (World::default().fated(fate()), Folder::new("void"));
    assert_eq!(begin(&world, &folder, PLAN).unwrap(), Ended::Done);
    check(&folder, &world, SLOTS, "once");
    let runs = runs(&folder);
    let at = runs.iter().position(|run| run.state == RunState::Failed).unwrap();
    assert_eq!(runs[at].error.as_deref(), Some("made up: link-lost"));
    let next = &runs[at + 1];
    assert_eq!((next.slot, next.attempt, next.state), (runs[at].slot, 2, RunState::Counted));
    // As often as the plan says.
    let fate = Fate { for_ever: true, ..fate() };
    let (world, folder) = (World::default().fated(fate), Folder::new("voids"));
    assert_eq!(begin(&world, &folder, &towards_dut()).unwrap(), Ended::Short);
    // Three of the first boot were well, three of the second not, three times each.
    assert_eq!(world.tests(), 3 + 9);
}

/// Seeds of a short run.
const SEEDS: u64 = 200;
/// So many of `LINERATE_SEEDS`, which are of conversations, take as long as one here.
const EACH: u64 = 50;

/// Whenever a part of a campaign is over, its store can be read and holds what was said to be kept, as it was said and
/// nothing else; each run that does not count has a reason, and nothing stays set.
fn holds(folder: &Folder, world: &World) -> Vec<StoredRun> {
    let reader = Reader::open(&folder.file("plan.db")).unwrap();
    assert_eq!((reader.check(), reader.lost_and_doubled()), (vec![], (0, 0)));
    let runs = reader.runs().unwrap();
    assert_eq!(runs, world.kept());
    for run in &runs {
        let counts = matches!(run.state, RunState::Counted | RunState::Extra);
        let why = run.error.as_ref().filter(|why| !why.is_empty());
        assert_eq!((why.is_none(), counts && run.value.is_none()), (counts, false), "{run:?}");
    }
    assert!(world.is_put_back());
    runs
}

/// One campaign to its end, in as many parts as it takes. How it went: its parts, slots that stayed empty, runs that failed
/// or were cut.
fn by_chance(seed: u64, plan: &str, calm: &[StoredRun], steps: u32) -> [usize; 3] {
    let mut chance = Chance::new(seed);
    let mut below = |most: u32| chance.below(u64::from(most)) as u32;
    let folder = Folder::new("chance");
    let world = World::default().by_chance(seed, 2 + below(14));
    let store = folder.file("plan.db");
    world.stop_after(below(2 * steps));
    let mut ended = begin(&world, &folder, plan);
    let mut parts = 1;
    while !matches!(ended, Ok(Ended::Done | Ended::Short)) {
        holds(&folder, &world);
        assert!(parts < 50, "{ended:?}");
        parts += 1;
        let again = world.again();
        if parts < 4 {
            again.stop_after(below(2 * steps));
        }
        ended = again.run(|env| campaign::resume(None, &store, &mut again.clone(), env));
    }
    let (runs, events) = (holds(&folder, &world), kept(&folder));
    let mut empty = 0;
    for calm in calm {
        let why = events.iter().find_map(|event| match event {
            Event::Short { slot, why } if *slot == calm.slot => Some(why.as_str()),
            _ => None,
        });
        let of_it = |run: &&StoredRun| run.slot == calm.slot && run.state == RunState::Counted;
        match runs.iter().find(of_it) {
            Some(run) => {
                let figure = |run: &StoredRun| (run.setting.clone(), run.number, run.value);
                assert_eq!((figure(run), why), (figure(calm), None));
            }
            None => {
                empty += 1;
                let told = why.is_some_and(|why| why.contains("attempts failed, the last: "));
                assert!(told, "{why:?}");
            }
        }
    }
    // Who stops it when all is settled hears of no gap, and nor does who goes on with it.
    assert!(empty > 0 || matches!(ended, Ok(Ended::Done)), "{ended:?}");
    // Nothing is left to do.
    let (tests, again) = (world.tests(), world.again().by_chance(0, 0));
    let ended = again.run(|env| campaign::resume(None, &store, &mut again.clone(), env));
    assert_eq!((ended.unwrap(), world.tests()), (Ended::Done, tests));
    assert_eq!(self::runs(&folder), runs);
    let status = campaign::status(&store).unwrap();
    assert_eq!((status.state, status.done), (CampaignState::Done, (calm.len() - empty) as u64));
    let failed = runs.iter().filter(|run| run.error.is_some()).count();
    [parts, empty, failed]
}

/// By seed tests are refused, time out, end half-way, lose their control connection or have damaged records; hosts boot, are
/// not reached or lost in the middle of anything; and the controller is stopped. A fiftieth of `LINERATE_SEEDS`, if those are
/// more; `LINERATE_SEED=n` replays one.
#[test]
fn a_campaign_in_which_anything_fails_comes_to_the_same_end() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let many = number("LINERATE_SEEDS").map_or(SEEDS, |all| SEEDS.max(all / EACH));
    let seeds = number("LINERATE_SEED").map_or(0..many, |seed| seed..seed + 1);
    let plan = PLAN.replace("boots = 2", "boots = 1").replace("runs = 2", "runs = 1");
    let (world, folder) = (World::default(), Folder::new("calm"));
    assert_eq!(begin(&world, &folder, &plan).unwrap(), Ended::Done);
    let (calm, steps) = (holds(&folder, &world), world.steps());
    let mut met = BTreeMap::new();
    for seed in seeds.clone() {
        let went = std::panic::catch_unwind(|| by_chance(seed, &plan, &calm, steps));
        let went = went.unwrap_or_else(|_| panic!("LINERATE_SEED={seed}"));
        for (what, count) in ["parts", "empty slots", "failed runs"].into_iter().zip(went) {
            *met.entry(what).or_insert(0) += count;
        }
    }
    println!("{seeds:?}: {met:?}");
    let several = seeds.end - seeds.start >= SEEDS;
    assert!(!several || met["parts"] > SEEDS as usize && met.values().all(|n| *n > 0), "{met:?}");
}
