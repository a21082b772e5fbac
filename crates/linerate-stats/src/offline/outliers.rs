//! Values far from the rest. They are flagged and named, never dropped: the reason for an outlier
//! is often the finding.

use super::summary::{mad, median, quantile, sorted};

/// How far a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// Beyond 1.5 interquartile ranges from the quartiles (Tukey 1977), or a modified z above 3.5
    /// (Iglewicz and Hoaglin 1993).
    Mild,
    /// Beyond 3 interquartile ranges.
    Severe,
}

/// One flagged value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// Position in the order given, from 0.
    pub index: usize,
    /// The value.
    pub value: f64,
    /// How far.
    pub grade: Grade,
    /// |x - median| / (1.4826 MAD). `None` when the MAD is 0, as with rounded data.
    pub modified_z: Option<f64>,
}

/// Flags values. Sets of fewer than 5 values have none that could be seen.
pub fn flag(values: &[f64]) -> Vec<Outlier> {
    const FEWEST: usize = 5;
    const MODIFIED_Z: f64 = 3.5;
    let ordered = sorted(values);
    let figures = (quantile(&ordered, 0.25), quantile(&ordered, 0.75), median(&ordered));
    let (Some(q1), Some(q3), Some(middle)) = figures else { return Vec::new() };
    if values.len() < FEWEST {
        return Vec::new();
    }
    let range = q3 - q1;
    let scale = mad(&ordered).filter(|s| *s > 0.0);
    let far = |x: f64, k: f64| x < q1 - k * range || x > q3 + k * range;
    let grade = |x: f64, z: Option<f64>| {
        // With half of the values equal the range is 0 and everything else would be "severe".
        if range > 0.0 && far(x, 3.0) {
            Some(Grade::Severe)
        } else if (range > 0.0 && far(x, 1.5)) || z.is_some_and(|z| z > MODIFIED_Z) {
            Some(Grade::Mild)
        } else {
            None
        }
    };
    let check = |(index, x): (usize, &f64)| {
        let modified_z = scale.map(|s| (x - middle).abs() / s);
        grade(*x, modified_z).map(|grade| Outlier { index, value: *x, grade, modified_z })
    };
    values.iter().enumerate().filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mild_and_severe() {
        let values = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 23.0, 60.0];
        let flagged = flag(&values);
        // Quartiles 12 and 16, range 4: fences 6 .. 22 and 0 .. 28.
        let grades: Vec<_> = flagged.iter().map(|o| (o.index, o.grade)).collect();
        assert_eq!(grades, [(7, Grade::Mild), (8, Grade::Severe)]);
    }

    #[test]
    fn rounded_and_constant_data_are_not_all_outliers() {
        assert!(flag(&[5.0; 20]).is_empty());
        assert!(flag(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.1]).is_empty());
        assert!(flag(&[1.0, 100.0]).is_empty());
    }
}
