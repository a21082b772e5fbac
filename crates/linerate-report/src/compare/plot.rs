//! Where each value of a set stands in a lane: the geometry that the terminal and the SVG share.

use super::view::SetView;
pub use crate::draw::scale::{Scale, ticks};

/// A scale that holds every value of some sets, their means and the intervals of these.
pub(super) fn scale_of(sets: &[&SetView], columns: usize) -> Option<Scale> {
    Scale::covering(sets.iter().flat_map(|s| s.extent()), columns)
}

/// The values of a set, stacked by column: for each column the indices of its values, those of one
/// boot together, in the order of the runs within it.
pub fn stacks(values: &[f64], boot_of: Option<&[u32]>, scale: &Scale) -> Vec<Vec<usize>> {
    let mut stacks = vec![Vec::new(); scale.columns()];
    for (index, value) in values.iter().enumerate() {
        if let Some(stack) = stacks.get_mut(scale.column(*value)) {
            stack.push(index);
        }
    }
    if let Some(boots) = boot_of {
        for stack in &mut stacks {
            stack.sort_by_key(|i| boots.get(*i).copied().unwrap_or(u32::MAX));
        }
    }
    stacks
}

/// How many values fall on each column.
pub fn counts(values: &[f64], scale: &Scale) -> Vec<usize> {
    let mut counts = vec![0; scale.columns()];
    for value in values {
        if let Some(count) = counts.get_mut(scale.column(*value)) {
            *count += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_exactly_one_stack() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i * 7919 % 997)).collect();
        let boots: Vec<u32> = (0..1000).map(|i| i % 3).collect();
        let scale = Scale::covering(values.iter().copied(), 60).unwrap();
        let stacks = stacks(&values, Some(&boots), &scale);
        let mut all: Vec<usize> = stacks.concat();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    }
}
