//! Items as text: the JSON in which DynamoDB itself writes attributes (`{"name":{"S":"late-arrival"},"n":{"N":"3"}}`), so that a
//! SQLite file and an export can be read by hand and moved to DynamoDB without a translation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap,
};

use event::{Error, Result as Checked};
use serde_json::value::RawValue;

use crate::{
    Item, Key,
    item::{Number, Value},
};

/// Line of an export, in the form of DynamoDB's own exports.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(rename = "Item", borrow)]
    item: &'a RawValue,
}

/// Writes an item as a line, without its end: `{"Item":{"PK":{"S":"..."},...}}`, attributes by name. Equal items have equal
/// lines.
///
/// # Errors
/// `Corrupt`, when an attribute has the name of a part of the key.
pub fn line(item: &Item) -> Checked<String> {
    let key = [("PK", &item.key.pk), ("SK", &item.key.sk)];
    let mut attributes: BTreeMap<&str, Value> =
        key.into_iter().map(|(name, value)| (name, Value::S(value.clone()))).collect();
    if key.iter().any(|(name, _)| item.attributes.contains_key(*name)) {
        return Err(item.corrupt("an attribute is called as a part of its key is"));
    }
    attributes.extend(item.attributes.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let wire: BTreeMap<&str, Wire<'_>> =
        attributes.iter().map(|(name, value)| (*name, Wire(value))).collect();
    let text = serde_json::to_string(&wire).map_err(|error| {
        Error::corrupt(format!("item {} cannot be written as text", item.key)).because(error)
    })?;
    Ok(format!(r#"{{"Item":{text}}}"#))
}

/// Parses the item of a line.
///
/// # Errors
/// `Corrupt`, when it is not the line of an item.
pub fn item(line: &str) -> Checked<Item> {
    let wrong = |error| Error::corrupt("this is not the line of an item").because(error);
    let inner: Line<'_> = serde_json::from_str(line).map_err(wrong)?;
    let mut attributes = decode(inner.item.get(), None).map_err(wrong)?;
    let mut key = |name: &str| match attributes.remove(name) {
        Some(Value::S(text)) => Ok(text),
        _ => Err(Error::corrupt(format!("the item of this line has no text {name}"))),
    };
    let key = Key::new(key("PK")?, key("SK")?);
    Ok(Item { key, attributes })
}

/// The attributes of an item.
pub(crate) type Attributes = BTreeMap<String, Value>;

/// Encodes attributes as text.
pub(crate) fn encode(attributes: &Attributes) -> serde_json::Result<String> {
    let wire: BTreeMap<&str, Wire<'_>> =
        attributes.iter().map(|(name, value)| (name.as_str(), Wire(value))).collect();
    serde_json::to_string(&wire)
}

/// Decodes the attributes of a text: all, or only those of `wanted`.
pub(crate) fn decode(text: &str, wanted: Option<&[String]>) -> serde_json::Result<Attributes> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let attributes = Wanted(wanted).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(attributes)
}

struct Wire<'a>(&'a Value);

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.0 {
            Value::S(text) => map.serialize_entry("S", text)?,
            Value::N(number) => map.serialize_entry("N", number.as_str())?,
            Value::B(bytes) => map.serialize_entry("B", &STANDARD.encode(bytes))?,
            Value::Bool(truth) => map.serialize_entry("BOOL", truth)?,
            Value::Null => map.serialize_entry("NULL", &true)?,
            Value::L(values) => map.serialize_entry("L", &values.iter().map(Wire).collect::<Vec<_>>())?,
            Value::M(values) => {
                let values: BTreeMap<&str, Wire<'_>> =
                    values.iter().map(|(name, value)| (name.as_str(), Wire(value))).collect();
                map.serialize_entry("M", &values)?;
            }
            Value::Ss(texts) => map.serialize_entry("SS", texts)?,
            Value::Ns(numbers) => {
                map.serialize_entry("NS", &numbers.iter().map(Number::as_str).collect::<Vec<_>>())?
            }
        }
        map.end()
    }
}

/// Skips unwanted attributes without building them.
struct Wanted<'a>(Option<&'a [String]>);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Attributes;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Attributes, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Attributes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
        let mut attributes = Attributes::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.0.is_none_or(|wanted| wanted.contains(&name)) {
                attributes.insert(name, map.next_value::<Decoded>()?.0);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(attributes)
    }
}

struct Decoded(Value);

#[derive(Deserialize)]
enum Type {
    S,
    N,
    B,
    #[serde(rename = "BOOL")]
    Bool,
    #[serde(rename = "NULL")]
    Null,
    L,
    M,
    #[serde(rename = "SS")]
    Texts,
    #[serde(rename = "NS")]
    Numbers,
}

impl<'de> Deserialize<'de> for Decoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ValueVisitor).map(Decoded)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one of S, N, B, BOOL, NULL, L, M, SS, NS")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let kind: Type = map.next_key()?.ok_or_else(|| de::Error::custom("a value without a type"))?;
        let value = match kind {
            Type::S => Value::S(map.next_value()?),
            Type::N => Value::N(Number::parse(&map.next_value::<String>()?).map_err(de::Error::custom)?),
            Type::B => {
                let bytes = STANDARD.decode(map.next_value::<String>()?);
                Value::B(bytes.map_err(|_| de::Error::custom("bytes that are not base64"))?)
            }
            Type::Bool => Value::Bool(map.next_value()?),
            Type::Null => {
                map.next_value::<IgnoredAny>()?;
                Value::Null
            }
            Type::L => Value::L(map.next_value::<Vec<Decoded>>()?.into_iter().map(|value| value.0).collect()),
            Type::M => {
                let values = map.next_value::<BTreeMap<String, Decoded>>()?;
                Value::M(values.into_iter().map(|(name, value)| (name, value.0)).collect())
            }
            Type::Texts => Value::Ss(map.next_value()?),
            Type::Numbers => {
                let numbers = map.next_value::<Vec<String>>()?;
                let numbers =
                    numbers.iter().map(|text| Number::parse(text)).collect::<Result<BTreeSet<_>, _>>();
                Value::Ns(numbers.map_err(de::Error::custom)?)
            }
        };
        match map.next_key::<Type>()? {
            None => Ok(value),
            Some(_) => Err(de::Error::custom("a value with two types")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;
    use crate::check::MAX_DEPTH;

    /// Exports are kept, so the written form must stay readable for ever.
    #[test]
    fn golden_line() {
        let text = r#"{"Item":{"PK":{"S":"w#1"},"SK":{"S":"m#2"},"data":{"B":"AQ=="},"n":{"N":"3"}}}"#;
        let one = Item::new(Key::new("w#1", "m#2")).with("n", 3).with("data", vec![1]);
        assert_eq!(line(&one).unwrap(), text);
        assert_eq!(item(text).unwrap(), one);
        assert!(line(&one.with("PK", "w#3")).is_err(), "the key would be lost");
        for wrong in [
            "",
            r#"{"Item":{"PK":{"S":"w#1"},"n":{"N":"3"}}}"#,
            r#"{"Item":{"PK":{"N":"1"},"SK":{"S":"m#2"}}}"#,
            r#"{"Item":{"PK":{"S":"w#1"},"SK":{"S":"m#2"}},"more":1}"#,
            r#"{"PK":{"S":"w#1"},"SK":{"S":"m#2"}}"#,
        ] {
            assert!(item(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn golden_text() {
        let attributes = Attributes::from([
            ("b".to_owned(), Value::B(vec![0, 255])),
            ("l".to_owned(), Value::L(vec![Value::Null, Value::Bool(false), Value::from(-3)])),
            ("m".to_owned(), Value::M(BTreeMap::from([("é\"".to_owned(), Value::from("\n"))]))),
        ]);
        let text = r#"{"b":{"B":"AP8="},"l":{"L":[{"NULL":true},{"BOOL":false},{"N":"-3"}]},"m":{"M":{"é\"":{"S":"\n"}}}}"#;
        assert_eq!(encode(&attributes).unwrap(), text);
        assert_eq!(decode(text, None).unwrap(), attributes);
        let wanted = ["l".to_owned(), "absent".to_owned()];
        assert_eq!(decode(text, Some(&wanted)).unwrap().into_keys().collect::<Vec<_>>(), ["l"]);
    }

    #[test]
    fn what_is_no_item_is_refused() {
        for wrong in [
            "",
            "[]",
            "{",
            r#"{"a":1}"#,
            r#"{"a":{}}"#,
            r#"{"a":{"X":"1"}}"#,
            r#"{"a":{"N":"x"}}"#,
            r#"{"a":{"S":"1","N":"1"}}"#,
            r#"{"a":{"B":"?"}}"#,
            r#"{"a":{"S":"1"}} x"#,
        ] {
            assert!(decode(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn deepest_writable_value_can_be_read() {
        let deep = (0..MAX_DEPTH).fold(Value::Null, |value, _| Value::L(vec![value]));
        let attributes = Attributes::from([("deep".to_owned(), deep)]);
        assert_eq!(decode(&encode(&attributes).unwrap(), None).unwrap(), attributes);
    }

    fn value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            any::<i64>().prop_map(Number::from),
            any::<f64>().prop_filter_map("finite", |number| Number::parse(&number.to_string()).ok()),
        ];
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::S),
            number.prop_map(Value::N),
            collection::vec(any::<u8>(), 0..40).prop_map(Value::B),
            any::<bool>().prop_map(Value::Bool),
            Just(Value::Null),
        ];
        leaf.prop_recursive(6, 40, 6, |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..6).prop_map(Value::L),
                collection::btree_map(any::<String>(), inner, 0..6).prop_map(Value::M),
            ]
        })
    }

    proptest! {
        #[test]
        fn attributes_round_trip(attributes in collection::btree_map(any::<String>(), value(), 0..6)) {
            prop_assert_eq!(decode(&encode(&attributes).unwrap(), None).unwrap(), attributes);
        }

        #[test]
        fn items_round_trip(attributes in collection::btree_map("[a-z]{1,4}", value(), 0..6)) {
            let one = Item { key: Key::new("p", "s"), attributes };
            prop_assert_eq!(item(&line(&one).unwrap()).unwrap(), one);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in any::<String>()) {
            let _ = decode(&text, None);
        }
    }
}
