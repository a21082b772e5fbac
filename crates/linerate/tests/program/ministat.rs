//! linerate under the name `ministat` against the program of Debian's package `ministat`: standard
//! output, standard error and exit code of generated calls, byte for byte. Where the original
//! crashes, ours must end with exit code 2 and a sentence.
//!
//! Without that package the test says so and compares nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use linerate_testkit::skip;

use crate::support::long;

const ORIGINAL: &str = "/usr/bin/ministat";

/// SplitMix64: a fixed sequence, the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

fn value(dice: &mut Dice, kind: u64) -> String {
    match kind {
        1 => (dice.below(11) as i64 - 5).to_string(),
        2 => format!("{:e}", dice.bell() * 10f64.powi(dice.below(25) as i32 - 12)),
        3 => format!("{:.3}", 1e9 + dice.unit()),
        4 => "5".into(),
        5 => dice.pick(&["nan", "-nan", "1", "2", "-0", "0", "3", "0x1p4", "1e3"]).into(),
        6 => dice.pick(&["1", "2", "inf", "-inf", "1e400", "4"]).into(),
        7 => format!("{:?}", 1.0 + dice.below(6) as f64 * f64::EPSILON),
        8 => format!("{:?}", dice.below(1 << 50) as f64 / (1u64 << dice.below(11)) as f64),
        _ => format!("{:.2}", 1000.0 + 30.0 * dice.bell()),
    }
}

fn line(dice: &mut Dice, kind: u64) -> String {
    let v = value(dice, kind);
    match dice.below(1000) {
        0..800 => v,
        800..840 => format!("{v} {}", value(dice, kind)),
        840..870 => format!("\t{v}  {} # comment", value(dice, kind)),
        870..890 => "# comment".into(),
        890..910 => String::new(),
        910..930 => format!("{v}\r"),
        930..950 => format!("{v},{}", value(dice, kind)),
        950..970 => format!("{v} #{v}"),
        970..972 => "abc".into(),
        972..974 => format!("{v}x"),
        974..976 => format!("{v}\0 junk"),
        976..978 => format!("{} ", v.repeat(1 + 9000 / v.len())),
        _ => format!("  {v} "),
    }
}

fn file(dice: &mut Dice) -> Vec<u8> {
    let kind = if dice.percent(35) { dice.below(9) } else { 0 };
    let count = if dice.percent(12) {
        dice.pick(&[0, 2, 3, 4, 5, 10, 30, 31, 60, 200])
    } else {
        dice.pick(&[3, 5, 10, 30])
    };
    let clean = dice.percent(60);
    let lines: Vec<String> =
        (0..count).map(|_| if clean { value(dice, kind) } else { line(dice, kind) }).collect();
    let mut text = lines.join("\n").into_bytes();
    if dice.percent(90) {
        text.push(b'\n');
    }
    text
}

fn arguments(dice: &mut Dice, names: &[String]) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    for flag in ["-A", "-n", "-s"] {
        if dice.percent(20) {
            args.push(flag.into());
        }
    }
    if dice.percent(8) {
        let column = ["2", "1", "0", "x", " 3", "1x", "4294967297", ""];
        args.extend(["-C".into(), dice.pick(&column).into()]);
    }
    if dice.percent(30) {
        let level = [
            "80", "90", "95", "98", "99", "99.5", "80", "90", "95", "98", "99", "99.5", "95.0",
            "0x5f", "97", "x", "9e1", "",
        ];
        args.extend(["-c".into(), dice.pick(&level).into()]);
    }
    if dice.percent(15) {
        let delimiters = [",", " ", ", ", "\t", "x", "", "0"];
        args.extend(["-d".into(), dice.pick(&delimiters).into()]);
    }
    if dice.percent(30) {
        let width =
            ["0", "1", "2", "3", "10", "40", "74", "75", "200", "-1", "x", " 12", "4294967370"];
        args.extend(["-w".into(), dice.pick(&width).into()]);
    }
    if dice.percent(3) {
        args.push(dice.pick(&["-x", "--foo", "-q", "--", "-c", "-sZ", "-nAw60"]).into());
    }
    args.extend_from_slice(names);
    if dice.percent(3) {
        args.push("no-such-file".into());
    }
    if dice.percent(3) {
        args.push("-".into());
    }
    if dice.percent(3) {
        args.insert(0, "-".into());
    }
    if dice.percent(15) {
        for i in (1..args.len()).rev() {
            args.swap(i, dice.below(i as u64 + 1) as usize);
        }
    }
    args
}

fn call(program: &Path, folder: &Path, args: &[String], input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .arg0("ministat")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that needs no input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn quiet_may_stand_before_what_knows_it() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ministat-quiet");
    fs::write(&file, "1\n2\n3\n").unwrap();
    let run = |options: [&str; 2]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.arg("ministat").args(options).arg("-n").arg(&file).output().unwrap()
    };
    let [last, first] = [["-q", "--modern"], ["--modern", "-q"]].map(run);
    assert_eq!((last.status.code(), &last.stdout), (Some(0), &first.stdout));
    assert_eq!(String::from_utf8_lossy(&last.stdout).lines().count(), 1, "neither name nor head");
}

#[test]
fn generated_calls_agree_with_the_original() {
    if !Path::new(ORIGINAL).exists() {
        skip("generated_calls_agree_with_the_original", &format!("{ORIGINAL} is not installed"));
        return;
    }
    let folder = scratch("ministat");
    let ours = folder.join("ministat");
    symlink(env!("CARGO_BIN_EXE_linerate"), &ours).unwrap();
    let mut dice = Dice(20_150_715);
    let (mut equal, mut crashed, mut done) = (0, 0, 0);
    let calls = if long() { 5000 } else { 300 };
    for number in 0..calls {
        let count = dice.pick(&[0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 7, 8]);
        let mut names = Vec::new();
        let mut input = Vec::new();
        for i in 0..count.max(1) {
            input = file(&mut dice);
            let name = format!("set{i}.stat");
            fs::write(folder.join(&name), &input).unwrap();
            names.push(name);
        }
        names.truncate(count);
        let args = arguments(&mut dice, &names);
        let theirs = call(Path::new(ORIGINAL), &folder, &args, &input);
        let ours = call(&ours, &folder, &args, &input);
        if theirs.status.signal().is_some() {
            crashed += 1;
            assert_eq!(ours.status.code(), Some(2), "call {number} {args:?}");
            assert!(!ours.stderr.is_empty() && ours.stdout.is_empty(), "call {number} {args:?}");
            continue;
        }
        let show = |o: &Output| {
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            format!("exit {:?}\n{}\n{}", o.status.code(), text(&o.stdout), text(&o.stderr))
        };
        assert!(
            ours == theirs,
            "call {number} {args:?} in {folder:?}\nours: {}\ntheirs: {}",
            show(&ours),
            show(&theirs)
        );
        equal += 1;
        done += usize::from(ours.status.success());
    }
    println!(
        "{calls} calls: {equal} equal (of them {done} with exit code 0), {crashed} crash the original"
    );
    assert!(2 * equal >= calls, "only {equal} calls could be compared");
}

#[test]
fn the_verb_is_the_same_program() {
    let folder = scratch("ministat-verb");
    fs::write(folder.join("a"), "1\n2\n3\n").unwrap();
    fs::write(folder.join("b"), "4\n5\n7\n8\n").unwrap();
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(args)
            .current_dir(&folder)
            .output()
            .unwrap()
    };
    let classic = run(&["ministat", "-A", "a", "b"]);
    assert!(classic.status.success());
    let text = String::from_utf8(classic.stdout).unwrap();
    assert!(
        text.contains("+   4             4             8             7             6"),
        "{text}"
    );
    let modern = run(&["ministat", "--modern", "-A", "a", "b"]);
    let text = String::from_utf8(modern.stdout).unwrap();
    assert!(
        text.contains("+   4             4             8             6             6"),
        "{text}"
    );
    assert_eq!(run(&["ministat", "none"]).status.code(), Some(1));
    assert_eq!(run(&["ministat", "--modern", "none"]).status.code(), Some(2));
}

/// On a terminal the width is the terminal's, or that of `COLUMNS`.
#[test]
fn on_a_terminal_the_width_is_the_same() {
    let script = Path::new("/usr/bin/script");
    if !Path::new(ORIGINAL).exists() || !script.exists() {
        let why = format!("{ORIGINAL} or {script:?} is not installed");
        skip("on_a_terminal_the_width_is_the_same", &why);
        return;
    }
    let folder = scratch("ministat-terminal");
    let ours = folder.join("ministat");
    symlink(env!("CARGO_BIN_EXE_linerate"), &ours).unwrap();
    fs::write(folder.join("a"), "1\n2\n5\n").unwrap();
    let shown = |program: &Path, before: &str| {
        let command = format!("{before} {} a", program.display());
        let out = Command::new(script)
            .args(["-qec", &command, "/dev/null"])
            .current_dir(&folder)
            .env_remove("COLUMNS")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    for before in
        ["", "COLUMNS=40", "COLUMNS=12x", "COLUMNS=", "stty cols 60;", "stty cols 50 rows 9;"]
    {
        let (a, b) = (shown(&ours, before), shown(Path::new(ORIGINAL), before));
        assert!(b.contains("Stddev"), "{b}");
        assert_eq!(a, b, "{before}");
    }
}
