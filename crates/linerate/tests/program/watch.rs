//! Screens on a real terminal (tmux's): started, looked at, told things by keys, left as they were found.

use linerate_testkit::peer::LONG;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::support::{alone, linerate, number, skip, wait_for};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

/// A terminal with a shell in it; tmux's server is this test's own.
struct Terminal {
    socket: String,
    folder: std::path::PathBuf,
}

impl Terminal {
    /// Of so many columns and rows, or a loud skip.
    fn open(test: &str, (columns, rows): (u16, u16)) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = format!("linerate-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&socket);
        std::fs::create_dir_all(&folder).expect("a folder");
        let terminal = Self { socket, folder };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let folder = terminal.folder.to_str().expect("a path").to_owned();
        let opened = terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            "-c",
            &folder,
            "env PS1='ready> ' ENV= sh -i",
        ]);
        if let Err(why) = opened {
            skip(test, &format!("no terminal from tmux: {why}"));
            return None;
        }
        terminal.until(|screen| screen.contains("ready>"));
        Some(terminal)
    }

    fn tmux(&self, words: &[&str]) -> Result<String, String> {
        let out = Command::new("tmux")
            .args(["-L", &self.socket])
            .args(words)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if out.status.success() {
            Ok(String::from_utf8_lossy(&out.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&out.stderr).into_owned())
        }
    }

    /// Keys as tmux names them.
    fn keys(&self, keys: &[&str]) {
        let words: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        self.tmux(&words).expect("keys are sent");
    }

    /// A line for the shell.
    fn run(&self, line: &str) {
        self.keys(&[
            "-l",
            &line.replace("linerate ", concat!(env!("CARGO_BIN_EXE_linerate"), " ")),
        ]);
        self.keys(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).expect("a screen")
    }

    /// Waits for a screen of which this holds, and gives it.
    fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let came = wait_for(LONG, || {
            screen = self.screen();
            wanted(&screen)
        });
        assert!(came, "what was waited for did not come to this screen:\n{screen}");
        if let Some(folder) = std::env::var_os("LINERATE_SCREENS") {
            let name = format!("{}-{}.txt", self.socket, screen.len());
            let _ = std::fs::write(std::path::Path::new(&folder).join(name), &screen);
        }
        screen
    }

    /// The shell is back, in cooked mode and on its own screen, and no key is shown that a program took.
    fn is_as_it_was(&self) {
        let runs = || self.tmux(&["display-message", "-p", "#{pane_current_command}"]);
        let ended = || runs().is_ok_and(|command| command.trim() != "linerate");
        assert!(wait_for(LONG, ended), "it goes on: {}", self.screen());
        self.run("stty -a | grep -c ' icanon' && echo back-$((40+2))");
        let screen = self.until(|screen| screen.contains("back-42"));
        assert!(screen.contains("ready>"), "{screen}");
        let modes = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(modes.expect("modes").trim(), "0 1", "the screen and the cursor");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Nothing is cut at the right edge: what stands last in its line is there. tmux itself shows no line that is wider than
/// the terminal, and no row below its last one.
fn fits(screen: &str) {
    let foot = screen.lines().last().unwrap_or_default();
    assert!(foot.ends_with("? help") || foot.contains("? help  "), "{screen}");
    let words: Vec<&str> = screen.split_whitespace().collect();
    let behind = |word: &str| {
        let places = words.iter().enumerate().filter(move |(_, found)| **found == word);
        places.map(|(at, _)| words.get(at + 2).copied()).collect::<Vec<_>>()
    };
    let title =
        screen.lines().find(|line| line.starts_with("both ends") && line.contains("thread"));
    if let Some(last) = title.and_then(|title| title.split_whitespace().last()) {
        assert!(last == "%" || last.parse::<u32>().is_ok(), "{screen}");
    }
    for unit in ["RTT", "jitter", "cwnd", "most"].into_iter().flat_map(behind) {
        let known = ["ns", "µs", "ms", "s", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB"];
        assert!(unit.is_some_and(|unit| known.contains(&unit)), "{unit:?}: {screen}");
    }
}

#[test]
fn a_host_is_watched_on_a_terminal() {
    for size in SIZES {
        let test = "a_host_is_watched_on_a_terminal";
        let Some(terminal) = Terminal::open(test, size) else { return };
        terminal.run("linerate watch -i 200ms");
        // The terminal may be seen while a part of a screen is still to come.
        let parts = ["interfaces", "lo ", "cores", "interrupts/s", "backlog", "? help"];
        let screen = terminal.until(|screen| parts.iter().all(|part| screen.contains(part)));
        assert!(screen.starts_with("linerate watch · "), "{screen}");
        fits(&screen);
        terminal.keys(&["?"]);
        terminal.until(|screen| screen.contains("hold the screen still"));
        terminal.keys(&["?"]);
        terminal.until(|screen| !screen.contains("hold the screen still"));
        terminal.keys(&["Space"]);
        let held = terminal.until(|screen| screen.contains("PAUSED"));
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(terminal.screen(), held, "it stands still");
        terminal.keys(&["Space"]);
        terminal.until(|screen| !screen.contains("PAUSED"));
        terminal.keys(&["s"]);
        let saved = terminal.until(|screen| screen.contains("saved as linerate-watch-"));
        let name = saved.split("saved as ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let kept = std::fs::read_to_string(terminal.folder.join(name.expect("a name")));
        assert!(kept.expect("a file").starts_with("linerate watch · "));
        terminal.keys(&["q"]);
        terminal.is_as_it_was();
    }
}

#[test]
fn a_terminal_that_changes_its_size_is_drawn_anew() {
    let test = "a_terminal_that_changes_its_size_is_drawn_anew";
    let Some(terminal) = Terminal::open(test, (120, 40)) else { return };
    terminal.run("linerate watch -i 200ms");
    terminal.until(|screen| screen.contains("q quit"));
    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]).expect("another size");
    let screen = terminal.until(|screen| {
        screen.lines().count() <= 24 && screen.lines().last().is_some_and(|l| l.contains("? help"))
    });
    fits(&screen);
    terminal.keys(&["C-c"]);
    terminal.is_as_it_was();
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let test = "a_signal_leaves_the_terminal_as_it_was";
    for signals in ["TERM", "INT"] {
        let Some(terminal) = Terminal::open(test, (80, 24)) else { return };
        terminal.run("linerate watch -i 200ms");
        terminal.until(|screen| screen.contains("q quit"));
        let tty = terminal.tmux(&["display-message", "-p", "#{pane_tty}"]).expect("a terminal");
        let all = Command::new("ps").args(["-t", tty.trim(), "-o", "pid=,comm="]).output();
        let all = String::from_utf8_lossy(&all.expect("ps").stdout).into_owned();
        let child = all.lines().find_map(|line| line.trim().strip_suffix(" linerate"));
        let child = child.unwrap_or_else(|| panic!("it runs on {tty}: {all}")).trim().to_owned();
        let sent = Command::new("kill").args([&format!("-{signals}"), &child]).status();
        assert!(sent.expect("kill").success());
        terminal.is_as_it_was();
    }
}

#[test]
fn without_a_terminal_rows_come() {
    let ran = linerate(None, &["watch", "-i", "100ms", "-n", "2"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    assert!(ran.out.starts_with("time ") && ran.out.lines().count() >= 3, "{}", ran.out);
    let ran = linerate(None, &["watch", "-i", "100ms", "-n", "2", "--json-lines"]);
    let lines: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["start", "activity", "activity"], "{}", ran.out);
    assert!(lines[0]["host"]["hostname"].is_string());
    assert!(!lines[2]["cores"].as_array().unwrap().is_empty(), "{}", lines[2]);
    assert!(lines[2]["interfaces"][0]["received_bps"].is_number(), "{}", lines[2]);
    let ran = linerate(None, &["watch", "-i", "10ms"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("hundredths of a second"), "{}", ran.err);
}

#[test]
fn what_a_host_carries_is_in_its_rows() {
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("linerate-watch-{}", std::process::id()));
    let mut watch = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["watch", "-i", "100ms", "--json-lines"])
        .stdout(std::fs::File::create(&path).expect("a file"))
        .spawn()
        .expect("it starts");
    let lines = || std::fs::read_to_string(&path).expect("rows").matches('\n').count();
    let passed = || {
        let counters = std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters");
        let lo = counters.lines().find_map(|line| line.trim().strip_prefix("lo:")).expect("lo");
        lo.split_whitespace().next().and_then(|bytes| bytes.parse::<u64>().ok()).expect("bytes")
    };
    // The first row begins before the test, and the last one ends after it.
    let up = wait_for(LONG, || lines() >= 2);
    let before = passed();
    let record = linerate(None, &["udp", "--local", "-b", "80M", "-t", "1s", "--json"]).complete();
    let kernel = passed() - before;
    let of_test = lines();
    let over = wait_for(LONG, || lines() >= of_test + 2);
    kill(Pid::from_raw(watch.id() as i32), Signal::SIGINT).expect("it is there");
    assert!(watch.wait().is_ok() && up && over, "{} rows", lines());
    let rows = std::fs::read_to_string(&path).expect("rows");
    std::fs::remove_file(&path).expect("it was there");
    let bytes = rows.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let all = line["interfaces"].as_array()?;
        let lo = all.iter().find(|i| i["name"] == "lo")?;
        Some(lo["received_bps"].as_f64()? * line["span_s"].as_f64()? / 8.0)
    });
    let bytes: f64 = bytes.sum();
    assert!(number(&record, "totals.receiver.bytes") <= kernel, "{kernel}: {record}");
    // Of a network that this test has to itself it is all that passed.
    assert!(bytes > kernel as f64 * 0.999, "{bytes} of {kernel}: {rows}");
}

/// A terminal of this size that nobody reads unless this test does, what programs see of it, and the same once more for
/// this test to write to.
fn unread((columns, rows): (u16, u16)) -> (File, File, File) {
    let held = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&held).and_then(|()| unlockpt(&held)).expect("it may be opened");
    let name = ptsname(&held, Vec::new()).expect("it has a name");
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&held, size).expect("it has a size");
    let open = |flags: OFlag| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags.bits());
        options.open(name.to_str().expect("a path")).expect("it opens")
    };
    (held.into(), open(OFlag::O_NOCTTY), open(OFlag::O_NOCTTY | OFlag::O_NONBLOCK))
}

/// Until the terminal takes nothing more.
fn fill(mut beside: &File) {
    let full = wait_for(LONG, || {
        let written = beside.write(&[b'.'; 4_096]);
        written.is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
    });
    assert!(full, "it takes everything");
}

/// Reads what is shown until the program has the whole terminal.
fn taken(mut held: &File) {
    let (mut shown, mut bytes) = (Vec::new(), [0; 4_096]);
    while !shown.windows(8).any(|part| part == b"\x1b[?1049h") {
        let mut asked = [PollFd::new(held.as_fd(), PollFlags::POLLIN)];
        let wait = PollTimeout::try_from(LONG).expect("a bound");
        assert_eq!(poll(&mut asked, wait), Ok(1), "no screen: {shown:?}");
        let count = held.read(&mut bytes).expect("it is read");
        shown.extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn the_third_ctrl_c_ends_what_a_stuck_terminal_holds_up() {
    let _alone = alone();
    // Stuck before it is taken, and later.
    for (line, later) in [
        ("watch -i 100ms", false),
        ("watch -i 100ms", true),
        ("udp --local -b 1M -t 10m -i 100ms --watch", false),
        ("udp --local -b 1M -t 10m -i 100ms --watch", true),
    ] {
        let (mut held, seen, beside) = unread((200, 50));
        if !later {
            fill(&beside);
        }
        let tty = || Stdio::from(seen.try_clone().expect("a descriptor"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(line.split_whitespace())
            .env("TERM", "xterm-256color")
            .stdin(tty())
            .stdout(tty())
            .stderr(tty())
            .spawn()
            .expect("it starts");
        if later {
            taken(&held);
            fill(&beside);
        }
        let raw = || !tcgetattr(&seen).expect("a state").local_modes.contains(LocalModes::ICANON);
        let raw = wait_for(LONG, raw);
        held.write_all(b"\x03\x03\x03").expect("keys are taken");
        let mut code = None;
        let ended = wait_for(LONG, || {
            code = child.try_wait().expect("a child").map(|status| status.code());
            code.is_some()
        });
        let _ = child.kill();
        let _ = child.wait();
        assert!(raw && ended, "{line}, later {later}: raw {raw}, ended {ended}");
        assert_eq!(code, Some(Some(130)), "{line}, later {later}");
    }
}

/// The record that a test on this terminal saved.
fn record(terminal: &Terminal, name: &str) -> Value {
    let file = terminal.folder.join(name);
    assert!(wait_for(LONG, || file.exists()), "no record; {}", terminal.screen());
    serde_json::from_str(&std::fs::read_to_string(file).expect("a record")).expect("JSON")
}

#[test]
fn a_test_is_watched_and_its_rate_changed() {
    let _alone = alone();
    let test = "a_test_is_watched_and_its_rate_changed";
    for size in SIZES {
        let Some(terminal) = Terminal::open(test, size) else { return };
        terminal.run("linerate udp --local -b 40M -l 1000 -t 10m -i 200ms --watch --save run.json");
        let parts = [
            "received",
            "both ends",
            "linerate udp --local",
            "rates",
            "lost so far: path 0",
            "so far limited by",
            "+ - rate",
            "? help",
        ];
        let screen = terminal.until(|screen| {
            parts.iter().all(|part| screen.contains(part)) && !screen.contains("too little")
        });
        fits(&screen);
        // Each tenth less is said, and sent.
        for _ in 0..7 {
            terminal.keys(&["-"]);
        }
        terminal.until(|screen| {
            screen.contains("rate 19.2 Mbit/s, planned 40.00 Mbit/s")
                || screen.contains("rate 19.20 Mbit/s")
        });
        terminal.until(|screen| screen.contains("sent 19."));
        // It is judged by the rate that was chosen, which a busy host may not keep either.
        let judged = terminal.until(|screen| screen.contains("so far limited by"));
        assert!(!judged.contains("of 40.00 Mbit/s asked"), "{judged}");
        terminal.keys(&["m"]);
        terminal.until(|screen| screen.contains("mark 1 at"));
        terminal.keys(&["+"]);
        terminal.until(|screen| screen.contains("rate 21."));
        terminal.keys(&["q"]);
        terminal.is_as_it_was();
        let record = record(&terminal, "run.json");
        let events = record["events"].as_array().expect("events");
        let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        // Of two keys within one batch, only the second's rate held.
        assert!((2..=8).contains(&of("rate")) && of("mark") == 1, "{events:?}");
        let last = events.iter().rev().find_map(|event| event["rate_bps"].as_u64());
        assert_eq!(last, Some(21_300_000), "{events:?}");
        assert!(events.is_sorted_by_key(|event| (event["at_s"].as_f64().unwrap() * 1e6) as i64));
        let doubts = record["doubts"].as_array().expect("doubts");
        assert!(doubts.iter().any(|doubt| doubt["kind"] == "rate-changed"), "{doubts:?}");
        let limit = record["verdict"]["limit"].as_str().expect("a limit");
        // A busy host may lack time at either end, and its receiver's buffer overflows then.
        let possible =
            ["requested-rate", "other-work", "sender-cpu", "receiver-cpu", "receiver-buffer"];
        assert!(possible.contains(&limit), "{record}");
        assert_eq!(record["error"]["kind"], "interrupted");
        assert!(record["totals"]["sender"]["pacing"]["gap_nominal_ns"].is_null());
    }
}

#[test]
fn a_test_as_fast_as_it_goes_can_be_slowed_down() {
    let _alone = alone();
    let test = "a_test_as_fast_as_it_goes_can_be_slowed_down";
    let Some(terminal) = Terminal::open(test, (80, 24)) else { return };
    // Two cores that are busy with the test itself and with others may draw nothing for many seconds.
    terminal.run("linerate udp --local -t 10m -i 200ms --watch --json > run.json");
    terminal.until(|screen| screen.contains("% lost"));
    terminal.keys(&["-"]);
    terminal.until(|screen| screen.contains("planned max"));
    terminal.keys(&["C-c"]);
    terminal.is_as_it_was();
    let record = record(&terminal, "run.json");
    assert_eq!(record["error"]["kind"], "interrupted");
    let events = record["events"].as_array().expect("events");
    assert_eq!(events.len(), 1, "{events:?}");
    let sender = &record["totals"]["sender"];
    assert!(sender["pacing"]["mean_error_ppm"].is_null(), "{sender}");
    linerate_testkit::identities::identities(&record);
}

#[test]
fn streams_and_requests_are_watched_too() {
    let _alone = alone();
    let test = "streams_and_requests_are_watched_too";
    for (line, part) in [
        ("tcp --local -b 50M", "RTT"),
        ("rr --local --rate 1k", "latency median"),
        ("udp --local -b 10M --both", "reverse: received"),
        ("udp --local -b 10M -R", "received"),
        ("udp 127.0.0.1 --send-only -b 10M", "sent"),
    ] {
        let Some(terminal) = Terminal::open(test, (80, 24)) else { return };
        terminal.run(&format!("linerate {line} -t 10m -i 200ms --watch"));
        let parts = [part, "so far", "? help"];
        let screen = terminal.until(|screen| parts.iter().all(|part| screen.contains(part)));
        fits(&screen);
        let changeable = !line.starts_with("rr") && !line.ends_with("-R");
        assert_eq!(screen.contains("+ - rate"), changeable, "{screen}");
        if !changeable {
            terminal.keys(&["-"]);
            terminal.until(|screen| {
                screen.contains("the rate of requests")
                    || screen.contains("the rate is the server's")
            });
        }
        terminal.keys(&["C-c"]);
        terminal.is_as_it_was();
    }
}

#[test]
fn without_a_terminal_a_watched_test_shows_its_rows() {
    let _alone = alone();
    let ran = linerate(None, &["udp", "--local", "-b", "1M", "-t", "300ms", "--watch"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("--watch shows no screen here"), "{}", ran.err);
    assert!(ran.out.contains("limited by") && !ran.out.contains('\u{1b}'), "{}", ran.out);
}

/// Verbs that make tests of their own have no one test to show: they say so before anything is sent, and ignore nothing.
#[test]
fn what_makes_many_tests_refuses_the_screens_with_the_reason() {
    for line in [
        "tune udp --local --rate 1M --watch",
        "tune tcp --local --web",
        "tune rr --local --web=8080",
        "profile udp --local --watch",
        "profile tcp --local --web",
        "profile rr --local --web=127.0.0.1:8080",
        "profile udp --local --rate 1M --at-knee --watch",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = linerate(None, &words);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        let option = if line.ends_with("--watch") { "--watch" } else { "--web" };
        for says in [&*format!("cannot use `{option}` here"), "would be ignored", "leave it out"] {
            assert!(ran.err.contains(says), "{line}: {}", ran.err);
        }
        assert!(ran.out.is_empty(), "{line}: {}", ran.out);
    }
    // These have no such option, and name what was given.
    for line in ["sweep --local --watch", "search --local --web", "doctor --watch"] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = linerate(None, &words);
        let option = words.last().expect("an option");
        assert!(ran.code == 2 && ran.err.contains(option), "{line}: {ran:?}");
    }
}
