//! The text in which results are stored: JSON without white space, with a version. Keys come in a
//! fixed order and doubles in the shortest form that reads back as the same double, so that equal
//! results have equal texts.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{FoldError, Result};

#[derive(Serialize)]
struct Versioned<'a, T> {
    v: u32,
    #[serde(flatten)]
    state: &'a T,
}

/// The text of a state, which must be made of strings and finite numbers.
pub(crate) fn write<T: Serialize>(version: u32, state: &T) -> String {
    serde_json::to_string(&Versioned { v: version, state }).expect("maps with text keys become JSON")
}

/// The version of a state.
pub(crate) fn version(what: &'static str, text: &str) -> Result<u32> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let version: Result<Version, _> = serde_json::from_str(text);
    version.map(|version| version.v).map_err(|error| FoldError::State { what, why: error.to_string() })
}

/// Reads a state of the version `known`; the reader of the version comes first, because another
/// version may look entirely different.
pub(crate) fn read<T: DeserializeOwned>(what: &'static str, known: u32, text: &str) -> Result<T> {
    read_since(what, known..=known, text)
}

/// The same, of any of the versions `known`: what the older ones lack has a default.
pub(crate) fn read_since<T: DeserializeOwned>(
    what: &'static str,
    known: RangeInclusive<u32>,
    text: &str,
) -> Result<T> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let wrong = |why: String| FoldError::State { what, why };
    let version: Version = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if version.v < *known.start() {
        return Err(wrong(format!("version {} is of an older Almanac; rebuild the projections", version.v)));
    }
    if version.v > *known.end() {
        return Err(wrong(format!("version {} was written by a newer Almanac; update this one", version.v)));
    }
    serde_json::from_str(text).map_err(|error| wrong(error.to_string()))
}

/// A day as text, where there is one.
pub(crate) mod day {
    use event::Day;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(day: &Option<Day>, to: S) -> Result<S::Ok, S::Error> {
        match day {
            Some(day) => to.collect_str(day),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Day>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}
