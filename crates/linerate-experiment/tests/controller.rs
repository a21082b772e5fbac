//! The search's controller on made-up outcomes: odd cases in words, budgets, and logs.

use linerate_experiment::search::goal::Goal;
use linerate_experiment::search::log::{Entry, FORMAT, Head, Line, LogError, read};
use linerate_experiment::search::repeat::Repeated;
use linerate_experiment::search::{Ending, Next, Search, Settings};
use linerate_experiment::trial::{Outcome, Trial};
use linerate_model::plan::{Direction, End, EngineChoice, TestPlan, Traffic, UdpPlan, Way};
use linerate_model::record::Limit;
use linerate_model::search::TrialPurpose;
use linerate_model::units::{BitRate, DatagramSize, Nanos};

fn rate(bps: u64) -> BitRate {
    BitRate::new(bps).unwrap()
}

fn settings(goals: &[&str]) -> Settings {
    Settings {
        way: Way::Forward,
        min: rate(1_000_000),
        max: Some(rate(1_000_000_000)),
        goals: goals
            .iter()
            .map(|g| Goal::preset(g).unwrap_or_else(|| Goal::parse(g).unwrap()))
            .collect(),
        ci: None,
        shape: false,
        max_time: None,
    }
}

/// What a path of `capacity` does with a trial, the sender reaching `sender`.
fn outcome(trial: &Trial, capacity: f64, sender: f64) -> Outcome {
    let asked = trial.rate.map_or(sender, |r| r.bits_per_second() as f64);
    let sent = asked.min(sender);
    let received = sent.min(capacity);
    let time_s = trial.time.as_secs_f64();
    Outcome {
        run: None,
        sent_bps: sent,
        received_bps: received,
        undelivered_ratio: 1.0 - received / asked,
        lost_ratio: 1.0 - received / sent,
        lost_path: Some(((sent - received) * time_s / 11_776.0) as u64),
        dropped_receiver: Some(0),
        unattributed: None,
        jitter_s: None,
        delay_p99_s: Some(if asked > 0.8 * capacity { 0.02 } else { 0.001 }),
        cpu_sender_percent: None,
        cpu_receiver_percent: None,
        limit: Some(match (sent < asked, received < sent) {
            (_, true) => Limit::Path,
            (true, _) => Limit::SenderCpu,
            _ => Limit::RequestedRate,
        }),
        advice: Vec::new(),
        intervals_bps: vec![received],
        took_s: time_s + 0.5,
        invalid: None,
        void: false,
    }
}

fn run(search: &mut Search, mut of: impl FnMut(&Trial) -> Outcome) -> Ending {
    for _ in 0..1_000 {
        match search.next() {
            Next::Run { trial, .. } => search.take(of(&trial)),
            Next::Done(ending) => return ending,
        }
    }
    panic!("no end");
}

fn irregular(search: &Search) -> String {
    search.goals()[0].irregular.clone().unwrap_or_default()
}

#[test]
fn a_path_is_found_and_named() {
    let mut search = Search::new(settings(&["pdr"]));
    assert_eq!(run(&mut search, |t| outcome(t, 40e6, 900e6)), Ending::Settled);
    let goal = &search.goals()[0];
    let limit = 40e6 / 0.995;
    assert!(goal.lower_bps.unwrap() <= limit && limit < goal.upper_bps.unwrap(), "{goal:?}");
    assert!(
        goal.settled && goal.irregular.is_none() && goal.limit == Some(Limit::Path),
        "{goal:?}"
    );
    let (lower, throughput) = (goal.lower_bps.unwrap(), goal.throughput_bps.unwrap());
    assert!(throughput <= lower && throughput > 0.99 * lower);
    assert!(goal.at_upper.unwrap().fail_low > 0.6 && goal.at_lower.unwrap().fail_high < 0.4);
    assert!(search.because()[0].contains("lost on the path"), "{:?}", search.because());
    assert!(search.left_s() == 0.0);
}

/// A deep queue loses nothing and gives everything back within the 5 % that a trial may be late: what
/// holds then is more than the path carries, and says so.
#[test]
fn a_rate_that_only_a_queue_holds_says_so() {
    let deep = |t: &Trial| {
        let asked = t.rate.map_or(900e6, |r| r.bits_per_second() as f64);
        let held = asked <= 40e6 * 1.05;
        Outcome {
            received_bps: asked.min(40e6),
            undelivered_ratio: if held { 0.0 } else { 1.0 - 42e6 / asked },
            lost_ratio: 0.0,
            ..outcome(t, 1e12, 900e6)
        }
    };
    let mut search = Search::new(settings(&["pdr"]));
    assert_eq!(run(&mut search, deep), Ending::Settled);
    let goal = &search.goals()[0];
    assert!(goal.lower_bps.unwrap() > 41.5e6, "{goal:?}");
    assert_eq!(goal.at_lower.unwrap().received_bps, Some(40e6));
    assert_eq!(goal.holds_by_delay_alone(), Some(40e6));
    assert!(irregular(&search).contains("by the allowance for delay alone: 40.00 Mbit/s arrived"));
    let mut search = Search::new(settings(&["pdr"]));
    run(&mut search, |t| outcome(t, 40e6, 900e6));
    assert_eq!(search.goals()[0].holds_by_delay_alone(), None);
}

#[test]
fn a_rule_of_delay_lowers_the_limit() {
    let mut search = Search::new(settings(&["pdr", "loss=0.5%,delay-p99=5ms"]));
    assert_eq!(run(&mut search, |t| outcome(t, 40e6, 900e6)), Ending::Settled);
    let goals = search.goals();
    assert!((goals[0].lower_bps.unwrap() / 40.2e6 - 1.0).abs() < 0.01);
    assert!((goals[1].lower_bps.unwrap() / 32e6 - 1.0).abs() < 0.01, "{:?}", goals[1]);
}

#[test]
fn a_sender_that_cannot_is_the_limit_and_costs_few_trials() {
    let mut search = Search::new(settings(&["ndr"]));
    assert_eq!(run(&mut search, |t| outcome(t, 1e12, 300e6)), Ending::Settled);
    let said = irregular(&search);
    assert!(said.contains("generator-limited") && said.contains("300.0 Mbit/s"), "{said}");
    assert_eq!(search.goals()[0].limit, Some(Limit::SenderCpu));
    assert!(search.made().len() < 16, "{}", search.made().len());
    let mut search = Search::new(settings(&["ndr"]));
    assert_eq!(run(&mut search, |t| outcome(t, 1e12, 900e3)), Ending::GeneratorTooSlow);
    assert_eq!(search.made().len(), 1);
    assert!(irregular(&search).contains("less than the least load"), "{}", irregular(&search));
}

#[test]
fn without_a_largest_rate_the_sender_gives_it() {
    let mut search = Search::new(Settings { max: None, ..settings(&["pdr"]) });
    assert_eq!(run(&mut search, |t| outcome(t, 40e6, 300e6)), Ending::Settled);
    assert_eq!(search.max_bps(), Some(600e6));
    assert!((search.goals()[0].lower_bps.unwrap() / 40.2e6 - 1.0).abs() < 0.01);
    // A sender that sends less when asked for more, like an overloaded board.
    let mut search = Search::new(Settings { max: None, ..settings(&["pdr"]) });
    let board = |t: &Trial| {
        let asked = t.rate.map_or(f64::INFINITY, |r| r.bits_per_second() as f64);
        outcome(t, 1e12, if asked > 90e6 { 64e6 } else { 90e6 })
    };
    assert_eq!(run(&mut search, board), Ending::Settled);
    let goal = &search.goals()[0];
    assert!((goal.lower_bps.unwrap() / 90e6 - 1.0).abs() < 0.01, "{goal:?}");
    assert!(irregular(&search).contains("generator-limited"));
    // A first trial that does not know what it sent gives none.
    let mut search = Search::new(Settings { max: None, ..settings(&["pdr"]) });
    let mut made = 0;
    run(&mut search, |t| {
        made += 1;
        if made > 1 {
            return outcome(t, 40e6, 900e6);
        }
        Outcome { invalid: Some("contradiction".into()), void: true, ..outcome(t, 1e12, 10e6) }
    });
    assert_eq!(search.max_bps(), Some(1.8e9));
}

#[test]
fn limits_at_an_end_of_the_range_are_said() {
    let mut search = Search::new(settings(&["pdr"]));
    run(&mut search, |t| outcome(t, 1e12, 1e12));
    assert!(irregular(&search).contains("lower bound only"), "{}", irregular(&search));
    assert_eq!(search.goals()[0].upper_bps, None);
    let mut search = Search::new(settings(&["pdr"]));
    run(&mut search, |t| outcome(t, 10.0, 1e12));
    assert!(irregular(&search).contains("upper bound only"), "{}", irregular(&search));
    assert_eq!(search.goals()[0].lower_bps, None);
}

#[test]
fn an_interval_at_an_end_of_the_range_is_none() {
    for (capacity, end) in [(1e12, "the largest load"), (10.0, "the least load")] {
        let mut search = Search::new(Settings { ci: Some(0.02), ..settings(&["pdr"]) });
        assert_eq!(run(&mut search, |t| outcome(t, capacity, 1e12)), Ending::Settled);
        let goal = &search.goals()[0];
        assert!(!goal.settled && goal.knee_bps.is_none(), "{goal:?}");
        assert!(irregular(&search).contains(end), "{}", irregular(&search));
        assert!(search.made().len() < 30, "{}", search.made().len());
    }
    // Just below the largest load, which fails each time it is tried.
    for ci in [0.02, 0.05] {
        let mut search = Search::new(Settings { ci: Some(ci), ..settings(&["ndr"]) });
        assert_eq!(run(&mut search, |t| outcome(t, 0.997e9, 1e12)), Ending::Settled);
        let goal = &search.goals()[0];
        assert!(goal.settled && goal.knee_bps.is_some(), "{ci}: {goal:?}");
        assert!(search.made().len() < 40, "{ci}: {}", search.made().len());
    }
}

#[test]
fn an_inversion_is_seen_by_the_probes_of_the_shape() {
    let mut search = Search::new(Settings { shape: true, ..settings(&["quick"]) });
    // Between 40 and 70 Mbit/s packets are lost, above they are not.
    let ending = run(&mut search, |t| {
        let asked = t.rate.map_or(0.0, |r| r.bits_per_second() as f64);
        outcome(t, if (40e6..70e6).contains(&asked) || asked > 500e6 { 38e6 } else { 1e12 }, 1e12)
    });
    assert_eq!(ending, Ending::Settled);
    assert!(irregular(&search).contains("inversion"), "{}", irregular(&search));
    let loads = search.made().len();
    assert!(loads > 10);
}

#[test]
fn a_plateau_is_said() {
    let mut search = Search::new(settings(&["pdr"]));
    let mut turn = 0;
    run(&mut search, |t| {
        turn += 1;
        let asked = t.rate.map_or(0.0, |r| r.bits_per_second() as f64);
        let bad = asked > 100e6 || (asked > 60e6 && turn % 2 == 0);
        outcome(t, if bad { asked * 0.9 } else { 1e12 }, 1e12)
    });
    assert!(irregular(&search).contains("plateau"), "{}", irregular(&search));
}

#[test]
fn a_trial_that_says_nothing_is_made_again_and_then_given_up() {
    let mut search = Search::new(settings(&["quick"]));
    let mut made = 0;
    let ending = run(&mut search, |t| {
        let asked = t.rate.map_or(0.0, |r| r.bits_per_second() as f64);
        let mut outcome = outcome(t, 1e12, 1e12);
        if asked > 500e6 && asked < 999e6 || (asked > 999e6 && made > 0) {
            outcome.invalid = Some("the host was busy".into());
        }
        made += 1;
        outcome
    });
    assert_eq!(ending, Ending::Settled);
    let said = irregular(&search);
    assert!(said.contains("3 trials in a row") && said.contains("the host was busy"), "{said}");
    assert!(search.goals()[0].lower_bps.unwrap() < 500e6);
    let mut search = Search::new(settings(&["quick"]));
    let ending = run(&mut search, |t| Outcome {
        invalid: Some("contradiction".into()),
        ..outcome(t, 10.0, 10.0)
    });
    assert_eq!((ending, search.made().len()), (Ending::NoValidTrial, 3));
}

fn is_shape(search: &Search) -> bool {
    matches!(search.next(), Next::Run { purpose: TrialPurpose::Shape, .. })
}

#[test]
fn a_probe_of_the_curve_that_says_nothing_overturns_no_answer() {
    for ci in [None, Some(0.02)] {
        let asked = Settings { ci, ..settings(&["pdr"]) };
        let mut plain = Search::new(asked.clone());
        run(&mut plain, |t| outcome(t, 40e6, 900e6));
        let mut search = Search::new(Settings { shape: true, ..asked });
        while let Next::Run { trial, .. } = search.next() {
            let mut outcome = outcome(&trial, 40e6, 900e6);
            if is_shape(&search) {
                outcome.invalid = Some("the host was busy".into());
            }
            search.take(outcome);
            assert!(search.made().len() < 200, "no end");
        }
        let (found, wanted) = (&search.goals()[0], &plain.goals()[0]);
        assert!(search.made().len() > plain.made().len(), "it was probed");
        assert_eq!(
            (found.lower_bps, found.upper_bps, found.settled, found.knee_bps),
            (wanted.lower_bps, wanted.upper_bps, true, wanted.knee_bps)
        );
        let said = irregular(&search);
        assert!(said.contains("the curve at") && said.contains("is not known"), "{said}");
        assert!(!said.contains("counts as not met"), "{said}");
    }
}

#[test]
fn no_trial_is_no_interval() {
    // The first trial is valid, no other one is.
    let asked = Settings { ci: Some(0.02), ..settings(&["pdr"]) };
    let mut search = Search::new(asked.clone());
    let ending = run(&mut search, |t| {
        let mut outcome = outcome(t, 40e6, 900e6);
        outcome.invalid = t.rate.filter(|r| *r != rate(1_000_000_000)).map(|_| "busy".into());
        outcome
    });
    assert_eq!(ending, Ending::Settled, "there is nothing left to try");
    let goal = &search.goals()[0];
    assert_eq!(
        (goal.knee_bps, goal.settled, goal.lower_bps, goal.upper_bps),
        (None, false, None, None)
    );
    let said = irregular(&search);
    assert!(said.contains("0 valid trials of full length are too few"), "{said}");
    assert!(
        said.contains("said nothing (busy)") && said.contains("they count as nothing"),
        "{said}"
    );
    assert!(search.made().len() < 40, "{}", search.made().len());
    // A load that could not be tried is left out of a fit that goes on, and the answer is not settled.
    let mut search = Search::new(asked);
    let mut made = 0;
    run(&mut search, |t| {
        made += 1;
        let mut outcome = outcome(t, 40e6, 900e6);
        outcome.invalid = (2..5).contains(&made).then(|| "busy".into());
        outcome
    });
    let goal = &search.goals()[0];
    let knee = goal.knee_bps.expect("trials enough");
    assert!(knee.low < 40.2e6 && 40.2e6 < knee.high, "a made-up failure moved it: {knee:?}");
    assert!(!goal.settled, "{goal:?}");
}

#[test]
fn evidence_that_is_not_told_is_not_zero() {
    let told = |path: Option<u64>, socket: Option<u64>, either: Option<u64>| {
        let mut search = Search::new(settings(&["pdr"]));
        run(&mut search, |t| Outcome {
            lost_path: path,
            dropped_receiver: socket,
            unattributed: either,
            ..outcome(t, 40e6, 900e6)
        });
        search.because()[0].clone()
    };
    let because = told(None, None, None);
    assert!(because.contains("where datagrams were lost is not known"), "{because}");
    assert!(!because.contains(" 0 "), "{because}");
    let because = told(None, Some(0), None);
    assert!(because.contains("what the path lost is not known"), "{because}");
    let because = told(Some(3), Some(0), Some(2));
    assert!(because.contains("more by one of the two"), "{because}");
    // Every valid trial at the upper bound is counted, the good and the short ones as well.
    let mut search = Search::new(settings(&["loss=0.5%,time=2s"]));
    let mut turn = 0;
    run(&mut search, |t| {
        turn += 1;
        let asked = t.rate.map_or(0.0, |r| r.bits_per_second() as f64);
        // One of four trials just above the limit is good.
        let capacity = if asked < 41e6 && turn % 4 == 0 { 1e12 } else { 40e6 };
        outcome(t, capacity, 900e6)
    });
    let goal = &search.goals()[0];
    let at = goal.upper_bps.unwrap();
    let there = search.trials(1);
    let there: Vec<_> = there.iter().filter(|t| t.asked_bps == Some(at)).collect();
    let bad = there.iter().filter(|t| t.good == Some(false)).count();
    let wanted = format!("{bad} of {} trials were bad", there.len());
    assert!(search.because()[0].contains(&wanted), "{wanted}: {:?}", search.because());
}

#[test]
fn the_time_allowed_is_kept() {
    let limited = Settings { max_time: Some(Nanos::from_secs(12)), ..settings(&["pdr"]) };
    let mut search = Search::new(limited);
    assert_eq!(run(&mut search, |t| outcome(t, 40e6, 900e6)), Ending::OutOfTime);
    assert!(search.seconds() <= 12.0 && search.seconds() > 10.0, "{}", search.seconds());
    assert!(!search.goals()[0].settled);
}

#[test]
fn the_time_left_is_about_right() {
    let mut search = Search::new(settings(&["pdr"]));
    let mut foreseen = Vec::new();
    while let Next::Run { trial, .. } = search.next() {
        foreseen.push(search.seconds() + search.left_s());
        search.take(outcome(&trial, 40e6, 900e6));
    }
    let total = search.seconds();
    assert!(foreseen.iter().skip(2).all(|f| (f / total - 1.0).abs() < 0.4), "{foreseen:?} {total}");
}

#[test]
fn whole_searches_have_a_mean_with_an_interval() {
    let mut search = Repeated::new(settings(&["quick"]), 3);
    let capacities = [40e6, 44e6, 42e6];
    while let Next::Run { trial, .. } = search.next() {
        // The next search begins with its warm-up.
        let number = search.searches().len() - 1
            + usize::from(matches!(search.searches().last().unwrap().next(), Next::Done(_)));
        search.take(outcome(&trial, capacities[number], 900e6));
    }
    let goal = &search.goals()[0];
    let repeated = goal.repeated.unwrap();
    assert_eq!((repeated.searches, search.each().len()), (3, 3));
    assert!((goal.lower_bps.unwrap() / 42e6 - 1.0).abs() < 0.01, "{goal:?}");
    assert!(repeated.low_bps.unwrap() < 40e6 && repeated.high_bps.unwrap() > 44e6, "{repeated:?}");
    assert_eq!(search.trials().last().unwrap().search, 3);
}

#[test]
fn a_search_that_was_cut_short_is_in_no_mean() {
    // The second search finds no lower bound, the last one has not the time that it needs.
    let capacities = [40e6, 10.0, 44e6, 42e6, 90e6];
    let all = |max_time: Option<Nanos>| {
        let mut search = Repeated::new(Settings { max_time, ..settings(&["quick"]) }, 5);
        while let Next::Run { trial, .. } = search.next() {
            let most = max_time.map_or(f64::INFINITY, Nanos::as_secs_f64);
            assert!(search.left_s() <= (most - search.seconds()).max(0.0), "{}", search.left_s());
            let done = matches!(search.searches().last().unwrap().next(), Next::Done(_));
            let number = search.searches().len() - 1 + usize::from(done);
            search.take(outcome(&trial, capacities[number], 900e6));
        }
        search
    };
    let whole = all(None);
    let needed = whole.seconds();
    let search = all(Some(Nanos(((needed - 5.0) * 1e9) as u64)));
    assert!(matches!(search.next(), Next::Done(Ending::OutOfTime)));
    let each = search.each();
    let last = &each.last().unwrap().goals[0];
    assert!(!last.settled, "{last:?}");
    let known: Vec<f64> =
        each.iter().filter(|s| s.goals[0].settled).filter_map(|s| s.goals[0].lower_bps).collect();
    let finished = each.len() as u64 - 1;
    let goal = &search.goals()[0];
    let repeated = goal.repeated.unwrap();
    assert_eq!(
        (repeated.asked, repeated.finished, repeated.searches),
        (5, finished, known.len() as u64)
    );
    assert_eq!(repeated.searches, finished - 1, "one has no lower bound: {each:?}");
    let mean = (known.iter().map(|l| l.ln()).sum::<f64>() / known.len() as f64).exp();
    assert!((repeated.mean_bps.unwrap() / mean - 1.0).abs() < 1e-9, "{repeated:?}");
    // The words are of the search that the answer is of.
    let because = &search.because()[0];
    let at = each.iter().find(|s| s.goals[0].lower_bps == goal.lower_bps).unwrap().search;
    assert!(goal.settled && because.starts_with(&format!("search {at}: ")), "{because}");
    let upper = linerate_model::units::si(goal.upper_bps.unwrap(), "bit/s");
    assert!(because.contains(&upper), "{because}");
    // What the first four leave is less than a trial: there is no fifth.
    let most = whole.each()[..4].iter().map(|search| search.seconds).sum::<f64>() + 1.0;
    let search = all(Some(Nanos((most * 1e9) as u64)));
    assert!(matches!(search.next(), Next::Done(Ending::OutOfTime)));
    assert!(search.each().len() == 4 && search.seconds() <= most, "{} s", search.seconds());
}

#[test]
fn a_limit_beyond_the_range_is_in_no_mean() {
    let all = |goal: &str, ci: Option<f64>, capacity: f64| {
        let mut search = Repeated::new(Settings { ci, ..settings(&[goal]) }, 3);
        while let Next::Run { trial, .. } = search.next() {
            search.take(outcome(&trial, capacity, 1e12));
        }
        (search.goals()[0].clone(), search.each())
    };
    let (goal, _) = all("quick", None, 1e12);
    let repeated = goal.repeated.unwrap();
    assert_eq!((repeated.finished, repeated.searches), (3, 0));
    assert_eq!((repeated.mean_bps, repeated.low_bps, repeated.high_bps), (None, None, None));
    assert_eq!((goal.lower_bps, goal.upper_bps), (Some(1e9), None));
    // Searches that agree know the limit no better than each of them does.
    for (name, ci, most) in
        [("quick", None, 1.006), ("quick", Some(0.05), 1.06), ("loss=10%", Some(0.005), 1.02)]
    {
        let (goal, each) = all(name, ci, 40e6);
        let repeated = goal.repeated.unwrap();
        assert_eq!(repeated.searches, 3, "{name}: {goal:?}");
        let (low, high) = (repeated.low_bps.unwrap(), repeated.high_bps.unwrap());
        assert!(high / low < most, "{name}: {repeated:?}");
        for one in each.iter().map(|search| &search.goals[0]) {
            let knee = one.knee_bps.map(|knee| (knee.low, knee.high));
            let bounds = || (one.lower_bps.unwrap(), one.upper_bps.unwrap());
            let known = knee.unwrap_or_else(bounds);
            let around = low <= known.0 * (1.0 + 1e-9) && high >= known.1 * (1.0 - 1e-9);
            assert!(around, "{name}: {repeated:?} {known:?}");
        }
    }
}

fn head(settings: &Settings) -> Head {
    let udp = UdpPlan {
        size: DatagramSize::new(1_472).unwrap(),
        rate: None,
        burst: Nanos(100_000),
        engine: EngineChoice::Auto,
        checksum: true,
    };
    Head {
        format: FORMAT,
        id: "x".into(),
        started: "2026-01-02T03:04:05Z".into(),
        command: vec!["linerate".into(), "search".into(), "h".into()],
        target: Some(("h".into(), 5_201)),
        label: None,
        title: None,
        ip: None,
        bind: None,
        dialect: None,
        key_file: None,
        plan: TestPlan {
            traffic: Traffic::Udp(udp),
            direction: Direction::Forward,
            streams: 1,
            end: End::Time(Nanos::from_secs(1)),
            warmup: Nanos(0),
            interval: Nanos::from_millis(100),
            window: None,
            client_cpus: vec![],
            server_cpus: vec![],
            dscp: None,
        },
        size_from_mtu: true,
        settings: settings.clone(),
        repeats: 1,
    }
}

#[test]
fn a_log_cut_anywhere_gives_the_search_up_to_its_last_whole_line() {
    let settings = Settings { ci: Some(0.02), ..settings(&["pdr", "ndr"]) };
    let mut search = Repeated::new(settings.clone(), 1);
    let mut text = Line::Search(Box::new(head(&settings))).text();
    while let Next::Run { trial, purpose, .. } = search.next() {
        let outcome = outcome(&trial, 40e6, 900e6);
        let entry = Entry { purpose, trial, outcome: outcome.clone(), doubts: vec![] };
        text.push_str(&Line::Trial(Box::new(entry)).text());
        search.take(outcome);
    }
    let again = read(text.as_bytes()).unwrap();
    assert_eq!((again.whole, &again.head), (text.len(), &head(&settings)));
    let again = again.replay().unwrap();
    assert_eq!(again.goals(), search.goals());
    assert_eq!(again.trials(), search.trials());
    let first = text.find('\n').unwrap() + 1;
    for cut in (0..text.len()).step_by(1_009) {
        match read(&text.as_bytes()[..cut]) {
            Err(error) => assert!(cut < first && error == LogError::Empty, "{cut} {error}"),
            Ok(log) => {
                assert_eq!(log.whole, text[..cut].rfind('\n').unwrap() + 1);
                let mut half = log.replay().unwrap();
                // It goes on to the same end.
                while let Next::Run { trial, .. } = half.next() {
                    half.take(outcome(&trial, 40e6, 900e6));
                }
                assert_eq!(half.goals(), search.goals());
            }
        }
    }
}

#[test]
fn a_log_of_something_else_is_refused() {
    let settings = settings(&["pdr"]);
    let head = Line::Search(Box::new(head(&settings))).text();
    let trial = Trial { way: Way::Forward, rate: Some(rate(5)), time: Nanos::from_secs(1) };
    let purpose = TrialPurpose::WarmUp;
    let entry = Entry { purpose, trial, outcome: outcome(&trial, 1.0, 1.0), doubts: vec![] };
    let entry = Line::Trial(Box::new(entry)).text();
    assert_eq!(read(b""), Err(LogError::Empty));
    assert_eq!(read(b"\n\n"), Err(LogError::Empty));
    let later = format!("{head}{{\"event\":\"later\"}}\n");
    let twice = format!("{head}{head}");
    for bad in ["{}\n".to_owned(), entry.clone(), format!("{head}x\n"), twice, later] {
        assert!(matches!(read(bad.as_bytes()), Err(LogError::Line { .. })), "{bad}");
    }
    let other = read(format!("{head}{entry}").as_bytes()).unwrap();
    assert_eq!(other.replay().err(), Some(LogError::Other { trial: 1 }));
}
