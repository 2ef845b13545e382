//! Attributes that people give to entities: JSON, and the values that the table stores.
//!
//! JSON has no sets. `{"$set": ["a", "b"]}` stands for a set of texts or numbers.

use std::collections::{BTreeMap, BTreeSet};

use event::{Error, Result};
use serde_json::{Map, Value as Json, json};
use table::{
    check,
    item::{Number, Value},
};

/// Maximum bytes of the attributes of an entity: names and values together, as DynamoDB counts them.
pub const MAX_ATTRIBUTES_BYTES: usize = 350 * 1024;

/// Maximum depth of maps and lists within each other.
pub const MAX_ATTRIBUTES_DEPTH: usize = check::MAX_DEPTH - 1;

/// Name that marks a set in JSON.
const SET: &str = "$set";

/// Attributes by name.
pub type Attributes = BTreeMap<String, Value>;

/// Parses attributes from a JSON object.
///
/// # Errors
/// `Invalid`, naming the attribute, when a value cannot be stored.
pub fn from_json(object: &Map<String, Json>) -> Result<Attributes> {
    object
        .iter()
        .map(|(name, value)| {
            let wrong = |what: String| Error::invalid(format!("the attribute `{}` {what}", cut(name)));
            Ok((name.clone(), value_of(value, MAX_ATTRIBUTES_DEPTH).map_err(wrong)?))
        })
        .collect()
}

/// Refuses attributes that cannot be stored.
///
/// # Errors
/// `Invalid`, with their size and its bound, or for an empty name.
pub fn check_attributes(attributes: &Attributes) -> Result<()> {
    if attributes.contains_key("") {
        return Err(Error::invalid("an attribute has an empty name"));
    }
    let size = Value::M(attributes.clone()).size();
    if size > MAX_ATTRIBUTES_BYTES {
        return Err(Error::invalid(format!(
            "the attributes have {size} bytes, more than the {MAX_ATTRIBUTES_BYTES} that an entity may have"
        )));
    }
    Ok(())
}

/// Converts attributes to JSON.
pub fn to_json(attributes: &Attributes) -> Json {
    json!(attributes)
}

fn cut(name: &str) -> String {
    name.chars().take(40).collect()
}

fn value_of(json: &Json, depth: usize) -> Result<Value, String> {
    if depth == 0 {
        return Err("is nested too deeply".into());
    }
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::N(number_of(number)?),
        Json::String(text) => Value::S(text.clone()),
        Json::Array(values) => {
            Value::L(values.iter().map(|value| value_of(value, depth - 1)).collect::<Result<_, _>>()?)
        }
        Json::Object(object) => match object.get(SET) {
            Some(members) if object.len() == 1 => set_of(members)?,
            Some(_) => return Err(format!("has a map with `{SET}` and other names; a set stands alone")),
            None => {
                if object.contains_key("") {
                    return Err("has a map with an empty name".into());
                }
                let entries = object.iter();
                let entries = entries.map(|(name, value)| Ok((name.clone(), value_of(value, depth - 1)?)));
                Value::M(entries.collect::<Result<_, String>>()?)
            }
        },
    })
}

fn number_of(number: &serde_json::Number) -> Result<Number, String> {
    if number.is_u64() && !number.is_i64() {
        // As a double it would be stored inexactly.
        let most = i64::MAX;
        return Err(format!("has the whole number {number}; the greatest is {most}, so write it as a text"));
    }
    let stored = Number::parse(&number.to_string()).map_err(|error| error.to_string())?;
    match check::is_number(&stored) {
        true => Ok(stored),
        false => Err(format!("has the number {number}, which is outside of what can be stored")),
    }
}

fn set_of(members: &Json) -> Result<Value, String> {
    let wrong = || format!("has a `{SET}` that is not a list of texts or of numbers, with one at least");
    let members = members.as_array().filter(|members| !members.is_empty()).ok_or_else(wrong)?;
    if let Some(texts) = members.iter().map(Json::as_str).collect::<Option<Vec<_>>>() {
        return Ok(Value::Ss(texts.into_iter().map(str::to_owned).collect()));
    }
    let numbers = members.iter().map(|member| match member {
        Json::Number(number) => number_of(number),
        _ => Err(wrong()),
    });
    Ok(Value::Ns(numbers.collect::<Result<BTreeSet<_>, _>>()?))
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};
    use serde_json::json;

    use super::*;

    fn read(json: Json) -> Result<Attributes> {
        from_json(json.as_object().unwrap())
    }

    #[test]
    fn json_is_stored_with_its_types() {
        let json = json!({
            "text": "a", "whole": 7, "half": 0.5, "yes": true, "nothing": null, "list": [1, "b"],
            "map": { "deep": [{}] }, "tags": { "$set": ["b", "a", "a"] }, "sizes": { "$set": [2, 1.5] },
        });
        let attributes = read(json).unwrap();
        assert_eq!(attributes["tags"], Value::Ss(["a", "b"].map(str::to_owned).into()));
        assert!(matches!(attributes["sizes"], Value::Ns(_)));
        let again = to_json(&attributes);
        assert_eq!(again["tags"], json!({ "$set": ["a", "b"] }));
        assert_eq!(read(again).unwrap(), attributes);
    }

    #[test]
    fn unstorable_attribute_is_refused_by_name() {
        let said = |json| read(json).unwrap_err().to_string();
        let deep = (0..40).fold(json!(1), |value, _| json!([value]));
        let lines = [
            said(json!({ "a": { "$set": [] } })),
            said(json!({ "a": { "$set": [1, "b"] } })),
            said(json!({ "a": { "$set": [1], "b": 2 } })),
            said(json!({ "a": 1e200 })),
            said(json!({ "a": u64::MAX })),
            said(json!({ "a": { "$set": [1_u64 << 63] } })),
            said(json!({ "a": deep })),
            check_attributes(&read(json!({ "": 1 })).unwrap()).unwrap_err().to_string(),
            check_attributes(&read(json!({ "a": "x".repeat(MAX_ATTRIBUTES_BYTES) })).unwrap())
                .unwrap_err()
                .to_string(),
        ];
        insta::assert_snapshot!(lines.join("\n"));
        check_attributes(&read(json!({ "a": "x".repeat(MAX_ATTRIBUTES_BYTES - 8) })).unwrap()).unwrap();
    }

    fn values() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1e9..1e9f64).prop_map(Json::from),
            ".{0,8}".prop_map(Json::from),
            Just(Json::Null),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                collection::btree_map("[a-z]{1,4}", inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_stored_means_the_same(value in values()) {
            let attributes = read(json!({ "a": value })).unwrap();
            prop_assert_eq!(read(to_json(&attributes)).unwrap(), attributes);
        }
    }
}
