//! JSON Schema, as much of it as the OpenAPI document uses.

use event::{Day, Timestamp};
use serde_json::Value;

/// The keywords that say nothing of what is valid.
const NOTES: [&str; 5] = ["description", "default", "example", "contentMediaType", "title"];

/// What is wrong with `value` by `schema`, a part of `document`; empty when it is valid.
pub(crate) fn errors(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, value, "", &mut found);
    found
}

fn check(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let fails = |schema: &Value| !errors(document, schema, value).is_empty();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let is_good = match keyword.as_str() {
            "$ref" => {
                check(document, resolve(document, schema), value, at, found);
                true
            }
            "allOf" => !parts(rule).iter().any(fails),
            "anyOf" => !parts(rule).iter().all(fails),
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is_of(name, value)),
                name => is_of(name, value),
            },
            "enum" => parts(rule).contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "minLength" => length(value).is_none_or(|length| length >= rule.as_u64().unwrap()),
            "maxLength" => length(value).is_none_or(|length| length <= rule.as_u64().unwrap()),
            "pattern" => {
                let pattern = regex::Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "format" => value.as_str().is_none_or(|text| match rule.as_str().unwrap() {
                "date" => text.parse::<Day>().is_ok(),
                "date-time" => Timestamp::parse(text).is_ok(),
                other => panic!("the format `{other}` is not known here"),
            }),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap()),
            "uniqueItems" => value
                .as_array()
                .is_none_or(|items| items.iter().enumerate().all(|(at, item)| !items[..at].contains(item))),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, rule, item, &format!("{at}/{index}"), found);
                }
                true
            }
            "minProperties" => {
                value.as_object().is_none_or(|object| object.len() as u64 >= rule.as_u64().unwrap())
            }
            "maxProperties" => {
                value.as_object().is_none_or(|object| object.len() as u64 <= rule.as_u64().unwrap())
            }
            "required" => parts(rule).iter().all(|name| {
                value.as_object().is_none_or(|object| object.contains_key(name.as_str().unwrap()))
            }),
            "propertyNames" => {
                for name in value.as_object().into_iter().flat_map(|object| object.keys()) {
                    check(document, rule, &Value::from(name.as_str()), &format!("{at}/{name} (name)"), found);
                }
                true
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = rule.get(name) {
                        check(document, schema, member, &format!("{at}/{name}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let named = |name: &String| schema["properties"].get(name).is_some();
                for (name, member) in value.as_object().into_iter().flatten().filter(|(name, _)| !named(name))
                {
                    match rule {
                        Value::Bool(false) => found.push(format!("{at}: `{name}` is not in the schema")),
                        rule => check(document, rule, member, &format!("{at}/{name}"), found),
                    }
                }
                true
            }
            note if NOTES.contains(&note) => true,
            other => panic!("the keyword `{other}` is not known here"),
        };
        if !is_good {
            found.push(format!("{at}: {value} breaks {keyword}: {rule}"));
        }
    }
}

fn parts(rule: &Value) -> &[Value] {
    rule.as_array().expect("an array")
}

fn length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| text.chars().count() as u64)
}

fn is_of(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type `{other}` is not known here"),
    }
}

/// What a `$ref` stands for; anything else stands for itself.
pub(crate) fn resolve<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part.get("$ref") {
        None => part,
        Some(place) => {
            let place = place.as_str().unwrap().strip_prefix('#').expect("a place in the document");
            document.pointer(place).unwrap_or_else(|| panic!("there is no {place}"))
        }
    }
}
