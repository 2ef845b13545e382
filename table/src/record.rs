//! Records: serde types as items and as values of attributes.

use event::Result;
use serde::{Serialize, de::DeserializeOwned};
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

    /// Reads the record of an item of this version.
    ///
    /// # Errors
    /// `Corrupt`, when it has another form.
    pub fn to_record<T: DeserializeOwned>(&self, version: i64) -> Result<T> {
        self.check_version(version)?;
        let fields = self.attributes.iter().filter(|(name, _)| !OF_ITEM.contains(&name.as_str()));
        let fields = fields.map(|(name, value)| Some((name.clone(), value.to_json()?)));
        let fields = fields.collect::<Option<_>>();
        let fields = fields.ok_or_else(|| self.corrupt("it has values that no record has"))?;
        serde_json::from_value(Json::Object(fields)).map_err(|error| self.corrupt(error))
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
    pub fn to_record<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        let wrong = || serde::de::Error::custom("it has values that no record has");
        serde_json::from_value(self.to_json().ok_or_else(wrong)?)
    }

    /// Returns the JSON of a value; `None` for bytes and sets of numbers, which records do not have.
    fn to_json(&self) -> Option<Json> {
        Some(match self {
            Self::S(text) => Json::from(text.as_str()),
            Self::N(number) => number.as_i64().map_or_else(|| Json::from(number.as_f64()), Json::from),
            Self::Bool(is_true) => Json::from(*is_true),
            Self::Null => Json::Null,
            Self::L(values) => values.iter().map(Self::to_json).collect::<Option<Vec<_>>>()?.into(),
            Self::M(values) => {
                let fields = values.iter().map(|(name, value)| Some((name.clone(), value.to_json()?)));
                Json::Object(fields.collect::<Option<_>>()?)
            }
            Self::Ss(texts) => texts.first()?.parse::<f64>().ok()?.into(),
            Self::B(_) | Self::Ns(_) => return None,
        })
    }
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
    use std::collections::BTreeMap;

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
        assert!(wrong.contains("values that no record has"), "{wrong}");
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
