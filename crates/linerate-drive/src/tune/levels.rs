//! The levels of each factor: those that were asked for, or what this path and these hosts may well be better with.

use linerate_ask::tune::{FactorAsked, FactorName, Level, TuneAsked};
use linerate_host::cores::{Core, congestion_controls, topology};
use linerate_model::host::HostFacts;
use linerate_model::plan::{Direction, EngineChoice, IpVersion, TestPlan, Traffic};
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_model::setting::{Setting, SettingName, SettingValue};
use linerate_model::tune::{TuneFactor, TuneLevel};
use linerate_model::units::{ByteCount, DatagramSize, Nanos};
use linerate_runner::agent::{DeviceChoice, HostAgent};

/// Bytes of socket buffers.
const WINDOWS: [u32; 4] = [256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// Bytes of a write and a read.
const BLOCKS: [u32; 3] = [64 << 10, 128 << 10, 1 << 20];
const BURSTS: [Nanos; 3] = [Nanos(20_000), Nanos(500_000), Nanos(2_000_000)];
const STREAMS: [u16; 5] = [1, 2, 4, 8, 16];
/// Payload that a jumbo frame of 9,000 bytes leaves on IPv4, and one of 1,500.
const FRAMES: [u32; 2] = [8_972, 1_472];
/// Cores of one level; streams go round them.
const MOST_CORES: usize = 128;
/// Cores of a far host that are looked at: no kernel has more (`NR_CPUS`), whatever its server says.
const MOST_FAR: u32 = 8_192;

/// A factor with its levels.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    pub name: FactorName,
    /// What the default is, for people.
    pub default: String,
    /// The others.
    pub levels: Vec<Level>,
}

impl Factor {
    /// Level 0 is the default.
    pub fn level(&self, number: usize) -> Option<&Level> {
        self.levels.get(number.checked_sub(1)?)
    }

    /// For the document.
    pub fn document(&self) -> TuneFactor {
        let default = TuneLevel {
            name: self.default.clone(),
            words: Vec::new(),
            setting: None,
            left_out: None,
            gain_percent: None,
            runs: 0,
        };
        let others = self.levels.iter().map(|level| TuneLevel {
            name: level.name(),
            words: match (self.name.option(), level.value()) {
                (Some(option), Some(value)) => vec![format!("--{option}"), value],
                _ => Vec::new(),
            },
            setting: level.setting().cloned(),
            ..default.clone()
        });
        TuneFactor {
            name: self.name.text(),
            levels: std::iter::once(default.clone()).chain(others).collect(),
            best: 0,
            worth_percent: None,
            others_most_percent: None,
        }
    }
}

/// What a first test showed, and the hand on this host's settings.
pub(super) struct Ground<'a> {
    pub asked: &'a TuneAsked,
    pub look: &'a RunRecord,
    pub host: Option<&'a mut Box<dyn HostAgent>>,
    pub device: Option<&'a DeviceChoice>,
    pub this_machine: bool,
}

impl Ground<'_> {
    /// Every factor that has more than its default; of the others why not.
    pub fn factors(&mut self) -> Result<(Vec<Factor>, Vec<String>), ErrorRecord> {
        let (mut factors, mut notes) = (Vec::new(), Vec::new());
        let all = self.asked;
        for asked in &all.factors {
            let factor = match &asked.name {
                FactorName::Setting(name) => self.setting(name, asked)?,
                _ => Ok(self.option(asked)),
            };
            match factor {
                Ok(factor) if !factor.levels.is_empty() => factors.push(factor),
                Ok(factor) => {
                    notes.push(format!(
                        "{} has no level beside the default here",
                        factor.name.text()
                    ));
                }
                Err(why) => notes.push(format!("{} is left out: {why}", asked.name.text())),
            }
        }
        Ok((factors, notes))
    }

    fn plan(&self) -> &TestPlan {
        &self.asked.test.request.plan
    }

    fn option(&self, asked: &FactorAsked) -> Factor {
        let usual = || self.usual(&asked.name);
        let mut levels = asked.levels.clone().unwrap_or_else(usual);
        let mut plan = self.plan().clone();
        // What the first test found out of the path.
        if let (Traffic::Udp(udp), Some(size)) = (&mut plan.traffic, self.size()) {
            udp.size = size;
        }
        levels.retain(|level| {
            let mut request = self.asked.test.request.clone();
            level.apply(&mut request);
            !level.is_default(&plan) && request.plan.check().is_ok()
        });
        Factor { name: asked.name.clone(), default: self.default(&asked.name), levels }
    }

    fn size(&self) -> Option<DatagramSize> {
        let agreed = self.look.agreed.as_ref()?;
        DatagramSize::new(agreed.datagram_bytes?)
    }

    /// What holds where nothing is varied, for people.
    fn default(&self, name: &FactorName) -> String {
        let plan = self.plan();
        let udp = match &plan.traffic {
            Traffic::Udp(udp) => Some(udp),
            _ => None,
        };
        let auto = |cores: &[u16]| {
            let list: Vec<String> = cores.iter().map(ToString::to_string).collect();
            if list.is_empty() { "auto".to_owned() } else { list.join(",") }
        };
        match name {
            FactorName::Size => {
                self.size().map_or(String::new(), |size| format!("{} B", size.bytes()))
            }
            FactorName::Window => plan
                .window
                .map_or("the system's".to_owned(), |w| ByteCount(u64::from(w)).to_string()),
            FactorName::Streams => plan.streams.to_string(),
            FactorName::Engine => udp.map_or("auto", |udp| udp.engine.name()).to_owned(),
            FactorName::Burst => udp.map_or(String::new(), |udp| udp.burst.to_string()),
            FactorName::Block => match &plan.traffic {
                Traffic::Tcp(tcp) => ByteCount(u64::from(tcp.block)).to_string(),
                _ => String::new(),
            },
            FactorName::Congestion => {
                let agreed = self.look.agreed.as_ref().and_then(|agreed| agreed.congestion.clone());
                agreed.unwrap_or_else(|| "the system's".to_owned())
            }
            FactorName::Cores => auto(&plan.client_cpus),
            FactorName::FarCores => auto(&plan.server_cpus),
            FactorName::Setting(_) => String::new(),
        }
    }

    fn usual(&self, name: &FactorName) -> Vec<Level> {
        match name {
            FactorName::Size => self.sizes(),
            FactorName::Window => WINDOWS.map(Level::Window).to_vec(),
            FactorName::Block => BLOCKS.map(Level::Block).to_vec(),
            FactorName::Burst => BURSTS.map(Level::Burst).to_vec(),
            FactorName::Engine => [EngineChoice::Gso, EngineChoice::Mmsg, EngineChoice::Send]
                .map(Level::Engine)
                .to_vec(),
            FactorName::Streams => {
                let far = self.look.server.as_ref().and_then(|host| host.cores);
                let cores = [self.look.client.cores, far].into_iter().flatten().min().unwrap_or(4);
                // More streams than cores help where a core waits: twice as many are tried.
                let fits = |n: &u16| u32::from(*n) <= cores.saturating_mul(2).max(4);
                STREAMS.into_iter().filter(fits).map(Level::Streams).collect()
            }
            FactorName::Congestion => self.congestion(),
            FactorName::Cores => {
                let near = classes(&topology(), &irq_cores(&self.look.client));
                near.into_iter().map(|(cores, near)| Level::Cores(cores, near)).collect()
            }
            FactorName::FarCores => {
                let near = self.far_classes();
                near.into_iter().map(|(cores, near)| Level::FarCores(cores, near)).collect()
            }
            FactorName::Setting(_) => Vec::new(),
        }
    }

    /// Largest payload that is known to fit into a frame.
    pub fn fits(&self) -> Option<u32> {
        if self.asked.test.request.size_from_mtu {
            // The path's own was found already.
            return self.size().map(|size| u32::from(size.bytes()));
        }
        let ip = if self.look.agreed.as_ref().and_then(|a| a.ip) == Some(6) {
            IpVersion::V6
        } else {
            IpVersion::V4
        };
        let mtu = self.look.client.nic.as_ref()?.mtu?;
        Some(mtu.saturating_sub(ip.udp_overhead()))
    }

    /// What the path's frames carry, fractions of it, and sizes of common frames below it.
    fn sizes(&self) -> Vec<Level> {
        let Some(base) = self.size() else { return Vec::new() };
        let largest = self
            .fits()
            .map_or(u32::from(base.bytes()), |l| l.min(u32::from(DatagramSize::MAX.bytes())));
        let mut sizes: Vec<u32> = FRAMES.into_iter().filter(|size| *size <= largest).collect();
        sizes.extend([largest, largest / 2, largest / 4]);
        sizes.sort_unstable();
        sizes.dedup();
        sizes.into_iter().filter_map(DatagramSize::new).map(Level::Size).collect()
    }

    /// Of the sending host, as far as it is known which it has; what the far one lacks shows in its trials.
    fn congestion(&self) -> Vec<Level> {
        let now = self.look.agreed.as_ref().and_then(|agreed| agreed.congestion.clone());
        let names = match self.plan().direction {
            Direction::Forward => congestion_controls(),
            _ => ["cubic", "bbr", "reno"].map(str::to_owned).to_vec(),
        };
        names.into_iter().filter(|name| Some(name) != now.as_ref()).map(Level::Congestion).collect()
    }

    /// Of a far host it is known how many cores it has and which take the interface's interrupts.
    fn far_classes(&self) -> Vec<(Vec<u16>, String)> {
        let Some(server) = &self.look.server else { return Vec::new() };
        if self.this_machine {
            return classes(&topology(), &irq_cores(server));
        }
        let cores = (0..server.cores.unwrap_or(0).min(MOST_FAR)).map(|core| Core {
            core,
            siblings: vec![core],
            ..Core::default()
        });
        classes(&cores.collect::<Vec<_>>(), &irq_cores(server))
    }

    fn setting(
        &mut self,
        name: &SettingName,
        asked: &FactorAsked,
    ) -> Result<Result<Factor, String>, ErrorRecord> {
        let device = self.device.filter(|_| name.of_device());
        let Some(host) = &mut self.host else {
            return Ok(Err("no settings are changed".to_owned()));
        };
        let read = host.read(device, std::slice::from_ref(name))?;
        let Some(back) = read.into_iter().next() else {
            return Ok(Err("it cannot be read".to_owned()));
        };
        let Some(now) = back.value else {
            return Ok(Err(back.why.unwrap_or_else(|| "it cannot be read".to_owned())));
        };
        let cores = self.look.client.cores.unwrap_or(1);
        let usual = || others(name, &now, cores);
        let mut levels = asked.levels.clone().unwrap_or_else(usual);
        levels.retain(|level| level.setting().is_some_and(|setting| setting.value != now));
        Ok(Ok(Factor { name: asked.name.clone(), default: now.to_string(), levels }))
    }
}

/// Other values of a setting that are worth a try.
fn others(name: &SettingName, now: &SettingValue, cores: u32) -> Vec<Level> {
    let values = match (name, now) {
        (_, SettingValue::Switch(on)) => vec![SettingValue::Switch(!on)],
        (SettingName::Ring(_), _) => [512, 1_024, 4_096].map(SettingValue::Number).to_vec(),
        (SettingName::Coalesce(_), _) => [0, 8, 50].map(SettingValue::Number).to_vec(),
        (SettingName::Rps | SettingName::Xps, _) => {
            let all = format!("0-{}", cores.saturating_sub(1));
            ["none".to_owned(), all].map(SettingValue::Text).to_vec()
        }
        _ => Vec::new(),
    };
    let setting = |value| Setting::new(&name.to_string(), value).ok();
    values.into_iter().filter_map(setting).map(Level::Setting).collect()
}

fn irq_cores(host: &HostFacts) -> Vec<u32> {
    host.nic.as_ref().map_or_else(Vec::new, |nic| nic.irq_cores.clone())
}

/// Cores by what they are near to: those that take the interrupts (or the first, where that is not known), their SMT
/// siblings, the others of their package and node, and those of other nodes. Where nobody tells packages, as of a far
/// host, those are the others.
fn classes(cores: &[Core], irq: &[u32]) -> Vec<(Vec<u16>, String)> {
    let known: Vec<u32> =
        irq.iter().copied().filter(|i| cores.iter().any(|c| c.core == *i)).collect();
    let at: Vec<u32> = if known.is_empty() {
        cores.iter().take(1).map(|c| c.core).collect()
    } else {
        known.clone()
    };
    let home: Vec<&Core> = cores.iter().filter(|c| at.contains(&c.core)).collect();
    let siblings: Vec<u32> = home.iter().flat_map(|c| c.siblings.iter().copied()).collect();
    let same = |c: &Core| home.iter().any(|h| h.package == c.package && h.node == c.node);
    let (mut near, mut beside, mut far) = (Vec::new(), Vec::new(), Vec::new());
    for core in cores.iter().filter(|c| !at.contains(&c.core)) {
        let class = match (siblings.contains(&core.core), same(core)) {
            (true, _) => &mut near,
            (false, true) => &mut beside,
            (false, false) => &mut far,
        };
        class.push(core.core);
    }
    let first = if known.is_empty() { "" } else { "interrupts" };
    let known = home.iter().all(|core| core.package.is_some());
    let others = if known { "same package" } else { "others" };
    let all = [(at, first), (near, "SMT sibling"), (beside, others), (far, "other node")];
    all.into_iter()
        .filter(|(cores, _)| !cores.is_empty())
        .map(|(cores, near)| {
            let cores = cores.into_iter().filter_map(|core| u16::try_from(core).ok());
            (cores.take(MOST_CORES).collect(), near.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use linerate_ask::Measure;
    use linerate_testkit::records;

    use super::*;

    fn core(core: u32, siblings: &[u32], node: u32) -> Core {
        Core { core, siblings: siblings.to_vec(), package: Some(node), node: Some(node) }
    }

    #[test]
    fn cores_are_grouped_by_what_they_are_near_to() {
        let cores = [
            core(0, &[0, 4], 0),
            core(1, &[1, 5], 0),
            core(2, &[2, 6], 1),
            core(4, &[0, 4], 0),
            core(6, &[2, 6], 1),
        ];
        let found = |irq: &[u32]| classes(&cores, irq);
        let named = |cores: &[u16], near: &str| (cores.to_vec(), near.to_owned());
        assert_eq!(
            found(&[0]),
            [
                named(&[0], "interrupts"),
                named(&[4], "SMT sibling"),
                named(&[1], "same package"),
                named(&[2, 6], "other node"),
            ]
        );
        assert_eq!(found(&[])[0], named(&[0], ""), "whose they are is not known");
        assert_eq!(found(&[9])[0], named(&[0], ""), "that core may not be used");
        assert_eq!(classes(&[], &[0]), []);
        let untold = [0, 1].map(|core| Core { core, siblings: vec![core], ..Core::default() });
        assert_eq!(classes(&untold, &[1]), [named(&[1], "interrupts"), named(&[0], "others")]);
    }

    #[test]
    fn levels_are_of_the_path_whatever_was_asked_and_the_far_host_says() {
        let words = ["linerate", "tune", "udp", "--local", "--size", "64"].map(str::to_owned);
        let Ok(Measure::Tune(args)) = Measure::from_words(&words) else { panic!("a tuning") };
        let asked = args.asked().unwrap();
        let mut look = records::udp_receiver_drops();
        look.agreed.as_mut().unwrap().datagram_bytes = Some(64);
        look.client.cores = None;
        look.server.as_mut().unwrap().cores = Some(u32::MAX);
        let ground =
            Ground { asked: &asked, look: &look, host: None, device: None, this_machine: false };
        let names = |name| -> Vec<String> { ground.usual(&name).iter().map(Level::name).collect() };
        assert_eq!(names(FactorName::Size), ["368 B", "736 B", "1472 B"], "of its MTU of 1,500");
        assert_eq!(names(FactorName::Streams), ["1", "2", "4", "8", "16"]);
        assert_eq!(names(FactorName::FarCores), ["0", "1-128 (others)"]);
    }

    #[test]
    fn settings_have_other_values() {
        let name: SettingName = "offload.gro".parse().unwrap();
        let one = others(&name, &SettingValue::Switch(true), 4);
        assert_eq!(one.iter().map(Level::name).collect::<Vec<_>>(), ["off"]);
        let name: SettingName = "rps".parse().unwrap();
        let two = others(&name, &SettingValue::Text("none".into()), 4);
        assert_eq!(two.iter().map(Level::name).collect::<Vec<_>>(), ["none", "0-3"]);
    }
}
