//! The library as a program of somebody else uses it.

use std::task::{Context, Waker};
use std::time::Duration;

use linerate::record::{ErrorKind, Figures};
use linerate::{Client, Event, Interval, Status, Where};
use linerate_testkit::peer::LONG;

use crate::support::{Server, alone};

const SHORT: Duration = Duration::from_millis(200);

fn names(events: impl IntoIterator<Item = Event>) -> Vec<&'static str> {
    let name = |event| match event {
        Event::Start(_) => Some("start"),
        Event::Interval(_) => Some("interval"),
        Event::End(_) => Some("end"),
        _ => None,
    };
    events.into_iter().filter_map(name).collect()
}

fn short(client: Client) -> Client {
    client.time(SHORT).interval(SHORT / 2)
}

#[test]
fn each_kind_of_test_gives_its_record() {
    let _alone = alone();
    for client in [Client::udp(Where::Local), Client::tcp(Where::Local), Client::rr(Where::Local)] {
        let record = short(client).run().expect("a record");
        assert_eq!((record.status, record.intervals.len()), (Status::Complete, 2));
        assert!(record.summary.is_some());
    }
}

#[test]
fn events_come_in_order_to_whoever_waits_and_to_async_code() {
    let _alone = alone();
    let test = || short(Client::udp(Where::Local).rate_bps(10_000_000)).start().expect("begun");
    assert_eq!(names(test()), ["start", "interval", "interval", "end"]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let events = runtime.block_on(async {
        let mut running = test();
        let mut events = Vec::new();
        while let Some(event) = running.next_event().await {
            events.push(event);
        }
        assert_eq!(running.finished().await.expect("a record").status, Status::Complete);
        events
    });
    assert_eq!(names(events), ["start", "interval", "interval", "end"]);
}

#[test]
fn a_test_within_a_task_comes_to_its_end_however_many_events_it_has() {
    let _alone = alone();
    let client = Client::udp(Where::Local).rate_bps(1_000_000).time(Duration::from_secs(4));
    let client = client.interval(Duration::from_millis(20));
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _ = sender.send(runtime.block_on(async { client.run() }));
    });
    let record = ended.recv_timeout(LONG).expect("it ends").expect("a record");
    assert!(record.intervals.len() >= 150, "{}", record.intervals.len());
}

#[test]
fn a_test_that_nobody_has_any_more_ends_at_both_ends() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let begun = || {
        let client = Client::udp("127.0.0.1").port(server.port).rate_bps(1_000_000);
        let long = client.time(Duration::from_secs(600)).interval(SHORT);
        let mut running = long.start().expect("begun");
        running.find(|event| matches!(event, Event::Interval(_))).expect("an interval");
        running
    };
    drop(begun());
    server.says("\"event\":\"ended\"", 1);
    // As a limit of time gives up what it waits for.
    let mut finished = Box::pin(begun().finished());
    assert!(finished.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(finished);
    server.says("\"event\":\"ended\"", 2);
}

#[test]
fn options_are_those_of_the_command_line() {
    let record = short(Client::tcp(Where::Local)).streams(2).reverse().option("dscp", "EF");
    let _alone = alone();
    let record = record.option("block", "16Ki").option("block", "8Ki").run().expect("a record");
    assert_eq!((record.asked.streams, record.asked.block_bytes), (2, Some(8192)));
    let asked = serde_json::to_value(&record.asked).expect("JSON");
    assert_eq!((&asked["direction"], &asked["dscp"]), (&"reverse".into(), &46.into()));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    for client in [
        Client::udp(Where::Local).option("nonsense", 1),
        // Of the program's screens and files.
        Client::udp(Where::Local).option("web", "8080"),
        Client::udp(Where::Local).option("verbose", true),
        Client::tcp(Where::Local).time(Duration::from_secs(100_000_000)),
        Client::rr(Where::Local).streams(0),
        // Requests have a rate that is no bits.
        Client::rr(Where::Local).rate_bps(1_000),
        Client::rr(Where::Local).rate_bps(0),
    ] {
        let failed = client.clone().run().map(drop).expect_err("refused");
        let sent = failed.record.is_some_and(|record| record.totals != Figures::default());
        assert_eq!((failed.error.exit_code, sent), (2, false), "{client:?}");
    }
}

#[test]
fn a_test_that_fails_or_is_stopped_keeps_what_it_knows() {
    let _alone = alone();
    let nobody = Client::udp("127.0.0.1").port(9).time(SHORT).run().expect_err("nobody there");
    assert_eq!(nobody.error.kind, ErrorKind::Refused);
    assert_eq!(nobody.record.expect("what was asked").status, Status::Failed);

    let long = Client::udp(Where::Local).rate_bps(1_000_000).time(Duration::from_secs(600));
    let mut running = long.interval(SHORT).start().expect("begun");
    let has_sent = |interval: &Interval| {
        interval.figures.sender.as_ref().is_some_and(|sender| sender.bytes > 0)
    };
    let sent = |event: &Event| matches!(event, Event::Interval(row) if has_sent(row));
    running.find(sent).expect("an interval in which something was sent");
    running.stop();
    let stopped = running.finish().expect_err("stopped");
    assert_eq!(stopped.error.kind, ErrorKind::Interrupted);
    let record = stopped.record.expect("what was measured");
    assert_eq!((record.status, record.intervals.is_empty()), (Status::Partial, false));
}
