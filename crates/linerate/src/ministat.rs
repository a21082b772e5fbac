//! `linerate ministat`, and linerate under the name `ministat`: the original's options, output,
//! errors and exit codes. Options are read as GNU getopt reads them, because that is what callers'
//! scripts were written against.
//!
//! Exit codes: 0 done; 1 a file cannot be opened; 2 wrong usage, bad data, or a plot that the
//! original would have crashed on. `--modern` is ours: the arithmetic of FreeBSD 14 and later, where
//! a missing file is exit code 2.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use linerate_report::ministat::{MOST_SETS, Options, PrintError, ReadError, Set, print};
use linerate_stats::offline::ministat::{Arithmetic, LEVELS};
use linerate_stats::strtod::parse_c_double;

/// Large blocks: a file of ten million numbers is read in a hundred calls.
const BLOCK_BYTES: usize = 1 << 20;

/// Runs the command. `program` is the name it was called by, for its messages; `args` are what
/// follows that name.
pub fn run(program: &OsStr, args: Vec<OsString>) -> ExitCode {
    let program = program.as_bytes().to_vec();
    let outcome = parse(&program, args).and_then(|request| compare(&program, request));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            // Nobody is left to read it when even this fails.
            let _ = io::stderr().write_all(&message);
            ExitCode::from(code)
        }
    }
}

struct Failure {
    message: Vec<u8>,
    code: u8,
}

struct Request {
    options: Options,
    files: Vec<OsString>,
}

fn compare(program: &[u8], request: Request) -> Result<(), Failure> {
    let mut sets = Vec::new();
    let mut stdin_read = false;
    for file in &request.files {
        let bytes = file.as_bytes();
        let set = if bytes == b"-" {
            // The original closes its input after the first use, so a second one finds nothing.
            if std::mem::replace(&mut stdin_read, true) {
                Set::read(io::empty(), &request.options)
            } else {
                let input = BufReader::with_capacity(BLOCK_BYTES, io::stdin().lock());
                Set::read(input, &request.options)
            }
        } else {
            let input =
                File::open(file).map_err(|error| cannot_open(program, bytes, &error, &request))?;
            Set::read(BufReader::with_capacity(BLOCK_BYTES, input), &request.options)
        };
        let name: &[u8] = if bytes == b"-" { b"<stdin>" } else { bytes };
        let set = set.map_err(|error| bad_set(program, name, &error))?;
        sets.push((name.to_vec(), set));
    }
    let mut out = BufWriter::with_capacity(BLOCK_BYTES, io::stdout().lock());
    let printed = print(&mut out, &sets, &request.options)
        .and_then(|()| out.flush().map_err(PrintError::from));
    match printed {
        Ok(()) => Ok(()),
        Err(PrintError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let mut message = [short_name(program), b": "].concat();
            message.extend_from_slice(format!("cannot print the plot: {error}\n").as_bytes());
            if matches!(error, PrintError::Stray(_)) {
                message.extend_from_slice(
                    b"hint: -A leaves the plot out; infinite values and -w 1 have no scale\n",
                );
            }
            Err(Failure { message, code: 2 })
        }
    }
}

fn cannot_open(program: &[u8], name: &[u8], error: &io::Error, request: &Request) -> Failure {
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or(&text).as_bytes();
    let message = [short_name(program), b": Cannot open ", name, b": ", reason, b"\n"].concat();
    let code = if request.options.arithmetic == Arithmetic::Modern { 2 } else { 1 };
    Failure { message, code }
}

fn bad_set(program: &[u8], name: &[u8], error: &ReadError) -> Failure {
    let message = match error {
        ReadError::TooFew => {
            [b"Dataset ", name, b" must contain at least 3 data points\n"].concat()
        }
        ReadError::Invalid { line } => {
            let line = format!(": Invalid data on line {line} in ");
            [short_name(program), line.as_bytes(), name, b"\n"].concat()
        }
        ReadError::Io(error) => {
            let reason = format!(": {error}\n");
            [short_name(program), b": cannot read ", name, reason.as_bytes()].concat()
        }
    };
    Failure { message, code: 2 }
}

/// What the C library's `err` puts before a message: the name without its folder.
fn short_name(program: &[u8]) -> &[u8] {
    program.rsplit(|b| *b == b'/').next().unwrap_or(program)
}

fn usage(whine: &str) -> Failure {
    let levels: Vec<String> = LEVELS.iter().map(|(level, _)| format!("{level}%")).collect();
    let message = format!(
        "{whine}\n\
         Usage: ministat [-C column] [-c confidence] [-d delimiter(s)] [-Ans] [-w width] [file [file ...]]\n\
         \tconfidence = {{{}}}\n\
         \t-A : print statistics only. suppress the graph.\n\
         \t-C : column number to extract (starts and defaults to 1)\n\
         \t-d : delimiter(s) string, default to \" \\t\"\n\
         \t-n : print summary statistics only, no graph/test\n\
         \t-s : print avg/median/stddev bars on separate lines\n\
         \t-w : width of graph/test output (default 74 or terminal width)\n",
        levels.join(", ")
    );
    Failure { message: message.into_bytes(), code: 2 }
}

fn unknown_option(program: &[u8], what: &str, option: u8) -> Failure {
    let mut failure = usage("Unknown option");
    let text = format!(": {what} -- '");
    failure.message = [program, text.as_bytes(), &[option], b"'\n", &failure.message].concat();
    failure
}

/// Reads the arguments as getopt does: options and files may mix, `--` ends the options, and
/// `POSIXLY_CORRECT` makes the first file end them.
fn parse(program: &[u8], args: Vec<OsString>) -> Result<Request, Failure> {
    let mut options = Options { width: terminal_width(), ..Options::default() };
    // It says what other options there are, wherever it stands.
    if args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--modern") {
        options.arithmetic = Arithmetic::Modern;
    }
    let mut level = None;
    let mut files = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            files.extend(args);
            break;
        }
        if bytes == b"--modern" {
            continue;
        }
        if bytes.len() < 2 || bytes.first() != Some(&b'-') {
            files.push(arg);
            if std::env::var_os("POSIXLY_CORRECT").is_some() {
                files.extend(args);
                break;
            }
            continue;
        }
        for (at, letter) in bytes.iter().copied().enumerate().skip(1) {
            match letter {
                b'A' => options.plot = false,
                b'n' => options.comparisons = false,
                b's' => options.separate_bars = true,
                b'q' if options.arithmetic == Arithmetic::Modern => options.quiet = true,
                b'C' | b'c' | b'd' | b'w' => {
                    let attached = bytes.get(at + 1..).filter(|rest| !rest.is_empty());
                    let value = attached.map(<[u8]>::to_vec);
                    let value = value.or_else(|| args.next().map(OsString::into_vec));
                    let value = value.ok_or_else(|| {
                        unknown_option(program, "option requires an argument", letter)
                    })?;
                    set_value(&mut options, &mut level, letter, value)?;
                    break;
                }
                _ => return Err(unknown_option(program, "invalid option", letter)),
            }
        }
    }
    options.level = level.unwrap_or(2);
    if files.is_empty() {
        files.push("-".into());
    }
    if files.len() > MOST_SETS {
        return Err(usage("Too many datasets."));
    }
    Ok(Request { options, files })
}

fn set_value(
    options: &mut Options,
    level: &mut Option<usize>,
    letter: u8,
    value: Vec<u8>,
) -> Result<(), Failure> {
    match letter {
        b'C' => {
            let column = whole(&value).ok_or_else(|| usage("Invalid column number."))?;
            if column <= 0 {
                return Err(usage("Column number should be positive."));
            }
            options.column = column;
        }
        b'c' => {
            let (number, length) = parse_c_double(&value);
            if length < value.len() {
                return Err(usage("Not a floating point number"));
            }
            // An unknown level after a known one leaves the known one in force, as the original.
            *level = LEVELS.iter().position(|(l, _)| *l == number).or(*level);
            if level.is_none() {
                return Err(usage("No support for confidence level"));
            }
        }
        b'd' => {
            if value.is_empty() {
                return Err(usage("Can't use empty delimiter string"));
            }
            options.delimiters = value;
        }
        _ => {
            let width = whole(&value).ok_or_else(|| usage("Invalid width, not a number."))?;
            if width < 0 {
                return Err(usage("Unable to move beyond left margin."));
            }
            options.width = width;
        }
    }
    Ok(())
}

/// A whole number by the rules of C's `strtol`, cut to 32 bits. `None` when something follows it.
fn whole(text: &[u8]) -> Option<i32> {
    let (value, length) = leading_whole(text);
    (length == text.len()).then_some(value as i32)
}

fn leading_whole(text: &[u8]) -> (i64, usize) {
    let space = |b: &&u8| b.is_ascii_whitespace() || **b == 0x0b;
    let mut at = text.iter().take_while(space).count();
    let mut negative = false;
    if let Some(sign @ (b'+' | b'-')) = text.get(at) {
        negative = *sign == b'-';
        at += 1;
    }
    let digits = text.iter().skip(at).take_while(|b| b.is_ascii_digit());
    let (mut value, mut count) = (0i64, 0);
    for digit in digits {
        let digit = i64::from(digit - b'0');
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
        count += 1;
    }
    if count == 0 { (0, 0) } else { (value, at + count) }
}

/// 74 unless the output is a terminal; then `COLUMNS` as it stands, or two less than the terminal.
fn terminal_width() -> i32 {
    const DEFAULT: i32 = 74;
    let out = io::stdout();
    if !out.is_terminal() {
        return DEFAULT;
    }
    if let Some(columns) = std::env::var_os("COLUMNS").filter(|c| !c.is_empty()) {
        return leading_whole(columns.as_bytes()).0 as i32;
    }
    // Asked for directly: a terminal of unknown height still has a width.
    match rustix::termios::tcgetwinsize(&out) {
        Ok(size) if size.ws_col > 0 => i32::from(size.ws_col) - 2,
        _ => DEFAULT,
    }
}
