//! Commands to a machine, over a virtio port that its agent (`lab/guest/agent`) reads.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What a command in a machine did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Its exit code; 137 when it was ended because it took too long.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it complained of.
    pub err: String,
}

/// No answer came within the time allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered(pub String);

/// What an agent says.
enum Said {
    /// It began; with this boot's id.
    Ready(String),
    Done(u64, Done),
}

/// One port of a machine.
#[derive(Debug)]
pub(crate) struct Channel {
    reader: BufReader<UnixStream>,
    line: Vec<u8>,
    next_id: u64,
    boot: Option<String>,
}

impl Channel {
    /// Connects to the socket that qemu made for the port.
    pub(crate) fn connect(socket: &Path, limit: Duration) -> Self {
        let until = Instant::now() + limit;
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(e) if Instant::now() > until => panic!("{}: {e}", socket.display()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        Self { reader: BufReader::new(stream), line: vec![], next_id: 1, boot: None }
    }

    /// The id of the boot that greets next, or greeted last if it is not `old`.
    pub(crate) fn boot(
        &mut self,
        old: Option<&str>,
        limit: Duration,
    ) -> Result<String, Unanswered> {
        let until = Instant::now() + limit;
        loop {
            if let Some(boot) = self.boot.as_deref().filter(|boot| Some(*boot) != old) {
                return Ok(boot.to_owned());
            }
            self.hear(until)?;
        }
    }

    /// Runs a script to its end, at most `limit`.
    pub(crate) fn run(&mut self, script: &str, limit: Duration) -> Result<Done, Unanswered> {
        let id = self.next_id;
        self.next_id += 1;
        let ask = format!("{id} {} {}\n", limit.as_secs().max(1), STANDARD.encode(script));
        let sent = self.reader.get_mut().write_all(ask.as_bytes());
        sent.map_err(|e| Unanswered(format!("{script}: {e}")))?;
        // The machine's own limit comes first, and says more.
        let until = Instant::now() + limit + Duration::from_secs(10);
        loop {
            match self
                .hear(until)
                .map_err(|Unanswered(why)| Unanswered(format!("{script}: {why}")))?
            {
                Said::Done(of, done) if of == id => return Ok(done),
                // An answer of before a power cut.
                Said::Done(..) => {}
                Said::Ready(boot) => {
                    return Err(Unanswered(format!("{script}: the machine booted again ({boot})")));
                }
            }
        }
    }

    fn hear(&mut self, until: Instant) -> Result<Said, Unanswered> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unanswered("no answer in time".to_owned()));
            }
            let _ = self.reader.get_ref().set_read_timeout(Some(left));
            match self.reader.read_until(b'\n', &mut self.line) {
                Ok(0) => return Err(Unanswered("the machine is off".to_owned())),
                Ok(_) => {
                    let line = std::mem::take(&mut self.line);
                    if let Some(said) = parse(&String::from_utf8_lossy(&line)) {
                        if let Said::Ready(boot) = &said {
                            self.boot = Some(boot.clone());
                        }
                        return Ok(said);
                    }
                }
                // What came so far stays in `line`.
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => return Err(Unanswered(e.to_string())),
            }
        }
    }
}

/// A line of the agent's; anything else is half a line of a machine that lost its power.
fn parse(line: &str) -> Option<Said> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let text = |word: &str| match word {
        "-" => Some(String::new()),
        word => Some(String::from_utf8_lossy(&STANDARD.decode(word).ok()?).into_owned()),
    };
    match words[..] {
        ["ready", boot] => Some(Said::Ready(boot.to_owned())),
        ["done", id, code, out, err] => Some(Said::Done(
            id.parse().ok()?,
            Done { code: code.parse().ok()?, out: text(out)?, err: text(err)? },
        )),
        _ => None,
    }
}
