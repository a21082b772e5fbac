//! The pages for users of netperf, nuttcp and iperf 2: every line of linerate's in them runs, and so does every line of
//! theirs under their name.

use linerate_testkit::peer::LONG;

use crate::support::{Client, Server, alone, skip, wait_for};

const PAGES: [(&str, &str); 3] = [
    ("netperf", include_str!("../../../../docs/coming-from-netperf.md")),
    ("nuttcp", include_str!("../../../../docs/coming-from-nuttcp.md")),
    ("iperf", include_str!("../../../../docs/coming-from-iperf2.md")),
];

/// What stands in a page as code in a row of a table, and begins like this.
fn lines(page: &str, begins: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let mut lines: Vec<String> = Vec::new();
    for line in code.filter(|line| line.starts_with(begins) && line.contains("HOST")) {
        if !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// The line for this host, and with a short time where it has one or none.
fn shorter(line: &str, times: &[(&str, &str)], none: &str) -> Vec<String> {
    let v6 = line.split(' ').any(|word| word == "-6");
    // A server on another port than the one here.
    let line = line.replace(" -P6000", "");
    let mut line = line.replace("HOST", if v6 { "::1" } else { "127.0.0.1" });
    let mut timed = ["-n", "-k", "--bytes"].iter().any(|amount| line.contains(amount));
    for (long, short) in times {
        if line.contains(long) {
            (timed, line) = (true, line.replace(long, short));
        }
    }
    let (head, test) = line.split_once(" -- ").unwrap_or((&line, ""));
    let none = if timed { "" } else { none };
    let test = if test.is_empty() { String::new() } else { format!(" -- {test}") };
    // A line of nuttcp's ends with its host.
    let line = match head.rsplit_once(' ') {
        Some((options, host)) if none.starts_with("-T") => format!("{options} {none} {host}"),
        _ => format!("{head} {none}{test}"),
    };
    line.split_whitespace().map(str::to_owned).collect()
}

/// All of them, and which did not end well.
fn faults(lines: Vec<(String, Vec<String>)>) -> Vec<String> {
    let failed = lines.into_iter().filter_map(|(line, words)| {
        let ran = Client::start(None, &words.iter().map(String::as_str).collect::<Vec<_>>()).end();
        println!("{}: {}", words.join(" "), ran.code);
        (ran.code != 0).then(|| format!("{line}: {} {}{}", ran.code, ran.err, ran.out))
    });
    failed.collect()
}

#[test]
#[ignore = "long"]
fn every_line_of_the_pages_for_users_of_other_programs_runs() {
    let _alone = alone();
    let test = "every_line_of_the_pages_for_users_of_other_programs_runs";
    let server = Server::start(None, &["--all-dialects"]);
    let listens = |name: &str| server.log().contains(&format!("\"dialect\":\"{name}\""));
    let up = || ["netperf", "nuttcp", "iperf2"].iter().all(|name| listens(name));
    assert!(wait_for(LONG, up), "{}", server.log());
    let mut wrong = Vec::new();
    for (program, page) in PAGES {
        let ours = lines(page, "linerate ");
        assert!(ours.len() >= 10 || program == "iperf", "{program}: {ours:?}");
        assert!(ours.len() >= 8, "{program}: {ours:?}");
        let times = [
            ("-t 10s", "-t 1s"),
            ("--time 30s", "--time 1s"),
            (" -t 30s", " -t 1s"),
            ("-t 1s", "-t 1s"),
        ];
        // What has no dialect in the page is linerate's own, which listens elsewhere here.
        let spoken = ours.into_iter().filter(|line| line.contains("--dialect"));
        let spoken = spoken.map(|line| {
            let words = shorter(&line, &times, "-t 1s");
            (line, words[1..].to_vec())
        });
        wrong.extend(faults(spoken.collect()));
        let (times, none): (&[_], _) = match program {
            "netperf" => (&[("-l 30", "-l 1"), ("-l -1000000", "-l -1000000")], "-l 1"),
            "nuttcp" => (&[("-T30", "-T1"), ("-T10", "-T1")], "-T1"),
            _ => (&[("-t 30", "-t 1")], "-t 1"),
        };
        let theirs = lines(page, &format!("{program} "));
        // Those that are refused, and servers, are not run; the page says so of each.
        let refused = [
            "nuttcp -u -r -Ri100m/4 -l1400 HOST",
            "iperf -c HOST --bounceback",
            "netperf -H HOST -c -C -I 95,5 -i 10,3",
        ];
        let theirs = theirs.into_iter().filter(|line| !refused.contains(&line.as_str()));
        let theirs = theirs.map(|line| {
            let words = shorter(&line, times, none);
            (line, words)
        });
        wrong.extend(faults(theirs.collect()));
    }
    if wrong.iter().any(|line| line.contains("cubic")) {
        skip(test, "this kernel has no cubic");
        wrong.retain(|line| !line.contains("cubic"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
