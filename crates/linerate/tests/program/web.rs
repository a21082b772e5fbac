//! The page of `--web`: who is let in, what is told, and that nobody who reads it holds anything up.

use linerate_testkit::peer::LONG;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_testkit::records;
use linerate_watch::web::events;
use linerate_watch::web::page::Html;
use linerate_wire::http;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::support::{Browser, alone, linerate, skip, wait_for};

/// The program with a page, and where that is.
pub struct Shown {
    child: Child,
    at: SocketAddr,
    token: String,
    /// The pipe stays open: else its notes would end it.
    _err: BufReader<std::process::ChildStderr>,
}

impl Shown {
    pub fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(args)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut err = BufReader::new(child.stderr.take().expect("piped"));
        let (mut said, mut line) = (String::new(), String::new());
        let address = loop {
            line.clear();
            let read = err.read_line(&mut line).expect("a line");
            assert!(read > 0, "no address of a page: {said}");
            said.push_str(&line);
            if let Some((_, address)) = line.split_once("http://") {
                break address.trim().trim_end_matches('/').to_owned();
            }
        };
        let (at, token) = address.split_once('/').expect("a token");
        let at = at.parse().expect("an address");
        Self { child, at, token: token.to_owned(), _err: err }
    }

    /// Where it listens.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// What stands behind that: the token, of what has one.
    pub fn token(&self) -> &str {
        &self.token
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn interrupt(&self) {
        kill(self.pid(), Signal::SIGINT).expect("it is there");
    }

    /// Its exit code, and what it printed.
    pub fn end(mut self) -> (i32, String) {
        let mut out = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
        (self.child.wait().expect("it ended").code().unwrap_or(-1), out)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("an option");
        stream
    }

    /// What is answered to these bytes until the connection ends; one that is reset ends as well.
    pub fn answer(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("text")
    }

    pub fn get(&self, path: &str) -> String {
        self.answer(request(&path.replace("TOKEN", &self.token)).as_bytes())
    }

    /// The stream of events, after its head.
    pub fn events(&self) -> Result<Events, String> {
        let mut stream = self.connect();
        let asked = request(&format!("/{}/events", self.token));
        stream.write_all(asked.as_bytes()).expect("a request");
        let mut events = Events(BufReader::new(stream));
        let head = events.part();
        match head.starts_with("HTTP/1.1 200 OK\r\n") {
            true if head.contains("text/event-stream") => Ok(events),
            _ => Err(head),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n")
}

pub struct Events(BufReader<TcpStream>);

impl Events {
    /// Lines up to an empty one; nothing at the end.
    fn part(&mut self) -> String {
        let mut part = String::new();
        loop {
            let before = part.len();
            let read = self.0.read_line(&mut part).expect("a line in time");
            if read == 0 || part.get(before..).is_some_and(|line| line.trim().is_empty()) {
                return part;
            }
        }
    }

    /// The next event: its name, where it has one, and its data.
    pub fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let part = self.part();
            if part.is_empty() {
                return None;
            }
            let field = |name: &str| part.lines().find_map(|line| line.strip_prefix(name));
            if let Some(data) = field("data: ") {
                let data = serde_json::from_str(data).unwrap_or_else(|e| panic!("{e}: {part}"));
                return Some((field("event: ").unwrap_or_default().to_owned(), data));
            }
        }
    }

    /// The next line of `--json-lines` that is of this event.
    fn line(&mut self, event: &str) -> Value {
        loop {
            let (name, data) = self.next().unwrap_or_else(|| panic!("no {event} came"));
            if name.is_empty() && data["event"] == event {
                return data;
            }
        }
    }
}

#[test]
fn only_who_knows_the_token_sees_anything() {
    let _alone = alone();
    let shown = Shown::start(&["udp", "--local", "-b", "1M", "-t", "10m", "-i", "100ms", "--web"]);
    assert!(shown.at.ip().is_loopback());
    assert!(shown.token.len() == 32 && shown.token.bytes().all(|b| b.is_ascii_hexdigit()));
    // Says nothing, and is hung up on.
    let mut silent = shown.connect();
    let other = Shown::start(&["udp", "--local", "-b", "1M", "-t", "10m", "-i", "100ms", "--web"]);
    assert_ne!(other.token, shown.token);
    let wrong = format!("/{}/", other.token);
    for path in ["/", "/favicon.ico", "/events", "/TOKEN", "/TOKEN/else", "/TOKEN/events/", &wrong]
    {
        assert_eq!(shown.get(path), http::NOT_FOUND, "{path}");
    }
    assert_eq!(shown.get(&format!("{wrong}events")), http::NOT_FOUND);
    let post = format!("POST /{}/ HTTP/1.1\r\n\r\n", shown.token);
    assert_eq!(shown.answer(post.as_bytes()), http::NOT_FOUND);
    // What is left unread may take the answer with it.
    for noise in [vec![b'a'; 100_000], vec![0; 9_000], b"\r\n\r\n".to_vec()] {
        let answer = shown.answer(&noise);
        assert!(answer.is_empty() || answer == http::NOT_FOUND, "{answer}");
    }
    let page = shown.get("/TOKEN/");
    let (head, body) = page.split_once("\r\n\r\n").expect("a page");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    for field in
        ["Cache-Control: no-store", "Referrer-Policy: no-referrer", "frame-ancestors 'none'"]
    {
        assert!(head.contains(field), "{head}");
    }
    assert!(body.contains("default-src 'none';") && body.contains("EventSource(\"events\")"));
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn a_test_is_told_while_it_runs_and_its_record_is_the_last_event() {
    let _alone = alone();
    let shown = Shown::start(&[
        "udp", "--local", "-b", "1M", "-t", "10m", "-i", "100ms", "--web", "--json",
    ]);
    let mut events = shown.events().expect("events");
    let start = events.line("start");
    assert_eq!(start["record"]["asked"]["protocol"], "udp", "{start}");
    let rows: Vec<Value> = (0..3).map(|_| events.line("interval")).collect();
    assert!(rows[2]["start_s"].as_f64() > rows[1]["start_s"].as_f64(), "{rows:?}");
    assert!(rows[2]["receiver"]["bits_per_second"].is_number(), "{}", rows[2]);
    // Who comes later is told all that was.
    let mut late = shown.events().expect("events");
    let (name, words) = late.next().expect("words");
    assert_eq!(name, "words");
    assert!(words["title"].as_str().is_some_and(|title| title.contains("udp --local")), "{words}");
    assert_eq!(late.line("start"), start);
    let first = late.line("interval");
    assert_eq!(first["start_s"], 0.0, "{first}");
    // Not of an interval whose counters the kernel did not tell in time.
    let core = loop {
        let (name, mut data) = late.next().expect("what cores do");
        if name == "hosts" && data["client"][0].is_object() {
            break data["client"][0].take();
        }
    };
    assert!(core["idle_percent"].is_number(), "{core}");
    shown.interrupt();
    let words = loop {
        let (name, data) = events.next().expect("the answer");
        if name == "words" && !data["answer"].is_null() {
            break data;
        }
    };
    assert!(words["answer"].is_string(), "{words}");
    let (name, last) = events.next().expect("the end");
    assert_eq!((name.as_str(), last["event"].as_str()), ("", Some("end")), "{last}");
    let (_, out) = shown.end();
    assert_eq!(events.next(), None);
    let record: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    assert_eq!(last["record"], record);
    assert_eq!(record["error"]["kind"], "interrupted");
}

/// A connection that has its answer's first bytes and takes no more: small segments and a small window, so that little waits for it
/// in either kernel.
fn stalled(shown: &Shown) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("an option");
    socket.set_tcp_mss(536).expect("an option");
    socket.connect(&shown.at.into()).expect("a connection");
    let mut stream: TcpStream = socket.into();
    let asked = request(&format!("/{}/events", shown.token));
    stream.write_all(asked.as_bytes()).expect("a request");
    stream.set_read_timeout(Some(LONG)).expect("an option");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

#[test]
fn a_reader_who_stalls_holds_nobody_up() {
    let _alone = alone();
    // So few rows that they fit a reader's queue while the page's thread has no core for a second.
    let args = ["udp", "--local", "-b", "1M", "-t", "10m", "-i", "30ms", "--web", "--json"];
    let shown = Shown::start(&args);
    let mut events = shown.events().expect("events");
    let stalled: Vec<TcpStream> = (0..15).map(|_| stalled(&shown)).collect();
    assert!(shown.events().is_err(), "all of them listen");
    // Rows come as ever, and whoever takes none is cut off: there is room for others.
    let room = wait_for(LONG, || {
        (0..10).for_each(|_| drop(events.line("interval")));
        shown.events().is_ok()
    });
    assert!(room, "nobody was cut off");
    shown.interrupt();
    let end = events.line("end");
    let (_, out) = shown.end();
    assert_eq!(events.next(), None);
    let record: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    assert_eq!(end["record"], record);
    drop(stalled);
}

#[test]
fn so_many_listen_and_no_more() {
    let _alone = alone();
    let shown = Shown::start(&["rr", "--local", "--rate", "10", "-t", "10m", "--web"]);
    let mut listeners: Vec<Events> = (0..16).map(|_| shown.events().expect("events")).collect();
    assert_eq!(shown.events().map(drop).unwrap_err(), http::TOO_MANY);
    assert!(shown.get("/TOKEN/").starts_with("HTTP/1.1 200 OK"), "a page is no listener");
    // Who goes makes room at once, also where nothing happens.
    listeners.pop();
    assert!(wait_for(LONG, || shown.events().is_ok()));
}

#[test]
fn a_servers_page_has_what_runs_what_ran_and_who_was_refused() {
    let _alone = alone();
    let shown = Shown::start(&["serve", "--port", "0", "--web"]);
    let mut events = shown.events().expect("events");
    let listening = events.line("listening");
    let address: SocketAddr =
        listening["address"].as_str().expect("an address").parse().expect("one");
    let port = address.port().to_string();
    // Bytes that no client sends.
    let mut stranger = TcpStream::connect(("127.0.0.1", address.port())).expect("a connection");
    stranger.write_all(b"NO SENSE").expect("bytes");
    let refused = events.line("refused");
    assert_eq!(refused["why"], "not a protocol spoken here", "{refused}");
    let record =
        linerate(None, &["udp", "127.0.0.1", "-p", &port, "-b", "1M", "-t", "200ms", "--json"]);
    let record = record.complete();
    let started = events.line("started");
    assert_eq!(
        (&started["id"], &started["kind"]),
        (&record["id"], &Value::from("udp")),
        "{started}"
    );
    let ended = events.line("ended");
    assert_eq!((&ended["id"], &ended["outcome"]), (&record["id"], &Value::from("done")), "{ended}");
    // Who comes now is told what is left of it.
    let mut late = shown.events().expect("events");
    let lines: Vec<Value> = (0..4).map(|_| late.next().expect("an event").1).collect();
    let names: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap_or("")).collect();
    assert_eq!(names, ["listening", "sandboxed", "refused", "ended"]);
    // What reads strangers' bytes here is restricted as the rest of the server is.
    if lines[1]["seccomp"]["on"] == true {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", shown.pid())).expect("threads");
        let status = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.expect("a thread").path().join("status")).ok()
        };
        let web = tasks.filter_map(status).find(|status| status.starts_with("Name:\tweb\n"));
        let web = web.expect("a thread of the page");
        assert!(web.contains("Seccomp:\t2\n") && web.contains("NoNewPrivs:\t1\n"), "{web}");
    } else {
        skip("a_servers_page_has_what_runs_what_ran_and_who_was_refused", "no seccomp here");
    }
    let page = shown.get("/TOKEN/");
    assert!(page.contains("id=\"refused\"") && page.contains("EventSource(\"events\")"));
    shown.interrupt();
    while events.next().is_some() {}
    assert_eq!(shown.end().0, 0);
}

#[test]
fn an_address_that_cannot_be_had_is_told_before_the_test() {
    let _alone = alone();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let web = format!("--web={}", taken.local_addr().expect("an address"));
    for args in [&["udp", "--local", "-t", "10m", &web][..], &["serve", "--port", "0", &web]] {
        let ran = linerate(None, args);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("cannot serve the page of --web at 127.0.0.1:"), "{}", ran.err);
    }
    let ran = linerate(None, &["udp", "--local", "--web=here"]);
    assert!(ran.code == 2 && ran.err.contains("`here` is no address"), "{}", ran.err);
    // Apart from its option the address is a host.
    let ran = linerate(None, &["udp", "--local", "--web", "127.0.0.1:8080"]);
    assert!(ran.code == 2 && ran.err.contains("hint: --web=127.0.0.1:8080: "), "{}", ran.err);
}

/// Serves a page that looks at another one in a frame: `/` is what looks, `/done` is asked for when it has said what it
/// found, and what stands below `/page/` is `page`'s. What looks is whole only then: before that a browser does not take
/// it for loaded. The address.
pub fn framed(
    looks: &'static str,
    page: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/", listener.local_addr().expect("an address"));
    let shared = Arc::new((page, AtomicBool::new(false)));
    // A browser may open connections that it does not use.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || frame(stream, looks, &shared.0, &shared.1));
        }
    });
    address
}

fn frame(
    mut stream: TcpStream,
    looks: &str,
    page: &impl Fn(&str, &mut TcpStream),
    done: &AtomicBool,
) {
    let (mut head, mut bytes) = (Vec::new(), [0; 1_024]);
    let path = loop {
        let Ok(came @ 1..) = stream.read(&mut bytes) else { return };
        head.extend_from_slice(&bytes[..came]);
        match http::request(&head) {
            http::Request::Part => {}
            http::Request::Get(path) => break path.to_owned(),
            http::Request::Other => return,
        }
    };
    match path.as_str() {
        "/" => {
            done.store(false, Ordering::SeqCst);
            let whole = plain_html(looks);
            let (most, end) = whole.split_at(whole.len() - "<!-- end -->".len());
            let _ = stream.write_all(most.as_bytes());
            wait_for(LONG, || done.load(Ordering::SeqCst));
            let _ = stream.write_all(end.as_bytes());
        }
        "/done" => {
            done.store(true, Ordering::SeqCst);
            let _ = stream.write_all(http::NOT_FOUND.as_bytes());
        }
        path => match path.strip_prefix("/page/") {
            Some(path) => page(path, &mut stream),
            None => drop(stream.write_all(http::NOT_FOUND.as_bytes())),
        },
    }
}

/// Without our own fields: they let no page into a frame.
pub fn plain_html(text: &str) -> String {
    let length = text.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\r\n{text}"
    )
}

/// What a page that looks said as JSON, from its first key on.
pub fn said(dom: &str, first: &str) -> Value {
    let begin = format!("{{\"{first}\"");
    let (_, rest) = dom.split_once(&begin).unwrap_or_else(|| panic!("{dom}"));
    let json = rest.split_once('}').expect("its end").0;
    let json = json.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&");
    serde_json::from_str(&format!("{begin}{json}}}")).expect("JSON")
}

/// Looks at a page of the program once it has rows in its tables, and that of a test the cores of its host.
const LOOKS: &str = r##"<!doctype html><style>body{margin:0} iframe{border:0;width:100vw;height:1400px}</style>
<iframe src="page/"></iframe><output></output><script>
const frame = document.querySelector("iframe");
// A window of Chromium's is no narrower than 500 pixels; a frame is.
if (location.hash) frame.style.width = location.hash.slice(1) + "px";
frame.onload = async () => {
  const [page, window] = [frame.contentDocument, frame.contentWindow];
  const ready = () => page.querySelectorAll("tbody tr").length >= 2
    && !page.body.innerText.includes("No host reports its cores")
    && page.getElementById("so-far")?.textContent !== "";
  while (!ready()) await new Promise((done) => setTimeout(done, 100));
  document.querySelector("output").textContent = JSON.stringify({
    state: page.getElementById("state").textContent, width: frame.clientWidth,
    wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    ground: window.getComputedStyle(page.body).backgroundColor, text: page.body.innerText,
    bars: page.querySelectorAll(".bar .steal").length,
  });
  fetch("done");
};
</script><!-- end -->"##;

/// What a browser shows of the program's page: wide, narrow and dark.
fn in_a_browser(browser: &Browser, shown: &Shown) -> [Value; 3] {
    let (at, token) = (shown.at, shown.token.clone());
    let address = framed(LOOKS, move |path, stream| {
        let Ok(mut program) = TcpStream::connect(at) else { return };
        let _ = program.write_all(request(&format!("/{token}/{path}")).as_bytes());
        let mut program = BufReader::new(program);
        let mut field = String::new();
        while field != "\r\n" {
            field.clear();
            if program.read_line(&mut field).unwrap_or(0) == 0 {
                return;
            }
        }
        let kind = if path == "events" { "text/event-stream" } else { "text/html; charset=utf-8" };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        let _ = std::io::copy(&mut program, stream);
    });
    let wide = "--window-size=1280,1400";
    let dark = "--blink-settings=preferredColorScheme=0";
    let views = [(&[wide][..], ""), (&[wide], "#390"), (&[wide, dark], "")];
    let views = views.map(|(options, width)| {
        said(&browser.opens(&format!("{address}{width}"), options), "state")
    });
    for (view, width, ground) in [
        (&views[0], 1_280, "rgb(255, 255, 255)"),
        (&views[1], 390, "rgb(255, 255, 255)"),
        (&views[2], 1_280, "rgb(18, 22, 27)"),
    ] {
        assert_eq!((&view["width"], &view["ground"]), (&width.into(), &ground.into()), "{view}");
        assert_eq!(view["wide"], 0, "nothing is wider than the window: {view}");
    }
    views
}

#[test]
fn a_browser_shows_a_running_test_wide_narrow_and_dark() {
    let _alone = alone();
    let test = "a_browser_shows_a_running_test_wide_narrow_and_dark";
    let Some(browser) = Browser::new(test) else { return };
    let line = "udp --local -b 1M -t 10m -i 100ms --both --web";
    let shown = Shown::start(&line.split_whitespace().collect::<Vec<_>>());
    for view in in_a_browser(&browser, &shown) {
        let state = view["state"].as_str().expect("words");
        assert!(state.starts_with("running: ") && state.ends_with(" of 600 s"), "{view}");
        let text = view["text"].as_str().expect("words");
        for part in
            ["linerate udp --local", "forward: received", "reverse: jitter", "steal", "so far"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(view["bars"].as_u64() >= Some(1), "{view}");
    }
    shown.interrupt();
    shown.end();
}

#[test]
fn a_browser_shows_a_server_wide_narrow_and_dark() {
    let _alone = alone();
    let test = "a_browser_shows_a_server_wide_narrow_and_dark";
    let Some(browser) = Browser::new(test) else { return };
    let shown = Shown::start(&["serve", "--port", "0", "--web"]);
    let mut events = shown.events().expect("events");
    let listening = events.line("listening");
    let address = listening["address"].as_str().expect("an address");
    let (_, port) = address.rsplit_once(':').expect("a port");
    let mut stranger = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a connection");
    stranger.write_all(b"NO SENSE").expect("bytes");
    events.line("refused");
    linerate(None, &["udp", "127.0.0.1", "-p", port, "-b", "1M", "-t", "200ms", "--json"])
        .complete();
    events.line("ended");
    drop(events);
    let views = in_a_browser(&browser, &shown);
    // Where there is room for heads.
    let wide = views[0]["text"].as_str().expect("words");
    assert!(wide.contains("asked of all streams"), "{wide}");
    for view in views {
        assert_eq!(view["state"], "no test runs", "{view}");
        let text = view["text"].as_str().expect("words");
        for part in
            ["linerate serve", "udp forward, 1 stream, linerate", "not a protocol spoken here"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    shown.interrupt();
    shown.end();
}

/// Has the body of a page in its own once that has drawn its last chart.
const DRAWN: &str = r##"<!doctype html><iframe src="page/"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = async () => {
  const page = frame.contentDocument;
  const ready = () => page.querySelector(".uplot") && page.body.innerText.includes("limited by");
  while (!ready()) await new Promise((done) => setTimeout(done, 100));
  document.body.append(document.importNode(page.body, true));
  fetch("done");
};
</script><!-- end -->"##;

#[test]
fn a_browser_draws_a_test() {
    let test = "a_browser_draws_a_test";
    let Some(browser) = Browser::new(test) else { return };
    let mut record = records::udp_both();
    record.title = Some("<b id=taken>x</b>".to_owned());
    for figures in record.intervals.iter_mut().map(|row| &mut row.figures) {
        let [forward, reverse] = [&mut figures.forward, &mut figures.reverse]
            .map(|pair| pair.as_mut().and_then(|pair| pair.receiver.as_mut()).expect("figures"));
        forward.lost_ratio = Some(0.999_99);
        reverse.delay_variation_mean_s = Some(81e-6);
        reverse.delay_variation_max_s = Some(1.21e-3);
    }
    let mut events_sent: Vec<_> = events::start(&record).into();
    events_sent.extend(record.intervals.iter().map(events::interval));
    events_sent.push(events::so_far("so far: nobody knows".to_owned()));
    events_sent.extend(events::end(&record));
    let events_sent: String = events_sent.iter().map(|event| &*event.text).collect();
    let address = framed(DRAWN, move |path, stream| {
        let answer = match path {
            "" => plain_html(Html::of_test().as_str()),
            "events" => http::events() + &events_sent,
            _ => http::NOT_FOUND.to_owned(),
        };
        let _ = stream.write_all(answer.as_bytes());
    });
    let dom = browser.opens(&address, &["--window-size=390,1600"]);
    for part in [
        "the test is over: complete",
        "<h1 id=\"title\">&lt;b id=taken&gt;x&lt;/b&gt;</h1>",
        "forward: received",
        "limited by",
        "class=\"uplot",
        "data-head=\"place\">one of these two</td>",
        "<b>81 µs</b><span>reverse: delay variation, mean</span>",
        "<b>1.21 ms</b><span>reverse: delay variation, most</span>",
        "data-head=\"jitter\">80 µs / 80 µs</td>",
        "data-head=\"delay variation, most\">– / 1.21 ms</td>",
        // Not all was.
        "<b>&gt;99.99 %</b><span>forward: lost</span>",
    ] {
        assert!(dom.contains(part), "{part}: {dom}");
    }
    // The record's totals, not the sum of rows; its verdict, not the one so far.
    assert!(dom.contains("data-head=\"reverse\">30</td>"), "{dom}");
    assert!(!dom.contains("so far: nobody knows"), "{dom}");
    // Datagrams have none.
    assert!(!dom.contains("data-head=\"retransmits\""), "{dom}");
}
