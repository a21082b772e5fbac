//! Every statistic of this module, with unit and source. Documents are made from this list.

/// One statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// As reports name it.
    pub name: &'static str,
    /// Unit; "value" stands for the unit of the measured values.
    pub unit: &'static str,
    /// Where the method is defined.
    pub source: &'static str,
}

const fn entry(name: &'static str, unit: &'static str, source: &'static str) -> Entry {
    Entry { name, unit, source }
}

/// The list.
pub const CATALOG: &[Entry] = &[
    entry("mean", "value", "arithmetic mean, compensated sum (Neumaier 1974)"),
    entry("sd", "value", "two-pass, n - 1 (Chan, Golub and LeVeque 1983)"),
    entry("median", "value", "mean of the two middle values of an even count"),
    entry("quartiles", "value", "type 7 (Hyndman and Fan 1996)"),
    entry("median interval", "value", "order statistics, binomial"),
    entry("mad", "value", "median absolute deviation x 1.4826"),
    entry("trimmed mean", "value", "20 % of each end (Yuen 1974)"),
    entry("mean interval", "value", "Student 1908; on boot means when boots are known"),
    entry("welch difference", "value", "Welch 1947, Satterthwaite 1946"),
    entry("pooled difference", "value", "Student 1908"),
    entry("between_sd", "value", "analysis of variance (Searle, Casella and McCulloch 1992)"),
    entry("within_sd", "value", "analysis of variance (Searle, Casella and McCulloch 1992)"),
    entry("icc", "ratio", "B / (B + W), Fisher 1925"),
    entry("boot effect", "p value", "F = MSB / MSW, Fisher 1925"),
    entry("paired difference", "value", "Student 1908, on differences of boot means"),
    entry("ratio interval", "ratio", "Fieller 1954"),
    entry("equivalence", "p value", "two one-sided tests (Schuirmann 1987; Sasabuchi 1988)"),
    entry("dunnett", "p value", "Dunnett 1955"),
    entry("holm", "p value", "Holm 1979"),
    entry("bartlett", "p value", "Bartlett 1937"),
    entry("mann-whitney", "p value", "Mann and Whitney 1947, exact with ties by counting"),
    entry("cliff's delta", "ratio", "Cliff 1993"),
    entry("hodges-lehmann shift", "value", "Hodges and Lehmann 1963"),
    entry("hedges' g", "ratio", "Hedges 1981"),
    entry("bootstrap interval", "value", "BCa, Efron 1987"),
    entry("outliers", "values", "Tukey 1977; Iglewicz and Hoaglin 1993"),
    entry("modes", "count", "widest gap with Ashman's D >= 5 (Ashman, Bird and Zepf 1994)"),
    entry("drift", "value", "least squares on the run index, t test of the slope"),
    entry("warm-up", "runs", "PELT (Killick, Fearnhead and Eckley 2012), penalty 3 ln n"),
    entry("warm-up cross-check", "runs", "MSER-5 (White 1997)"),
    entry("autocorrelation", "ratio", "lag 1 (Box and Jenkins 1970)"),
    entry("smallest effect", "value", "noncentral t, 80 % power (Cohen 1988)"),
    entry("runs needed", "runs", "Cochran 1977; Kalibera and Jones 2013"),
    entry("ministat", "value", "FreeBSD ministat(1), classic and modern"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statistic_has_a_name_of_its_own_a_unit_and_a_source() {
        for (i, e) in CATALOG.iter().enumerate() {
            assert!(!e.unit.is_empty() && !e.source.is_empty(), "{}", e.name);
            assert!(CATALOG.iter().skip(i + 1).all(|o| o.name != e.name), "{} twice", e.name);
        }
    }

    /// A method that is added must be listed: every file but this one and the distributions stands
    /// for at least one entry.
    #[test]
    fn the_list_is_as_long_as_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/offline");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert!(CATALOG.len() + 3 >= files, "{files} files, {} entries", CATALOG.len());
    }
}
