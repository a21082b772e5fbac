//! What differs between two profiles of a host, and what of that is more than chance.

use linerate_model::profile::{Difference, HostProfile, Layer, LayerDifference, LayerShare};
use linerate_stats::offline::distribution::normal_sf;
use linerate_stats::offline::holm;

/// A difference is called real where chance makes one as large in fewer cases than this.
const LEVEL: f64 = 0.05;

/// What is known of a layer in one profile.
#[derive(Clone, Copy)]
struct One {
    samples: f64,
    share: f64,
    cost: Option<f64>,
}

/// Compares two profiles of a host: the shares of their layers (two proportions, pooled) and, where both have them, the
/// costs (two counts of Poisson's kind). The chance of each layer is the lesser of the two, doubled, and those of all
/// layers are adjusted by Holm's way.
pub fn difference(first: &HostProfile, second: &HostProfile) -> Difference {
    let busy = |host: &HostProfile| host.layers.iter().map(|one| one.samples as f64).sum::<f64>();
    let n = [busy(first), busy(second)];
    let units = [first.work, second.work].map(|work| work.map(|work| work.unit));
    let unit = if units[0] == units[1] { units[0] } else { None };
    let mut found: Vec<LayerDifference> = Layer::ALL
        .iter()
        .filter(|layer| **layer != Layer::Idle)
        .filter_map(|layer| {
            let of = |host: &HostProfile| host.layers.iter().find(|l| l.layer == *layer).cloned();
            let both = [of(first), of(second)];
            let seen = both.iter().any(Option::is_some);
            seen.then(|| of_layer(*layer, &both, [first, second], n, unit.is_some()))
        })
        .collect();
    let adjusted = holm::adjust(&found.iter().map(|one| one.p_adjusted).collect::<Vec<_>>());
    for (one, p) in found.iter_mut().zip(adjusted) {
        one.p_adjusted = p;
        one.differs = p < LEVEL;
    }
    let change = |one: &LayerDifference| (one.shares[1] - one.shares[0]).abs();
    found.sort_by(|a, b| change(b).total_cmp(&change(a)));
    Difference { ends: second.ends.clone(), unit, layers: found }
}

fn of_layer(
    layer: Layer,
    found: &[Option<LayerShare>; 2],
    hosts: [&HostProfile; 2],
    n: [f64; 2],
    of_one_unit: bool,
) -> LayerDifference {
    let [a, b] = [0, 1].map(|side| {
        // A layer that was not seen costs nothing where costs are known.
        let costs = hosts[side].layers.iter().any(|one| one.cost.is_some());
        found[side].as_ref().map_or(
            One { samples: 0.0, share: 0.0, cost: costs.then_some(0.0) },
            |one| One { samples: one.samples as f64, share: one.share, cost: one.cost },
        )
    });
    let pooled = (a.samples + b.samples) / (n[0] + n[1]).max(1.0);
    let spread = |n: f64| if n > 0.0 { pooled * (1.0 - pooled) / n } else { f64::INFINITY };
    let share_se = (spread(n[0]) + spread(n[1])).sqrt();
    let of_shares = two_sided(b.share - a.share, share_se);
    let costs = a.cost.zip(b.cost).filter(|_| of_one_unit).map(|(a, b)| [a, b]);
    // A count of nothing is as uncertain as one of one.
    let error = |one: One, side: usize| {
        let seconds = 1.0 / f64::from(hosts[side].frequency_hz.unwrap_or(1).max(1));
        let units = hosts[side].work.map_or(f64::INFINITY, |work| work.amount);
        one.samples.max(1.0).sqrt() * seconds / units
    };
    let cost_se = costs.map(|_| error(a, 0).hypot(error(b, 1)));
    let of_costs = costs.zip(cost_se).map(|([a, b], se)| two_sided(b - a, se));
    LayerDifference {
        layer,
        shares: [a.share, b.share],
        share_se: if share_se.is_finite() { share_se } else { 0.0 },
        costs,
        cost_se,
        p_adjusted: of_costs.map_or(of_shares, |p| (2.0 * p.min(of_shares)).min(1.0)),
        differs: false,
    }
}

/// The chance of a difference of this size or larger.
fn two_sided(difference: f64, se: f64) -> f64 {
    if difference == 0.0 || se <= 0.0 || !se.is_finite() {
        return 1.0;
    }
    (2.0 * normal_sf((difference / se).abs())).min(1.0)
}

#[cfg(test)]
mod tests {
    use linerate_model::profile::{Work, WorkUnit};

    use super::super::complete;
    use super::super::tests::host;
    use super::*;

    const COPY: &str = "send-0;do_syscall_64_[k];__sys_sendto_[k];_copy_from_iter_[k]";
    const UDP: &str = "send-0;do_syscall_64_[k];__sys_sendto_[k];udp_sendmsg_[k]";

    fn of(found: &Difference, layer: Layer) -> &LayerDifference {
        found.layers.iter().find(|one| one.layer == layer).unwrap()
    }

    #[test]
    fn what_grew_is_told_with_its_chance() {
        let found =
            difference(&host(&[(COPY, 500), (UDP, 500)]), &host(&[(COPY, 600), (UDP, 400)]));
        let copy = of(&found, Layer::Copy);
        assert_eq!(copy.shares, [0.5, 0.6]);
        // Pooled share 0.55: z = 0.1 / sqrt(0.55 0.45 (1/1000 + 1/1000)) = 4.49, two-sided 7e-6.
        assert!((copy.share_se - 0.022_25).abs() < 1e-5, "{copy:?}");
        assert!(copy.differs && copy.p_adjusted < 1e-4, "{copy:?}");
        let costs = copy.costs.unwrap();
        assert!((costs[0] - 0.5).abs() < 1e-12 && (costs[1] - 0.6).abs() < 1e-12);
    }

    #[test]
    fn chance_is_not_taken_for_a_change() {
        let found =
            difference(&host(&[(COPY, 500), (UDP, 500)]), &host(&[(COPY, 515), (UDP, 495)]));
        assert!(found.layers.iter().all(|one| !one.differs), "{found:?}");
        let same = host(&[(COPY, 500), (UDP, 500)]);
        assert!(difference(&same, &same).layers.iter().all(|one| one.p_adjusted == 1.0));
    }

    #[test]
    fn twice_the_work_of_the_same_kind_shows_in_the_costs_alone() {
        let found =
            difference(&host(&[(COPY, 500), (UDP, 500)]), &host(&[(COPY, 900), (UDP, 900)]));
        let copy = of(&found, Layer::Copy);
        assert_eq!(copy.shares, [0.5, 0.5]);
        assert!(copy.differs, "{copy:?}");
    }

    #[test]
    fn costs_of_different_units_say_nothing() {
        let gbit = host(&[(COPY, 500), (UDP, 500)]);
        let work = Work { amount: 1_000.0, unit: WorkUnit::Kilotransaction };
        let transactions = complete(HostProfile { work: Some(work), ..gbit.clone() });
        let found = difference(&gbit, &transactions);
        assert_eq!((found.unit, found.layers.is_empty()), (None, false));
        assert!(found.layers.iter().all(|one| one.costs.is_none() && one.p_adjusted == 1.0));
    }

    #[test]
    fn a_layer_that_is_new_differs_and_nothing_divides_by_nothing() {
        let found = difference(&host(&[(UDP, 1_000)]), &host(&[(COPY, 200), (UDP, 800)]));
        assert!(of(&found, Layer::Copy).differs);
        let nothing = difference(&host(&[]), &host(&[(COPY, 200)]));
        let copy = of(&nothing, Layer::Copy);
        assert!(copy.share_se.is_finite() && copy.p_adjusted.is_finite(), "{copy:?}");
        assert!(difference(&host(&[]), &host(&[])).layers.is_empty());
    }
}
