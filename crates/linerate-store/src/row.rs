//! Rows and their checksums.

use linerate_model::campaign::{RunState, StoredRun};
use sha2::{Digest as _, Sha256};

/// A checksum.
pub(crate) type Sum = [u8; 32];

/// SHA-256 of the table's name and the columns, each after its length, so that no two lists of
/// columns have the same bytes.
pub(crate) fn sum(table: &str, columns: &[&[u8]]) -> Sum {
    let mut digest = Sha256::new();
    for part in std::iter::once(table.as_bytes()).chain(columns.iter().copied()) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// The columns of a run beside its body, as they are summed.
pub(crate) fn run_sum(id: i64, run: &RunRow) -> Sum {
    let value = run.value.map(|v| v.to_bits().to_le_bytes());
    sum(
        "run",
        &[
            &id.to_le_bytes(),
            &run.slot.to_le_bytes(),
            run.state.as_bytes(),
            run.setting.as_bytes(),
            &run.boot.to_le_bytes(),
            &[u8::from(run.warmup)],
            &[u8::from(value.is_some())],
            &value.unwrap_or_default(),
            run.body.as_bytes(),
            &[u8::from(run.record.is_some())],
            run.record.as_deref().unwrap_or_default().as_bytes(),
        ],
    )
}

/// A run as it lies in its table. The columns beside `body` are there for those who look into the
/// file with other tools.
pub(crate) struct RunRow {
    pub slot: i64,
    pub state: String,
    pub setting: String,
    pub boot: i64,
    pub warmup: bool,
    pub value: Option<f64>,
    /// JSON of the run without its record.
    pub body: String,
    pub record: Option<String>,
}

impl RunRow {
    pub(crate) fn of(run: &StoredRun) -> Result<Self, serde_json::Error> {
        let record = run.record.clone();
        let body = serde_json::to_string(&StoredRun { record: None, ..run.clone() })?;
        Ok(Self {
            slot: i64::from(run.slot),
            state: run.state.name().to_owned(),
            setting: run.setting.clone(),
            boot: i64::from(run.boot),
            warmup: run.warmup,
            // SQLite has no NaN; such a value is none.
            value: run.value.filter(|v| v.is_finite()),
            body,
            record,
        })
    }

    pub(crate) fn run(self) -> Result<StoredRun, String> {
        parsed(&self.state, &self.body, self.record)
    }
}

/// The run of a row.
pub(crate) fn parsed(state: &str, body: &str, record: Option<String>) -> Result<StoredRun, String> {
    let run = StoredRun::from_json(body.as_bytes()).map_err(|e| e.to_string())?;
    if RunState::of(state) != Some(run.state) {
        return Err(format!("state `{state}`"));
    }
    Ok(StoredRun { record, ..run })
}

pub(crate) fn head_sum(slots: i64, events: i64, runs: i64) -> Sum {
    sum("head", &[&slots.to_le_bytes(), &events.to_le_bytes(), &runs.to_le_bytes()])
}
