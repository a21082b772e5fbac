//! Single values of a plan, and the faults in them.

use linerate_model::units::Nanos;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{By, Entry, Reader};
use crate::campaign::plan::fault::meant;
use crate::campaign::plan::{Fault, Position, Scalar};

impl<'a> Reader<'a> {
    pub(in crate::campaign::plan) fn position(&self, spanned: &Spanned<impl Sized>) -> Position {
        Position::start(self.text, &spanned.span())
    }

    pub(in crate::campaign::plan) fn fault(&mut self, at: Position, what: impl Into<String>) {
        self.faults.push(Fault::new(at, what));
    }

    pub(super) fn hinted(
        &mut self,
        at: Position,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.faults.push(Fault::new(at, what).hint(hint));
    }

    pub(super) fn unknown(&mut self, at: Position, key: &str, place: &str, known: &[&str]) {
        let takes = || format!("{place} takes {}", known.join(", "));
        let hint = meant(key, known.iter().copied(), takes);
        self.hinted(at, format!("unknown key `{key}` in {place}"), hint);
    }

    /// The entries of a table in the order of the text.
    pub(in crate::campaign::plan) fn entries(
        &self,
        table: &'a DeTable<'a>,
    ) -> Vec<(String, Entry<'a>)> {
        let mut found: Vec<_> = table
            .iter()
            .map(|(key, value)| {
                let entry = Entry { at: self.position(key), value, by: By::Setting };
                (key.get_ref().to_string(), entry)
            })
            .collect();
        found.sort_unstable_by_key(|(_, entry)| entry.at);
        found
    }

    pub(super) fn table(&mut self, place: &str, entry: Entry<'a>) -> Option<&'a DeTable<'a>> {
        let found = entry.value.get_ref().as_table();
        if found.is_none() {
            self.fault(self.position(entry.value), format!("`{place}` is a table"));
        }
        found
    }

    pub(super) fn text_of(&mut self, key: &str, entry: Entry<'a>) -> Option<String> {
        match entry.value.get_ref().as_str() {
            Some(text) if !text.trim().is_empty() => Some(text.to_owned()),
            Some(_) => {
                self.fault(self.position(entry.value), format!("`{key}` is empty"));
                None
            }
            None => {
                let what = format!("`{key}` is a text in quotes");
                self.fault(self.position(entry.value), what);
                None
            }
        }
    }

    pub(super) fn whole(
        &mut self,
        key: &str,
        entry: Entry<'a>,
        least: u64,
        most: u64,
    ) -> Option<u64> {
        let value = entry.value.get_ref().as_integer();
        let digits = value.map(|i| (i.as_str().replace('_', ""), i.radix()));
        let number = digits.and_then(|(d, radix)| u64::from_str_radix(&d, radix).ok());
        match number.filter(|n| (least..=most).contains(n)) {
            Some(number) => Some(number),
            None => {
                let what = format!("`{key}` is a whole number from {least} to {most}");
                self.fault(self.position(entry.value), what);
                None
            }
        }
    }

    pub(super) fn time(&mut self, key: &str, entry: Entry<'a>) -> Option<Nanos> {
        let text = entry.value.get_ref().as_str();
        match text.and_then(|t| t.parse::<Nanos>().ok()) {
            Some(time) => Some(time),
            None => {
                let what = format!("`{key}` is a time in quotes, such as \"10s\" or \"2m\"");
                self.fault(self.position(entry.value), what);
                None
            }
        }
    }

    pub(in crate::campaign::plan) fn scalar(
        &mut self,
        key: &str,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Option<Scalar> {
        let at = self.position(value);
        match value.get_ref() {
            DeValue::Boolean(b) => Some(Scalar::Bool(*b)),
            DeValue::String(text) => Some(Scalar::Text(text.to_string())),
            DeValue::Integer(i) => {
                let number = i64::from_str_radix(&i.as_str().replace('_', ""), i.radix());
                if number.is_err() {
                    self.fault(at, format!("`{key}` does not fit into 64 bits"));
                }
                number.ok().map(Scalar::Integer)
            }
            DeValue::Float(x) => {
                let number = x.as_str().replace('_', "").parse().ok();
                let number = number.filter(|x: &f64| x.is_finite());
                if number.is_none() {
                    self.fault(at, format!("`{key}` is not a finite number"));
                }
                number.map(Scalar::Float)
            }
            DeValue::Array(items) => {
                let items: Option<Vec<Scalar>> =
                    items.iter().map(|item| self.scalar(key, item)).collect();
                items.map(Scalar::List)
            }
            DeValue::Table(_) => {
                self.fault(at, format!("`{key}` is no table"));
                None
            }
            DeValue::Datetime(_) => {
                self.fault(at, format!("`{key}` is no date"));
                None
            }
        }
    }
}
