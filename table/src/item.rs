//! An item: named attributes under a key, in the value types that DynamoDB and SQLite share.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use event::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::Key;

/// Maximum bytes of an item: names and values together, as DynamoDB counts them.
pub const MAX_ITEM_BYTES: usize = 400 * 1024;

/// Number, stored as its shortest decimal text, as DynamoDB stores it. In a record it is a text, which holds any double.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Number(String);

impl Number {
    /// Parses a number.
    ///
    /// # Errors
    /// `Invalid`, when it is not a finite number.
    pub fn parse(text: &str) -> Result<Self> {
        match text.parse::<i64>() {
            Ok(whole) => Ok(Self(whole.to_string())),
            Err(_) => match text.parse::<f64>() {
                // Negative zero is zero: there is only one.
                Ok(number) if number.is_finite() => Ok(Self((number + 0.0).to_string())),
                _ => Err(Error::invalid(format!("`{text}` is not a number that can be stored"))),
            },
        }
    }

    /// The nearest double.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// Whole number, when it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    fn size(&self) -> usize {
        self.0.len() / 2 + 2
    }

    /// Its decimal text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Number {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    S(String),
    /// Number.
    N(Number),
    /// Bytes.
    B(Vec<u8>),
    /// True or false.
    Bool(bool),
    /// Present, without a value.
    Null,
    /// List.
    L(Vec<Value>),
    /// Map.
    M(BTreeMap<String, Value>),
    /// Set of texts, at least one.
    Ss(BTreeSet<String>),
    /// Set of numbers, at least one.
    Ns(BTreeSet<Number>),
}

impl Value {
    /// Bytes that the value takes, as DynamoDB counts them.
    pub fn size(&self) -> usize {
        match self {
            Value::S(text) => text.len(),
            Value::N(number) => number.size(),
            Value::B(bytes) => bytes.len(),
            Value::Bool(_) | Value::Null => 1,
            Value::L(values) => 3 + values.iter().map(|value| 1 + value.size()).sum::<usize>(),
            Value::M(values) => {
                3 + values.iter().map(|(name, value)| 1 + name.len() + value.size()).sum::<usize>()
            }
            Value::Ss(texts) => texts.iter().map(String::len).sum(),
            Value::Ns(numbers) => numbers.iter().map(Number::size).sum(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::S(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::S(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::N(number.into())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Value::B(bytes)
    }
}

impl From<Vec<Value>> for Value {
    fn from(values: Vec<Value>) -> Self {
        Value::L(values)
    }
}

impl From<BTreeMap<String, Value>> for Value {
    fn from(values: BTreeMap<String, Value>) -> Self {
        Value::M(values)
    }
}

/// Named attributes under a key. The attributes exclude `PK` and `SK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Key of the item.
    pub key: Key,
    /// Attributes. `GSI1PK` and `GSI1SK`, `board` and `score` place it in an index; it expires at `expires_at` (seconds since
    /// 1970).
    pub attributes: BTreeMap<String, Value>,
}

impl Item {
    /// Creates an item without attributes.
    pub fn new(key: Key) -> Self {
        Self { key, attributes: BTreeMap::new() }
    }

    /// Sets attribute `name`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.to_owned(), value.into());
        self
    }

    /// Bytes that the item takes, as DynamoDB counts them.
    pub fn size(&self) -> usize {
        let key = 4 + self.key.pk.len() + self.key.sk.len();
        key + self.attributes.iter().map(|(name, value)| name.len() + value.size()).sum::<usize>()
    }

    /// The text of attribute `name`.
    ///
    /// # Errors
    /// `Corrupt`, when it is absent or not text.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.attributes.get(name) {
            Some(Value::S(text)) => Ok(text),
            other => Err(self.unexpected(name, "text", other)),
        }
    }

    /// The text of attribute `name`, if it is there.
    pub fn optional_text(&self, name: &str) -> Option<&str> {
        self.text(name).ok()
    }

    /// The whole number of attribute `name`.
    ///
    /// # Errors
    /// `Corrupt`, when it is absent or not a whole number.
    pub fn int(&self, name: &str) -> Result<i64> {
        match self.attributes.get(name) {
            Some(Value::N(number)) if number.as_i64().is_some() => Ok(number.as_i64().unwrap_or_default()),
            other => Err(self.unexpected(name, "a whole number", other)),
        }
    }

    /// The bytes of attribute `name`.
    ///
    /// # Errors
    /// `Corrupt`, when it is absent or not bytes.
    pub fn bytes(&self, name: &str) -> Result<&[u8]> {
        match self.attributes.get(name) {
            Some(Value::B(bytes)) => Ok(bytes),
            other => Err(self.unexpected(name, "bytes", other)),
        }
    }

    /// Takes the bytes of attribute `name` out of the item; `None`, when it is absent.
    ///
    /// # Errors
    /// `Corrupt`, when it is not bytes.
    pub fn take_bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.attributes.remove(name) {
            None => Ok(None),
            Some(Value::B(bytes)) => Ok(Some(bytes)),
            other => Err(self.unexpected(name, "bytes", other.as_ref())),
        }
    }

    /// The list of attribute `name`.
    ///
    /// # Errors
    /// `Corrupt`, when it is absent or not a list.
    pub fn list(&self, name: &str) -> Result<&[Value]> {
        match self.attributes.get(name) {
            Some(Value::L(values)) => Ok(values),
            other => Err(self.unexpected(name, "a list", other)),
        }
    }

    /// The map of attribute `name`.
    ///
    /// # Errors
    /// `Corrupt`, when it is absent or not a map.
    pub fn map(&self, name: &str) -> Result<&BTreeMap<String, Value>> {
        match self.attributes.get(name) {
            Some(Value::M(values)) => Ok(values),
            other => Err(self.unexpected(name, "a map", other)),
        }
    }

    /// Demands that attribute `v`, the version of the item's form, is `known`.
    ///
    /// # Errors
    /// `Corrupt`, when it is another one.
    pub fn check_version(&self, known: i64) -> Result<()> {
        match self.int("v")? {
            version if version == known => Ok(()),
            version => Err(self.corrupt(format_args!(
                "its form is version {version}, this Almanac knows {known}; use the one that wrote it, or a newer one"
            ))),
        }
    }

    /// Error that names this item and its fault.
    pub fn corrupt(&self, what: impl fmt::Display) -> Error {
        Error::corrupt(format!("item {}: {what}", self.key))
    }

    fn unexpected(&self, name: &str, wanted: &str, found: Option<&Value>) -> Error {
        let found = match found {
            None => "is absent",
            Some(_) => "has another type",
        };
        self.corrupt(format_args!("attribute `{name}` should be {wanted}, but {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stay_exact_and_invalid_numbers_are_refused() {
        assert_eq!(Number::parse("9223372036854775807").unwrap().as_i64(), Some(i64::MAX));
        assert_eq!(Number::parse("007").unwrap().as_str(), "7");
        assert_eq!(Number::parse("0.1").unwrap().as_f64(), 0.1);
        assert_eq!(Number::parse("-0.0").unwrap().as_str(), "0");
        assert!(Number::parse("inf").is_err());
        assert!(Number::parse("x").is_err());
    }

    #[test]
    fn a_missing_attribute_is_named() {
        let item = Item::new(Key::new("w#1", "m#2")).with("n", 3);
        assert_eq!(item.int("n").unwrap(), 3);
        assert_eq!(
            item.text("name").unwrap_err().to_string(),
            "item w#1 / m#2: attribute `name` should be text, but is absent"
        );
    }
}
