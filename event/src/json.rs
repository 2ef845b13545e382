//! Days, instants and ids in JSON: the texts that they display.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Day, Id, Timestamp};

macro_rules! as_text {
    ($($type:ty: $parse:expr),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }
    )*};
}

as_text!(Day: str::parse::<Day>, Timestamp: Timestamp::parse, Id: Id::parse);
