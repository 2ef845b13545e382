//! Serde forms of the types that are written as text: as people write them.

use std::str::FromStr;

use crate::{Day, Error, Id, Kind, Timestamp, Window};

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::from_name(name).ok_or_else(|| Error::invalid(format!("one of {}, not `{name}`", known())))
    }
}

/// Writes types as their text, and reads them from it, with serde. They need `Display` and `FromStr`.
#[macro_export]
macro_rules! serde_as_text {
    ($($of:ty),*) => {$(
        impl ::serde::Serialize for $of {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> ::std::result::Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $of {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> ::std::result::Result<Self, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    )*};
}

serde_as_text!(Day, Id, Kind, Timestamp, Window);
