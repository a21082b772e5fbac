//! Interrupts per line and core, /proc/interrupts.

use super::word;

/// Adds up, for each core on line, the counts of the lines that `wanted` takes; it is given a
/// line's interrupt number and the text after the counts (chip, hardware number, handlers' names).
///
/// Lines without a number (`NMI`, `LOC`) are no device's. A line with fewer counts than cores is
/// cut short and is skipped.
pub(crate) fn per_core(text: &str, wanted: impl Fn(u32, &str) -> bool) -> Vec<(u32, u64)> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let mut sums: Vec<(u32, u64)> = header
        .split_ascii_whitespace()
        .filter_map(|word| Some((word.strip_prefix("CPU")?.parse().ok()?, 0)))
        .collect();
    let mut counts = Vec::with_capacity(sums.len());
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let Ok(irq) = label.trim().parse() else { continue };
        let Some(handlers) = take_counts(rest, sums.len(), &mut counts) else { continue };
        if wanted(irq, handlers) {
            for (sum, count) in sums.iter_mut().zip(&counts) {
                sum.1 = sum.1.saturating_add(*count);
            }
        }
    }
    sums
}

/// Takes that many numbers off the front and returns what follows them.
fn take_counts<'a>(mut rest: &'a str, cores: usize, counts: &mut Vec<u64>) -> Option<&'a str> {
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
            per_core(TEXT, |irq, _| (37..=39).contains(&irq)),
            [(0, 1921), (1, 2148), (4, 7)]
        );
        assert_eq!(
            per_core(TEXT, |_, text| text.contains("virtio2-input")),
            [(0, 0), (1, 2145), (4, 0)]
        );
        assert_eq!(per_core("", |_, _| true), []);
    }
}
