//! The beginning of an agent: its key, its outbox, its connection.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use linerate_broker::{Broker, Credentials, enrol};
use linerate_drive::keep::replace_secret;
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_runner::signals::Stop;
use linerate_store::outbox::Outbox;
use tokio::runtime::Runtime;

use super::args::AgentArgs;
use super::duty::{Duty, Place};
use super::made::put_back;
use super::words::{log, stored};
use crate::output;

/// The first connection is tried this often; those after it are the client's own.
const AGAIN: Duration = Duration::from_secs(5);
/// Longest file with a token, in bytes.
const MOST_TOKEN: u64 = 16 << 10;

/// Runs the verb.
pub fn run(args: &AgentArgs) -> Result<Exit, ErrorRecord> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| unable("start the agent", &e))?;
    make(&args.state_dir)?;
    let key = args.state_dir.join("agent.json");
    if let Some(file) = &args.enrol {
        let token = token(file)?;
        let ca = args.ca.as_deref().map(fs::canonicalize).transpose();
        let ca = ca.map_err(|e| unable("read the certificates of --ca", &e))?;
        let credentials = runtime.block_on(enrol(&token, ca))?;
        let name = credentials.agent.clone().unwrap_or_default();
        let kept = replace_secret(&key, &credentials.text());
        kept.map_err(|e| unable(&format!("keep the key of this agent in {}", key.display()), &e))?;
        return output::print(format!("this host is the agent {name}\n").as_bytes());
    }
    let credentials = credentials(&key)?;
    let outbox = Outbox::open(&args.state_dir.join("outbox.db")).map_err(stored)?;
    let address = match &args.address {
        Some(address) => address.clone(),
        None => nix::unistd::gethostname()
            .map_err(|e| unable("find the name of this host", &e))?
            .to_string_lossy()
            .into_owned(),
    };
    let settings = args.state_dir.join("settings");
    put_back(&settings);
    let place = Place { policy: args.policy.clone(), address, port: args.port, settings };
    let stop = output::stop_at_signals()?;
    serve(&runtime, &credentials, outbox, place, &stop)
}

fn serve(
    runtime: &Runtime,
    credentials: &Credentials,
    outbox: Outbox,
    place: Place,
    stop: &Stop,
) -> Result<Exit, ErrorRecord> {
    runtime.block_on(async {
        let broker = tokio::select! {
            broker = connect(credentials) => broker?,
            () = stop.asked() => return Ok(Exit::Complete),
        };
        let name = credentials.agent.clone().unwrap_or_default();
        log(&format!("the agent {name} is connected to its broker"));
        Duty::new(broker, outbox, place)?.run(stop).await?;
        Ok(Exit::Complete)
    })
}

/// Until there is a connection, or it is sure that there will be none.
async fn connect(credentials: &Credentials) -> Result<Broker, ErrorRecord> {
    let mut said = false;
    loop {
        match Broker::connect(credentials).await {
            Ok(broker) => return Ok(broker),
            Err(error) if matches!(error.kind, ErrorKind::Authentication | ErrorKind::Version) => {
                return Err(error);
            }
            Err(error) if !said => {
                log(&format!("{}: {}; trying again", error.what, error.why));
                said = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// A directory that others cannot look into.
fn make(folder: &Path) -> Result<(), ErrorRecord> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| unable(&format!("use the directory {}", folder.display()), &e))
}

fn token(file: &Path) -> Result<String, ErrorRecord> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(MOST_TOKEN).read_to_string(&mut text)
    } else {
        fs::File::open(file).and_then(|file| file.take(MOST_TOKEN).read_to_string(&mut text))
    };
    read.map_err(|e| unable(&format!("read the token in {}", file.display()), &e))?;
    Ok(text)
}

fn credentials(key: &Path) -> Result<Credentials, ErrorRecord> {
    let text = fs::read_to_string(key).map_err(|e| {
        let what = format!("cannot read the key of this agent in {}", key.display());
        let hint = "linerate agent --enrol FILE, with a token of `linerate fleet enrol`";
        ErrorRecord::new(ErrorKind::Unable, what, e.to_string(), &[hint])
    })?;
    Credentials::read(key, &text)
}

fn unable(what: &str, why: &dyn std::fmt::Display) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Unable,
        format!("cannot {what}"),
        why.to_string(),
        &["--state-dir DIR"],
    )
}
