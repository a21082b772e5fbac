//! How an agent is taken away: the account of the fleet, as its operator signs it, lists keys of which nothing that was
//! signed holds any more. The broker takes such an account from whoever the operator lets tell it, keeps it, and ends the
//! connections of those keys at once.

use std::collections::BTreeMap;

use linerate_model::record::{ErrorKind, ErrorRecord};
use serde_json::Value;

use crate::connect::{Broker, Credentials};
use crate::enrolled::Enrolled;
use crate::error::unable;
use crate::keys::Authority;

impl Authority {
    /// Tells the broker that nothing holds any more of what was signed for these hosts; `system` is how it is told
    /// ([`Authority::system`]). Says what the account is from now on, for the broker's configuration.
    ///
    /// # Errors
    /// When the broker does not answer, or was not made to be told.
    pub async fn revoke(
        &self,
        system: &Credentials,
        hosts: &[Enrolled],
        now_s: u64,
    ) -> Result<String, ErrorRecord> {
        let what = "tell the broker who is let in no more";
        let broker = Broker::connect(system).await?;
        let lookup = format!("$SYS.REQ.ACCOUNT.{}.CLAIMS.LOOKUP", self.account()?);
        let before = broker.exchange(what, lookup, None, Vec::new()).await;
        let before = before.map_err(|_| untold(what))?;
        let before = String::from_utf8_lossy(&before.payload).into_owned();
        // One whose clock was ahead may have signed at a later time.
        let keys = hosts.iter().map(|host| (host.key.clone(), now_s.max(host.at_s)));
        let account = self.revoking(&before, &keys.collect::<BTreeMap<_, _>>(), now_s)?;
        let update = "$SYS.REQ.CLAIMS.UPDATE".to_owned();
        let answer = broker.exchange(what, update, None, account.clone().into_bytes()).await;
        let answer = answer.map_err(|trouble| trouble.record(what))?;
        let answer: Value =
            serde_json::from_slice(&answer.payload).map_err(|why| unable(what, &why))?;
        match answer.get("error").and_then(|error| error.get("description")) {
            None => Ok(account),
            Some(why) => Err(unable(what, why)),
        }
    }
}

fn untold(what: &str) -> ErrorRecord {
    let why = "it does not say what it knows of the fleet's account";
    let hint =
        "`resolver` in its configuration has to be as `linerate fleet init` writes it: type full";
    ErrorRecord::new(ErrorKind::Unable, format!("cannot {what}"), why, &[hint])
}
