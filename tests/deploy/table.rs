//! Checks that the table of terraform equals the one that `almanac admin table create` makes.

use std::collections::BTreeSet;

use event::Clock;
use tests::local;

use crate::{
    code::{Module, Project},
    rules::bodies,
    values::{Value, attribute, outcomes},
};

/// Relevant properties of a table, in readable form.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    key: String,
    /// Name and key of each index; all of them hold all attributes.
    indexes: BTreeSet<(String, String)>,
    stream: Option<String>,
    time_to_live: Option<String>,
}

/// Shape in terraform.
fn described(module: &Module) -> Shape {
    let (_, table) = module.block("resource", &["aws_dynamodb_table", "this"]).unwrap();
    let text = |body: &hcl_edit::structure::Body, name: &str| {
        attribute(module, body, name).and_then(|value| value.text()).unwrap_or_default()
    };
    let type_of = |name: &str| {
        let attributes = bodies(table, "attribute");
        let found = attributes.iter().find(|body| text(body, "name") == name);
        text(found.unwrap_or_else(|| panic!("{name} is not declared")), "type")
    };
    let key = |body: &hcl_edit::structure::Body| {
        let part = |name: String| format!("{name} {}", type_of(&name));
        format!("{}, {}", part(text(body, "hash_key")), part(text(body, "range_key")))
    };
    // The usual outcome of a choice stands last.
    let usual = |name: &str| {
        let outcomes = table.body.get_attribute(name).map(|found| outcomes(module, &found.value));
        outcomes.and_then(|mut outcomes| outcomes.pop()?.1.text()).unwrap_or_default()
    };
    let is_on = |body: &hcl_edit::structure::Body, name: &str| {
        attribute(module, body, name) == Some(Value::Bool(true))
    };
    let index = |body: &hcl_edit::structure::Body| {
        assert_eq!(
            text(body, "projection_type"),
            "ALL",
            "the index {} holds all attributes",
            text(body, "name")
        );
        (text(body, "name"), key(body))
    };
    let ttl = bodies(table, "ttl");
    Shape {
        key: key(&table.body),
        indexes: bodies(table, "global_secondary_index").into_iter().map(index).collect(),
        stream: is_on(&table.body, "stream_enabled").then(|| usual("stream_view_type")),
        time_to_live: ttl.iter().find(|body| is_on(body, "enabled")).map(|body| text(body, "attribute_name")),
    }
}

#[test]
fn a12_terraform_creates_the_table() {
    let project = Project::read();
    let shape = described(project.almanac());
    let expected = Shape {
        key: "PK S, SK S".into(),
        indexes: [("GSI1", "GSI1PK S, GSI1SK S"), ("board", "board S, score N")]
            .map(|(name, key)| (name.to_owned(), key.to_owned()))
            .into(),
        stream: Some("KEYS_ONLY".into()),
        time_to_live: Some("expires_at".into()),
    };
    assert_eq!(shape, expected);
    let (_, provisioned) = project.almanac().block("variable", &["provisioned"]).unwrap();
    let default = attribute(project.almanac(), &provisioned.body, "default");
    assert_eq!(default, Some(Value::Null), "on demand unless asked otherwise");
}

/// Made by the code, described by the engine, and compared with the files.
#[tokio::test]
async fn a12_terraform_table_matches_dynamodb_local() {
    let config = local::fresh_table(Clock::system());
    dynamodb::create(&config).await.unwrap();
    let made = dynamodb::describe(&config).await.unwrap();
    // An index without all attributes would be a problem.
    assert_eq!(made.problems, [""; 0]);
    let shape = Shape {
        key: made.key,
        indexes: made.indexes.into_iter().map(|index| (index.name, index.key)).collect(),
        stream: made.stream.map(|stream| stream.view),
        time_to_live: made.time_to_live,
    };
    assert_eq!(shape, described(Project::read().almanac()));
    assert_eq!(made.billing, "PAY_PER_REQUEST");
    dynamodb::delete(&config).await.unwrap();
}
