//! What a host does for whoever controls it: the same for a controller in this process and for one
//! over the network.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, MutexGuard, PoisonError};

use linerate_engine::clock;
use linerate_host::checkup::{Look, WATCHED};
use linerate_host::facts::facts;
use linerate_host::sampler::Clocks;
use linerate_host::settings::{device_towards, read};
use linerate_model::exit::Exit;
use linerate_model::plan::{Dialect, IpVersion, TestPlan};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::Restoration;
use linerate_wire::native::agent::{DeviceChoice, Permissions, RemoteTest, Reply, Request, check};
use linerate_wire::native::message::Refused;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::command;
use super::privileged::Privileged;
use super::reboot::reboot_by;
use super::sampling::Sampling;
use super::{HostAgent, Options};
use crate::client::{self, Bounds, Target};
use crate::data::Limits;
use crate::errors;
use crate::keys::{BUDGET_HINT, Permit, Right};
use crate::network::Network;
use crate::service::Server;
use crate::signals::Stop;

/// What is told to whoever asks for more than a server's options allow.
const LIMITS_HINT: &str = "its owner sets limits with the options of `linerate serve`";

/// This host, as far as it may be used. Another process keeps its settings.
pub struct Hand {
    pub(super) privileged: OwnedMutexGuard<Privileged>,
    options: Options,
    /// What its owner allows a controller from elsewhere.
    policy: Option<Policy>,
    /// Towards whom the interface of the facts is.
    towards: Option<SocketAddr>,
    /// Ends what is under way.
    pub(super) stop: Stop,
    /// How many helpers had ended when the one of now made the settings that should hold; nothing when none
    /// were made, or all were put back since.
    held: Option<u64>,
    /// What samples the CPUs; of a hand without a slot it lets nobody.
    pub(super) sampling: Arc<std::sync::Mutex<Sampling>>,
}

/// What a controller may do at a server.
pub(super) struct Policy {
    /// What a plan may ask for, and the key for tests against servers that want it.
    pub(super) server: Arc<Server>,
    /// By which key, with which budgets, it is here.
    pub(super) permit: Permit,
}

impl Policy {
    /// Whether it has the right to change settings, which those to run commands and to reboot follow.
    fn settings(&self) -> bool {
        let standing = self.server.standing();
        standing.is_none_or(|standing| self.permit.may(&standing, Right::Settings))
    }
}

fn failed(kind: ErrorKind, what: &str, why: impl Into<String>, hint: &str) -> ErrorRecord {
    let hints: &[&str] = if hint.is_empty() { &[] } else { &[hint] };
    ErrorRecord::new(kind, what, why, hints).ending(Exit::Unreachable)
}

impl HostAgent for Hand {
    fn name(&self) -> &str {
        "local"
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        self.try_answer(&request)
    }
}

impl Hand {
    /// For a controller in this process. Says what an earlier process had left changed.
    ///
    /// # Errors
    /// When no helper can be had, or another process changes settings here.
    pub fn take(options: Options) -> Result<(Self, Restoration), ErrorRecord> {
        let (privileged, left) = Privileged::here(&options.program, &options.state)?;
        let taken = Arc::new(Mutex::new(privileged)).try_lock_owned();
        let taken = taken.map_err(|e| errors::unable("take this host over", &e.to_string()))?;
        Ok((Self::new(taken, options, None, None), left))
    }

    pub(super) fn new(
        privileged: OwnedMutexGuard<Privileged>,
        options: Options,
        policy: Option<Policy>,
        towards: Option<SocketAddr>,
    ) -> Self {
        let sampling = Arc::default();
        Self { privileged, options, policy, towards, stop: Stop::default(), held: None, sampling }
    }

    /// Does what is asked; waits for its end.
    pub(crate) fn answer(&mut self, request: &Request) -> Reply {
        match self.try_answer(request) {
            Ok(reply) => reply,
            Err(error) => Reply::Failed(Box::new(error)),
        }
    }

    fn try_answer(&mut self, request: &Request) -> Result<Reply, ErrorRecord> {
        check(request)
            .map_err(|why| failed(ErrorKind::OutOfRange, "this request is refused", why, ""))?;
        match request {
            Request::Lease(_) | Request::Ping | Request::Bye => Ok(Reply::Done),
            Request::Facts => {
                let settings = self.policy.as_ref().is_none_or(Policy::settings);
                Ok(Reply::Facts {
                    host: Box::new(facts(self.towards.map(Into::into))),
                    permissions: Permissions {
                        settings,
                        commands: settings && self.options.commands,
                        reboot: settings && self.options.reboot.is_some(),
                        profile: self.options.profile,
                    },
                })
            }
            Request::Look => {
                let clocks = || Clocks { monotonic_ns: clock::monotonic_ns(), wall_ahead_ns: 0 };
                let look = Look::begin(self.towards, clocks());
                std::thread::sleep(WATCHED);
                Ok(Reply::Looked(Box::new(look.end(clocks()))))
            }
            Request::Apply { .. } | Request::Command(_) | Request::Reboot { .. }
                if !self.policy.as_ref().is_none_or(Policy::settings) =>
            {
                Err(failed(
                    ErrorKind::Policy,
                    "this request is refused",
                    "the key of this controller does not have the right `settings`",
                    "its owner sets rights in the server's file of keys",
                ))
            }
            Request::Apply { device, settings } => {
                let device = device.as_ref().map(resolve).transpose()?;
                // Those of a helper that has died were put back, and that was said.
                let now = self.privileged.ended();
                self.held = self.held.filter(|ended| *ended == now).or(Some(now));
                self.privileged.apply(device.as_deref(), settings).map(Reply::Applied)
            }
            Request::Read { device, names } => {
                let device = device.as_ref().map(resolve).transpose()?;
                Ok(Reply::Read(read(device.as_deref(), names)))
            }
            Request::Restore => {
                let restoration = self.privileged.restore()?;
                self.held = None;
                Ok(Reply::Restored(restoration))
            }
            Request::Test(test) => self.with_settings(|hand| hand.test(test)),
            Request::Command(command) => {
                if !self.options.commands {
                    return Err(failed(
                        ErrorKind::Policy,
                        "a command is refused",
                        "this host runs no commands of others",
                        "start its server with --allow-commands",
                    ));
                }
                self.with_settings(|hand| {
                    command::run(command, &hand.stop, Some(&hand.options.program))
                        .map(Reply::Command)
                })
            }
            Request::Reboot { command } => self.begin_reboot(command.as_deref()),
            Request::SampleBegin => self.sampling().begin().map(|()| Reply::Done),
            Request::SampleEnd => self.sampling().end().map(|host| Reply::Sampled(Box::new(host))),
        }
    }

    pub(super) fn sampling(&self) -> MutexGuard<'_, Sampling> {
        self.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that rests on the settings. If the helper died meanwhile, they were put back,
    /// and the result is of other settings than it says.
    fn with_settings(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Reply, ErrorRecord>,
    ) -> Result<Reply, ErrorRecord> {
        self.still()?;
        let reply = work(self)?;
        self.still()?;
        Ok(reply)
    }

    fn still(&mut self) -> Result<(), ErrorRecord> {
        let Some(held) = self.held else { return Ok(()) };
        // Another helper that answers has put back what the one before it had set.
        self.privileged.look()?;
        if self.privileged.ended() == held {
            return Ok(());
        }
        Err(failed(
            ErrorKind::HelperLost,
            "the settings of this host do not hold any more",
            "the process that keeps them was ended, and they were put back",
            "apply them again and repeat the run",
        ))
    }

    /// Whether the owner lets a controller have such a test, and what it is held to.
    fn allowed(&self, test: &RemoteTest) -> Result<Bounds, ErrorRecord> {
        let Some(Policy { server, permit }) = &self.policy else { return Ok(Bounds::default()) };
        // Its cores at the server are not of this host.
        let plan = TestPlan { server_cpus: test.plan.client_cpus.clone(), ..test.plan.clone() };
        let ip = test.ip.unwrap_or(IpVersion::V4);
        let dialect = test.dialect.unwrap_or_default();
        let allowed = || -> Result<Bounds, Refused> {
            crate::admission::check(&plan, dialect, ip, &server.options)?;
            let standing = server.standing();
            let runs = standing.map(|standing| permit.runs(&standing, &plan)).transpose()?;
            let (mut days, rate) = runs.unwrap_or_default();
            if let Some(peer) = self.towards {
                days.extend(server.admission.day(
                    (Network::of(peer.ip()), false),
                    &plan,
                    &server.options,
                )?);
            }
            let limits = server.options.limits();
            let rate = rate.into_iter().chain(limits.rate).min();
            Ok(Bounds::new(Limits { rate, ..limits }, days))
        };
        allowed().map_err(|refused| {
            let hint = refused.hints.first().map(String::as_str).unwrap_or_default();
            let what = "this host refuses to run such a test";
            failed(ErrorKind::Policy, what, refused.why.clone(), hint)
        })
    }

    fn test(&mut self, test: &RemoteTest) -> Result<Reply, ErrorRecord> {
        let bounds = self.allowed(test)?;
        let own = self.policy.as_ref().and_then(|policy| policy.server.options.key.clone());
        if test.with_key && self.policy.is_some() && own.is_none() {
            return Err(failed(
                ErrorKind::Policy,
                "this host refuses to run such a test",
                "the server there wants a key, and this host has none of its own to show",
                "start the server of this host with --key-file as well",
            ));
        }
        let (name, port) = (test.name.clone(), test.port);
        let target =
            if test.discard { Target::Discard { name, port } } else { Target::Host { name, port } };
        let request = client::Request {
            size_from_mtu: test.size_from_mtu,
            ip: test.ip,
            key: own.filter(|_| test.with_key),
            // Whoever asks for the key must not be answered by what has none.
            dialect: if test.with_key { Some(Dialect::Native) } else { test.dialect },
            command: test.command.clone(),
            bounds,
            ..client::Request::new(target, test.plan.clone())
        };
        let mut record = client::run(&request, None, &mut (), &self.stop);
        if let (Some(error), Some(why)) = (&mut record.error, request.bounds.broken())
            && error.kind == ErrorKind::Interrupted
            && !self.stop.seen()
        {
            let hint = if request.bounds.day_is_over() { BUDGET_HINT } else { LIMITS_HINT };
            *error = failed(ErrorKind::Policy, "this host ended the test", why, hint);
        }
        Ok(Reply::Record(Box::new(record)))
    }

    fn begin_reboot(&mut self, command: Option<&[String]>) -> Result<Reply, ErrorRecord> {
        let what = "a reboot is refused";
        let own = self.options.reboot.as_deref();
        match (command, own) {
            (Some(asked), Some(own)) if asked != own && self.options.commands => {
                reboot_by(asked, &self.stop)
            }
            (None, Some(own)) => self.privileged.reboot(own, &self.stop),
            (Some(asked), Some(own)) if asked == own => self.privileged.reboot(own, &self.stop),
            (_, None) => Err(failed(
                ErrorKind::Policy,
                what,
                "this host lets nobody reboot it",
                "start its server with --allow-reboot",
            )),
            (Some(_), Some(own)) => Err(failed(
                ErrorKind::Policy,
                what,
                format!("this host reboots by `{}` only", own.join(" ")),
                "leave the command to the host, or start its server with --allow-commands",
            )),
        }
        .map(|()| Reply::Done)
    }
}

/// The name of the interface that is meant.
fn resolve(device: &DeviceChoice) -> Result<String, ErrorRecord> {
    let name = match device {
        DeviceChoice::Named(name) => return Ok(name.clone()),
        DeviceChoice::Towards(name) => name,
    };
    let what = format!("cannot find the interface towards {name}");
    let address = match name.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, 0),
        Err(_) => (name.as_str(), 0)
            .to_socket_addrs()
            .map_err(|e| failed(ErrorKind::UnknownHost, &what, e.to_string(), ""))?
            .next()
            .ok_or_else(|| failed(ErrorKind::UnknownHost, &what, "the name has no address", ""))?,
    };
    device_towards(address.into()).ok_or_else(|| {
        let why = format!("the routing table has no way to {}", address.ip());
        failed(ErrorKind::NoRoute, &what, why, "")
    })
}
