//! Keys of items: a partition, and a place in its order.

use std::fmt;

/// Letter that sorts after every sort key that continues the same prefix.
pub const END: char = '~';

/// The primary key of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Partition key.
    pub pk: String,
    /// Sort key within the partition, compared by UTF-8 bytes.
    pub sk: String,
}

impl Key {
    /// The key of `pk` and `sk`.
    pub fn new(pk: impl Into<String>, sk: impl Into<String>) -> Self {
        Self { pk: pk.into(), sk: sk.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.pk, self.sk)
    }
}

/// A part of one partition: sort keys from `from` to `to`, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Partition key.
    pub pk: String,
    /// The least sort key.
    pub from: String,
    /// The greatest sort key.
    pub to: String,
}

impl KeyRange {
    /// The sort keys of partition `pk` that begin with `prefix`.
    pub fn prefix(pk: impl Into<String>, prefix: &str) -> Self {
        Self { pk: pk.into(), from: prefix.to_owned(), to: format!("{prefix}{END}") }
    }
}
