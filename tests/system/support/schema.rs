//! JSON Schema, as much of it as the OpenAPI document uses.

use event::{Day, Timestamp};
use serde_json::Value;

/// The keywords that say nothing of what is valid.
const NOTES: [&str; 5] = ["description", "default", "example", "contentMediaType", "title"];

/// The errors of `value` by `schema`, a part of `document`; empty when it is valid.
pub(crate) fn errors(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, value, "", &mut found);
    found
}

fn check(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let fails = |schema: &Value| !errors(document, schema, value).is_empty();
    let members = || value.as_object().into_iter().flatten();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let is_good = match keyword.as_str() {
            "allOf" => !parts(rule).iter().any(fails),
            "anyOf" => !parts(rule).iter().all(fails),
            "$ref" => {
                check(document, resolve(document, schema), value, at, found);
                true
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, rule, item, &format!("{at}/{index}"), found);
                }
                true
            }
            "oneOf" => {
                let fits = |schema: &&Value| {
                    let mut wrong = Vec::new();
                    check(document, schema, value, at, &mut wrong);
                    wrong.is_empty()
                };
                parts(rule).iter().filter(fits).count() == 1
            }
            "propertyNames" => {
                for (name, _) in members() {
                    check(document, rule, &Value::from(name.as_str()), &format!("{at}/{name} (name)"), found);
                }
                true
            }
            "properties" => {
                for (name, member) in members() {
                    if let Some(schema) = rule.get(name) {
                        check(document, schema, member, &format!("{at}/{name}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let is_named = |name: &String| schema["properties"].get(name).is_some();
                for (name, member) in members().filter(|(name, _)| !is_named(name)) {
                    match rule {
                        Value::Bool(false) => found.push(format!("{at}: `{name}` is not in the schema")),
                        rule => check(document, rule, member, &format!("{at}/{name}"), found),
                    }
                }
                true
            }
            note if NOTES.contains(&note) => true,
            keyword => is_within(keyword, rule, value),
        };
        if !is_good {
            found.push(format!("{at}: {value} breaks {keyword}: {rule}"));
        }
    }
}

/// True if a value is as a keyword says that looks at nothing else.
fn is_within(keyword: &str, rule: &Value, value: &Value) -> bool {
    let size = || rule.as_u64().expect("a size");
    let number = |is_good: &dyn Fn(f64, f64) -> bool| {
        value.as_f64().is_none_or(|number| is_good(number, rule.as_f64().expect("a number")))
    };
    let items = |is_good: &dyn Fn(&[Value]) -> bool| value.as_array().is_none_or(|items| is_good(items));
    let object = value.as_object();
    match keyword {
        "type" => match rule {
            Value::Array(types) => types.iter().any(|name| is_of(name, value)),
            name => is_of(name, value),
        },
        "enum" => parts(rule).contains(value),
        "minimum" => number(&|number, least| number >= least),
        "maximum" => number(&|number, most| number <= most),
        "minLength" => length(value).is_none_or(|length| length >= size()),
        "maxLength" => length(value).is_none_or(|length| length <= size()),
        "pattern" => {
            let pattern = regex::Regex::new(rule.as_str().unwrap()).unwrap();
            value.as_str().is_none_or(|text| pattern.is_match(text))
        }
        "format" => value.as_str().is_none_or(|text| match rule.as_str().unwrap() {
            "date" => text.parse::<Day>().is_ok(),
            "date-time" => Timestamp::parse(text).is_ok(),
            other => panic!("the format `{other}` is not known here"),
        }),
        "minItems" => items(&|items| items.len() as u64 >= size()),
        "maxItems" => items(&|items| items.len() as u64 <= size()),
        "uniqueItems" => {
            items(&|items| items.iter().enumerate().all(|(at, item)| !items[..at].contains(item)))
        }
        "minProperties" => object.is_none_or(|object| object.len() as u64 >= size()),
        "maxProperties" => object.is_none_or(|object| object.len() as u64 <= size()),
        "required" => object.is_none_or(|object| {
            parts(rule).iter().all(|name| object.contains_key(name.as_str().expect("a name")))
        }),
        other => panic!("the keyword `{other}` is not known here"),
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

/// The part that a `$ref` stands for; anything else stands for itself.
pub(crate) fn resolve<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part.get("$ref") {
        None => part,
        Some(place) => {
            let place = place.as_str().unwrap().strip_prefix('#').expect("a place in the document");
            document.pointer(place).unwrap_or_else(|| panic!("there is no {place}"))
        }
    }
}
