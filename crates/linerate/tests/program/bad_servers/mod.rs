//! Servers of other programs' protocols that are none, hang up, fall silent, contradict themselves or never end, in any
//! state: a client always ends, and says what happened, as linerate and under the other program's name.

mod iperf2;
mod netperf;
mod nuttcp;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::time::Duration;

use crate::support::{Client, alone, together};
use socket2::{Domain, SockRef, Socket, Type};

/// Longer than any client waits for anything.
const PATIENT: Duration = Duration::from_secs(50);
/// A client that does not come to a data port has gone elsewhere by then.
const COMES: Duration = Duration::from_secs(5);

/// The same test in linerate's words and in those of the other program.
type Asks = (&'static str, &'static str);

/// A bad server: what it does, what it is asked, the kinds of error that name it (`a or b`; `complete` where a client can do
/// without what is missing), words of the reason, and how it does it.
type Bad = (&'static str, Asks, &'static str, &'static str, fn(&mut Desk));

/// A program whose servers these are.
struct Program {
    dialect: &'static str,
    /// linerate under its name.
    face: &'static [&'static str],
    port: u16,
    /// Where data goes to; 0 where the server says.
    data_port: u16,
    /// Tests have a control connection.
    control: bool,
}

/// A server's end of one test.
struct Desk {
    control: Option<BufReader<TcpStream>>,
    at: Ipv4Addr,
    /// Of the data: a client's that receives, or this one's.
    port: u16,
    listener: Option<TcpListener>,
    streams: Vec<TcpStream>,
    udp: Option<UdpSocket>,
    client: Option<SocketAddr>,
}

/// What it cannot do is the client's right: it may have gone.
impl Desk {
    fn stream(&mut self) -> &mut TcpStream {
        self.control.as_mut().expect("a connection").get_mut()
    }

    fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream().write_all(bytes.as_ref());
    }

    /// So many bytes.
    fn hear(&mut self, bytes: usize) {
        let _ = self.control.as_mut().expect("a connection").read_exact(&mut vec![0; bytes]);
    }

    fn hear_line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.control.as_mut().expect("a connection").read_line(&mut line);
        line
    }

    /// Until the client has had enough.
    fn wait(&mut self) {
        let _ = std::io::copy(&mut self.stream(), &mut std::io::sink());
    }

    /// The same again and again, until the client has had enough.
    fn for_ever(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref().repeat(100);
        while self.stream().write_all(&bytes).is_ok() {}
    }

    fn reset(&mut self) {
        let _ = SockRef::from(&*self.stream()).set_linger(Some(Duration::ZERO));
        self.control = None;
    }

    /// A data port for a client that sends.
    fn listen(&mut self) {
        let listener = TcpListener::bind((self.at, self.port)).expect("a data port");
        self.port = listener.local_addr().expect("its number").port();
        listener.set_nonblocking(true).expect("an option");
        self.listener = Some(listener);
    }

    fn listen_udp(&mut self) {
        let socket = UdpSocket::bind((self.at, self.port)).expect("a data port");
        self.port = socket.local_addr().expect("its number").port();
        socket.set_read_timeout(Some(PATIENT)).expect("an option");
        self.udp = Some(socket);
    }

    /// The client's data connection.
    fn accept(&mut self) {
        let listener = self.listener.as_ref().expect("a data port");
        let came = crate::support::wait_for(COMES, || match listener.accept() {
            Ok((stream, _)) => {
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(Some(PATIENT));
                let _ = stream.set_write_timeout(Some(PATIENT));
                self.streams.push(stream);
                true
            }
            Err(_) => false,
        });
        assert!(came, "no data connection came");
    }

    /// A data connection to a client that receives, from `address`.
    fn connect_from(&mut self, address: Ipv4Addr) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((address, 0)).into()).expect("an address");
        if socket.connect(&self.there().into()).is_ok() {
            let _ = socket.set_write_timeout(Some(PATIENT));
            self.streams.push(socket.into());
        }
    }

    fn connect(&mut self) {
        self.connect_from(self.at);
    }

    /// Where a client that receives waits.
    fn there(&mut self) -> SocketAddr {
        let port = self.port;
        let client = self.client.unwrap_or_else(|| self.stream().peer_addr().expect("a client"));
        SocketAddr::new(client.ip(), port)
    }

    /// Data for a client that receives.
    fn data(&mut self, bytes: usize) {
        for mut stream in &self.streams {
            let _ = stream.write_all(&vec![7; bytes]);
        }
    }

    fn data_for_ever(&mut self) {
        let bytes = vec![7; 1 << 16];
        while self.streams.iter().all(|mut stream| stream.write_all(&bytes).is_ok()) {}
    }

    /// Data of a client that sends, until its end.
    fn swallow(&mut self) {
        for mut stream in &self.streams {
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    }

    fn reset_data(&mut self) {
        for stream in self.streams.drain(..) {
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Datagrams of a client that sends, until one for which `last` holds; who sent it is answered from then on.
    fn take(&mut self, last: impl Fn(&[u8]) -> bool) {
        let socket = self.udp.as_ref().expect("a data port");
        let mut bytes = [0; 1 << 16];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            self.client = Some(from);
            if last(&bytes[..length]) {
                return;
            }
        }
    }

    fn datagram(&mut self, bytes: impl AsRef<[u8]>) {
        let client = self.client.unwrap_or_else(|| self.there());
        let _ = self.udp.as_ref().expect("a data port").send_to(bytes.as_ref(), client);
    }

    /// Until the client is no more there.
    fn datagrams_for_ever(&mut self, bytes: impl AsRef<[u8]>) {
        let client = self.client.unwrap_or_else(|| self.there());
        let socket = self.udp.as_ref().expect("a data port");
        // So that its absence is told.
        let _ = socket.connect(client);
        while (0..20).all(|_| socket.send(bytes.as_ref()).is_ok()) {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// Starts a server that does so with one client, at an address of its own.
fn start(program: &Program, at: Ipv4Addr, act: fn(&mut Desk), udp: bool) {
    let mut desk = Desk {
        control: None,
        at,
        port: program.data_port,
        listener: None,
        streams: Vec::new(),
        udp: None,
        client: None,
    };
    if program.control || !udp {
        let listener = TcpListener::bind((at, program.port)).expect("a port");
        std::thread::spawn(move || {
            let Ok((stream, _)) = listener.accept() else { return };
            let _ = stream.set_read_timeout(Some(PATIENT));
            let _ = stream.set_write_timeout(Some(PATIENT));
            desk.control = Some(BufReader::new(stream));
            act(&mut desk);
        });
    } else {
        desk.port = program.port;
        desk.listen_udp();
        std::thread::spawn(move || act(&mut desk));
    }
}

/// Every one of them, as linerate and under the other program's name; all that is wrong is told at once.
fn all_are_named(program: &Program, bad: &[Bad]) {
    let _alone = alone();
    let faults = Mutex::new(Vec::new());
    let numbered: Vec<_> = (1u8..).zip(bad).collect();
    together(&numbered, |(number, (name, asks, kinds, why, act))| {
        let at = Ipv4Addr::new(127, 0, 1, *number);
        let udp = asks.0.starts_with("udp");
        start(program, at, *act, udp);
        let fault = |what: String| faults.lock().unwrap().push(format!("{name}: {what}"));
        let words = asks.0.replace("HOST", &at.to_string());
        let words = format!("{words} --dialect {} --json", program.dialect);
        let ran = Client::start(None, &words.split(' ').collect::<Vec<_>>()).end();
        let record: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
        let (status, error) = (&record["status"], &record["error"]);
        println!("{name}: {} {status} {error}", ran.code);
        let kind = error["kind"].as_str().unwrap_or("complete");
        let told = format!("{} {}", error["what"], error["why"]);
        let whole = kind == "complete";
        if !kinds.split(" or ").any(|wanted| wanted == kind)
            || !(whole || told.contains(why))
            || (ran.code == 0) != whole
            || (status == "complete") != whole
            || error["why"] == ""
        {
            fault(format!("{} {status} {error}, and not {kinds} {why}\n{}", ran.code, ran.err));
        }

        let at = Ipv4Addr::new(127, 0, 2, *number);
        start(program, at, *act, udp);
        let words = asks.1.replace("HOST", &at.to_string());
        let words = program.face.iter().copied().chain(words.split(' '));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let ran = Client::start(None, &words).end();
        println!("{name}, {}: {} {}", program.face[0], ran.code, ran.err);
        let whole = ran.code == 0;
        let may = if whole { kinds.contains("complete") } else { *kinds != "complete" };
        if !may || !(whole || ran.err.contains(why)) || ran.err.contains("panicked") {
            fault(format!(
                "{}: {} {}{}, and not {why}",
                program.face[0], ran.code, ran.out, ran.err
            ));
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), bad.len(), faults.join("\n"));
}
