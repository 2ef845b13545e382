//! Checks that every engine makes before it writes. The bounds are DynamoDB's, so that both engines accept the same writes.

use std::collections::HashSet;

use event::{Error, Result};

use super::{Condition, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_WRITES, Write};
use crate::{
    Item, Key,
    item::{MAX_ITEM_BYTES, Number, Value},
};

/// Maximum bytes of a partition key, of the table and of an index.
pub const MAX_PK_BYTES: usize = 2048;

/// Maximum bytes of a sort key, of the table and of an index.
pub const MAX_SK_BYTES: usize = 1024;

/// Maximum depth of lists and maps within each other.
pub const MAX_DEPTH: usize = 32;

/// Least size of a number that is too large, on either side of zero.
const NUMBER_END: f64 = 1e126;

/// Least size of a number other than zero that can be stored.
const NUMBER_LEAST: f64 = 1e-130;

/// Refuses an item that cannot be stored.
///
/// # Errors
/// `Invalid`, naming the item and the fault.
pub fn check_item(item: &Item) -> Result<()> {
    check_key(&item.key)?;
    let wrong = |what: String| Error::invalid(format!("item {}: {what}", item.key));
    let size = item.size();
    if size > MAX_ITEM_BYTES {
        return Err(wrong(format!(
            "it has {size} bytes, more than the {MAX_ITEM_BYTES} that an item may have"
        )));
    }
    for (name, value) in &item.attributes {
        let found = match name.as_str() {
            "" => Some("has no name"),
            "PK" | "SK" => Some("would hide a part of the key"),
            "GSI1PK" | "board" => check_text(value, MAX_PK_BYTES),
            "GSI1SK" => check_text(value, MAX_SK_BYTES),
            "score" if !matches!(value, Value::N(_)) => {
                Some("places the item in an index, so it must be a number")
            }
            "expires_at" if whole(value).is_none() => Some("must be whole seconds since 1970"),
            _ => None,
        };
        if let Some(found) = found.or_else(|| check_value(value, MAX_DEPTH)) {
            return Err(wrong(format!("attribute `{name}` {found}")));
        }
    }
    Ok(())
}

/// Splits items into transactions of writes that each stay within their bounds, in the same order.
pub fn transactions(items: Vec<Item>) -> Vec<Vec<Write>> {
    let mut transactions: Vec<Vec<Write>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let write = Write::Put(item, Condition::Absent);
        let more = write_bytes(&write);
        match transactions.last_mut() {
            Some(last) if last.len() < MAX_TRANSACTION_WRITES && bytes + more <= MAX_TRANSACTION_BYTES => {
                bytes += more;
                last.push(write);
            }
            _ => {
                bytes = more;
                transactions.push(vec![write]);
            }
        }
    }
    transactions
}

/// Refuses a key that no item can have.
///
/// # Errors
/// `Invalid`, naming the key and the fault.
pub fn check_key(key: &Key) -> Result<()> {
    for (part, text, most) in [("PK", &key.pk, MAX_PK_BYTES), ("SK", &key.sk, MAX_SK_BYTES)] {
        if text.is_empty() {
            return Err(Error::invalid(format!("item {key}: its {part} is empty")));
        }
        if text.len() > most {
            let found = text.len();
            let start: String = text.chars().take(40).collect();
            return Err(Error::invalid(format!(
                "item {start}...: its {part} has {found} bytes, more than {most}"
            )));
        }
    }
    Ok(())
}

/// Refuses a transaction that cannot be made.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_writes(writes: &[Write]) -> Result<()> {
    if writes.len() > MAX_TRANSACTION_WRITES {
        let found = writes.len();
        let message = format!("a transaction of {found} writes is more than {MAX_TRANSACTION_WRITES}");
        return Err(Error::invalid(message));
    }
    let mut keys = HashSet::with_capacity(writes.len());
    let mut bytes = 0;
    for write in writes {
        check_write(write)?;
        if !keys.insert(write.key()) {
            return Err(Error::invalid(format!("a transaction writes item {} twice", write.key())));
        }
        bytes += write_bytes(write);
    }
    if bytes > MAX_TRANSACTION_BYTES {
        let message = format!("a transaction of {bytes} bytes is more than {MAX_TRANSACTION_BYTES}");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Refuses a single write that cannot be made.
///
/// # Errors
/// `Invalid`, naming the item and the fault.
pub fn check_write(write: &Write) -> Result<()> {
    match write {
        Write::Put(item, _) => check_item(item),
        Write::Delete(key, _) | Write::Check(key, _) => check_key(key),
        Write::Add(key, name, _) => {
            check_key(key)?;
            check_changed(key, name)
        }
        Write::Update(update) => {
            // The set attributes must be valid as those of an item; the whole item is checked when it is known.
            let mut item = Item::new(update.key.clone());
            item.attributes.clone_from(&update.set);
            check_item(&item)?;
            let names = update.remove.iter().chain(update.add.keys());
            let mut seen: HashSet<&String> = update.set.keys().collect();
            for name in names {
                check_changed(&update.key, name)?;
                if !seen.insert(name) {
                    return Err(Error::invalid(format!("item {}: `{name}` is changed twice", update.key)));
                }
            }
            Ok(())
        }
    }
}

fn check_changed(key: &Key, name: &str) -> Result<()> {
    match name {
        "" | "PK" | "SK" => Err(Error::invalid(format!("item {key}: nothing can be added to `{name}`"))),
        _ => Ok(()),
    }
}

/// Adds an amount to a whole number. A missing one counts as 0.
///
/// # Errors
/// `Invalid`, when it is no whole number, or the sum is too large.
pub fn sum(key: &Key, name: &str, before: Option<&Value>, amount: i64) -> Result<i64> {
    let wrong = |what| Error::invalid(format!("item {key}: attribute `{name}` {what}"));
    let before = match before {
        None => 0,
        Some(value) => whole(value).ok_or_else(|| wrong("is not a whole number"))?,
    };
    before.checked_add(amount).ok_or_else(|| wrong("would be too large"))
}

/// Approximate bytes of a write.
pub fn write_bytes(write: &Write) -> usize {
    match write {
        Write::Put(item, condition) => item.size() + condition_bytes(condition),
        Write::Delete(key, condition) | Write::Check(key, condition) => {
            key.pk.len() + key.sk.len() + condition_bytes(condition)
        }
        Write::Add(key, name, _) => key.pk.len() + key.sk.len() + name.len() + size_of::<i64>(),
        Write::Update(update) => {
            let set = update.set.iter().map(|(name, value)| name.len() + value.size()).sum::<usize>();
            let names =
                update.remove.iter().chain(update.add.keys()).map(|name| name.len() + 8).sum::<usize>();
            update.key.pk.len() + update.key.sk.len() + set + names + condition_bytes(&update.condition)
        }
    }
}

fn condition_bytes(condition: &Condition) -> usize {
    match condition {
        Condition::Equals(name, Value::S(text)) => name.len() + text.len(),
        Condition::Equals(name, Value::B(bytes)) => name.len() + bytes.len(),
        Condition::All(conditions) => conditions.iter().map(condition_bytes).sum(),
        _ => 0,
    }
}

/// Returns the whole number that `value` is.
pub fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::N(number) => number.as_i64(),
        _ => None,
    }
}

/// Returns whether a number is within the bounds of storable numbers.
pub fn is_number(number: &Number) -> bool {
    let size = number.as_f64().abs();
    size == 0.0 || (NUMBER_LEAST..NUMBER_END).contains(&size)
}

fn check_text(value: &Value, most: usize) -> Option<&'static str> {
    match value {
        Value::S(text) if text.is_empty() => Some("places the item in an index, so it must not be empty"),
        Value::S(text) if text.len() > most => Some("is too long for an index"),
        Value::S(_) => None,
        _ => Some("places the item in an index, so it must be text"),
    }
}

fn check_value(value: &Value, depth: usize) -> Option<&'static str> {
    match value {
        Value::L(_) | Value::M(_) if depth == 0 => Some("is nested too deeply"),
        Value::L(values) => values.iter().find_map(|value| check_value(value, depth - 1)),
        Value::M(values) => values.values().find_map(|value| check_value(value, depth - 1)),
        Value::Ss(texts) if texts.is_empty() => Some("is an empty set"),
        Value::Ns(numbers) if numbers.is_empty() => Some("is an empty set"),
        Value::Ns(numbers) => numbers.iter().find_map(|number| check_value(&Value::N(number.clone()), depth)),
        Value::N(number) => {
            (!is_number(number)).then_some("is a number outside of what can be stored (1E-130 to 9.9E+125)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Number;

    fn refusal(item: Item) -> String {
        check_item(&item).unwrap_err().to_string()
    }

    fn item() -> Item {
        Item::new(Key::new("p", "s"))
    }

    #[test]
    fn refusals_name_the_item_and_the_attribute() {
        assert_eq!(
            refusal(item().with("GSI1PK", "")),
            "item p / s: attribute `GSI1PK` places the item in an index, so it must not be empty"
        );
        assert!(refusal(item().with("score", "1")).contains("must be a number"));
        assert!(refusal(item().with("PK", "x")).contains("hide"));
        assert!(
            refusal(item().with("expires_at", Value::N(Number::parse("0.5").unwrap())))
                .contains("whole seconds")
        );
        assert!(refusal(item().with("n", Value::N(Number::parse("1e126").unwrap()))).contains("outside"));
        assert!(refusal(Item::new(Key::new("", "s"))).contains("PK is empty"));
        assert!(refusal(Item::new(Key::new("p", "s".repeat(MAX_SK_BYTES + 1)))).contains("1025 bytes"));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| (0..depth).fold(Value::Null, |value, _| Value::L(vec![value]));
        check_item(&item().with("deep", nested(MAX_DEPTH))).unwrap();
        assert!(refusal(item().with("deep", nested(MAX_DEPTH + 1))).contains("too deeply"));
    }
}
