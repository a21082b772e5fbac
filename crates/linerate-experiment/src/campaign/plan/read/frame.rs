//! What frames the runs: `[repeat]` and `[hosts]`.

use linerate_model::units::{NANOS_PER_SECOND, Nanos};

use super::{Entry, NAME_RULE, Reader, is_name};
use crate::campaign::plan::fault::meant;
use crate::campaign::plan::{Host, MOST_BOOTS, MOST_RUNS, Order, Position, Repeat, nearest, words};

/// The port of `linerate serve`.
const PORT: u16 = 5201;

/// How long a host is waited for: a server with much memory and many disks boots in ten minutes.
const WAIT: Nanos = Nanos(15 * 60 * NANOS_PER_SECOND);

impl Host {
    /// This machine, where nothing else is said of it.
    fn local(name: String, at: Position) -> Self {
        Self {
            name,
            address: None,
            port: PORT,
            test_address: None,
            key_file: None,
            reboot: None,
            device: None,
            at,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn repeat(&mut self, entry: Option<Entry<'a>>) -> Repeat {
        const KEYS: &[&str] =
            &["boots", "warmup", "runs", "order", "seed", "retries", "wait", "pause"];
        let mut repeat = Repeat {
            boots: 0,
            warmup: 1,
            runs: 10,
            order: Order::Shuffled,
            seed: None,
            retries: 2,
            wait: WAIT,
            pause: Nanos(0),
        };
        let Some(table) = entry.and_then(|entry| self.table("repeat", entry)) else {
            return repeat;
        };
        for (key, entry) in self.entries(table) {
            // In range of u32 by the limits given.
            let mut count = |most: u32, least: u32| {
                self.whole(&key, entry, u64::from(least), u64::from(most)).map(|n| n as u32)
            };
            match key.as_str() {
                "boots" => repeat.boots = count(MOST_BOOTS, 0).unwrap_or(0),
                "warmup" => repeat.warmup = count(MOST_RUNS, 0).unwrap_or(0),
                "runs" => repeat.runs = count(MOST_RUNS, 1).unwrap_or(1),
                "retries" => repeat.retries = count(100, 0).unwrap_or(0),
                // TOML has 64 bits with a sign.
                "seed" => repeat.seed = self.whole(&key, entry, 0, i64::MAX as u64),
                "wait" => repeat.wait = self.time(&key, entry).unwrap_or(repeat.wait),
                "pause" => repeat.pause = self.time(&key, entry).unwrap_or(repeat.pause),
                "order" => {
                    let orders = [Order::Shuffled, Order::AsWritten, Order::Grouped];
                    let word = entry.value.get_ref().as_str().unwrap_or_default();
                    match orders.into_iter().find(|o| o.name() == word) {
                        Some(order) => repeat.order = order,
                        None => {
                            let at = self.position(entry.value);
                            let hint = match nearest(word, orders.map(Order::name)) {
                                Some(near) => format!("did you mean \"{near}\"?"),
                                None => "order = \"shuffled\"".to_owned(),
                            };
                            let what = "`order` is \"shuffled\", \"as-written\" or \"grouped\"";
                            self.hinted(at, what, hint);
                        }
                    }
                }
                _ => self.unknown(entry.at, &key, "[repeat]", KEYS),
            }
        }
        repeat
    }

    pub(super) fn hosts(&mut self, entry: Option<Entry<'a>>) -> Vec<Host> {
        const KEYS: &[&str] = &["address", "port", "key_file", "reboot", "test_address", "device"];
        let Some(entry) = entry else {
            // A campaign of this machine alone.
            return vec![Host::local("local".into(), Position { line: 1, column: 1 })];
        };
        let mut hosts = Vec::new();
        let Some(table) = self.table("hosts", entry) else { return hosts };
        for (name, entry) in self.entries(table) {
            let place = format!("[hosts.{name}]");
            if !is_name(&name) {
                self.fault(entry.at, format!("the host's name `{name}` {NAME_RULE}"));
            }
            let Some(fields) = self.table(&place, entry) else { continue };
            let mut host = Host::local(name, entry.at);
            let mut addressed = false;
            for (key, entry) in self.entries(fields) {
                match key.as_str() {
                    "address" => {
                        addressed = true;
                        host.address = self.address(&key, entry).filter(|a| a != "local");
                    }
                    "test_address" => host.test_address = self.address(&key, entry),
                    "port" => {
                        let port = self.whole(&key, entry, 1, 65_535);
                        host.port = port.map_or(PORT, |p| p as u16);
                    }
                    "key_file" => host.key_file = self.text_of(&key, entry),
                    "device" => host.device = self.text_of(&key, entry),
                    "reboot" => {
                        host.reboot = self.text_of(&key, entry).filter(|text| {
                            let split = words::split(text);
                            if let Err(why) = &split {
                                let at = self.position(entry.value);
                                self.fault(at, format!("`reboot` is no command: {why}"));
                            }
                            split.is_ok()
                        });
                    }
                    _ => self.unknown(entry.at, &key, &place, KEYS),
                }
            }
            if !addressed {
                let what = format!("the host `{}` has no `address`", host.name);
                self.hinted(host.at, what, "a host name, an address, or \"local\"");
            }
            if host.address.is_none() && addressed && host.key_file.is_some() {
                let what = format!("the host `{}` is local and needs no `key_file`", host.name);
                self.fault(host.at, what);
            }
            hosts.push(host);
        }
        let locals: Vec<&Host> = hosts.iter().filter(|h| h.address.is_none()).collect();
        if let [first, second, ..] = locals.as_slice() {
            let what = format!("`{}` and `{}` are both local", first.name, second.name);
            let at = second.at;
            self.hinted(at, what, "there is one machine here: give the other an address");
        }
        if hosts.is_empty() {
            self.fault(entry.at, "[hosts] has no host");
        }
        hosts
    }

    pub(super) fn address(&mut self, key: &str, entry: Entry<'a>) -> Option<String> {
        let text = self.text_of(key, entry)?;
        let odd = |c: char| c.is_control() || c.is_whitespace() || "/[]@".contains(c);
        if text.len() > 255 || text.contains(odd) {
            let what = format!("`{key}` is a host name or an address, and the port stands apart");
            self.fault(self.position(entry.value), what);
            return None;
        }
        Some(text)
    }

    pub(super) fn check_reboots(&mut self, repeat: &Repeat, hosts: &[Host], at: Position) {
        let reboots = hosts.iter().any(|h| h.reboot.is_some());
        if repeat.boots > 0 && !reboots && !hosts.is_empty() {
            self.hinted(
                at,
                format!("`boots = {}`, but no host has a `reboot` command", repeat.boots),
                "give the host under test one (reboot = \"systemctl reboot\"), or boots = 0",
            );
        }
        if repeat.boots == 0 && reboots {
            self.notes.push(
                "boots = 0: no host reboots, so a boot effect cannot be distinguished from a difference"
                    .into(),
            );
        }
    }

    pub(super) fn host_index(
        &mut self,
        key: &str,
        entry: Entry<'a>,
        hosts: &[Host],
    ) -> Option<usize> {
        let name = self.text_of(key, entry)?;
        let found = hosts.iter().position(|h| h.name == name);
        if found.is_none() {
            let at = self.position(entry.value);
            self.no_host(at, &name, hosts);
        }
        found
    }

    pub(super) fn no_host(&mut self, at: Position, name: &str, hosts: &[Host]) {
        let names = hosts.iter().map(|h| h.name.as_str());
        let all = || format!("[hosts] has {}", names.clone().collect::<Vec<_>>().join(", "));
        let hint = meant(name, names.clone(), all);
        self.hinted(at, format!("no host `{name}` in this plan"), hint);
    }
}
