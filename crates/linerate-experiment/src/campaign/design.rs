//! The order of all runs of a campaign, drawn once.
//!
//! Randomised complete blocks (Fisher): after every boot each setting warms up, then come blocks of
//! every setting once, in an order drawn anew for each. A drift of the hosts then meets all settings
//! alike, where one setting after the other would take the drift for a difference (Mytkowicz et al.,
//! ASPLOS 2009).

use linerate_model::campaign::Slot;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64;

use super::plan::{Order, Plan, Repeat};

/// The runs of the whole campaign, in their order.
pub fn slots(plan: &Plan, seed: u64) -> Vec<Slot> {
    let names: Vec<&str> = plan.settings.iter().map(|s| s.name.as_str()).collect();
    draw(&names, &plan.repeat, seed)
}

fn draw(names: &[&str], repeat: &Repeat, seed: u64) -> Vec<Slot> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut slots = Vec::new();
    let boots = if repeat.boots == 0 { 0..=0 } else { 1..=repeat.boots };
    for boot in boots {
        let mut push = |block: u32, setting: &str, warmup: bool, number: u32| {
            let index = slots.len() as u32;
            slots.push(Slot { index, boot, block, setting: setting.to_owned(), warmup, number });
        };
        match repeat.order {
            Order::Grouped => {
                for name in names {
                    for (warmup, count) in [(true, repeat.warmup), (false, repeat.runs)] {
                        for number in 1..=count {
                            push(0, name, warmup, number);
                        }
                    }
                }
            }
            Order::Shuffled | Order::AsWritten => {
                let mut order: Vec<&str> = names.to_vec();
                let mut block = 0;
                for (warmup, count) in [(true, repeat.warmup), (false, repeat.runs)] {
                    for number in 1..=count {
                        block += 1;
                        if repeat.order == Order::Shuffled {
                            // From the plan's order each time, so that a block's order depends on
                            // the seed and its place alone.
                            order.copy_from_slice(names);
                            order.shuffle(&mut rng);
                        }
                        for name in &order {
                            push(block, name, warmup, number);
                        }
                    }
                }
            }
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::units::Nanos;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn repeat(boots: u32, warmup: u32, runs: u32, order: Order) -> Repeat {
        let wait = Nanos(0);
        Repeat { boots, warmup, runs, order, seed: None, retries: 0, wait, pause: wait }
    }

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    #[test]
    fn blocks_are_complete_and_shuffled() {
        let slots = draw(&NAMES, &repeat(3, 1, 10, Order::Shuffled), 7);
        assert_eq!(slots.len(), 3 * 4 * 11);
        let orders: Vec<Vec<&str>> = slots
            .chunks(4)
            .map(|block| block.iter().map(|s| s.setting.as_str()).collect())
            .collect();
        for (block, order) in slots.chunks(4).zip(&orders) {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, NAMES);
            assert!(block.iter().all(|s| (s.boot, s.block) == (block[0].boot, block[0].block)));
            assert_eq!(block[0].warmup, block[0].block == 1);
        }
        assert!(orders.iter().collect::<std::collections::BTreeSet<_>>().len() > 8, "{orders:?}");
        assert_eq!(slots, draw(&NAMES, &repeat(3, 1, 10, Order::Shuffled), 7), "by the seed");
        assert_ne!(slots, draw(&NAMES, &repeat(3, 1, 10, Order::Shuffled), 8));
    }

    #[test]
    fn every_place_in_a_block_is_as_likely() {
        let slots = draw(&NAMES, &repeat(0, 0, 4_000, Order::Shuffled), 1);
        let mut first = BTreeMap::new();
        for block in slots.chunks(4) {
            *first.entry(block[0].setting.as_str()).or_insert(0u32) += 1;
        }
        // 1000 each; five standard deviations are 137.
        assert!(first.values().all(|n| n.abs_diff(1_000) < 137), "{first:?}");
    }

    #[test]
    fn other_orders_follow_the_plan() {
        let names = |order| -> String {
            let slots = draw(&["a", "b"], &repeat(0, 1, 2, order), 0);
            slots
                .iter()
                .map(|s| if s.warmup { s.setting.to_uppercase() } else { s.setting.clone() })
                .collect()
        };
        assert_eq!(names(Order::AsWritten), "ABabab");
        assert_eq!(names(Order::Grouped), "AaaBbb");
    }

    proptest! {
        #[test]
        fn each_cell_is_full_once(
            boots in 0u32..4, warmup in 0u32..3, runs in 1u32..5, n in 1usize..5, seed: u64,
            order in prop_oneof![Just(Order::Shuffled), Just(Order::AsWritten), Just(Order::Grouped)],
        ) {
            let slots = draw(&NAMES[..n], &repeat(boots, warmup, runs, order), seed);
            let mut seen = std::collections::BTreeSet::new();
            for (i, s) in slots.iter().enumerate() {
                prop_assert_eq!(s.index as usize, i);
                prop_assert!(seen.insert((s.boot, s.setting.clone(), s.warmup, s.number)));
                let most = if s.warmup { warmup } else { runs };
                prop_assert!(s.number <= most);
            }
            prop_assert_eq!(slots.len(), (boots.max(1) * (warmup + runs)) as usize * n);
        }
    }
}
