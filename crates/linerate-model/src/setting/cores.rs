//! Lists of cores, as settings name them and as the kernel writes them.

use crate::limits::CORE;

/// Longest list that is read: every second of 8,192 cores takes 20,000 bytes.
const MOST_LIST_BYTES: usize = 32 << 10;

/// Cores as a setting names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// One core for each queue in turn, instead of all for every queue.
    pub spread: bool,
    /// The cores, ascending.
    pub list: Vec<u32>,
}

impl Cores {
    /// Reads `0-3,8`, `spread 0-3` or `none`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MOST_LIST_BYTES {
            return None;
        }
        if text == "none" {
            return Some(Self { spread: false, list: vec![] });
        }
        let (spread, text) =
            text.strip_prefix("spread ").map_or((false, text), |rest| (true, rest));
        // Each core once, however often it is named: the list never outgrows the cores there are.
        let mut named = vec![false; usize::try_from(CORE.max).ok()?.checked_add(1)?];
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| -> Option<u32> {
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let core = text.parse::<u32>().ok().filter(|_| digits)?;
                CORE.check(u64::from(core)).is_ok().then_some(core)
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            let range = usize::try_from(first).ok()?..=usize::try_from(last).ok()?;
            named.get_mut(range)?.fill(true);
        }
        let list = (0..).zip(named).filter_map(|(core, named)| named.then_some(core)).collect();
        Some(Self { spread, list })
    }

    /// The cores of queue `index`.
    pub fn of_queue(&self, index: usize) -> Vec<u32> {
        match (self.spread, self.list.get(index % self.list.len().max(1))) {
            (true, Some(core)) => vec![*core],
            _ => self.list.clone(),
        }
    }
}

/// Cores as the kernel writes lists: `0-3,8`; `none` where there are none.
pub fn core_list(cores: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cores;
    while let Some((first, more)) = rest.split_first() {
        // A file may name the largest number that there is.
        let next = (*first..=u32::MAX).skip(1);
        let run = more.iter().zip(next).take_while(|(core, next)| **core == *next).count();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if let Some(last) = run.checked_sub(1).and_then(|at| more.get(at)) {
            text.push_str(&format!("-{last}"));
        }
        rest = more.get(run..).unwrap_or_default();
    }
    if text.is_empty() { "none".into() } else { text }
}
