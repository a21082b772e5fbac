//! A set of runs, as it comes from any input format.

use std::sync::Arc;

use linerate_stats::offline::summary::Moments;

/// The runs of one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// Shown to the user; unique within a comparison.
    pub label: String,
    /// Unit of the values, when the file says.
    pub unit: Option<String>,
    /// The runs, or what somebody printed of them.
    pub data: Data,
    /// What the reader of the file should say to the user.
    pub notes: Vec<String>,
}

/// What is known of a set.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Every value, in the order they were measured.
    Runs {
        /// At least 3, all finite; shared, because there may be millions.
        values: Arc<Vec<f64>>,
        /// To which boots they belong, if that is known.
        boots: Option<Boots>,
    },
    /// A row of somebody's table: count, average and standard deviation.
    Summary {
        /// The row.
        moments: Moments,
        /// Least and largest, when the table has them.
        range: Option<(f64, f64)>,
        /// Median, when the table has it.
        median: Option<f64>,
    },
}

/// To which boot each run belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct Boots {
    /// For each value, an index into `labels`.
    pub of: Vec<u32>,
    /// Names of the boots, in order of appearance.
    pub labels: Vec<String>,
    /// The names identify boots of a host world-wide (a kernel's boot id), so that equal names in
    /// two sets are the same boot. Plain numbers do not: boot 1 of two files may be two boots.
    pub identity: bool,
}

impl Boots {
    /// From one label a value.
    pub fn of_labels(labels: impl IntoIterator<Item = String>, identity: bool) -> Self {
        let mut boots = Self { of: Vec::new(), labels: Vec::new(), identity };
        let mut index = std::collections::HashMap::new();
        for label in labels {
            let next = boots.labels.len() as u32;
            let at = *index.entry(label.clone()).or_insert(next);
            if at == next {
                boots.labels.push(label);
            }
            boots.of.push(at);
        }
        boots
    }

    /// The values of each boot.
    pub fn split(&self, values: &[f64]) -> Vec<Vec<f64>> {
        let mut split = vec![Vec::new(); self.labels.len()];
        for (value, boot) in values.iter().zip(&self.of) {
            if let Some(boot) = split.get_mut(*boot as usize) {
                boot.push(*value);
            }
        }
        split
    }
}

impl Set {
    /// The values, none for a summary.
    pub fn values(&self) -> &[f64] {
        match &self.data {
            Data::Runs { values, .. } => values,
            Data::Summary { .. } => &[],
        }
    }

    /// The boots, when they are known.
    pub fn boots(&self) -> Option<&Boots> {
        match &self.data {
            Data::Runs { boots, .. } => boots.as_ref(),
            Data::Summary { .. } => None,
        }
    }
}
