//! JSON Schemas of events, made from the fields of the kinds.

use catalog::Action;
use event::{
    Kind, Task,
    fields::{AppliesTo, Family, Field, FieldType, GROUP, MAX_STEP, RETRACTED, Rule, UNDATED},
};
use serde_json::{Map, Value, json};
use web::{
    content,
    openapi::{Content, ContentBuilder, RefOr, Schema, Type, example::ExampleBuilder, schema::ObjectBuilder},
    schema,
};

use crate::{
    format::Format,
    limits::{MAX_BATCH_ROWS, MAX_EVENT_ID_BYTES},
};

/// Name of the schema of an event.
pub(super) fn event_name(kind: Kind) -> String {
    format!("Event.{kind}")
}

/// Body of an append, in each possible format.
pub(super) fn contents(kind: Kind) -> [(&'static str, Content); Format::ALL.len()] {
    let events = || {
        let events = schema::array(schema::component(&event_name(kind)));
        events.max_items(Some(MAX_BATCH_ROWS))
    };
    Format::ALL.map(|format| {
        let media = format.media_type();
        let content = match format {
            Format::Ndjson => content(events().description(Some("One object a line.")), Some(example(kind))),
            Format::Json => ContentBuilder::new()
                .schema(Some(schema::any_of([events().into(), columns()])))
                .examples_from_iter(
                    [("rows", example(kind)), ("columns", turned(kind, &example(kind)))]
                        .map(|(name, value)| (name, ExampleBuilder::new().value(Some(value)))),
                )
                .build(),
            Format::Csv => {
                let families = kind.families().iter();
                let families =
                    families.map(|family| format!("; {} as `{}`", family.name, family.columns_are_called()));
                let says = format!("A header with the names of fields{}.", families.collect::<String>());
                content(schema::string().description(Some(says)), Some(json!(csv(kind, &example(kind)))))
            }
            Format::Arrow | Format::Parquet => content(schema::bytes(media), None),
        };
        (media, content)
    })
}

/// Schema of an event of a kind as an object.
pub(super) fn event(kind: Kind) -> RefOr<Schema> {
    let fields = kind.sent_fields().iter();
    let mut event = fields.fold(schema::closed(), |event, field| {
        let event = event.property(field.name, value(field, !field.is_required));
        if field.is_required { event.required(field.name) } else { event }
    });
    if kind == Kind::Outcomes {
        let day = schema::day().schema_type(schema::types(&[Type::String], true));
        event = event.property("predicted_on", day.description(Some("The UTC day of the prediction.")));
    }
    for family in kind.families() {
        event = event.property(family.name, members(family));
    }
    event = event.property("event_id", event_id());
    let mut all = vec![event.into()];
    all.extend(one_of(kind, &|field| field.is_telling, &|family| family.is_telling));
    all.extend(needs(kind));
    all.extend(kind.field(GROUP).map(|group| {
        let score = ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true));
        let score = score.minimum(Rule::Probability.min()).maximum(Rule::Probability.max());
        let is_probability = ObjectBuilder::new().schema_type(Type::Object).property("score", score);
        schema::any_of([with(group.name, value(group, false)), is_probability.into()])
    }));
    if kind == Kind::Outcomes {
        let dates = || {
            let instant = kind.field("predicted_at").map(|field| with(field.name, value(field, false)));
            instant.into_iter().chain([with("predicted_on", schema::day())])
        };
        all.push(schema::any_of([lacking(&[RETRACTED])].into_iter().chain(dates())));
        all.push(schema::any_of([lacking(&UNDATED), lacking(&["predicted_at", "predicted_on"])]));
    }
    match all.len() {
        1 => all.remove(0),
        _ => schema::all_of(all),
    }
}

/// Condition of each field that needs another one beside it: it is null, or one of these is not.
fn needs(kind: Kind) -> impl Iterator<Item = RefOr<Schema>> {
    kind.sent_fields().iter().filter(|field| !field.needs.is_empty()).map(move |field| {
        let needed = field.needs.iter().filter_map(|name| kind.field(name));
        schema::any_of(
            [lacking(&[field.name])]
                .into_iter()
                .chain(needed.map(|other| with(other.name, value(other, false)))),
        )
    })
}

/// Schema of an object that lacks some properties: they are missing, or null.
fn lacking(names: &[&str]) -> RefOr<Schema> {
    let null = || ObjectBuilder::new().schema_type(Type::Null);
    let lacks = ObjectBuilder::new().schema_type(Type::Object);
    names.iter().fold(lacks, |lacks, name| lacks.property(*name, null())).into()
}

/// Schema of an object that has a property.
fn with(name: &str, value: ObjectBuilder) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Object).property(name, value).required(name).into()
}

/// Schema of an object that has at least one of these fields and families; `None` when the kind has none of them.
fn one_of(
    kind: Kind,
    is_field: &dyn Fn(&Field) -> bool,
    is_family: &dyn Fn(&Family) -> bool,
) -> Option<RefOr<Schema>> {
    let fields = kind.sent_fields().iter().filter(|field| is_field(field));
    let families = kind.families().iter().filter(|family| is_family(family));
    let fields = fields.map(|field| with(field.name, value(field, false)));
    let some = |family| members(family).schema_type(Type::Object).min_properties(Some(1));
    let families = families.map(|family| with(family.name, some(family)));
    let all: Vec<RefOr<Schema>> = fields.chain(families).collect();
    (!all.is_empty()).then(|| schema::any_of(all))
}

/// Schema of events as an object of arrays of equal length; those of a family are within an object.
fn columns() -> RefOr<Schema> {
    let column = ObjectBuilder::new().schema_type(schema::types(&[Type::Array, Type::Object], false));
    let columns = schema::map(None, column);
    columns
        .description(Some("An object of arrays of equal length: of each field of the rows its values."))
        .into()
}

/// Schema of a field in JSON.
fn value(field: &Field, nullable: bool) -> ObjectBuilder {
    let value = of_rule((field.kind, field.rule), nullable);
    value.description(Some(match field.kind {
        FieldType::Time => {
            format!("{} RFC 3339 with an offset, at most 24 hours in the future.", field.about)
        }
        FieldType::Float | FieldType::Text => field.about.to_owned(),
    }))
}

/// Schema of a value of a type and a rule; the limits of texts are of bytes in UTF-8.
fn of_rule((kind, rule): (FieldType, Rule), nullable: bool) -> ObjectBuilder {
    match (kind, rule) {
        (FieldType::Time, _) => schema::time().schema_type(schema::types(&[Type::String], nullable)),
        (FieldType::Float, Rule::Measured) => {
            // NaN and infinities are texts, since JSON has no numbers for them.
            ObjectBuilder::new()
                .schema_type(schema::types(&[Type::Number, Type::String], nullable))
                .pattern(Some("^(NaN|-?Infinity)$"))
        }
        (FieldType::Float, Rule::Step) => {
            let whole = ObjectBuilder::new().schema_type(schema::types(&[Type::Integer], nullable));
            whole.minimum(Some(-MAX_STEP as isize)).maximum(Some(MAX_STEP as isize))
        }
        (FieldType::Float, _) => {
            let number = ObjectBuilder::new().schema_type(schema::types(&[Type::Number], nullable));
            number.minimum(rule.min()).maximum(rule.max())
        }
        (FieldType::Text, Rule::Action) => schema::one_of(Action::ALL.map(Action::name)),
        (FieldType::Text, Rule::Task) => one_of_names(&Task::NAMES, nullable),
        (FieldType::Text, Rule::AppliesTo) => one_of_names(&AppliesTo::NAMES, nullable),
        (FieldType::Text, Rule::True) => {
            let values = [Value::from(true), Value::from("true")];
            let truth = schema::types(&[Type::Boolean, Type::String], nullable);
            let truth = ObjectBuilder::new().schema_type(truth);
            truth.enum_values(Some(values.into_iter().chain(nullable.then_some(Value::Null))))
        }
        (FieldType::Text, Rule::Run) => {
            let id = schema::string().schema_type(schema::types(&[Type::String], nullable));
            id.pattern(Some("^[0-9A-Za-z]{27}$"))
        }
        (FieldType::Text, Rule::Day) => schema::day().schema_type(schema::types(&[Type::String], nullable)),
        (FieldType::Text, _) => {
            let least = if rule.may_be_empty() { 0 } else { 1 };
            let text = as_text(nullable).min_length(Some(least)).max_length(Some(rule.max_bytes()));
            match rule {
                // The text of a whole number is a name unless it begins with a minus.
                Rule::Name => text.pattern(Some(schema::NAME_PATTERN)).minimum(Some(0)),
                _ => text,
            }
        }
    }
}

/// Schema of one of some texts.
fn one_of_names(names: &[&str], nullable: bool) -> ObjectBuilder {
    let names = names.iter().map(|name| Value::from(*name)).chain(nullable.then_some(Value::Null));
    let text = ObjectBuilder::new().schema_type(schema::types(&[Type::String], nullable));
    text.enum_values(Some(names))
}

/// Schema of a string, or of a value that is converted to a text.
fn as_text(nullable: bool) -> ObjectBuilder {
    let text = schema::types(&[Type::String, Type::Integer, Type::Boolean], nullable);
    ObjectBuilder::new().schema_type(text).minimum(Some(i64::MIN as isize)).maximum(Some(i64::MAX as isize))
}

fn event_id() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(schema::types(&[Type::String, Type::Integer], true))
        .minimum(Some(i64::MIN as isize))
        .maximum(Some(i64::MAX as isize))
        .pattern(Some("^[!-~]+$"))
        .max_length(Some(MAX_EVENT_ID_BYTES))
        .description(Some("Names an event that is alone in its request, as Idempotency-Key names a batch."))
}

/// Schema of the name of a member.
fn member_name(family: &Family) -> ObjectBuilder {
    match family.name_rule {
        Rule::Name => schema::name(),
        rule => schema::string().min_length(Some(1)).max_length(Some(rule.max_bytes())),
    }
}

/// Schema of the members of a family as an object.
fn members(family: &Family) -> ObjectBuilder {
    let says =
        format!("{} `{}` beside the other fields says the same.", family.about, family.columns_are_called());
    schema::map(Some(member_name(family)), of_rule((family.kind, family.rule), true))
        .schema_type(schema::types(&[Type::Object], true))
        .max_properties(Some(family.max))
        .description(Some(says))
}

/// Events that can be appended to the workspace of the examples, in the order of the document.
fn example(kind: Kind) -> Value {
    match kind {
        Kind::Releases => json!([
            { "release": "v1", "released_at": "2026-06-01T00:00:00Z", "model": "risk", "action": "register",
              "configuration": "shallow", "environment": "production", "note": "The first." },
        ]),
        Kind::Predictions => json!([
            { "key": "loan-1", "predicted_at": "2026-06-01T02:00:00Z", "release": "v1", "score": 0.81,
              "features": { "amount": 12000 }, "tags": { "branch": "north" } },
            { "key": "loan-2", "predicted_at": "2026-06-01T02:00:00Z", "release": "v1", "score": 0.07,
              "features": { "amount": 800 }, "tags": { "branch": "south" } },
        ]),
        Kind::Outcomes => json!([
            { "key": "loan-1", "predicted_on": "2026-06-01", "observed_at": "2026-06-10T17:30:00Z",
              "label": "default" },
            { "key": "loan-2", "predicted_on": "2026-06-01", "observed_at": "2026-06-10T17:30:00Z",
              "label": "repaid" },
        ]),
        Kind::Metrics => json!([
            { "name": "latency_ms", "measured_at": "2026-06-01T02:00:05Z", "value": 12.5, "release": "v1",
              "key": "loan-1", "predicted_at": "2026-06-01T02:00:00Z", "tags": { "host": "a" } },
        ]),
        Kind::Unmatched => json!([]),
    }
}

/// Cells of an event by the names of their columns; those of tags are `tag.NAME`.
fn cells(kind: Kind, event: &Value) -> Vec<(String, Value)> {
    let fields = event.as_object().into_iter().flatten();
    let cells = fields.flat_map(|(name, value)| {
        match (kind.families().iter().find(|family| family.name == name), value.as_object()) {
            (Some(family), Some(members)) => {
                members.iter().map(|(member, value)| (family.column(member), value.clone())).collect()
            }
            _ => vec![(name.clone(), value.clone())],
        }
    });
    cells.collect()
}

/// Converts events that all have the same fields to an object of arrays.
fn turned(kind: Kind, events: &Value) -> Value {
    let rows = events.as_array().into_iter().flatten();
    let mut columns = Map::new();
    for (name, value) in rows.flat_map(|event| cells(kind, event)) {
        let column = match kind.family(&name).and_then(|family| Some((family, family.member(&name)?))) {
            Some((family, member)) => &mut columns.entry(family.name).or_insert_with(|| json!({}))[member],
            None => columns.entry(name).or_insert(Value::Null),
        };
        match column {
            Value::Array(values) => values.push(value),
            unset => *unset = json!([value]),
        }
    }
    Value::Object(columns)
}

/// Converts events to CSV. None of the values needs quotes.
fn csv(kind: Kind, events: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows: Vec<_> = events.as_array().into_iter().flatten().map(|event| cells(kind, event)).collect();
    let header = rows.first().map(|row| row.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let lines = rows.iter().map(|row| row.iter().map(|(_, value)| text(value)).collect());
    header.into_iter().chain(lines).map(|line| line.join(",") + "\n").collect()
}

#[cfg(test)]
mod tests {
    use event::{
        Timestamp,
        fields::{REASON, RETRACTED},
    };

    use super::*;
    use crate::{
        Refused,
        format::{BodyReader, Encoding},
    };

    fn read(kind: Kind, events: &Value) -> Result<(), Refused> {
        let now = Timestamp::parse("2026-06-10T20:00:00Z").unwrap();
        let mut reader = BodyReader::new(kind, Format::Json, Encoding::Identity, now);
        reader.push(events.to_string().as_bytes())?;
        reader.finish().map(|_| ())
    }

    /// Example of a kind with one field changed, or without it. A retracted event also gets a reason, and the other way round.
    fn changed(kind: Kind, name: &str, value: Option<Value>) -> Value {
        let mut event: Map<String, Value> = example(kind)[0].as_object().unwrap().clone();
        if kind.field(name).is_some_and(|field| field.is_of_retraction) {
            event.insert(RETRACTED.to_owned(), json!(true));
            event.insert(REASON.to_owned(), json!("wrong"));
        }
        if UNDATED.contains(&name) {
            event.remove("predicted_on");
        }
        match value {
            Some(value) => _ = event.insert(name.to_owned(), value),
            None => _ = event.remove(name),
        }
        json!([event])
    }

    #[test]
    fn event_schema_agrees_with_validation() {
        for kind in Kind::ALL {
            let schema = serde_json::to_value(event(kind)).unwrap();
            let schema = schema.pointer("/allOf/0").unwrap_or(&schema);
            for (name, field) in schema["properties"].as_object().unwrap() {
                let taken = |value: Value| read(kind, &changed(kind, name, Some(value))).is_ok();
                let is_required = schema["required"].as_array().unwrap().contains(&json!(name));
                let about = format!("{kind}: {name}");
                let of_type = |wanted: &str| match &field["type"] {
                    Value::Array(types) => types.contains(&json!(wanted)),
                    one => *one == wanted,
                };
                let is_alone = ["score", "label", "predicted_on"].contains(&name.as_str())
                    || kind.field(name).is_some_and(|field| !field.needs.is_empty());
                if !is_alone {
                    assert_eq!(
                        read(kind, &changed(kind, name, None)).is_ok(),
                        !is_required,
                        "{about} may be absent"
                    );
                    assert_eq!(taken(Value::Null), of_type("null"), "{about} may be null");
                }
                if let Some(most) = field["maxLength"].as_u64() {
                    assert!(taken(json!("x".repeat(most as usize))), "{about} may be {most} long");
                    assert!(
                        !taken(json!("x".repeat(most as usize + 1))),
                        "{about} may be longer than {most}"
                    );
                    assert_eq!(taken(json!("")), field["minLength"] == 0, "{about} may be empty");
                    assert_eq!(
                        taken(json!("-a b")),
                        field.get("pattern").is_none(),
                        "{about} may be any text"
                    );
                    assert_eq!(
                        (taken(json!(7)), taken(json!(true))),
                        (of_type("integer"), of_type("boolean")),
                        "{about}"
                    );
                    assert_eq!(
                        taken(json!(-7)),
                        of_type("integer") && field["minimum"] != 0,
                        "{about} may be negative"
                    );
                } else if of_type("number") {
                    // A score beyond its bounds needs a group, as a schema beside the fields says.
                    let is_score = name == "score";
                    let is_bounded = field.get("maximum").is_some() || is_score;
                    let is_positive = field.get("minimum").is_some() || is_score;
                    assert_eq!(
                        (taken(json!(1.5)), taken(json!(-0.5))),
                        (!is_bounded, !is_positive),
                        "{about}"
                    );
                    assert!(taken(json!(1)) && taken(json!(0)), "{about}");
                }
                let choices = field["enum"].as_array().into_iter().flatten();
                for choice in choices.filter(|choice| !is_alone || !choice.is_null()) {
                    assert!(taken(choice.clone()), "{about} may be {choice}");
                }
                assert!(!taken(json!([])), "{about} may be a list");
            }
            assert!(read(kind, &changed(kind, "unknown", Some(json!(1)))).is_err(), "{kind}");
            read(kind, &example(kind)).unwrap();
        }
        let most = Kind::Metrics.families()[0].max;
        let tags = |count: usize| (0..count).map(|n| (format!("t{n}"), json!("x"))).collect::<Map<_, _>>();
        assert!(read(Kind::Metrics, &changed(Kind::Metrics, "tags", Some(tags(most).into()))).is_ok());
        assert!(read(Kind::Metrics, &changed(Kind::Metrics, "tags", Some(tags(most + 1).into()))).is_err());
    }

    #[test]
    fn score_of_a_group_has_no_bounds() {
        let mut ranked = changed(Kind::Predictions, "score", Some(json!(-7.5)));
        assert!(read(Kind::Predictions, &ranked).is_err());
        ranked[0]["group"] = json!("query 7");
        read(Kind::Predictions, &ranked).unwrap();
    }

    #[test]
    fn examples_are_columns_as_well() {
        let columns = Kind::ALL.map(|kind| turned(kind, &example(kind)).to_string() + "\n");
        insta::assert_snapshot!(columns.concat());
        insta::assert_snapshot!(Kind::ALL.map(|kind| csv(kind, &example(kind))).join("\n"));
    }
}
