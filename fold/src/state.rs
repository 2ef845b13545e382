//! Text in which results are stored: JSON without white space, with a version. Keys come in a fixed order and doubles
//! in the shortest form that reads back as the same double, so that equal results have equal texts.
//!
//! A state can outlive its events: those of an expired day are gone, and it can never be folded again. So every
//! version ever written stays readable. [`Versions`] has for each older version a function that turns its JSON into
//! that of the next; they are applied one after the other, and only the newest is read into types. To change the
//! stored form, add a module `versions/vN.rs` for the current version, with its upgrade, and a golden text of it.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{FoldError, Result};

/// Turns the JSON of a state into that of the next version, or returns an error message.
pub(crate) type Upgrade = fn(Value) -> Result<Value, String>;

/// Versions of a state.
pub(crate) struct Versions {
    /// Type of the state.
    pub(crate) what: &'static str,
    /// Oldest version ever written.
    pub(crate) oldest: u32,
    /// Upgrades of each version to the next, from the oldest on.
    pub(crate) upgrades: &'static [Upgrade],
}

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

impl Versions {
    /// Returns the version that is written.
    pub(crate) const fn current(&self) -> u32 {
        self.oldest + self.upgrades.len() as u32
    }

    /// Returns whether a text is of the version that is written.
    pub(crate) fn is_current(&self, text: &str) -> bool {
        text.starts_with(&format!("{{\"v\":{},", self.current()))
    }

    /// Returns the text of a state, which must be made of strings and finite numbers.
    pub(crate) fn write<T: Serialize>(&self, state: &T) -> String {
        let versioned = Versioned { v: self.current(), state };
        serde_json::to_string(&versioned).expect("maps with text keys become JSON")
    }

    /// Reads a state of any version.
    pub(crate) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        let wrong = |why: String| FoldError::State { what: self.what, why };
        let broken = |error: serde_json::Error| wrong(error.to_string());
        if self.is_current(text) {
            return serde_json::from_str(text).map_err(broken);
        }
        // The version comes first: another one may look entirely different.
        let Version { v } = serde_json::from_str(text).map_err(broken)?;
        if v > self.current() {
            return Err(wrong(format!("version {v} was written by a newer Almanac; update this one")));
        }
        let Some(first) = v.checked_sub(self.oldest) else {
            return Err(wrong(format!("version {v} was never written")));
        };
        let state = serde_json::from_str::<Value>(text).map_err(broken)?;
        let mut upgrades = self.upgrades.iter().skip(first as usize);
        let state = upgrades.try_fold(state, |state, upgrade| upgrade(state)).map_err(wrong)?;
        serde_json::from_value(state).map_err(broken)
    }
}

/// Keeps a state that is also valid in the next version.
pub(crate) fn as_it_is(state: Value) -> Result<Value, String> {
    Ok(state)
}

/// Returns the value of an absent field, which is empty. A field that an older version lacks is null instead, written
/// by its upgrade.
pub(crate) fn nothing<T: Default>() -> Option<T> {
    Some(T::default())
}

/// Returns whether a field is empty, and is left out.
pub(crate) fn is_nothing<T: Default + PartialEq>(field: &Option<T>) -> bool {
    *field == nothing()
}

/// Returns whether a count is zero, and is left out.
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
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
