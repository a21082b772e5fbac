//! `linerate fleet revoke`: takes an agent away.

use std::fs;
use std::io::{Write as _, stderr};
use std::path::Path;

use linerate_broker::config::with_account;
use linerate_broker::keys::Authority;
use linerate_broker::{Broker, Enrolled};
use linerate_drive::keep::replace_secret;
use linerate_model::exit::Exit;
use linerate_model::fleet_events::FleetEvent;
use linerate_model::record::{ErrorKind, ErrorRecord};

use super::args::RevokeArgs;
use super::broker::{authority, credentials, millis, runtime, say, system};
use crate::agent::words::seconds;

/// Runs the verb.
pub fn run(args: &RevokeArgs) -> Result<Exit, ErrorRecord> {
    let RevokeArgs { dir, name } = args;
    let (own, authority) = (credentials(dir)?, authority(dir)?);
    let system = system(dir, &own)?;
    runtime()?.block_on(async {
        let broker = Broker::connect(&own).await?;
        broker.make_streams(millis()).await?;
        let hosts = broker.enrolled().await?.remove(name).ok_or_else(|| unknown(name))?;
        let account = authority.revoke(&system, &hosts, seconds()).await?;
        let kept = keep(dir, &authority, &account);
        let keys = hosts.into_iter().map(|Enrolled { key, .. }| key).collect();
        say(&broker, name, FleetEvent::Revoked { agent: name.clone(), keys }).await?;
        broker.forget(name).await?;
        let _ =
            writeln!(stderr(), "{name} is revoked: it is connected no more, and let in no more");
        kept
    })?;
    Ok(Exit::Complete)
}

/// A broker whose files are lost begins with what its configuration says, which must not let in whom it did before.
fn keep(dir: &Path, authority: &Authority, account: &str) -> Result<(), ErrorRecord> {
    let path = dir.join("broker.conf");
    let not_kept = |why: &dyn std::fmt::Display| {
        let what = format!("cannot keep in {} who is revoked", path.display());
        let why =
            format!("{why}; the broker itself knows, and forgets it only if its files are lost");
        let hint = "linerate fleet revoke in the directory from which the broker is started";
        ErrorRecord::new(ErrorKind::Output, what, why, &[hint])
    };
    // Another copy of the directory, as that of whoever enrols elsewhere, has none.
    if !path.exists() {
        return Ok(());
    }
    let config = fs::read_to_string(&path).map_err(|e| not_kept(&e))?;
    let config = with_account(&config, &authority.account()?, account)
        .ok_or_else(|| not_kept(&"it does not have the fleet's account"))?;
    replace_secret(&path, &config).map_err(|e| not_kept(&e))
}

fn unknown(name: &str) -> ErrorRecord {
    let what = format!("cannot revoke {name}");
    let why = "no agent of this name is enrolled with the broker, or it was revoked";
    ErrorRecord::new(ErrorKind::UnknownHost, what, why, &["linerate fleet hosts DIR"])
}
