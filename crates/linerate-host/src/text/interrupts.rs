//! Interrupts per line and core, /proc/interrupts.

use super::{grown_32, word};

/// Interrupts of some lines since boot. The kernel counts those of one line on one core in 32 bits,
/// so lines are added up only when it is known what each gained.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// The cores on line.
    cores: Vec<u32>,
    /// Each line's number, ascending as in the file, and its count on each of the cores.
    lines: Vec<(u32, Vec<u32>)>,
}

impl Counts {
    /// What each core took since an earlier count. A line that came meanwhile began at nothing; a
    /// core that came is left out.
    pub(crate) fn since(&self, earlier: &Self) -> Vec<(u32, u64)> {
        let core = |(at, core): (usize, &u32)| {
            let then_at = earlier.cores.iter().position(|other| other == core)?;
            let grown = |(irq, counts): &(u32, Vec<u32>)| {
                let then = earlier.line(*irq).and_then(|counts| counts.get(then_at).copied());
                grown_32(then.unwrap_or(0).into(), u64::from(*counts.get(at)?))
            };
            Some((*core, self.lines.iter().filter_map(grown).fold(0, u64::saturating_add)))
        };
        self.cores.iter().enumerate().filter_map(core).collect()
    }

    /// What each core would have taken since boot had each line always gone where `now` says that it goes. A line of
    /// which it says nothing counts where it was taken, as far as no count began again at 2³².
    pub(crate) fn since_boot(&self, now: impl Fn(u32) -> Vec<u32>) -> Vec<(u32, u64)> {
        let mut taken: Vec<(u32, u64)> = self.cores.iter().map(|core| (*core, 0)).collect();
        for (irq, counts) in &self.lines {
            let (now, all) = (now(*irq), counts.iter().copied().map(u64::from).sum::<u64>());
            for ((core, sum), count) in taken.iter_mut().zip(counts) {
                let own = if now.contains(core) { all } else { 0 };
                let own = if now.is_empty() { u64::from(*count) } else { own };
                *sum = sum.saturating_add(own);
            }
        }
        taken
    }

    fn line(&self, irq: u32) -> Option<&[u32]> {
        let at = self.lines.binary_search_by_key(&irq, |(irq, _)| *irq).ok()?;
        self.lines.get(at).map(|(_, counts)| counts.as_slice())
    }
}

/// Reads the lines that `wanted` takes; it is given a line's interrupt number and the text after
/// the counts (chip, hardware number, handlers' names).
///
/// Lines without a number (`NMI`, `LOC`) are no device's. A line with fewer counts than cores is
/// cut short and is skipped.
pub(crate) fn parse(text: &str, wanted: impl Fn(u32, &str) -> bool) -> Counts {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cores = header.filter_map(|word| word.strip_prefix("CPU")?.parse().ok());
    let mut found = Counts { cores: cores.collect(), lines: Vec::new() };
    let mut counts = Vec::with_capacity(found.cores.len());
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let Ok(irq) = label.trim().parse() else { continue };
        let Some(handlers) = take_counts(rest, found.cores.len(), &mut counts) else { continue };
        if wanted(irq, handlers) {
            found.lines.push((irq, counts.clone()));
        }
    }
    found
}

/// Takes that many numbers off the front and returns what follows them.
fn take_counts<'a>(mut rest: &'a str, cores: usize, counts: &mut Vec<u32>) -> Option<&'a str> {
    counts.clear();
    while counts.len() < cores {
        let (count, after) = word(rest)?;
        counts.push(count.parse().ok()?);
        rest = after;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU1       CPU4       
 37:          0          0          7 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0       2145          0 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:       1921          3          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
 40:         99 
NMI:          5          5          5   Non-maskable interrupts
ERR:          0
";

    #[test]
    fn known_answer() {
        assert_eq!(
            parse(TEXT, |irq, _| (37..=39).contains(&irq)).since_boot(|_| Vec::new()),
            [(0, 1921), (1, 2148), (4, 7)]
        );
        assert_eq!(
            parse(TEXT, |_, text| text.contains("virtio2-input")).since_boot(|_| Vec::new()),
            [(0, 0), (1, 2145), (4, 0)]
        );
        assert_eq!(parse("", |_, _| true).since_boot(|_| Vec::new()), []);
    }

    #[test]
    fn a_line_that_was_moved_counts_where_it_goes_now() {
        let moved = |irq| if irq == 38 { vec![0, 4] } else { Vec::new() };
        let counts = parse(TEXT, |irq, _| (37..=39).contains(&irq));
        assert_eq!(counts.since_boot(moved), [(0, 1921 + 2145), (1, 3), (4, 7 + 2145)]);
        // A core that is not on line takes nothing.
        assert_eq!(counts.since_boot(|_| vec![9]), [(0, 0), (1, 0), (4, 0)]);
    }

    #[test]
    fn what_grew_is_of_cores_seen_twice_and_of_lines_that_wrap_or_come() {
        let counts = |text| parse(text, |_, _| true);
        let before = counts("CPU0 CPU1 CPU2\n 30: 5 9 4294967290 x\n 31: 1 0 7 x\n");
        let after = counts("CPU0 CPU2 CPU3\n 30: 7 10 8 x\n 31: 1 3 0 x\n 32: 4 0 9 x\n");
        // Line 30 went on beyond 2^32 on core 2, line 31 was reset there, line 32 is new.
        assert_eq!(after.since(&before), [(0, 2 + 4), (2, 16)]);
        assert_eq!(after.since(&Counts::default()), []);
    }
}
