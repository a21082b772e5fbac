//! Lists of cores such as `0-3,8`, in /sys/devices/system/cpu and /proc/self/status.

/// The cores in ascending order. What is not a number or a range is skipped.
pub(crate) fn parse(text: &str) -> Vec<u32> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
        else {
            continue;
        };
        cores.extend(first..=last.min(LARGEST_CORE));
    }
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Far above `NR_CPUS` of any kernel (8,192 at most), so that nonsense does not fill the memory.
const LARGEST_CORE: u32 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(parse("0-1\n"), [0, 1]);
        assert_eq!(parse("0,2-4,9"), [0, 2, 3, 4, 9]);
        assert_eq!(parse("3,x,1-,-,1"), [1, 3]);
        assert!(parse("5-2").is_empty());
        assert!(parse("\n").is_empty());
        assert_eq!(parse("0-4294967295").len(), 65_536);
    }
}
