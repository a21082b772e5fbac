//! The connection to a database.

use std::net::IpAddr;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::error::SqlState;
use postgres::{Client, Config, Error, NoTls};

use super::password::password;
use super::tls::Tls;
use crate::{Address, StoreError};

/// A server that does not answer for so long is not there.
const CONNECT_FOR: Duration = Duration::from_secs(5);
/// A server that is away is asked again so often: one that was killed is back within half a minute.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);
/// Either end sees within so long that it is cut off from the other: an idle time, then tries.
const IDLE: Duration = Duration::from_secs(10);
const TRY_EVERY: Duration = Duration::from_secs(5);
const TRY_TIMES: u32 = 3;
const CUT_OFF: Duration = Duration::from_secs(25);
/// What was committed is on the disk, and nothing waits for ever. While a server does not see that its client is cut off
/// it keeps the lock for it.
const SETTINGS: &str =
    "SET synchronous_commit = on; SET statement_timeout = '60s'; SET client_min_messages = warning;
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

/// A database, and how it is reached.
pub(super) struct Server {
    address: Address,
    config: Config,
    /// None on this host, where nothing else is asked for.
    tls: Option<Tls>,
}

impl Server {
    /// Understands an address.
    pub(super) fn of(address: &Address) -> Result<Self, StoreError> {
        let refused = |why: String| StoreError::Io {
            what: "use the database",
            place: address.to_string(),
            why,
            full: false,
        };
        let mut config: Config = address.text().parse().map_err(|e| refused(words(&e)))?;
        let near = is_near(&config);
        let tls = match (near, config.get_ssl_mode()) {
            (true, SslMode::Disable | SslMode::Prefer) => None,
            (false, SslMode::Disable) => {
                return Err(refused("without TLS only a server on this host is used".to_owned()));
            }
            _ => Some(Tls::new().map_err(refused)?),
        };
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        config.keepalives_idle(IDLE).keepalives_interval(TRY_EVERY).keepalives_retries(TRY_TIMES);
        config.tcp_user_timeout(CUT_OFF);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_FOR);
        }
        if config.get_application_name().is_none() {
            config.application_name("linerate");
        }
        if config.get_password().is_none()
            && let Some(password) = password(&config)
        {
            config.password(password);
        }
        Ok(Self { address: address.clone(), config, tls })
    }

    fn try_connect(&self) -> Result<Client, Error> {
        let mut client = match &self.tls {
            None => self.config.connect(NoTls),
            Some(tls) => self.config.connect(tls.clone()),
        }?;
        client.batch_execute(SETTINGS)?;
        Ok(client)
    }

    /// Connects; one attempt.
    pub(super) fn connect(&self) -> Result<Client, StoreError> {
        self.try_connect().map_err(|error| self.fault("connect to", &error))
    }

    /// Connects to a server that may be away for a while, and is taken once `ready` says so.
    pub(super) fn await_it(
        &self,
        mut ready: impl FnMut(&mut Client) -> Result<bool, Error>,
    ) -> Result<Client, StoreError> {
        for attempt in 1..=TRIES {
            let connected = self.try_connect().and_then(|mut client| {
                let ready = ready(&mut client)?;
                Ok(ready.then_some(client))
            });
            match connected {
                Ok(Some(client)) => return Ok(client),
                Ok(None) => {}
                Err(error) if is_away(&error) && attempt < TRIES => {}
                Err(error) => return Err(self.fault("connect to", &error)),
            }
            std::thread::sleep(PAUSE);
        }
        Err(StoreError::Locked(self.shown()))
    }

    /// Its address without a password.
    pub(super) fn shown(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn io(&self, what: &'static str, why: &str) -> StoreError {
        StoreError::Io { what, place: self.shown(), why: why.to_owned(), full: false }
    }

    pub(super) fn fault(&self, what: &'static str, error: &Error) -> StoreError {
        let full = error.code() == Some(&SqlState::DISK_FULL);
        StoreError::Io { what, place: self.shown(), why: words(error), full }
    }
}

/// Whether everything goes to this host alone.
fn is_near(config: &Config) -> bool {
    let near = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    };
    // Addresses stand for the names where both are said.
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(near),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

/// Whether it fails because the server is not there now: it ends, begins, or the connection is gone.
pub(super) fn is_away(error: &Error) -> bool {
    let source = || std::error::Error::source(error);
    match error.code() {
        Some(code) => {
            [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN, &SqlState::CANNOT_CONNECT_NOW]
                .contains(&code)
        }
        None => error.is_closed() || source().is_some_and(|why| why.is::<std::io::Error>()),
    }
}

/// What the server says, or why it says nothing.
pub(super) fn words(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return match said.detail() {
            Some(detail) => format!("{}: {detail}", said.message()),
            None => said.message().to_owned(),
        };
    }
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(why) = source {
        words = format!("{words}: {why}");
        source = why.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Server, StoreError> {
        Server::of(&Address::of(text).unwrap())
    }

    #[test]
    fn what_is_not_encrypted_stays_on_this_host() {
        for near in ["localhost", "127.0.0.1:5433", "[::1]", "%2Frun%2Fpostgresql"] {
            assert!(of(&format!("postgres://a@{near}/d")).unwrap().tls.is_none(), "{near}");
        }
        assert!(of("postgres://a@localhost/d?sslmode=require").unwrap().tls.is_some());
        assert!(of("postgres://a@h/d").unwrap().tls.is_some());
        for far in
            ["postgres://a@h/d?sslmode=disable", "postgres://a@localhost,h/d?sslmode=disable"]
        {
            let error = of(far).err().unwrap().to_string();
            assert!(error.contains("without TLS only a server on this host"), "{error}");
        }
    }

    #[test]
    fn an_address_that_is_not_understood_is_refused_without_its_password() {
        for text in [
            "postgres://a:s3cret@h:x/d",
            "postgres://a:s3cret@h/d?sslmode=s3cret2",
            "postgres://a:s3cret@h/d?none=1",
        ] {
            let error = of(text).err().unwrap().to_string();
            assert!(error.contains("a:***@h") && !error.contains("a:s3cret"), "{error}");
        }
    }
}
