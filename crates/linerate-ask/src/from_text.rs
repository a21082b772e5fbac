//! Values of data as the command line takes them: a text, or a number.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::value::{BitRateOrMax, Count, Cpus, Dscp, RateOrMax, Size};

/// A text as the command line takes it, or a number.
pub(crate) fn text<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    struct Scalar;

    impl Visitor<'_> for Scalar {
        type Value = String;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a text or a number")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
            match u64::try_from(number) {
                Ok(number) => Ok(number.to_string()),
                Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &"nothing below zero")),
            }
        }
    }

    from.deserialize_any(Scalar)?.parse().map_err(D::Error::custom)
}

/// The same where nothing need be said.
pub(crate) fn some<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    text(from).map(Some)
}

macro_rules! read_from_text {
    ($($name:ty),*) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                text(from)
            }
        }
    )*};
}

read_from_text!(RateOrMax, BitRateOrMax, Count, Size, Cpus, Dscp);
