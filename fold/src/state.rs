//! The text in which results are stored: JSON without white space, with the version of its form. Keys come in a
//! fixed order and doubles in the shortest form that reads back as the same double, so that equal
//! results have equal texts.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{FoldError, Result};

/// Version of the states that are written.
///
/// It covers the choice of the names that a part keeps: the hash of names ([`crate::hash`]), the budgets, and the
/// weights of values. When one of them changes, folding the same events keeps other names, so the version must change
/// as well.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    v: u32,
    #[serde(flatten)]
    state: &'a T,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// Writes the text of a state, which must be made of strings and finite numbers.
pub(crate) fn write<T: Serialize>(state: &T) -> String {
    serde_json::to_string(&Versioned { v: VERSION, state }).expect("maps with text keys become JSON")
}

/// Beginning of the text of each state.
const BEGINS: &str = "{\"v\":1,";

/// Reads a state; `what` names it in errors.
pub(crate) fn read<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T> {
    let wrong = |why: String| FoldError::State { what, why };
    let broken = |error: serde_json::Error| wrong(error.to_string());
    if text.starts_with(BEGINS) {
        return serde_json::from_str(text).map_err(broken);
    }
    // Another version may look entirely different.
    let Version { v } = serde_json::from_str(text).map_err(broken)?;
    Err(wrong(format!("its form is version {v}, this Almanac knows {VERSION}")))
}

/// True if a field has its default, and is left out.
pub(crate) fn is_default<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

/// Optional day as text.
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
