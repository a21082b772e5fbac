//! Values as iperf3's JSON has them: keys in any case and once only, negative numbers
//! also as 2^64 less, whole doubles without a point.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A key in lower case, as the parser of iperf3 compares them.
pub(super) struct Key(pub(super) String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut key = String::deserialize(deserializer)?;
        key.make_ascii_lowercase();
        Ok(Self(key))
    }
}

/// Reads the value that is next into `slot`. A second member of that name is refused: readers differ in
/// which of two they believe. `null` (which stands for a number that is none) counts as absent.
pub(super) fn once<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut A,
    slot: &mut Option<T>,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(A::Error::custom("a key stands there twice"));
    }
    *slot = map.next_value::<Option<T>>()?;
    Ok(())
}

/// A whole number. Releases before 3.14 print negative ones as unsigned 64-bit numbers; what
/// does not fit saturates, as in iperf3. A fraction is refused: nobody means 1.5 streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole(pub(super) i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Whole, E> {
                Ok(Whole(value.cast_signed()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Whole, E> {
                if value.fract() != 0.0 {
                    return Err(E::custom(format!("{value} is no whole number")));
                }
                // 2^64 - 1 as the nearest double.
                const WRAPPED: f64 = 18_446_744_073_709_551_615.0;
                Ok(Whole(if value == WRAPPED { -1 } else { value as i64 }))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A switch: `true`, or any number, whose presence alone says yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or a number")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Flag, E> {
                Ok(Flag(value))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Flag, E> {
                Ok(Flag(true))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Flag, E> {
                Ok(Flag(true))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Flag, E> {
                Ok(Flag(true))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A double, written without a point when it is whole. JSON has no other than finite ones.
pub(super) struct Real(pub(super) f64);

impl Serialize for Real {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Doubles below this are exact as whole numbers.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if self.0.fract() == 0.0 && self.0.abs() < EXACT {
            serializer.serialize_i64(self.0 as i64)
        } else if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<i64> {
        serde_json::from_str::<Whole>(text).ok().map(|w| w.0)
    }

    #[test]
    fn numbers_of_every_release() {
        assert_eq!(whole("18446744073709551615"), Some(-1));
        assert_eq!(whole("1.8446744073709552e19"), Some(-1));
        assert_eq!(whole("-1"), Some(-1));
        assert_eq!(whole("2.9"), None);
        assert_eq!(whole("2.0"), Some(2));
        assert_eq!(whole("1e999"), None);
        assert_eq!(whole("1e300"), Some(i64::MAX));
        assert_eq!(whole("-1e300"), Some(i64::MIN));
        assert_eq!(whole("18446744073709551616000"), Some(i64::MAX));
        for wrong in ["\"1\"", "true", "[]", "{}", "null", "NaN"] {
            assert_eq!(whole(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn doubles_are_written_as_cjson_does() {
        let text = |value| serde_json::to_string(&Real(value)).unwrap();
        assert_eq!(text(0.0), "0");
        assert_eq!(text(1.000_148), "1.000148");
        assert_eq!(text(-3.0), "-3");
        assert_eq!(text(f64::NAN), "null");
        assert_eq!(text(0.000_125), "0.000125");
    }
}
