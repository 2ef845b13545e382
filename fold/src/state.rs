//! The text in which results are stored: JSON without white space, with a version. Keys come in a
//! fixed order and doubles in the shortest form that reads back as the same double, so that equal
//! results have equal texts.
//!
//! A state can be older than its events: those of an expired day are gone, and it can never be folded again. So every
//! version that was ever written stays readable. [`Versions`] has for each older version a function that turns its JSON
//! into that of the next; they are applied one after the other, and only the newest is read into types. To change what is
//! stored, add a module `versions/vN.rs` for what is written today, with its upgrade, and a golden text of it.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{FoldError, Result};

/// Turns the JSON of a state into that of the next version, or says what is wrong with it.
pub(crate) type Upgrade = fn(Value) -> Result<Value, String>;

/// The versions of a state.
pub(crate) struct Versions {
    /// Of what the state is.
    pub(crate) what: &'static str,
    /// The oldest version that there was.
    pub(crate) oldest: u32,
    /// How each version becomes the next, from the oldest on.
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
    /// The version that is written.
    pub(crate) const fn current(&self) -> u32 {
        self.oldest + self.upgrades.len() as u32
    }

    /// Whether a text is of the version that is written.
    pub(crate) fn is_current(&self, text: &str) -> bool {
        text.starts_with(&format!("{{\"v\":{},", self.current()))
    }

    /// The text of a state, which must be made of strings and finite numbers.
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

/// For a version whose states are also states of the next one.
pub(crate) fn as_it_is(state: Value) -> Result<Value, String> {
    Ok(state)
}

/// What a field holds that is absent because there was nothing to say. One that an older version did not have is null,
/// which its upgrade writes.
pub(crate) fn nothing<T: Default>() -> Option<T> {
    Some(T::default())
}

/// Whether a field says nothing, and is left out.
pub(crate) fn is_nothing<T: Default + PartialEq>(field: &Option<T>) -> bool {
    *field == nothing()
}

/// Whether a count is of nothing, and is left out.
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
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
