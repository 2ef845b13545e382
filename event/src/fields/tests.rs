use std::{collections::BTreeMap, fs};

use super::*;

/// Returns the fields and families that a kind has in requests, each with whether it is required.
fn in_requests(kind: Kind) -> BTreeMap<&'static str, bool> {
    let fields = kind.sent_fields().iter().map(|field| (field.name, field.is_required));
    let families = kind.families().iter().map(|family| (family.name, false));
    // The day of a prediction, by which an outcome may name it, is not stored.
    let day = (kind == Kind::Outcomes).then_some(("predicted_on", false));
    fields.chain(families).chain(day).collect()
}

fn page(path: &str) -> String {
    fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Removes the parts of a text in parentheses.
fn without_remarks(text: &str) -> String {
    let mut depth = 0;
    let kept = text.chars().filter(|letter| {
        depth += i32::from(*letter == '(');
        let is_kept = depth == 0;
        depth -= i32::from(*letter == ')');
        is_kept
    });
    kept.collect()
}

#[test]
fn names_of_columns_are_distinguished() {
    for kind in Kind::ALL {
        let fields = kind.fields().iter().map(|field| field.name.to_owned());
        let families = kind.families().iter().flat_map(|family| [family.name.to_owned(), family.column("x")]);
        let names: Vec<String> = fields.chain(families).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{kind} have `{name}` twice");
        }
        for family in kind.families() {
            assert!(kind.field(&family.column("x")).is_none() && kind.may_have(&family.column("x")));
            assert_eq!(kind.family(&family.column("x.y")).map(|found| found.name), Some(family.name));
            assert!(!kind.may_have(family.prefix) && !kind.may_have(family.name), "{kind}: {}", family.name);
        }
        assert!(kind.field(kind.time_field()).is_some_and(|field| field.is_required));
    }
    assert_eq!(Kind::Predictions.column_type("tag.score"), Some(FieldType::Text));
    assert_eq!(Kind::Outcomes.column_type("tag.score"), None);
}

/// An unmatched outcome has the fields sent for an outcome without a date, unchanged.
#[test]
fn unmatched_outcome_has_sent_fields_except_prediction_time() {
    let sent = Kind::Outcomes.sent_fields().iter().filter(|field| field.name != "predicted_at");
    assert_eq!(sent.collect::<Vec<_>>(), Kind::Unmatched.fields().iter().collect::<Vec<_>>());
    let stored = Kind::Outcomes.sent_fields().iter().filter(|field| !UNDATED.contains(&field.name));
    assert_eq!(stored.collect::<Vec<_>>(), Kind::Outcomes.fields().iter().collect::<Vec<_>>());
    for kind in Kind::STORED {
        assert_eq!(Kind::from_letter(kind.letter()), Some(kind));
    }
    assert_eq!(Kind::from_name("unmatched"), None);
}

#[test]
fn the_page_on_posting_names_every_field() {
    let page = page("docs/posting.md");
    for kind in [Kind::Predictions, Kind::Outcomes, Kind::Metrics] {
        let start = format!("| `{kind}` | ");
        let row = page.lines().find_map(|line| line.strip_prefix(&start)).expect("a row of the table");
        let row = without_remarks(row.trim_end_matches('|')).replace(" or ", ", ");
        let named =
            row.split(',').map(str::trim).map(|name| (name.trim_matches('*'), name.starts_with("**")));
        assert_eq!(named.collect::<BTreeMap<_, _>>(), in_requests(kind), "{kind}");
    }
}

#[test]
fn the_python_client_knows_every_field() {
    let source = page("clients/python/src/almanac_ml/_fields.py");
    for kind in [Kind::Predictions, Kind::Outcomes, Kind::Metrics] {
        let (_, rest) = source.split_once(&format!("\"{kind}\": (")).expect("the fields of the kind");
        let (fields, _) = rest.split_once("\n    ),").expect("their end");
        let fields = fields.lines().filter_map(|line| line.trim().strip_prefix("Field(")?.strip_suffix("),"));
        let fields = fields.map(|field| {
            let (name, rest) = field.split_once(", ").expect("a name and a type");
            (name.trim_matches('"').to_owned(), rest.to_owned())
        });
        let known = |name: &str| {
            let field = kind.sent_fields().iter().find(|field| field.name == name);
            let kind_of = match field.map_or(FieldType::Text, |field| field.kind) {
                FieldType::Time => "TIME",
                FieldType::Float => "NUMBER",
                FieldType::Text => "TEXT",
            };
            let is_required = field.is_some_and(|field| field.is_required);
            format!("{kind_of}{}", if is_required { ", required=True" } else { "" })
        };
        let is_field = |name: &&&str| kind.families().iter().all(|family| family.name != **name);
        let expected = in_requests(kind);
        let expected = expected.keys().filter(is_field).map(|name| ((*name).to_owned(), known(name)));
        assert_eq!(fields.collect::<BTreeMap<_, _>>(), expected.collect(), "{kind}");
    }
}
