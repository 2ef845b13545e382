//! Encoding and decoding of items for DynamoDB.

use std::collections::HashMap;

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use event::{Error, Result, Timestamp};
use table::{
    Item, Key, check,
    item::{Number, Value},
};

/// Attributes in the SDK's form.
pub(super) type Attributes = HashMap<String, AttributeValue>;

/// Encodes an item with its key.
pub(super) fn encode_item(item: &Item) -> Attributes {
    let mut attributes = encode_key(&item.key);
    attributes.extend(item.attributes.iter().map(|(name, value)| (name.clone(), encode(value))));
    attributes
}

/// Encodes a key as two attributes.
pub(super) fn encode_key(key: &Key) -> Attributes {
    [("PK", &key.pk), ("SK", &key.sk)]
        .map(|(name, text)| (name.to_owned(), AttributeValue::S(text.clone())))
        .into()
}

/// Encodes a value.
pub(super) fn encode(value: &Value) -> AttributeValue {
    match value {
        Value::S(text) => AttributeValue::S(text.clone()),
        Value::N(number) => AttributeValue::N(encode_number(number)),
        Value::B(bytes) => AttributeValue::B(Blob::new(bytes.as_slice())),
        Value::Bool(bool) => AttributeValue::Bool(*bool),
        Value::Null => AttributeValue::Null(true),
        Value::L(values) => AttributeValue::L(values.iter().map(encode).collect()),
        Value::M(values) => {
            AttributeValue::M(values.iter().map(|(name, value)| (name.clone(), encode(value))).collect())
        }
        Value::Ss(texts) => AttributeValue::Ss(texts.iter().cloned().collect()),
        Value::Ns(numbers) => AttributeValue::Ns(numbers.iter().map(encode_number).collect()),
    }
}

/// Encodes an integer as it is, and other numbers with an exponent, since without one 1E-130 has 132 digits. Either
/// way the digits are the fewest that give back the same double, at most 17 of the 38 that DynamoDB keeps.
fn encode_number(number: &Number) -> String {
    match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => format!("{:e}", number.as_f64()),
    }
}

/// Encodes the whole seconds that `expires_at` is compared with.
pub(super) fn encode_seconds(now: Timestamp) -> AttributeValue {
    AttributeValue::N(now.micros().div_euclid(1_000_000).to_string())
}

/// Decodes an item.
///
/// # Errors
/// `Corrupt` if it has no key or a value of a type that Almanac does not write.
pub(super) fn decode_item(mut attributes: Attributes) -> Result<Item> {
    let key = decode_key(&mut attributes)?;
    let mut item = Item::new(key);
    for (name, value) in attributes {
        let value = decode(value).map_err(|what| item.corrupt(format_args!("attribute `{name}` {what}")))?;
        item.attributes.insert(name, value);
    }
    Ok(item)
}

/// Removes the key from the attributes.
///
/// # Errors
/// `Corrupt` if it is missing.
pub(super) fn decode_key(attributes: &mut Attributes) -> Result<Key> {
    let mut part = |name| match attributes.remove(name) {
        Some(AttributeValue::S(text)) => Ok(text),
        _ => Err(Error::corrupt(format!("DynamoDB gave an item without a text {name}"))),
    };
    Ok(Key { pk: part("PK")?, sk: part("SK")? })
}

fn decode(value: AttributeValue) -> Result<Value, String> {
    Ok(match value {
        AttributeValue::S(text) => Value::S(text),
        AttributeValue::N(text) => Value::N(Number::parse(&text).map_err(|error| error.to_string())?),
        AttributeValue::B(bytes) => Value::B(bytes.into_inner()),
        AttributeValue::Bool(bool) => Value::Bool(bool),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::L(values) => Value::L(values.into_iter().map(decode).collect::<Result<_, _>>()?),
        AttributeValue::M(values) => {
            let values = values.into_iter().map(|(name, value)| Ok((name, decode(value)?)));
            Value::M(values.collect::<Result<_, String>>()?)
        }
        AttributeValue::Ss(texts) => Value::Ss(texts.into_iter().collect()),
        AttributeValue::Ns(texts) => {
            let numbers = texts.iter().map(|text| Number::parse(text).map_err(|error| error.to_string()));
            Value::Ns(numbers.collect::<Result<_, _>>()?)
        }
        other => {
            let name = match other {
                AttributeValue::Bs(_) => "a set of bytes",
                _ => "of an unknown type",
            };
            return Err(format!("is {name}, which Almanac does not write"));
        }
    })
}

/// Returns whether the item has expired by `now`. DynamoDB removes it only days later.
pub(super) fn has_expired(item: &Item, now: Timestamp) -> bool {
    let expires_at = item.attributes.get("expires_at").and_then(check::whole);
    expires_at.is_some_and(|expires_at| expires_at <= now.micros().div_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            any::<i64>().prop_map(Number::from),
            // Neither so large nor so small that it is refused before it is encoded.
            (any::<f64>(), -100i32..100).prop_map(|(number, exponent)| {
                let number = if number.is_normal() { number } else { 1.0 };
                let mantissa = number / 10f64.powi(number.abs().log10().floor() as i32);
                let number = mantissa * 10f64.powi(exponent);
                Number::parse(&if number.is_finite() { number } else { 0.5 }.to_string()).unwrap()
            }),
        ];
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::S),
            number.prop_map(Value::N),
            any::<Vec<u8>>().prop_map(Value::B),
            any::<bool>().prop_map(Value::Bool),
            Just(Value::Null),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..5).prop_map(Value::L),
                collection::btree_map(any::<String>(), inner, 0..5).prop_map(Value::M),
            ]
        })
    }

    proptest! {
        #[test]
        fn items_round_trip(attributes in collection::btree_map("[a-z]{1,8}", values(), 0..6)) {
            let item = Item { key: Key::new("p", "s"), attributes };
            prop_assert_eq!(decode_item(encode_item(&item)).unwrap(), item);
        }

        #[test]
        fn doubles_are_encoded_shortly_and_exactly(number in any::<f64>()) {
            prop_assume!(number.is_finite() && number != 0.0);
            let text = encode_number(&Number::parse(&number.to_string()).unwrap());
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
            let digits = text.split('e').next().unwrap().bytes().filter(u8::is_ascii_digit).count();
            prop_assert!(digits <= 19, "{}", text);
        }
    }

    #[test]
    fn foreign_attribute_types_are_corrupt_and_named() {
        let mut attributes = encode_key(&Key::new("p", "s"));
        attributes.insert("tags".into(), AttributeValue::Bs(Vec::new()));
        let error = decode_item(attributes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "item p / s: attribute `tags` is a set of bytes, which Almanac does not write"
        );
        let error = decode_item(Attributes::new()).unwrap_err();
        assert_eq!(error.kind(), event::ErrorKind::Corrupt);
    }

    #[test]
    fn an_item_ends_in_the_second_it_names() {
        let at = |seconds| Timestamp::default().plus_seconds(seconds);
        let item = Item::new(Key::new("p", "s")).with("expires_at", 10);
        assert!(!has_expired(&item, at(9)));
        assert!(has_expired(&item, at(10)));
        assert!(!has_expired(&Item::new(Key::new("p", "s")), at(10)));
    }
}
