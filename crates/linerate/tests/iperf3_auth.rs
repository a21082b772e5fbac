//! Logins of Debian's iperf3, unmodified, at `linerate serve`; built with the feature `iperf3-auth`.

#[path = "program/support/mod.rs"]
mod support;

use linerate_testkit::peer::LONG;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_wire::iperf3::{ErrorNumber, Failure, State, Token};
use sha2::{Digest, Sha256};
use support::{Server, iperf3, linerate, skip, wait_for};

const PARAMETERS: &str =
    r#"{"tcp":true,"omit":0,"time":1,"parallel":1,"bandwidth":1000000,"client_version":"3.18""#;

/// Keys and users in a directory that goes with the test.
struct Files(PathBuf);

impl Files {
    /// Nothing where a tool is missing, which is said.
    fn make(test: &str) -> Option<Self> {
        for (tool, word) in [("iperf3", "--version"), ("openssl", "version")] {
            if Command::new(tool).arg(word).output().is_err() {
                skip(test, &format!("{tool} is not installed"));
                return None;
            }
        }
        let path =
            std::env::temp_dir().join(format!("linerate-auth-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let files = Self(path);
        files.openssl("genrsa -out private.pem 2048", b"");
        files.openssl("rsa -in private.pem -traditional -out bare.pem", b"");
        files.openssl("rsa -in private.pem -pubout -out public.pem", b"");
        let mut hash = String::new();
        for byte in Sha256::digest(b"{mario}rossi") {
            write!(hash, "{byte:02x}").unwrap();
        }
        std::fs::write(files.0.join("users.csv"), format!("# who\nmario,{hash}\n")).unwrap();
        Some(files)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn openssl(&self, args: &str, input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("openssl")
            .args(args.split_whitespace())
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "openssl {args}");
        output.stdout
    }

    fn server(&self, key: &str, more: &[&str]) -> Server {
        let (key, users) = (self.path(key), self.path("users.csv"));
        let mut args = vec!["--rsa-private-key-path", &key, "--authorized-users-path", &users];
        args.extend(more);
        Server::start(None, &args)
    }

    /// A login as releases from 3.17 on make it, in the client's parameters.
    fn oaep(&self, user: &str, password: &str, late_s: i64) -> String {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let token =
            Token { user: user.into(), password: password.into(), time_s: now_s - late_s }.encode();
        let args = "pkeyutl -encrypt -pubin -inkey public.pem -pkeyopt rsa_padding_mode:oaep";
        std::fs::write(self.0.join("sealed"), self.openssl(args, token.as_bytes())).unwrap();
        let text = String::from_utf8(self.openssl("base64 -A -in sealed", b"")).unwrap();
        format!(r#"{PARAMETERS},"authtoken":"{}"}}"#, text.trim())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Debian's client; with a password it logs in as mario.
fn iperf3(port: u16, public: Option<&Path>, user: &str, password: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["20", "iperf3", "-c", "127.0.0.1", "-p", &port.to_string()]);
    command.args(["-n", "100K", "-b", "10M"]).env("IPERF3_PASSWORD", password);
    if let Some(public) = public {
        command.args(["--username", user, "--rsa-public-key-path"]).arg(public);
    }
    command.stdin(Stdio::null()).output().expect("iperf3")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[track_caller]
fn in_(output: &Output) {
    assert!(output.status.success() && text(output).contains("iperf Done."), "{}", text(output));
}

#[track_caller]
fn out(output: &Output) {
    assert_eq!(output.status.code(), Some(1), "{}", text(output));
    assert!(text(output).contains("test authorization failed"), "{}", text(output));
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// The first bytes that a server answers to these parameters.
fn answer(port: u16, seed: u8, json: &str) -> Vec<u8> {
    let mut control = connect(port);
    let mut cookie = [b'a' + seed; 37];
    cookie[36] = 0;
    control.write_all(&cookie).unwrap();
    let mut byte = [0];
    control.read_exact(&mut byte).unwrap();
    assert_eq!(byte[0], State::ParamExchange.byte());
    control.write_all(&u32::try_from(json.len()).unwrap().to_be_bytes()).unwrap();
    control.write_all(json.as_bytes()).unwrap();
    control.read_exact(&mut byte).unwrap();
    let mut all = byte.to_vec();
    if byte[0] == State::ServerError.byte() {
        control.read_to_end(&mut all).unwrap();
    }
    all
}

fn granted() -> Vec<u8> {
    vec![State::CreateStreams.byte()]
}

fn refused() -> Vec<u8> {
    Failure { number: ErrorNumber::AUTHORISATION, errno: 0 }.encode().to_vec()
}

/// The parameters of Debian's client with its login, taken by a server that goes no further.
fn captured(public: &Path) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let public = public.to_owned();
    let client = std::thread::spawn(move || iperf3(port, Some(&public), "mario", "rossi"));
    let (mut control, _) = listener.accept().unwrap();
    control.read_exact(&mut [0; 37]).unwrap();
    control.write_all(&[State::ParamExchange.byte()]).unwrap();
    let mut length = [0; 4];
    control.read_exact(&mut length).unwrap();
    let mut json = vec![0; u32::from_be_bytes(length) as usize];
    control.read_exact(&mut json).unwrap();
    drop(control);
    client.join().unwrap();
    String::from_utf8(json).unwrap()
}

#[test]
fn debians_client_logs_in() {
    let Some(files) = Files::make("debians_client_logs_in") else { return };
    let public = files.0.join("public.pem");
    // Both forms of a key.
    for key in ["private.pem", "bare.pem"] {
        let server = files.server(key, &["--use-pkcs1-padding"]);
        in_(&iperf3(server.port, Some(&public), "mario", "rossi"));
    }
    let server = files.server("private.pem", &["--use-pkcs1-padding"]);
    let wrong = iperf3(server.port, Some(&public), "mario", "Rossi");
    let nobody = iperf3(server.port, Some(&public), "luigi", "rossi");
    out(&wrong);
    out(&nobody);
    out(&iperf3(server.port, None, "", ""));
    in_(&iperf3(server.port, Some(&public), "mario", "rossi"));
    // The log is the owner's, and does not tell them apart either.
    server.says("a user name or a password that is wrong", 2);
    let log = server.says("no user name and password were given", 1);
    assert_eq!(log.matches("a user name or a password that is wrong").count(), 2, "{log}");
    assert!(!log.contains("ossi"), "no password in a log: {log}");
    // A user who is added can log in at once; one who is struck out cannot.
    std::fs::write(files.0.join("users.csv"), "luigi,x\n").unwrap();
    out(&iperf3(server.port, Some(&public), "mario", "rossi"));
}

/// The same at linerate's server under iperf3's name.
#[test]
fn debians_client_logs_in_at_the_face() {
    let Some(files) = Files::make("debians_client_logs_in_at_the_face") else { return };
    let public = files.0.join("public.pem");
    let server = iperf3::Face::start(&format!(
        "--rsa-private-key-path {} --authorized-users-path {} --use-pkcs1-padding",
        files.path("private.pem"),
        files.path("users.csv")
    ));
    in_(&iperf3(server.port, Some(&public), "mario", "rossi"));
    out(&iperf3(server.port, Some(&public), "mario", "Rossi"));
    out(&iperf3(server.port, None, "", ""));
    assert_eq!(answer(server.port, 9, &format!("{PARAMETERS}}}")), refused());
    assert!(wait_for(LONG, || server.text().contains("Accepted connection")), "{}", server.text());
    let text = server.text();
    assert!(!text.contains("ossi"), "{text}");
}

#[test]
fn another_padding_or_key_is_no_login() {
    let Some(files) = Files::make("another_padding_or_key_is_no_login") else { return };
    let public = files.0.join("public.pem");
    let oaep = files.server("private.pem", &[]);
    out(&iperf3(oaep.port, Some(&public), "mario", "rossi"));
    assert_eq!(answer(oaep.port, 0, &files.oaep("mario", "rossi", 0)), granted());
    let pkcs1 = files.server("private.pem", &["--use-pkcs1-padding"]);
    assert_eq!(answer(pkcs1.port, 1, &files.oaep("mario", "rossi", 0)), refused());
    files.openssl("genrsa -out other.pem 2048", b"");
    let other = files.server("other.pem", &[]);
    assert_eq!(answer(other.port, 2, &files.oaep("mario", "rossi", 0)), refused());
    for token in ["", "!", "AAAA"] {
        let json = format!(r#"{PARAMETERS},"authtoken":"{token}"}}"#);
        assert_eq!(answer(oaep.port, 3, &json), refused(), "{token}");
    }
}

#[test]
fn a_login_is_good_once_and_for_its_time() {
    let Some(files) = Files::make("a_login_is_good_once_and_for_its_time") else { return };
    let old = files.server("private.pem", &["--use-pkcs1-padding", "--time-skew-threshold", "600"]);
    let login = captured(&files.0.join("public.pem"));
    assert!(login.contains("authtoken"), "{login}");
    assert_eq!(answer(old.port, 0, &login), granted());
    assert_eq!(answer(old.port, 1, &login), refused());
    // The same bytes in another dress.
    assert_eq!(answer(old.port, 2, &login.replace("\"time\"", "\"Time\"")), refused());
    assert!(wait_for(LONG, || old.log().contains("was used before")));

    let new = files.server("private.pem", &["--time-skew-threshold", "600"]);
    let login = files.oaep("mario", "rossi", 0);
    assert_eq!(answer(new.port, 3, &login), granted());
    assert_eq!(answer(new.port, 4, &login), refused());
    assert_eq!(answer(new.port, 5, &files.oaep("mario", "rossi", 500)), granted());
    assert_eq!(answer(new.port, 6, &files.oaep("mario", "rossi", -500)), granted());
    assert_eq!(answer(new.port, 7, &files.oaep("mario", "rossi", 700)), refused());
    assert_eq!(answer(new.port, 8, &files.oaep("mario", "rossi", -700)), refused());
}

#[test]
fn linerates_clients_do_not_pass_by() {
    let Some(files) = Files::make("linerates_clients_do_not_pass_by") else { return };
    let keyless = files.server("private.pem", &[]);
    let port = keyless.port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "-b", "1M", "-t", "100ms", "--json"];
    let ran = linerate(None, &args);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("no key for linerate's"), "{}", ran.err);

    let key = files.path("key");
    std::fs::write(&key, "sixteen bytes or more\n").unwrap();
    let both = files.server("private.pem", &["--key-file", &key]);
    let port = both.port.to_string();
    let args =
        ["udp", "127.0.0.1", "-p", &port, "-b", "1M", "-t", "100ms", "--json", "--key-file", &key];
    linerate(None, &args).complete();
    assert_eq!(answer(both.port, 0, &files.oaep("mario", "rossi", 0)), granted());
    assert_eq!(answer(both.port, 1, &format!("{PARAMETERS}}}")), refused());
}

#[test]
fn files_that_are_none_are_told() {
    let Some(files) = Files::make("files_that_are_none_are_told") else { return };
    let (key, users) = (files.path("private.pem"), files.path("users.csv"));
    files.openssl("genpkey -algorithm ed25519 -out ed.pem", b"");
    files.openssl("rsa -in private.pem -aes256 -passout pass:secret -out locked.pem", b"");
    let (ed, locked, public) =
        (files.path("ed.pem"), files.path("locked.pem"), files.path("public.pem"));
    for (key, users, why) in [
        (&ed, &users, "no RSA key"),
        (&locked, &users, "without a password"),
        (&public, &users, "no PEM private key"),
        (&key, &key, "names no user"),
    ] {
        let args = ["--rsa-private-key-path", key, "--authorized-users-path", users];
        for face in [&["serve"][..], &["iperf3", "-s"]] {
            let ran = linerate(None, &[face, &args[..]].concat());
            assert_ne!(ran.code, 0);
            assert!(ran.err.contains(why), "{why}: {}", ran.err);
        }
    }
    let ran = linerate(None, &["serve", "--rsa-private-key-path", &key]);
    assert!(ran.code == 2 && ran.err.contains("--authorized-users-path"), "{}", ran.err);
}
