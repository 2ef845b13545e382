//! Expressions: DynamoDB's substitute for a query language. Every name and every value is a placeholder in them, so
//! that no name can be a reserved word and no value can be code.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use event::Timestamp;
use table::{Condition, Index, Query, Update, item::Value};

use super::{
    codec::{Attributes, encode, encode_seconds},
    schema::along,
};

/// Names by placeholder.
type Names = HashMap<String, String>;

/// Names and values of the placeholders of one request.
#[derive(Debug, Default)]
pub(super) struct Terms {
    names: Vec<String>,
    values: Vec<AttributeValue>,
}

impl Terms {
    /// Returns the placeholder of a name.
    pub(super) fn name(&mut self, name: &str) -> String {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("#n{at}")
    }

    /// Returns the placeholder of a value.
    pub(super) fn value(&mut self, value: AttributeValue) -> String {
        self.values.push(value);
        format!(":v{}", self.values.len() - 1)
    }

    /// Returns the names and values by placeholder; `None` if there are none, since DynamoDB accepts no empty map.
    pub(super) fn finish(self) -> (Option<Names>, Option<Attributes>) {
        let names = self.names.into_iter().enumerate().map(|(at, name)| (format!("#n{at}"), name));
        let values = self.values.into_iter().enumerate().map(|(at, value)| (format!(":v{at}"), value));
        let (names, values) = (names.collect::<Names>(), values.collect::<Attributes>());
        (Some(names).filter(|names| !names.is_empty()), Some(values).filter(|values| !values.is_empty()))
    }
}

/// Returns the condition of a write as an expression; `None` without a condition.
pub(super) fn condition(terms: &mut Terms, demand: &Condition, now: Timestamp) -> Option<String> {
    match demand {
        Condition::None => None,
        Condition::Absent => {
            let (pk, expires_at) = (terms.name("PK"), terms.name("expires_at"));
            let now = terms.value(encode_seconds(now));
            Some(format!("attribute_not_exists({pk}) OR {expires_at} <= {now}"))
        }
        Condition::Exists => Some(present(terms, now)),
        Condition::Equals(name, value) => {
            let present = present(terms, now);
            let (name, value) = (terms.name(name), terms.value(encode(value)));
            Some(format!("{present} AND {name} = {value}"))
        }
        Condition::Without(name) => {
            let present = present(terms, now);
            Some(format!("{present} AND attribute_not_exists({})", terms.name(name)))
        }
        Condition::All(_) => {
            let mut flat = Vec::new();
            flatten(demand, &mut flat);
            let parts: Vec<String> = flat.into_iter().filter_map(|one| condition(terms, one, now)).collect();
            // DynamoDB refuses redundant parentheses.
            match parts.as_slice() {
                [] => None,
                [only] => Some(only.clone()),
                several => Some(format!("({})", several.join(") AND ("))),
            }
        }
    }
}

/// Collects the nested conditions that must all hold.
fn flatten<'a>(demand: &'a Condition, into: &mut Vec<&'a Condition>) {
    match demand {
        Condition::All(conditions) => conditions.iter().for_each(|one| flatten(one, into)),
        one => into.push(one),
    }
}

/// Returns the changes of an update as an expression.
pub(super) fn changes(terms: &mut Terms, update: &Update) -> String {
    let mut clauses = Vec::new();
    let set = update.set.iter().map(|(name, value)| {
        let (name, value) = (terms.name(name), terms.value(encode(value)));
        format!("{name} = {value}")
    });
    clauses.extend(clause("SET", set.collect()));
    let remove = update.remove.iter().map(|name| terms.name(name));
    clauses.extend(clause("REMOVE", remove.collect()));
    let add = update.add.iter().map(|(name, amount)| {
        let (name, amount) = (terms.name(name), terms.value(encode(&Value::from(*amount))));
        format!("{name} {amount}")
    });
    clauses.extend(clause("ADD", add.collect()));
    clauses.join(" ")
}

fn clause(word: &str, parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| format!("{word} {}", parts.join(", ")))
}

/// Returns the condition that the item exists and has not expired.
pub(super) fn present(terms: &mut Terms, now: Timestamp) -> String {
    let pk = terms.name("PK");
    format!("attribute_exists({pk}) AND ({})", not_expired(terms, now))
}

/// Returns the condition that the item has not expired.
pub(super) fn not_expired(terms: &mut Terms, now: Timestamp) -> String {
    let (expires_at, now) = (terms.name("expires_at"), terms.value(encode_seconds(now)));
    format!("attribute_not_exists({expires_at}) OR {expires_at} > {now}")
}

/// Returns the condition on the partition and the range of a query. `None` if the range must be empty: DynamoDB
/// refuses such ranges, instead of finding nothing.
pub(super) fn key_condition(terms: &mut Terms, query: &Query) -> Option<String> {
    let (pk, from, to) = (&query.range.pk, &query.range.from, &query.range.to);
    if pk.is_empty() {
        return None;
    }
    let along = along(query.index);
    let partition = format!("{} = {}", terms.name(along.hash), terms.value(AttributeValue::S(pk.clone())));
    if query.index == Index::Board {
        return Some(partition);
    }
    if to.is_empty() || from > to {
        return None;
    }
    let (sort, last) = (terms.name(along.range), terms.value(AttributeValue::S(to.clone())));
    // No key is empty, and DynamoDB accepts no empty text in comparisons.
    if from.is_empty() {
        return Some(format!("{partition} AND {sort} <= {last}"));
    }
    let first = terms.value(AttributeValue::S(from.clone()));
    Some(format!("{partition} AND {sort} BETWEEN {first} AND {last}"))
}

/// Returns the attributes to read: the key, also that in the index, and those of `wanted`; `None` for all.
pub(super) fn projection(terms: &mut Terms, index: Index, wanted: Option<&[String]>) -> Option<String> {
    let wanted = wanted?.iter().map(String::as_str).filter(|name| !name.is_empty());
    let keys = ["PK", "SK", along(index).range];
    let mut paths: Vec<String> = keys.into_iter().chain(wanted).map(|name| terms.name(name)).collect();
    // Duplicate paths would be refused.
    paths.sort_unstable();
    paths.dedup();
    Some(paths.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::KeyRange;

    fn now() -> Timestamp {
        Timestamp::default().plus_seconds(17)
    }

    fn range(pk: &str, from: &str, to: &str) -> Query {
        Query::table(KeyRange { pk: pk.into(), from: from.into(), to: to.into() })
    }

    #[test]
    fn conditions_count_what_has_expired_as_absent() {
        let text = |wanted| condition(&mut Terms::default(), &wanted, now());
        assert_eq!(text(Condition::None), None);
        assert_eq!(text(Condition::Absent).unwrap(), "attribute_not_exists(#n0) OR #n1 <= :v0");
        let present = "attribute_exists(#n0) AND (attribute_not_exists(#n1) OR #n1 > :v0)";
        assert_eq!(text(Condition::Exists).unwrap(), present);
        assert_eq!(
            text(Condition::Equals("ver", Value::from(3))).unwrap(),
            format!("{present} AND #n2 = :v1")
        );
    }

    #[test]
    fn several_conditions_have_no_more_parentheses_than_needed() {
        let text = |wanted| condition(&mut Terms::default(), &wanted, now());
        let all = Condition::All;
        assert_eq!(text(all(Vec::new())), None);
        let alone = all(vec![all(vec![Condition::Exists]), Condition::None]);
        assert_eq!(text(alone), text(Condition::Exists));
        let two = all(vec![Condition::Absent, all(vec![Condition::Without("closing")])]);
        assert_eq!(
            text(two).unwrap(),
            "(attribute_not_exists(#n0) OR #n1 <= :v0) AND (attribute_exists(#n0) AND \
             (attribute_not_exists(#n1) OR #n1 > :v1) AND attribute_not_exists(#n2))"
        );
    }

    #[test]
    fn placeholders_stand_for_names_and_values() {
        let mut terms = Terms::default();
        condition(&mut terms, &Condition::Equals("PK", Value::from("x")), now());
        let (names, values) = terms.finish();
        let (names, values) = (names.unwrap(), values.unwrap());
        assert_eq!((names["#n0"].as_str(), names["#n1"].as_str(), names.len()), ("PK", "expires_at", 2));
        assert_eq!(values[":v0"], AttributeValue::N("17".into()));
        assert_eq!(values[":v1"], AttributeValue::S("x".into()));
        assert_eq!(Terms::default().finish(), (None, None));
    }

    #[test]
    fn ranges_that_hold_nothing_are_not_asked_for() {
        let text = |query: Query| key_condition(&mut Terms::default(), &query);
        assert_eq!(text(range("p", "a", "b")).unwrap(), "#n0 = :v0 AND #n1 BETWEEN :v2 AND :v1");
        assert_eq!(text(range("p", "", "b")).unwrap(), "#n0 = :v0 AND #n1 <= :v1");
        assert_eq!(text(Query::index(Index::Board, "b")).unwrap(), "#n0 = :v0");
        for empty in [range("", "a", "b"), range("p", "", ""), range("p", "b", "a")] {
            assert_eq!(text(empty), None);
        }
    }

    #[test]
    fn keys_are_always_read_and_nothing_twice() {
        let text = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            projection(&mut Terms::default(), Index::Table, Some(&wanted)).unwrap()
        };
        assert_eq!(projection(&mut Terms::default(), Index::Table, None), None);
        assert_eq!(text(&[]), "#n0, #n1");
        assert_eq!(text(&["a", "a", "SK", ""]), "#n0, #n1, #n2");
        assert_eq!(projection(&mut Terms::default(), Index::Gsi1, Some(&[])).unwrap(), "#n0, #n1, #n2");
    }
}
