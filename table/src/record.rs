//! Records: items whose attributes are the fields of a serde type, beside `v`, the version of its form.

use event::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json};

use crate::{
    Item, Key,
    item::{Number, Value},
};

/// Sizes of numbers with a fraction that both engines keep exactly.
const KEPT: std::ops::Range<f64> = 1e-100..1e100;

impl Item {
    /// Builds the item of a record under a key.
    ///
    /// # Errors
    /// `Corrupt`, when the record has no named fields.
    pub fn of_record(key: Key, version: i64, record: &impl Serialize) -> Result<Self> {
        let wrong = |why: String| Error::corrupt(format!("item {key}: no record: {why}"));
        match serde_json::to_value(record) {
            Ok(Json::Object(fields)) => {
                let attributes = fields.into_iter().map(|(name, field)| Ok((name, value(field)?)));
                let attributes = attributes.collect::<Result<_>>()?;
                Ok(Self { key, attributes }.with("v", version))
            }
            Ok(_) => Err(wrong("it has no named fields".to_owned())),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Reads the record of the item.
    ///
    /// # Errors
    /// `Corrupt`, when it has another version or other fields.
    pub fn record<T: DeserializeOwned>(&self, version: i64) -> Result<T> {
        self.check_version(version)?;
        let fields = self.attributes.iter().map(|(name, value)| Some((name.clone(), json(value)?)));
        let fields: Option<Map<String, Json>> = fields.collect();
        let fields = fields.ok_or_else(|| self.corrupt("it has values that no record has"))?;
        serde_json::from_value(Json::Object(fields)).map_err(|error| self.corrupt(error))
    }
}

/// Converts a field to a value. A number that engines would change is a set of its text.
fn value(field: Json) -> Result<Value> {
    Ok(match field {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(truth),
        Json::String(text) => Value::S(text),
        Json::Array(fields) => Value::L(fields.into_iter().map(value).collect::<Result<_>>()?),
        Json::Object(fields) => {
            let fields = fields.into_iter().map(|(name, field)| Ok((name, value(field)?)));
            Value::M(fields.collect::<Result<_>>()?)
        }
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(double)) if !KEPT.contains(&double.abs()) && double.to_bits() != 0 => {
                Value::Ss([double.to_string()].into())
            }
            _ => Value::N(Number::parse(&number.to_string())?),
        },
    })
}

/// Converts a value back to a field; `None`, if no field is stored so.
fn json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::S(text) => text.as_str().into(),
        Value::N(number) => number.as_i64().map_or_else(|| number.as_f64().into(), Json::from),
        Value::L(values) => values.iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        Value::M(values) => {
            let fields = values.iter().map(|(name, value)| Some((name.clone(), json(value)?)));
            Json::Object(fields.collect::<Option<_>>()?)
        }
        Value::Ss(texts) => texts.first()?.parse::<f64>().ok()?.into(),
        Value::B(_) | Value::Ns(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        text: Option<String>,
        count: i64,
        numbers: Vec<f64>,
    }

    fn key() -> Key {
        Key::new("p", "s")
    }

    proptest! {
        #[test]
        fn records_round_trip(text: Option<String>, count: i64, numbers in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO, 0..9)) {
            let record = Record { text, count, numbers };
            let item = Item::of_record(key(), 1, &record).unwrap();
            let read: Record = item.record(1).unwrap();
            let bits = |record: &Record| record.numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&read), bits(&record));
            prop_assert_eq!(read, record);
            prop_assert!(crate::check::check_item(&item).is_ok());
        }
    }

    #[test]
    fn other_versions_and_fields_are_named() {
        let item = Item::of_record(key(), 1, &Record { text: None, count: 3, numbers: Vec::new() }).unwrap();
        let wrong = item.record::<Record>(2).unwrap_err().to_string();
        assert!(wrong.contains("version 1"), "{wrong}");
        let wrong = item.with("count", "three").record::<Record>(1).unwrap_err().to_string();
        assert!(wrong.starts_with("item p / s: invalid type: string \"three\""), "{wrong}");
        assert!(Item::of_record(key(), 1, &3).is_err());
    }
}
