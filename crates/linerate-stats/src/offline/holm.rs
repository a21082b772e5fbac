//! Holm's step-down adjustment of p values (Holm 1979): holds the chance of any false "different"
//! among k comparisons at alpha, whatever their dependence.

/// Adjusted p values, in the order given.
pub fn adjust(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    let at = |i: usize| p.get(i).copied().unwrap_or(1.0);
    order.sort_unstable_by(|a, b| at(*a).total_cmp(&at(*b)));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((at(index) * (p.len() - rank) as f64).min(1.0));
        if let Some(slot) = adjusted.get_mut(index) {
            *slot = largest;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_textbook_case() {
        assert_eq!(adjust(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(adjust(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(adjust(&[]).is_empty());
    }
}
