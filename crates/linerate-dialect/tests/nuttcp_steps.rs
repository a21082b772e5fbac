//! Single steps of nuttcp's conversation at the client, in the order in which a server may force them.

use linerate_dialect::control::ControlError;
use linerate_dialect::ending::{Failure, Trouble};
use linerate_dialect::nuttcp::client::{Client, Terms};
use linerate_dialect::stream::{DataEvent, Report};
use linerate_dialect::{Action, Conversation, Input, Seen};
use linerate_model::plan::{Direction, End, TestPlan, Traffic};
use linerate_model::sample::{RecvCounts, RecvReport};
use linerate_testkit::plans;
use linerate_wire::nuttcp::Parameters;

const SECOND: u64 = 1_000_000_000;
const PATIENCE_NS: u64 = 10 * SECOND;
const MEBIBYTE: u64 = 1 << 20;

/// A mebibyte over TCP, to the client.
fn plan() -> TestPlan {
    let plan = plans::plan(Traffic::Tcp(plans::tcp()));
    TestPlan { direction: Direction::Reverse, streams: 1, end: End::Bytes(MEBIBYTE), ..plan }
}

fn client(greeted: bool) -> Client {
    let line =
        b"buflen = 65536, nbuf = 16, win = 0, nstream = 1, rate = 0, port = 7000, trans = 0, \
        braindead = 0, timeout = 0.000000, udp = 0, vers = 6.1.2";
    let asked = Parameters::decode(line).expect("parameters");
    Client::new(Terms { plan: plan(), asked, greeted, patience_ns: PATIENCE_NS }, 0)
}

fn hear(client: &mut Client, at: u64, text: &str) {
    client.input(at, &Seen::default(), Input::Bytes(text.as_bytes()));
}

fn lose(client: &mut Client, at: u64) {
    client.input(at, &Seen::default(), Input::Lost(ControlError::Closed));
}

fn notes(client: &mut Client) -> usize {
    let actions = std::iter::from_fn(|| client.action());
    actions.filter(|action| matches!(action, Action::Note(_))).count()
}

fn trouble(client: &Client) -> Trouble {
    client.outcome().expect("it has ended").expect_err("with nothing measured")
}

/// A test whose data has come: so many bytes, on a stream that ended in order or was broken.
fn received(bytes: u64, error: Option<&str>) -> Client {
    let mut client = client(false);
    hear(&mut client, 1, "HELO nuttcp v8.2.2\n");
    hear(&mut client, 2, "OK v8.2.2\n");
    let seen = Seen::default();
    client.input(3, &seen, Input::Arrived(0));
    client.input(4, &seen, Input::Prepared(None));
    let counts = RecvCounts { bytes, ..RecvCounts::default() };
    let error = error.map(str::to_owned);
    let report = Box::new(Report::Recv(RecvReport { counts, error, ..RecvReport::default() }));
    client.input(SECOND, &seen, Input::Data(DataEvent::Done(0, report), &|_| None));
    client.input(SECOND, &seen, Input::Host(Default::default(), Default::default()));
    client
}

/// What a server says of so many mebibytes that it sent.
fn results(mb: &str) -> String {
    format!("nuttcp-t: {mb} MB in 1.00 real seconds = 1024.00 KB/sec = 8.3886 Mbps\n")
}

#[test]
fn a_server_that_was_greeted_is_not_greeted_again() {
    assert!(client(false).outgoing().starts_with(b"HELO nuttcp v"));
    let mut greeted = client(true);
    assert!(greeted.outgoing().is_empty());
    hear(&mut greeted, 1, "HELO nuttcp v6.1.2\n");
    assert!(greeted.outgoing().starts_with(b"buflen = 65536, nbuf = 16, "));
}

#[test]
fn a_refusal_is_told_however_it_ends() {
    // With its last word, without it, and with nothing at all.
    for (said, then, why) in [
        ("KO\nno tests\nKO\n", None, "no tests"),
        ("KO\nno tests\n", Some(false), "no tests"),
        ("KO\nno tests\n", Some(true), "no tests"),
        ("KO\nKO\n", None, "it did not say why"),
        ("KO\n", Some(false), "it did not say why"),
    ] {
        let mut client = client(false);
        hear(&mut client, 1, "HELO nuttcp v8.2.2\n");
        hear(&mut client, 2, said);
        match then {
            Some(true) => client.input(2 * PATIENCE_NS, &Seen::default(), Input::Time),
            Some(false) => lose(&mut client, 3),
            None => {}
        }
        let Failure::Refused(refused) = trouble(&client).failure else { panic!("{said}") };
        assert_eq!(refused.why, why, "{said}");
    }
}

#[test]
fn what_is_no_line_of_nuttcps_is_named_as_that() {
    for said in ["SSH-2.0-OpenSSH_9.7\r\n", "HELO nuttcp v\n", "OK v8.2.2\n", &"a".repeat(5_000)] {
        let mut client = client(false);
        hear(&mut client, 1, said);
        assert!(matches!(trouble(&client).failure, Failure::Protocol(_)), "{said}");
    }
}

#[test]
fn a_server_that_warns_for_ever_is_shown_for_a_while() {
    let mut client = received(MEBIBYTE, None);
    notes(&mut client);
    for _ in 0..1_000 {
        hear(&mut client, SECOND, "nuttcp-t: Warning: it is late\n");
    }
    assert_eq!(notes(&mut client), 20);
}

#[test]
fn results_end_a_test_when_the_server_hangs_up_or_when_it_should_have() {
    for hangs_up in [true, false] {
        let mut client = received(MEBIBYTE, None);
        hear(&mut client, SECOND, &results("1.0000"));
        assert!(!client.is_over(), "more may follow");
        match hangs_up {
            true => lose(&mut client, SECOND + 1),
            false => client.input(30 * SECOND, &Seen::default(), Input::Time),
        }
        assert_eq!(client.outcome(), Some(Ok(())));
        let ended = client.ended();
        assert!(ended.results && ended.trouble.is_none(), "{:?}", ended.trouble);
    }
}

#[test]
fn less_than_was_asked_for_is_no_whole_test_and_a_broken_stream_says_so_itself() {
    for (bytes, error, is_short) in [
        (1_000, None, true),
        (MEBIBYTE / 2, None, false),
        (1_000, Some("receiving failed: reset"), false),
    ] {
        let mut client = received(bytes, error);
        hear(&mut client, SECOND, &results("0.0010"));
        lose(&mut client, SECOND + 1);
        let ended = client.ended();
        let why = ended.trouble.map(|trouble| trouble.failure);
        let short = Failure::Server("it sent less than was asked for".into());
        assert_eq!(why == Some(short), is_short, "{bytes} {error:?}: {why:?}");
    }
}
