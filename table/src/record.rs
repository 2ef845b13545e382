//! Records: serde types as items and as values of attributes.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use event::Result;
use serde::{
    Deserializer, Serialize, Serializer,
    de::{
        DeserializeOwned, IntoDeserializer, Visitor,
        value::{BorrowedStrDeserializer, Error, MapAccessDeserializer, MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value as Json;

use crate::{
    Item, Key,
    item::{Number, Value},
};

/// Magnitudes of numbers with a fraction that both engines keep exactly.
const KEPT: std::ops::Range<f64> = 1e-100..1e100;

/// Attributes of items that are no fields of their records.
const OF_ITEM: [&str; 3] = ["v", "GSI1PK", "GSI1SK"];

impl Item {
    /// Creates the item of a record, with an attribute for each of its fields that is not `None`, and the version of its form.
    pub fn record(key: Key, version: i64, record: &impl Serialize) -> Self {
        let attributes = match Value::record(record) {
            Value::M(attributes) => attributes,
            other => [("value".to_owned(), other)].into(),
        };
        Self { key, attributes }.with("v", version)
    }

    /// Places the item in the index `GSI1`.
    #[must_use]
    pub fn indexed(self, (pk, sk): (String, String)) -> Self {
        self.with("GSI1PK", pk).with("GSI1SK", sk)
    }

    /// Reads the record that is attribute `name`; an absent one is read as an `Option` that is `None`.
    ///
    /// # Errors
    /// `Corrupt`, when it has another form, or is absent.
    pub fn field<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let value = self.attributes.get(name).unwrap_or(&Value::Null);
        value.to_record().map_err(|error| self.corrupt(format_args!("`{name}`: {error}")))
    }

    /// Reads the record of an item of this version.
    ///
    /// # Errors
    /// `Corrupt`, when it has another form.
    pub fn to_record<T: DeserializeOwned>(&self, version: i64) -> Result<T> {
        self.to_record_with(version, [])
    }

    /// Reads the record of an item of this version, with fields that its key tells.
    ///
    /// # Errors
    /// `Corrupt`, when it has another form.
    pub fn to_record_with<T: DeserializeOwned, const N: usize>(
        &self,
        version: i64,
        of_key: [(&str, &str); N],
    ) -> Result<T> {
        self.check_version(version)?;
        let of_key = of_key.map(|(name, text)| (name, Value::from(text)));
        let fields = self.attributes.iter().map(|(name, value)| (name.as_str(), value));
        let fields = fields.filter(|(name, _)| !OF_ITEM.contains(name));
        let fields = fields.chain(of_key.iter().map(|(name, value)| (*name, value)));
        T::deserialize(MapDeserializer::new(fields)).map_err(|error: Error| self.corrupt(error))
    }
}

impl Value {
    /// Creates the value of a record.
    pub fn record(record: &impl Serialize) -> Self {
        of_json(serde_json::to_value(record).expect("records are made of texts, numbers and maps by names"))
    }

    /// Reads the record of a value.
    ///
    /// # Errors
    /// An error of serde, when it has another form.
    pub fn to_record<T: DeserializeOwned>(&self) -> Parsed<T> {
        T::deserialize(self)
    }
}

/// Plain JSON. An object that names their type stands for sets and bytes: `{"$set": ["a"]}`, `{"$bytes": "AQID"}`.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let plain = |number: &Number| number.as_i64().map_or_else(|| Json::from(number.as_f64()), Json::from);
        match self {
            Self::S(text) => to.serialize_str(text),
            Self::N(number) => plain(number).serialize(to),
            Self::B(bytes) => to.collect_map([("$bytes", STANDARD.encode(bytes))]),
            Self::Bool(is_true) => to.serialize_bool(*is_true),
            Self::Null => to.serialize_unit(),
            Self::L(values) => values.serialize(to),
            Self::M(values) => values.serialize(to),
            Self::Ss(texts) => to.collect_map([("$set", texts)]),
            Self::Ns(numbers) => to.collect_map([("$set", numbers.iter().map(plain).collect::<Vec<_>>())]),
        }
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Parsed<V::Value> {
        let of_number = |number: &Number| number.as_i64().ok_or(number.as_f64());
        match self {
            Value::S(text) => visitor.visit_borrowed_str(text),
            Value::N(number) => match of_number(number) {
                Ok(whole) => visitor.visit_i64(whole),
                Err(double) => visitor.visit_f64(double),
            },
            Value::B(bytes) => visitor.visit_borrowed_bytes(bytes),
            Value::Bool(is_true) => visitor.visit_bool(*is_true),
            Value::Null => visitor.visit_unit(),
            Value::L(values) => SeqDeserializer::new(values.iter()).deserialize_any(visitor),
            Value::M(values) => entries(values).deserialize_any(visitor),
            Value::Ss(texts) => match texts.first().map(|text| text.parse()) {
                Some(Ok(double)) if texts.len() == 1 => visitor.visit_f64(double),
                _ => SeqDeserializer::new(texts.iter().map(String::as_str)).deserialize_any(visitor),
            },
            Value::Ns(numbers) => {
                SeqDeserializer::new(numbers.iter().map(Number::as_f64)).deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Parsed<V::Value> {
        match self {
            Value::Null => visitor.visit_none(),
            some => visitor.visit_some(some),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Parsed<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Parsed<V::Value> {
        match self {
            Value::S(name) => visitor.visit_enum(BorrowedStrDeserializer::new(name)),
            Value::M(values) => visitor.visit_enum(MapAccessDeserializer::new(entries(values))),
            other => other.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Result of reading a value, whose error does not name the item.
type Parsed<T> = std::result::Result<T, Error>;

type Entry<'a> = (&'a str, &'a Value);

fn entries(values: &BTreeMap<String, Value>) -> MapDeserializer<'_, impl Iterator<Item = Entry<'_>>, Error> {
    MapDeserializer::new(values.iter().map(|(name, value)| (name.as_str(), value)))
}

fn of_json(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(is_true) => Value::Bool(is_true),
        Json::String(text) => Value::S(text),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::from(whole),
            None => double(number.as_f64().unwrap_or_default()),
        },
        Json::Array(values) => Value::L(values.into_iter().map(of_json).collect()),
        Json::Object(values) => {
            let known = values.into_iter().filter(|(_, value)| !value.is_null());
            Value::M(known.map(|(name, value)| (name, of_json(value))).collect())
        }
    }
}

/// Returns a number, or the set of its text where engines would change it.
fn double(number: f64) -> Value {
    let is_kept = number.to_bits() == 0 || KEPT.contains(&number.abs());
    match Number::parse(&number.to_string()).ok().filter(|_| is_kept) {
        Some(number) => Value::N(number),
        None => Value::Ss([number.to_string()].into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Numbers {
        text: Option<String>,
        count: i64,
        numbers: Vec<f64>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        name: String,
        share: f64,
        none: Option<u32>,
        of: BTreeMap<String, Vec<i64>>,
    }

    proptest! {
        #[test]
        fn records_round_trip(
            text: Option<String>,
            count: i64,
            numbers in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO, 0..9),
        ) {
            let record = Numbers { text, count, numbers };
            let item = Item::record(Key::new("p", "s"), 1, &record);
            let read: Numbers = item.to_record(1).unwrap();
            let bits = |record: &Numbers| record.numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&read), bits(&record));
            prop_assert_eq!(read, record);
            prop_assert!(crate::check::check_item(&item).is_ok());
        }
    }

    #[test]
    fn other_versions_and_values_are_named() {
        let item =
            Item::record(Key::new("p", "s"), 1, &Numbers { text: None, count: 3, numbers: Vec::new() });
        let wrong = item.to_record::<Numbers>(2).unwrap_err().to_string();
        assert!(wrong.contains("version 1"), "{wrong}");
        let wrong = item.clone().with("count", "three").to_record::<Numbers>(1).unwrap_err().to_string();
        assert!(wrong.starts_with("item p / s: invalid type: string \"three\""), "{wrong}");
        // A list with a value that cannot be read is not a shorter list.
        let bytes = Value::L(vec![Value::from(1), Value::B(vec![1])]);
        let wrong = item.with("numbers", bytes).to_record::<Numbers>(1).unwrap_err().to_string();
        assert!(wrong.contains("invalid type: byte array"), "{wrong}");
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let of = BTreeMap::from([("a".to_owned(), vec![1, 2])]);
        let record = |share| Record { name: "x".into(), share, none: None, of: of.clone() };
        for share in [0.1, 3.0, -1e100, 0.0, f64::MAX, f64::MIN_POSITIVE] {
            let item = Item::record(Key::new("p", "s"), 2, &record(share));
            assert_eq!((item.text("name").unwrap(), item.attributes.contains_key("none")), ("x", false));
            assert_eq!(item.to_record::<Record>(2).unwrap(), record(share));
            assert!(item.to_record::<Record>(1).is_err());
            assert!(item.with("name", 3).to_record::<Record>(2).is_err());
        }
    }
}
