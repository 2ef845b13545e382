//! Serde form of digests of 64 bits: 16 hexadecimal digits, since numbers of items hold no such number exactly.

use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer>(digest: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{digest:016x}"))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    u64::from_str_radix(&String::deserialize(from)?, 16).map_err(de::Error::custom)
}
