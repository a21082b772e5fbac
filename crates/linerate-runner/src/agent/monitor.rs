//! The monitor: the small process with rights behind a server that lets controllers in.
//!
//! A server starts it before it binds or reads anything of the network, and gives its own rights up after that. So
//! what reads strangers' bytes has none, and cannot have them again: it can order what is in [`Order`]. The
//! monitor takes it for a stranger, starts the helper that keeps the undo journal, starts another when that is
//! killed, and reboots the host by the command that the owner gave. When the server ends in any way its
//! socket is closed, and the monitor ends with its helper, which puts everything back; when the monitor is
//! killed, the helper does so by itself, and the server ends, as it cannot start another.

use std::os::fd::OwnedFd;
use std::process::ChildStdout;
use std::time::Duration;

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::Restoration;
use linerate_wire::native::agent::Reply;
use linerate_wire::native::order::{Answer, Order};
use tokio::net::unix::pipe::Receiver;

use super::Options;
use super::helper::{Helper, REPLY_LIMIT, refused};
use super::link::{Link, Parent};
use super::reboot::reboot_by;
use crate::signals::Stop;

/// The hidden verb.
pub const MONITOR_VERB: &str = "settings-monitor";
/// A helper that does not answer is given up after its limit, has some time to end, and so has the next one to begin.
pub(super) const ANSWER_LIMIT: Duration = REPLY_LIMIT.saturating_mul(3);

/// The monitor's whole life. Its standard input is the socket to its server.
///
/// # Errors
/// When it was not started by linerate.
pub fn monitor(options: &Options) -> Result<(), ErrorRecord> {
    let mut server = Parent::of_this(MONITOR_VERB)?;
    let (mut helper, left) = match Helper::start(&options.program, &options.state) {
        Ok(started) => started,
        Err(error) => {
            // The server says it.
            server.answer(&Answer { ended: 0, reply: Reply::Failed(Box::new(error)) });
            return Ok(());
        }
    };
    server.answer(&Answer { ended: 0, reply: Reply::Restored(left) });
    while let Some(order) = server.order() {
        let reply = match order {
            Ok(Order::Reboot) => match &options.reboot {
                Some(argv) => reboot_by(argv, &Stop::default()).map(|()| Reply::Done),
                None => Ok(refused("this host lets nobody reboot it")),
            },
            Ok(order) => helper.call(&order),
            Err(why) => Ok(refused(&why)),
        };
        let reply = reply.unwrap_or_else(|error| Reply::Failed(Box::new(error)));
        if server.answer(&Answer { ended: helper.ended(), reply }).is_none() {
            break;
        }
    }
    // Had the helper been killed, another is started that puts everything back.
    helper.call(&Order::Restore).map(drop)
}

/// The server's end of its monitor. It is started once: who could start another would have its rights.
pub(crate) struct Monitor {
    /// Nothing once the monitor is gone.
    link: Option<Link>,
    ended: u64,
}

impl Monitor {
    /// Starts the monitor. Says what an earlier process had left changed, and gives a pipe that ends with it.
    pub(super) fn start(options: &Options) -> Result<(Self, Restoration, Life), ErrorRecord> {
        let reboot = options.reboot.iter().flatten().map(|word| format!("--reboot={word}"));
        let verb = (MONITOR_VERB, &*options.state);
        let link = Link::start(&options.program, verb, reboot, ANSWER_LIMIT);
        let mut link = link.map_err(|e| gone(&e.to_string()))?;
        let life = Life(link.life());
        let mut this = Self { link: Some(link), ended: 0 };
        match this.answer(Link::answer)? {
            Reply::Restored(left) => Ok((this, left, life)),
            _ => Err(gone("it answered what nobody had asked")),
        }
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    pub(super) fn call(&mut self, order: &Order) -> Result<Reply, ErrorRecord> {
        self.answer(|link| link.ask(order))
    }

    fn answer(
        &mut self,
        ask: impl FnOnce(&mut Link) -> std::io::Result<Option<Answer>>,
    ) -> Result<Reply, ErrorRecord> {
        let Some(link) = &mut self.link else { return Err(gone("it was killed, or crashed")) };
        let why = match ask(link) {
            Ok(Some(Answer { ended, reply })) => {
                self.ended = ended;
                return match reply {
                    Reply::Failed(error) => Err(*error),
                    reply => Ok(reply),
                };
            }
            Ok(None) => "it was killed, or crashed".to_owned(),
            Err(e) => e.to_string(),
        };
        self.link = None;
        Err(gone(&why))
    }
}

/// A pipe that ends with the monitor; nothing where there is none.
#[derive(Default)]
pub(crate) struct Life(Option<ChildStdout>);

impl Life {
    /// Resolves when the monitor has ended, with what a server says of that.
    pub(crate) async fn ended(self) -> ErrorRecord {
        let pipe = self.0.map(|pipe| Receiver::from_owned_fd(OwnedFd::from(pipe)));
        match pipe {
            Some(Ok(mut pipe)) => {
                let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
                gone("it was killed, or crashed")
            }
            Some(Err(e)) => gone(&e.to_string()),
            None => std::future::pending().await,
        }
    }
}

fn gone(why: &str) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::HelperLost,
        "the process with the right to change settings has ended",
        format!("{why}; its helper puts back what was changed"),
        &["start the server there again: it cannot start another by itself"],
    )
}
