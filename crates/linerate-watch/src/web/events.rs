//! What happens, as parts of the stream of events: lines of `--json-lines`, and beside them what those do not have.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use linerate_model::activity::CoreActivity;
use linerate_model::lines::RunLine;
use linerate_model::record::{Interval, RunRecord};
use linerate_model::sample::HostSample;
use linerate_model::served::{ServedTest, ServerLine};
use linerate_report::run::headline::Detail;
use linerate_report::run::json;
use linerate_report::run::table::Table;
use linerate_report::run::text::{PLAIN, ending};
use linerate_report::run::view::{Ending, Head};
use linerate_wire::http::event;

use crate::test::TestView;

/// How long an event is kept for who comes later.
#[derive(Debug, Clone, PartialEq)]
pub enum Keep {
    /// Always.
    Head,
    /// Of a test: the newest rows.
    Row,
    /// What hosts do: the newest.
    Hosts,
    /// What limits a test so far: the newest.
    SoFar,
    /// What was lost so far: the newest.
    Lost,
    /// Of a server: until that test is over.
    Running(Box<ServedTest>),
    /// That test is over: the newest hundred.
    Ended(Box<ServedTest>),
    /// Somebody was refused: the newest hundred.
    Refused,
    /// What else happens at a server: the newest hundred.
    Other,
    /// A fleet's file says something else: the newest.
    Look,
}

impl Keep {
    /// So many of a kind.
    fn most(&self) -> usize {
        match self {
            // A server tells few of them.
            Self::Head => 64,
            // Its owner says how many there may be; more are tests whose end nobody told.
            Self::Running(_) => 4_096,
            Self::Row => 1_200,
            Self::Hosts | Self::SoFar | Self::Lost | Self::Look => 1,
            Self::Ended(_) | Self::Refused | Self::Other => 100,
        }
    }

    fn like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// An event as it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct PageEvent {
    /// How long it is kept.
    pub keep: Keep,
    /// Framed.
    pub text: Arc<str>,
}

impl PageEvent {
    /// Nothing of ours can fail to become JSON: keys are names and values plain.
    fn new(keep: Keep, name: Option<&str>, line: std::io::Result<String>) -> Self {
        Self { keep, text: event(name, &line.unwrap_or_default()).into() }
    }
}

/// Words that stand in the page at the places of these names.
fn words(keep: Keep, words: &[(&str, String)]) -> PageEvent {
    let words: BTreeMap<&str, &String> = words.iter().map(|(at, text)| (*at, text)).collect();
    PageEvent::new(keep, Some("words"), json::line(&words))
}

/// Both ends of a test have agreed.
pub fn start(record: &RunRecord) -> [PageEvent; 2] {
    let head = Head::new(record);
    let named = [("title", head.title), ("summary", head.summary), ("hosts", head.hosts)];
    [
        words(Keep::Head, &named),
        PageEvent::new(Keep::Head, None, json::line(&RunLine::Start { record })),
    ]
}

/// An interval is over.
pub fn interval(interval: &Interval) -> PageEvent {
    PageEvent::new(Keep::Row, None, json::line(&RunLine::Interval(interval)))
}

/// What the cores of both hosts did in the interval that comes next, as far as it is known.
pub fn hosts(client: Option<&HostSample>, server: Option<&HostSample>) -> PageEvent {
    let ends = [("client", client), ("server", server)].into_iter();
    let cores: BTreeMap<&str, Vec<CoreActivity>> = ends
        .filter_map(|(name, host)| Some((name, host?.cores.iter().map(Into::into).collect())))
        .collect();
    PageEvent::new(Keep::Hosts, Some("hosts"), json::line(&cores))
}

/// Something worth a line.
pub fn note(text: &str) -> PageEvent {
    words(Keep::Head, &[("note", text.to_owned())])
}

/// What limits it so far, in words.
pub fn so_far(text: String) -> PageEvent {
    words(Keep::SoFar, &[("so-far", text)])
}

/// What was lost so far of each direction, forward first, by its place: the newest rows alone are kept, and cannot tell.
pub fn lost(view: &TestView) -> PageEvent {
    PageEvent::new(Keep::Lost, Some("lost"), json::line(&view.lost()))
}

/// The test is over: the answer in words, then the whole record.
pub fn end(record: &RunRecord) -> [PageEvent; 2] {
    let table = Table::new(record, PLAIN.room);
    let answer = ending(&Ending::new(record, &table), &table, PLAIN, Detail::Headline);
    let end = RunLine::End { record: Some(record), error: None };
    [words(Keep::Head, &[("answer", answer)]), PageEvent::new(Keep::Head, None, json::line(&end))]
}

/// A fleet's file says something else at this look: of these pairs, by their places in the document.
pub fn fleet(look: u64, pairs: &[usize]) -> PageEvent {
    PageEvent::new(Keep::Look, Some("fleet"), json::line(&(look, pairs)))
}

/// Something happened at a server.
pub fn server(line: &ServerLine) -> PageEvent {
    let keep = match line {
        ServerLine::Listening { .. } | ServerLine::Sandboxed { .. } => Keep::Head,
        ServerLine::Started { test, .. } => Keep::Running(Box::new(test.clone())),
        ServerLine::Ended { test, .. } => Keep::Ended(Box::new(test.clone())),
        ServerLine::Refused { .. } | ServerLine::RefusedMore { .. } => Keep::Refused,
        _ => Keep::Other,
    };
    PageEvent::new(keep, None, json::line(line))
}

/// What is kept, in the order in which it came.
#[derive(Debug, Default)]
pub struct History(VecDeque<PageEvent>);

impl History {
    /// Keeps an event, and gives up what it takes the place of.
    pub fn keep(&mut self, event: PageEvent) {
        if let Keep::Ended(test) = &event.keep {
            // Also one that ended before its start.
            let running = |old: &PageEvent| matches!(&old.keep, Keep::Running(of) if of == test);
            if let Some(at) = self.0.iter().position(running) {
                self.0.remove(at);
            }
        }
        let like = self.0.iter().filter(|old| old.keep.like(&event.keep)).count();
        if like >= event.keep.most()
            && let Some(at) = self.0.iter().position(|old| old.keep.like(&event.keep))
        {
            self.0.remove(at);
        }
        self.0.push_back(event);
    }

    /// All of them.
    pub fn texts(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|event| Arc::clone(&event.text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::served::RefusalKind;
    use linerate_testkit::records;
    use linerate_testkit::served::{done, test};

    use super::*;

    fn started(peer: usize) -> ServerLine {
        ServerLine::Started { time: "T".into(), test: test(peer) }
    }

    fn ended(peer: usize) -> ServerLine {
        ServerLine::Ended { time: "T".into(), test: test(peer), result: Box::new(done()) }
    }

    fn refused(peer: usize) -> ServerLine {
        ServerLine::Refused {
            time: "T".into(),
            peer: format!("192.0.2.7:{peer}"),
            key: None,
            kind: RefusalKind::Protocol,
            why: "noise\n\ndata: forged".into(),
            asked: None,
        }
    }

    #[test]
    fn who_comes_late_is_told_what_runs_and_what_was_lately() {
        let mut history = History::default();
        history.keep(server(&ServerLine::Listening {
            time: "T".into(),
            address: "[::]:5201".into(),
            dialect: None,
        }));
        for peer in 0..1_000 {
            history.keep(server(&started(peer)));
            history.keep(server(&refused(peer)));
            if peer >= 2 {
                history.keep(server(&ended(peer)));
            }
        }
        // Ended before its start.
        history.keep(server(&ended(5_000)));
        let texts = history.texts();
        assert!(texts[0].contains("\"listening\""), "{}", texts[0]);
        let of = |event: &str| texts.iter().filter(|text| text.contains(event)).count();
        assert_eq!(of("\"started\""), 2);
        assert_eq!((of("\"ended\""), of("\"refused\"")), (100, 100));
        assert_eq!(texts.len(), 203);
        assert!(texts.last().unwrap().contains(":5000\""), "{}", texts.last().unwrap());
        // Of tests whose end was never told the newest are.
        (10_000..14_200).for_each(|peer| history.keep(server(&started(peer))));
        let running = history.texts().iter().filter(|text| text.contains("\"started\"")).count();
        assert_eq!(running, 4_096);
        // Words of strangers stay in their event.
        for text in &texts {
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(text.starts_with("data: {") && text.ends_with("}\n\n"), "{text}");
        }
    }

    #[test]
    fn of_a_fleet_the_newest_look_is_told() {
        let mut history = History::default();
        (1..9).for_each(|look| history.keep(fleet(look, &[0, 7])));
        assert_eq!(history.texts(), ["event: fleet\ndata: [8,[0,7]]\n\n".into()]);
    }

    #[test]
    fn a_test_is_told_in_lines_of_json_and_its_record_comes_last() {
        let record = records::udp_both();
        let mut history = History::default();
        start(&record).into_iter().for_each(|event| history.keep(event));
        for _ in 0..700 {
            for row in &record.intervals {
                history.keep(hosts(Some(&HostSample::default()), None));
                history.keep(interval(row));
            }
        }
        end(&record).into_iter().for_each(|event| history.keep(event));
        let texts = history.texts();
        let of = |words: &str| texts.iter().filter(|text| text.contains(words)).count();
        assert_eq!(of("{\"event\":\"interval\""), 1_200);
        assert_eq!(of("event: hosts\ndata: {\"client\":[]}\n"), 1);
        assert_eq!((of("event: words\ndata: {\"hosts\":"), of("\"answer\":")), (1, 1));
        let line = json::line(&RunLine::End { record: Some(&record), error: None }).unwrap();
        assert_eq!(**texts.last().unwrap(), *format!("data: {line}\n"));
        let answer = texts.iter().find(|text| text.contains("\"answer\":")).unwrap();
        assert!(answer.contains("limited by"), "{answer}");
    }
}
