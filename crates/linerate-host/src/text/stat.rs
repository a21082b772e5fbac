//! Time per core, /proc/stat.

use linerate_model::host::CoreUse;

use super::word;

/// What one core has spent since boot, in ticks of `USER_HZ` (a hundredth of a second on every
/// architecture of today; the shares do not depend on it).
///
/// In the order of the file: user, nice, system, idle, iowait, irq, softirq, steal. The two fields
/// for guests that follow are left out, because the kernel has counted them in user and nice
/// already (`account_guest_time` in kernel/sched/cputime.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoreTimes {
    pub(crate) core: u32,
    pub(crate) ticks: [u64; 8],
}

/// Reads the `cpuN` lines into `cores`, whose memory is used again. The line `cpu` with the sum is
/// left out.
pub(crate) fn parse(text: &str, cores: &mut Vec<CoreTimes>) {
    cores.clear();
    for line in text.lines() {
        // The cores come first. The interrupt counts after them make up most of the file.
        let Some(line) = line.strip_prefix("cpu") else { break };
        let Some((number, rest)) = word(line).filter(|_| !line.starts_with(' ')) else { continue };
        let Ok(core) = number.parse() else { continue };
        let mut times = CoreTimes { core, ..CoreTimes::default() };
        let mut words = rest.split_ascii_whitespace();
        // Old kernels have fewer fields; what is missing stays zero.
        for ticks in &mut times.ticks {
            *ticks = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        }
        cores.push(times);
    }
}

/// How each core spent the ticks between two readings.
///
/// A core is left out when no tick passed on it, when it was off line in one of the readings, or when
/// its ticks together went back: the time that it was idle starts again when it comes back on line.
/// Shares are rounded down, and what that leaves over stands under `idle`: so the shares of a core
/// always add up to 10,000.
pub(crate) fn growth(before: &[CoreTimes], after: &[CoreTimes]) -> Vec<CoreUse> {
    let mut uses = Vec::with_capacity(after.len());
    let sum = |times: &CoreTimes| times.ticks.iter().copied().map(u128::from).sum::<u128>();
    for now in after {
        let Some(then) = find(before, now.core) else { continue };
        if sum(now) <= sum(then) {
            continue;
        }
        // Per field, for single fields do go backward: proc(5) says so of iowait, and idle does
        // when a core comes back from a long sleep. The other fields are still right then.
        let mut grown = [0_u64; 8];
        for (grown, (now, then)) in grown.iter_mut().zip(now.ticks.iter().zip(&then.ticks)) {
            *grown = now.saturating_sub(*then);
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal] = grown.map(u128::from);
        let total = user + nice + system + idle + iowait + irq + softirq + steal;
        let share = |ticks: u128| u16::try_from(ticks * 10_000 / total).unwrap_or(10_000);
        let mut core = CoreUse {
            core: now.core,
            user: share(user + nice),
            system: share(system),
            softirq: share(irq + softirq),
            steal: share(steal),
            idle: 0,
        };
        core.idle = 10_000_u16.saturating_sub(core.busy().saturating_add(core.steal));
        uses.push(core);
    }
    uses
}

/// The reading of a core. The file is in ascending order of cores.
fn find(cores: &[CoreTimes], core: u32) -> Option<&CoreTimes> {
    cores.binary_search_by_key(&core, |times| times.core).ok().and_then(|at| cores.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<CoreTimes> {
        let mut cores = Vec::new();
        parse(text, &mut cores);
        cores
    }

    #[test]
    fn known_answer() {
        let before = parsed(
            "cpu  300 0 300 700 20 0 80 0 0 0\n\
             cpu0 100 10 100 500 20 5 60 7 50 0\n\
             cpu3 200 0 200 200 0 0 20 0 0 0\n\
             intr 423200 0 0\n",
        );
        // Core 0: 200 ticks, of which 30 user + 10 nice, 50 system, 90 idle, 0 iowait (it went
        // back by 5), 5 irq + 5 softirq, 10 steal.
        let after = parsed(
            "cpu  600 0 300 700 20 0 80 0 0 0\n\
             cpu0 130 20 150 590 15 10 65 17 60 0\n\
             cpu3 200 0 200 200 0 0 23 0 0 0\n\
             intr 423200 0 0\n",
        );
        assert_eq!(
            growth(&before, &after),
            [
                CoreUse { core: 0, user: 2000, system: 2500, softirq: 500, steal: 500, idle: 4500 },
                CoreUse { core: 3, softirq: 10_000, ..CoreUse::default() },
            ]
        );
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        let before = [CoreTimes { core: 0, ticks: [0; 8] }];
        let after = [CoreTimes { core: 0, ticks: [1, 1, 1, 1, 1, 1, 1, 0] }];
        let [core] = growth(&before, &after)[..] else { panic!("one core") };
        assert_eq!((core.user, core.system, core.softirq, core.idle), (2857, 1428, 2857, 2858));
    }

    #[test]
    fn a_core_without_a_past_or_without_a_tick_is_left_out() {
        let before = parsed("cpu0 1 0 0 0\ncpu1 1 0 0 5\n");
        let after = parsed("cpu0 1 0 0 0\ncpu1 1 0 0 6\ncpu2 9 0 0 0\n");
        let cores: Vec<_> = growth(&before, &after).iter().map(|core| core.core).collect();
        assert_eq!(cores, [1]);
    }

    #[test]
    fn counters_that_start_again_are_no_growth() {
        let before = [CoreTimes { core: 0, ticks: [u64::MAX; 8] }];
        let after = [CoreTimes { core: 0, ticks: [1; 8] }];
        assert_eq!(growth(&before, &after), []);
        assert_eq!(growth(&after, &before).len(), 1, "and the largest do not overflow");
    }

    #[test]
    fn a_core_whose_idle_time_starts_again_is_not_busy() {
        let before = parsed("cpu0 100 0 100 10000 0 0 0 0\ncpu1 0 0 0 5 0 0 0 0\n");
        let after = parsed("cpu0 101 0 101 5 0 0 0 0\ncpu1 1 0 0 6 0 0 0 0\n");
        let idle = CoreUse { core: 1, user: 5_000, idle: 5_000, ..CoreUse::default() };
        assert_eq!(growth(&before, &after), [idle]);
    }

    #[test]
    fn a_text_cut_short_gives_what_it_has() {
        assert_eq!(
            parsed("cpu  1 2\ncpu0 5 6 7\ncpux 1\ncpu"),
            [CoreTimes { core: 0, ticks: [5, 6, 7, 0, 0, 0, 0, 0] }]
        );
    }
}
