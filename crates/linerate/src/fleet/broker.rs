//! `linerate fleet init` and `enrol`: the broker of a fleet, and who is in it.

use std::fs;
use std::io::{Write as _, stderr, stdout};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use linerate_ask::usage;
use linerate_broker::config::Server;
use linerate_broker::keys::{Authority, found};
use linerate_broker::{Broker, Credentials, Enrolled, is_name};
use linerate_drive::keep::replace_secret;
use linerate_model::exit::Exit;
use linerate_model::fleet_events::{FleetEvent, FleetSaid};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_runner::clock;
use linerate_runner::random::random;
use linerate_wire::native::auth::to_hex;
use tokio::runtime::Runtime;

use super::args::{EnrolArgs, InitArgs};
use crate::agent::words::seconds;
use crate::output;

fn unable(what: &str, why: &dyn std::fmt::Display) -> ErrorRecord {
    ErrorRecord::new(ErrorKind::Unable, format!("cannot {what}"), why.to_string(), &[])
}

/// For what is asked of a broker, one thing after the other.
pub fn runtime() -> Result<Runtime, ErrorRecord> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| unable("use the broker", &e))
}

/// Milliseconds since 1970.
pub fn millis() -> u64 {
    u64::try_from(clock::wall().as_millisecond()).unwrap_or(0)
}

/// Of seconds since 1970.
pub fn moment(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

fn read(path: &Path) -> Result<String, ErrorRecord> {
    fs::read_to_string(path).map_err(|e| {
        let what = format!("cannot read {}", path.display());
        let hint = "the directory that `linerate fleet init` made";
        ErrorRecord::new(ErrorKind::Unable, what, e.to_string(), &[hint])
    })
}

/// The operator's, of a directory that `init` made.
pub fn credentials(folder: &Path) -> Result<Credentials, ErrorRecord> {
    let path = folder.join("operator.json");
    Credentials::read(&path, &read(&path)?)
}

/// What signs, of a directory that `init` made.
pub fn authority(folder: &Path) -> Result<Authority, ErrorRecord> {
    let path = folder.join("account.json");
    serde_json::from_str(&read(&path)?)
        .map_err(|e| unable(&format!("use the key in {}", path.display()), &e))
}

/// Those by which the broker is asked of itself, for the next minutes.
pub fn system(folder: &Path, own: &Credentials) -> Result<Credentials, ErrorRecord> {
    /// The clocks of two hosts may differ by this, in seconds.
    const MARGIN_S: u64 = 600;
    let now_s = seconds();
    let system = authority(folder)?
        .system(now_s.saturating_sub(MARGIN_S), now_s.saturating_add(MARGIN_S))?;
    Ok(Credentials { ca: own.ca.clone(), ..system })
}

/// Says that something happened to an agent.
pub async fn say(broker: &Broker, agent: &str, event: FleetEvent) -> Result<(), ErrorRecord> {
    let said = FleetSaid { at: clock::wall().to_string(), event };
    broker.say(agent, &to_hex(&random::<16>()), &said).await
}

/// `init`.
pub fn init(args: &InitArgs) -> Result<Exit, ErrorRecord> {
    let InitArgs { dir, listen, url, cert, cert_key, ca } = args;
    let tls = cert.clone().zip(cert_key.clone());
    let url = url_of(*listen, url.as_deref(), tls.is_some())?;
    let whole = |path: &PathBuf| {
        fs::canonicalize(path).map_err(|e| unable(&format!("use {}", path.display()), &e))
    };
    let tls = match &tls {
        Some((cert, key)) => Some((whole(cert)?, whole(key)?)),
        None => None,
    };
    let ca = ca.as_ref().map(whole).transpose()?;
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(|e| {
        let what = format!("cannot make the directory {}", dir.display());
        let hint = "one that does not exist yet, in one that does";
        ErrorRecord::new(ErrorKind::Output, what, e.to_string(), &[hint])
    })?;
    let folder = whole(dir)?;
    let founded = found(&url, seconds())?;
    let operator = Credentials { ca, ..founded.authority.operator(seconds())? };
    let account = serde_json::to_string_pretty(&founded.authority).unwrap_or_default();
    let (store, accounts) = (folder.join("jetstream"), folder.join("accounts"));
    let config = Server { listen: *listen, store, accounts, tls }.config(&founded.config);
    for (name, text) in
        [("broker.conf", config), ("account.json", account), ("operator.json", operator.text())]
    {
        let path = folder.join(name);
        replace_secret(&path, &text)
            .map_err(|e| unable(&format!("write {}", path.display()), &e))?;
    }
    let shown = folder.display();
    output::print(
        format!("the fleet is in {shown}, which is secret; its broker is begun by\n  nats-server --config {shown}/broker.conf\n")
            .as_bytes(),
    )
}

/// Where others reach the broker.
fn url_of(listen: SocketAddr, url: Option<&str>, tls: bool) -> Result<String, ErrorRecord> {
    let refused =
        |why: &str, hint: &str| Err(usage::error("cannot make this broker", why, &[hint]));
    if !tls && !listen.ip().is_loopback() {
        return refused("without TLS it is for this host alone", "--cert FILE --cert-key FILE");
    }
    match url {
        Some(url) => Ok(url.to_owned()),
        None if listen.ip().is_unspecified() => {
            refused("it does not say at which address agents reach it", "--url tls://HOST:4222")
        }
        None => Ok(format!("{}://{listen}", if tls { "tls" } else { "nats" })),
    }
}

/// Whether agents can be called so.
pub fn names(names: &[String]) -> Result<(), ErrorRecord> {
    match names.iter().find(|name| !is_name(name)) {
        None => Ok(()),
        Some(name) => {
            let why = "names are up to 63 of a-z, 0-9, - and _, and not `operator`";
            Err(usage::error(format!("no agent can be called `{name}`"), why, &[]))
        }
    }
}

/// `enrol`.
pub fn enrol(args: &EnrolArgs) -> Result<Exit, ErrorRecord> {
    let EnrolArgs { dir, name, wait, lifetime } = args;
    names(std::slice::from_ref(name))?;
    let (credentials, authority) = (credentials(dir)?, authority(dir)?);
    let stop = output::stop_at_signals()?;
    let wait = wait.as_duration();
    runtime()?.block_on(async {
        let broker = Broker::connect(&credentials).await?;
        broker.make_streams(millis()).await?;
        let until_s = seconds().saturating_add(wait.as_secs()).saturating_add(1);
        let invitation = broker.invite(&authority, name, seconds(), until_s).await?;
        let _ = writeln!(stdout(), "{}", invitation.token);
        let _ = stdout().flush();
        let _ = writeln!(
            stderr(),
            "waiting {} s for the host on which `linerate agent --enrol FILE` reads this token",
            wait.as_secs()
        );
        let guest = tokio::select! {
            guest = invitation.guest() => guest,
            () = tokio::time::sleep(wait) => None,
            () = stop.asked() => return Ok(Exit::Interrupted),
        };
        let Some(guest) = guest else {
            let what = format!("cannot enrol {name}");
            let hint = "--wait 1h; the token is void now";
            return Err(ErrorRecord::new(
                ErrorKind::TimedOut,
                what,
                "nobody used its token",
                &[hint],
            ));
        };
        let expires_s = lifetime.map(|time| seconds().saturating_add(time.as_duration().as_secs()));
        let Enrolled { key, .. } = broker.admit(&authority, guest, seconds(), expires_s).await?;
        let expires = expires_s.and_then(moment).map(|at| at.to_string());
        let enrolled = FleetEvent::Enrolled { agent: name.clone(), key, expires };
        say(&broker, name, enrolled).await?;
        let _ = writeln!(stderr(), "{name} is enrolled");
        Ok(Exit::Complete)
    })
}
