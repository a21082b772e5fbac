//! linerate under iperf 2's name, client and server, beside Debian's iperf 2: the same columns, the same fields,
//! the same counts at both ends.

use linerate_testkit::peer::LONG;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Client, alone, free_port, skip, together, wait_for};

/// Whose program runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Whose {
    Theirs,
    Ours,
}

use Whose::{Ours, Theirs};

impl Whose {
    fn command(self, args: &str) -> Command {
        let mut command = match self {
            Theirs => {
                // It fills a buffer otherwise, while it serves.
                let mut command = Command::new("stdbuf");
                command.args(["-oL", "iperf"]);
                command
            }
            Ours => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
                command.arg("iperf");
                command
            }
        };
        command.args(args.split_whitespace()).stdin(Stdio::null()).env("TZ", "UTC");
        command
    }
}

pub(super) fn installed(test: &str) -> bool {
    let there = Command::new("iperf").arg("-v").output().is_ok();
    if !there {
        skip(test, "iperf (2) is not installed");
    }
    there
}

/// A server, what it prints, its port, and whether it prints intervals; ends with this.
pub(super) struct Server(Child, std::path::PathBuf, u16, bool);

impl Server {
    pub(super) fn start(whose: Whose, args: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-iperf2-face-{}-{next}", std::process::id());
        let (path, port) = (std::env::temp_dir().join(name), free_port());
        let out = std::fs::File::create(&path).expect("a file");
        let mut command = whose.command(&format!("-s -p {port} {args}"));
        let child = command.stdout(out).stderr(Stdio::null()).spawn().expect("a server");
        let server = Self(child, path, port, args.contains("-i "));
        let up = wait_for(LONG, || {
            let udp = if args.contains("-u") { "udp" } else { "tcp" };
            [udp.to_owned(), format!("{udp}6")].iter().any(|table| {
                let table = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
                table.is_ok_and(|table| table.contains(&format!(":{port:04X} ")))
            })
        });
        assert!(up, "{}", server.text());
        server
    }

    pub(super) fn port(&self) -> u16 {
        self.2
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.1).unwrap_or_default()
    }

    /// What it has said once there are so many lines of streams that are over.
    fn said(&self, totals: usize) -> String {
        let all = |text: &str| text.lines().filter(|line| is_total(line, self.3)).count() >= totals;
        assert!(wait_for(LONG, || all(&self.text())), "{}", self.text());
        self.text()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(&self.1);
    }
}

/// From 0 to no interval's end, which are of half a second here where there are any; of no line that has no rate.
fn is_total(line: &str, intervals: bool) -> bool {
    let csv = line.split(',').nth(6).and_then(|span| span.strip_prefix("0.0-"));
    let text = line.split_once(" 0.0000-").and_then(|(_, rest)| rest.split_once(" sec "));
    let end = csv.or(text.map(|(end, _)| end));
    end.is_some_and(|end| !intervals || end.parse() != Ok(0.5)) && !line.contains("out-of-order")
}

/// What a client does, and that it ends.
pub(super) fn ran(whose: Whose, port: u16, args: &str) -> Output {
    let mut command = whose.command(&format!("-c 127.0.0.1 -p {port} {args}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("a client");
    let ended = wait_for(LONG, || child.try_wait().expect("a child").is_some());
    let _ = child.kill();
    let out = child.wait_with_output().expect("its output");
    assert!(ended, "{whose:?} {args} hangs: {out:?}");
    out
}

fn client(whose: Whose, port: u16, args: &str) -> String {
    let out = ran(whose, port, args);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(whose == Theirs || out.status.success(), "{args}: {text}{err}");
    text
}

/// The kinds of lines: numbers are 0 and spaces are one, and what only the real one knows is left out. Their own
/// threads print in any order, and a moment that a busy machine was away makes an interval more or less.
pub(super) fn kinds(text: &str) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    let facts = ["TOS set", "[ CT]", "Read buffer size", "Reading "];
    for line in text.lines() {
        if facts.iter().any(|fact| line.starts_with(fact)) || line.contains("out-of-order") {
            continue;
        }
        let mut line = line.replace(" (kalman adjust)", "").replace("%lo", "");
        for opening in [" (icwnd", " (ct=", " (peer ", " (no-udp-fin"] {
            if let Some(from) = line.find(opening) {
                let to = line[from..].find(')').map_or(line.len(), |to| from + to + 1);
                line.replace_range(from..to, "");
            }
        }
        // Delays are known where clocks are; here they are not.
        if let Some((head, tail)) = line.split_once("%) ").filter(|(_, tail)| tail.contains("pps"))
        {
            let pps = tail.split_once(" ms ").map_or("", |(_, rest)| rest);
            let pps: String = pps.split_inclusive("pps").take(1).collect();
            line = format!("{head}%) {pps}");
        }
        // How reads are spread.
        if let Some((head, _)) =
            line.split_once('=').filter(|(head, _)| head.ends_with(|c: char| c.is_ascii_digit()))
        {
            line = head.to_owned();
        }
        let mut kind = String::new();
        for c in line.chars() {
            let c = if c.is_ascii_digit() { '0' } else { c };
            if !(matches!(c, '0' | ' ') && kind.ends_with(c)) {
                kind.push(c);
            }
        }
        // Rounding and the machine decide between these.
        let kind = kind.replace("0.0 ", "0 ").replace("0.0%", "0%").replace("( 0", "(0");
        let kind = ["KByte", "MByte", "GByte"].iter().fold(kind, |k, unit| k.replace(unit, "Byte"));
        let kind = ["Kbit", "Mbit", "Gbit"].iter().fold(kind, |k, unit| k.replace(unit, "bit"));
        kinds.insert(kind.trim_end().to_owned());
    }
    kinds
}

fn alike(what: &str, theirs: &str, ours: &str) {
    let (left, right) = (kinds(theirs), kinds(ours));
    assert_eq!(left, right, "{what}\n--- theirs\n{theirs}\n--- ours\n{ours}");
}

#[test]
#[ignore = "long"]
fn a_client_prints_what_theirs_prints() {
    let _alone = alone();
    if !installed("a_client_prints_what_theirs_prints") {
        return;
    }
    for (server, args) in [
        ("-u", "-u -b 2M -t 1 -i 0.5"),
        ("-u", "-u -b 2M -t 1"),
        ("-u", "-u -b 2M -t 1 -P 2 -i 0.5"),
        ("-u", "-u -b 2M -t 1 -R -i 0.5"),
        ("-u -e", "-u -b 2M -t 1 -R -e -i 0.5"),
        ("", "-t 1 -i 0.5 -b 20M"),
        ("", "-t 1 -i 0.5 -b 20M -P 2"),
        ("", "-t 1 -i 0.5 -b 20M -e"),
        ("", "-t 1 -i 0.5 -b 20M -R"),
        ("", "-t 1 -i 0.5 -b 20M -R -e"),
        ("", "-t 1 -b 20M -f k -w 64K -N"),
        ("-u", "-u -t 1 -b 2M -w 64K -l 200 -f K"),
    ] {
        let texts = [Theirs, Ours].map(|whose| {
            // A real one forgets to report to a second client that comes at once.
            let server = Server::start(Theirs, server);
            client(whose, server.2, args)
        });
        alike(args, &texts[0], &texts[1]);
    }
}

#[test]
#[ignore = "long"]
fn a_server_prints_what_theirs_prints() {
    let _alone = alone();
    if !installed("a_server_prints_what_theirs_prints") {
        return;
    }
    for (server, args) in [
        ("-u -i 0.5", "-u -b 2M -t 1"),
        ("-u", "-u -b 2M -t 1"),
        ("-u -e -i 0.5", "-u -b 2M -t 1"),
        ("-i 0.5", "-t 1 -b 20M"),
        ("-e -i 0.5", "-t 1 -b 20M"),
        ("-f m", "-t 1 -b 20M -R"),
    ] {
        let texts = [Theirs, Ours].map(|whose| {
            let server = Server::start(whose, server);
            client(Theirs, server.2, args);
            server.said(1)
        });
        alike(server, &texts[0], &texts[1]);
    }
}

/// Fields of the last line.
fn fields(text: &str) -> Vec<String> {
    let line = text.lines().last().unwrap_or_default();
    line.split(',').map(str::to_owned).collect()
}

#[test]
fn fields_are_those_of_theirs() {
    let _alone = alone();
    if !installed("fields_are_those_of_theirs") {
        return;
    }
    for (server, args) in [
        ("-y C", "-n 2M -y C"),
        ("-y C", "-t 2 -b 8M -y C -R"),
        ("-y C -u", "-u -b 2M -n 100K -y C"),
        ("-y C -u", "-u -b 2M -t 1 -y C -R"),
    ] {
        let udp = args.contains("-u");
        let all = [(Theirs, Theirs), (Ours, Theirs), (Theirs, Ours), (Ours, Ours)];
        for (here, there) in all {
            // Nobody has proven an address over UDP.
            if udp && args.contains("-R") && there == Ours {
                continue;
            }
            let what = format!("{args}: {here:?} against {there:?}");
            let server = Server::start(there, server);
            let (near, far) = (fields(&client(here, server.2, args)), fields(&server.said(1)));
            assert_eq!((near.len(), far.len()), if udp { (14, 14) } else { (9, 9) }, "{what}");
            // Whoever sends comes first: addresses and ports.
            assert_eq!(near[1..5], far[1..5], "{what}");
            assert_eq!(
                near[if args.contains("-R") { 2 } else { 4 }],
                server.2.to_string(),
                "{what}"
            );
            assert!(
                near[0].len() == 14 && near[5] == "1" && near[6].starts_with("0.0-"),
                "{near:?}"
            );
            let number =
                |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{what}: {text}"));
            assert!(number(&near[8]) > 0.0 && number(&far[8]) > 0.0, "{what}");
            if here == Ours && udp && !args.contains("-R") {
                // What the server says of it; a real one rounds jitter once more on its way.
                assert_eq!(near[10..], far[10..], "{what}");
                assert!(number(&near[11]) > 60.0, "{near:?}");
            }
            if args.contains("-n 2M") {
                // linerate's header goes before the data, theirs is its first bytes.
                let far_bytes = if here == Ours { "2097216" } else { "2097152" };
                assert_eq!((near[7].as_str(), far[7].as_str()), ("2097152", far_bytes), "{what}");
            }
        }
    }
}

#[test]
fn every_stream_and_interval_is_a_line() {
    let _alone = alone();
    let server = Server::start(Ours, "-i 0.5 -y C");
    let text = client(Ours, server.2, "-t 1 -b 8M -P 2 -i 0.5 -y C");
    for id in ["1", "2"] {
        let lines = text.lines().filter(|line| line.split(',').nth(5) == Some(id));
        let bytes = |line: &str| line.split(',').nth(7).and_then(|n| n.parse::<u64>().ok());
        let (totals, rows): (Vec<_>, Vec<_>) = lines.partition(|line| is_total(line, true));
        assert!(totals.len() == 1 && rows.len() >= 2, "{text}");
        let sum: Option<u64> = rows.iter().map(|line| bytes(line)).sum();
        assert_eq!(sum, bytes(totals[0]), "{text}");
    }
    server.said(2);
}

/// 2.1.8 has no row of the sum in CSV; 2.2.1 has one, with the ID -1.
#[test]
fn rows_of_several_streams_are_those_of_theirs() {
    let _alone = alone();
    if !installed("rows_of_several_streams_are_those_of_theirs") {
        return;
    }
    for (server, args) in [("-y C", "-t 1 -b 8M -P 2 -y C"), ("-u -y C", "-u -t 2 -b 2M -P 2 -y C")]
    {
        for here in [Theirs, Ours] {
            let server = Server::start(Ours, server);
            let near = client(here, server.2, args);
            // What theirs did not begin cannot come.
            let begun = near.lines().count();
            assert!(begun == 2 || (here == Theirs && begun == 1), "{here:?} {args}: {near}");
            for text in [&near, &server.said(begun)] {
                let mut ids: Vec<_> = text.lines().map(|line| line.split(',').nth(5)).collect();
                ids.sort_unstable();
                assert_eq!(ids, [Some("1"), Some("2")][..begun], "{here:?} {args}: {text}");
            }
        }
    }
}

/// Both go back to the port where the client listens.
#[test]
fn a_client_that_is_called_back_twice_has_four_lines() {
    let _alone = alone();
    if !installed("a_client_that_is_called_back_twice_has_four_lines") {
        return;
    }
    let (server, back) = (Server::start(Ours, "-y C"), free_port().to_string());
    let near = client(Theirs, server.2, &format!("-d -P 2 -L {back} -t 2 -b 2M -y C"));
    let returned = |text: &str| -> BTreeSet<[String; 2]> {
        let rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let rows = rows.filter(|row| row.get(4) == Some(&back.as_str()));
        rows.map(|row| [row[2].to_owned(), row[7].to_owned()]).collect()
    };
    // It waits for each; what it did not begin does not come back.
    let begun = returned(&near).len();
    assert!((1..=2).contains(&begun), "{near}");
    let far = server.said(2 * begun);
    let ids: BTreeSet<_> = far.lines().filter_map(|line| line.split(',').nth(5)).collect();
    let wanted: BTreeSet<_> = ["1", "2", "3", "4"].into_iter().take(2 * begun).collect();
    assert_eq!(ids, wanted, "{far}");
    assert_eq!(returned(&far), returned(&near), "{near}{far}");
}

/// Until the datagram that ends it, and not until the last of data.
#[test]
fn a_slow_stream_has_the_same_figures_at_both_ends() {
    let _alone = alone();
    let server = Server::start(Ours, "-u");
    let near = client(Ours, server.2, "-u -b 100K -t 3");
    let total =
        |text: &str| text.lines().rfind(|line| is_total(line, false)).expect("a line").to_owned();
    let (near, far) = (total(&near), total(&server.said(1)));
    assert!(near == far && near.contains(" ms "), "{near}\n{far}");
}

#[test]
fn both_ways_are_one_after_the_other_or_at_once() {
    let _alone = alone();
    if !installed("both_ways_are_one_after_the_other_or_at_once") {
        return;
    }
    for (args, there) in [
        ("-r", Theirs),
        ("-d", Theirs),
        ("--full-duplex", Theirs),
        ("-r", Ours),
        ("-d -P 2", Ours),
        ("-u -d", Theirs),
    ] {
        let server = Server::start(there, if args.contains("-u") { "-u" } else { "" });
        // A stream of datagrams of which none leaves in its time has no lines.
        let time = if args.contains("-u") { 3 } else { 1 };
        let text = client(Ours, server.2, &format!("-t {time} -b 2M -y C {args}"));
        let way = |field: usize| {
            let port = server.2.to_string();
            text.lines().filter(|line| line.split(',').nth(field) == Some(port.as_str())).count()
        };
        let each = if args.contains("-P 2") { 2 } else { 1 };
        assert_eq!((way(4), way(2)), (each, each), "{args}: {text}");
        let ids: BTreeSet<_> = text.lines().map(|line| line.split(',').nth(5)).collect();
        assert_eq!(ids.len(), 2 * each, "{args}: {text}");
    }
}

/// What a line says of delays, in milliseconds: mean, least, largest and standard deviation.
fn delays(line: &str) -> Option<[f64; 4]> {
    let words = line
        .split_once(" ms (")
        .or_else(|| line.split_once(" pps ").and_then(|(head, _)| head.rsplit_once(" ms ")))?
        .0;
    let numbers = words.split(' ').next_back()?.split('/');
    let numbers: Option<Vec<f64>> = numbers.map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Both ends are this host, whose clock agrees with itself.
#[test]
fn trip_times_are_delays_at_whichever_end_receives() {
    let _alone = alone();
    if !installed("trip_times_are_delays_at_whichever_end_receives") {
        return;
    }
    let cases = [
        (Ours, Theirs, true, false),
        (Theirs, Ours, true, false),
        (Ours, Ours, true, false),
        (Ours, Theirs, true, true),
        (Ours, Theirs, false, false),
        (Theirs, Ours, false, false),
        (Ours, Theirs, false, true),
        (Theirs, Ours, false, true),
        (Ours, Ours, false, true),
    ];
    together(&cases, |&(here, there, udp, back)| {
        let (of_udp, of_back) = (if udp { "-u" } else { "" }, if back { "-R" } else { "" });
        // Longer than others keep a sender from its core, or a server from opening the socket that stamps what comes.
        let args = format!("{of_udp} -t 3 -b 2M -l 4000 --trip-times {of_back}");
        let what = format!("{args}: {here:?} against {there:?}");
        let server = Server::start(there, &format!("{of_udp} -i 0.5"));
        let near = client(here, server.2, &args);
        let far = server.said(1);
        assert!(
            near.contains("(trip-times)") && far.contains("(trip-times)"),
            "{what}: {near}{far}"
        );
        // A UDP server says to its client what it measured.
        let told = [(&near, back || udp), (&far, !back)];
        for (text, _) in told.iter().filter(|(_, tells)| *tells) {
            let lines: Vec<_> = text.lines().filter_map(delays).collect();
            assert!(!lines.is_empty(), "{what}: {text}");
            for [mean, least, most, deviation] in lines {
                // Less than it takes until a test that hangs is ended.
                assert!(
                    0.0 <= least && least <= mean && mean <= most && most < 60_000.0,
                    "{what}: {text}"
                );
                assert!(deviation <= most - least + 0.001, "{what}: {text}");
            }
        }
        // As ours and theirs say it.
        let columns = if udp {
            "Latency avg/min/max/stdev PPS  Rx/inP  NetPwr"
        } else {
            "Burst Latency avg/min/max/stdev (cnt/size) inP NetPwr  Reads=Dist"
        };
        assert!(
            told.iter().all(|(text, tells)| text.contains(columns) == *tells),
            "{what}: {near}{far}"
        );
    });
}

/// Every datagram and every block has its delay, and the record of a test is the same as its lines.
#[test]
fn trip_times_are_of_all_that_came() {
    let _alone = alone();
    // What a server reports it counts in its own way; its log has the number (`iperf2.rs`). Of what came before its stream
    // had a socket it knows no delay, and others may keep it from opening one for long.
    for (args, values, doubt) in
        [("-u -n 100000 -b 300K -l 1000", None, "delay"), ("-n 1M -R", Some(8), "")]
    {
        let server = Server::start(Ours, if args.contains("-u") { "-u" } else { "" });
        let text = client(Ours, server.2, &format!("{args} --trip-times --json"));
        let record: serde_json::Value = serde_json::from_str(&text).expect("a record");
        let delay = &record["totals"]["receiver"]["wall_clock_delay_s"];
        assert_eq!(delay["count"].as_u64(), values, "{args}: {delay} {text}");
        let at = |name: &str| delay[name].as_f64().expect("a number");
        assert!(0.0 <= at("min") && at("min") <= at("mean") && at("mean") <= at("max"), "{delay}");
        assert!(doubt.is_empty() || !record["doubts"].to_string().contains(doubt), "{text}");
    }
    for (args, why) in [("-u -l 127", "128 bytes"), ("-l 91", "92 bytes")] {
        let out = ran(Ours, free_port(), &format!("{args} --trip-times -t 1"));
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && err.contains(why), "{args}: {err}");
    }
}

/// Datagrams are as short as a user wants, and fit IPv6 where it is asked for; `--json` is the record of them.
#[test]
fn short_datagrams_and_those_over_ipv6_are_counted_alike() {
    let _alone = alone();
    if !installed("short_datagrams_and_those_over_ipv6_are_counted_alike") {
        return;
    }
    for (there, told, args, size) in [
        // As many as a socket has room for, while others have the core of the server.
        (Theirs, "-u", "-c 127.0.0.1 -u -l 64 -b 1000pps -n 12800", 64),
        (Theirs, "-u", "-c 127.0.0.1 -u -l 40 -b 500K -n 8000", 40),
        (Ours, "-u", "-c 127.0.0.1 -u -l 64 -b 1000pps -n 12800", 64),
        (Theirs, "-u -V", "-c ::1 -V -u -b 2M -n 72500", 1_450),
        (Ours, "-u -V", "-c ::1 -V -u -b 2M -n 72500", 1_450),
    ] {
        let server = Server::start(there, told);
        let out = Ours.command(&format!("{args} -p {} --json", server.2)).output();
        let out = out.expect("a client");
        let text = String::from_utf8_lossy(&out.stdout);
        let record: serde_json::Value = serde_json::from_str(&text).expect("a record");
        assert_eq!(record["status"], "complete", "{args} at {there:?}: {record}");
        let (sent, came) = (&record["totals"]["sender"], &record["totals"]["receiver"]);
        let datagrams = sent["datagrams"].as_u64().expect("datagrams");
        assert_eq!(sent["bytes"].as_u64(), Some(datagrams * size), "{args} at {there:?}");
        assert!(datagrams > 0 && sent["datagrams"] == came["datagrams"], "{sent} {came}");
        // The datagram that ends it is one of theirs.
        let all = format!("/{} (", datagrams + 1);
        let spaced = server.said(1).replace("/ ", "/").replace("/ ", "/");
        assert!(spaced.contains(&all), "{all}: {spaced}");
    }
}

/// What a server sets of the sockets of its clients, as the kernel says it; `-t` is when it ends.
#[test]
fn options_of_a_server_are_its_sockets() {
    let _alone = alone();
    let mut server = Server::start(Ours, "-w 96K -M 1000 -S cs1 -N -Z reno -l 8K");
    let words = "TCP congestion control set to reno\n\
                 MSS req size 1000 bytes (per TCP_MAXSEG)\n\
                 TOS will be set to 0x20\n\
                 TCP window size:  192 KByte (WARNING: requested 96.0 KByte)";
    assert!(wait_for(LONG, || server.text().contains(words)), "{}", server.text());
    let mut client = Ours.command(&format!("-c 127.0.0.1 -p {} -R -b 8M -t 60", server.2));
    let mut client = client.stdout(Stdio::null()).spawn().expect("a client");
    let seen = || {
        let filter = format!("( sport = :{} )", server.2);
        let out = Command::new("ss").args(["-Htinem", "state", "established", &filter]).output();
        String::from_utf8_lossy(&out.expect("ss").stdout).into_owned()
    };
    let set = ["rb196608", "tb196608", " reno "];
    let as_asked = wait_for(LONG, || set.iter().all(|word| seen().contains(word)));
    let last = seen();
    let _ = client.kill();
    let _ = client.wait();
    assert!(as_asked, "{last}");
    drop(server);
    server = Server::start(Ours, "-t 5");
    assert!(wait_for(LONG, || server.0.try_wait().expect("a child").is_some()));
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

/// Each stream is a test of its own, and one host's may be all.
#[test]
fn a_host_may_have_as_many_streams_as_there_are() {
    let _alone = alone();
    let server = Server::start(Ours, "-y C");
    client(Ours, server.2, "-P 70 -n 8K -y C");
    server.said(70);
}

/// A server of 2.1.8 that has received sends nothing: who asks is told.
#[test]
fn one_way_after_the_other_over_udp_says_what_it_needs() {
    let _alone = alone();
    let server = Server::start(Ours, "-u");
    // An amount, which is sent however long others keep the sender from its core.
    let out = ran(Ours, server.2, "-u -r -b 1M -n 20K");
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && err.contains("start the server anew for -R"), "{err}");
}

/// Ctrl-C ends both tests, with what was measured.
#[test]
fn who_ends_the_first_way_wants_no_second() {
    let _alone = alone();
    let server = Server::start(Ours, "-i 0.5");
    let words = format!("iperf -c 127.0.0.1 -p {} -r -b 20M -t 60", server.port());
    let client = Client::start(None, &words.split(' ').collect::<Vec<_>>());
    assert!(wait_for(LONG, || server.text().contains(" sec ")), "{}", server.text());
    client.signal(Signal::SIGINT);
    let ran = client.end();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("(reverse)"), "{}", ran.out);
}

#[test]
fn a_server_ends_after_its_first_test_and_says_whom_it_refuses() {
    let _alone = alone();
    let mut server = Server::start(Ours, "-P 1 -u");
    client(Ours, server.2, "-u -n 20K -b 2M");
    assert!(wait_for(LONG, || server.0.try_wait().expect("a child").is_some()));
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    assert_eq!(
        server.text().lines().filter(|line| is_total(line, false)).count(),
        1,
        "{}",
        server.text()
    );
}

#[test]
fn failures_are_said_and_have_a_code() {
    let _alone = alone();
    let port = free_port();
    for (args, why) in [
        (format!("-c 127.0.0.1 -p {port} -t 1"), "refused"),
        ("-c 127.0.0.1 --isochronous".to_owned(), "frames are not sent"),
        ("-c nosuch.invalid".to_owned(), "nosuch.invalid"),
        (String::new(), "-s for a server"),
    ] {
        let out = Ours.command(&args).output().expect("a client");
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{args}: {err}");
        assert!(err.starts_with("iperf: ") && err.contains(why), "{args}: {err}");
    }
    // Under the name itself.
    let link = std::env::temp_dir().join(format!("linerate-iperf2-name-{}", std::process::id()));
    std::fs::create_dir_all(&link).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linerate"), link.join("iperf")).expect("a link");
    let out = Command::new(link.join("iperf")).arg("-v").output().expect("a program");
    let _ = std::fs::remove_dir_all(&link);
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("iperf version 2."), "{out:?}");
}
