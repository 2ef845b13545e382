//! Schemas of the fields that define how predictions are judged.

use event::{
    Costs, MAX_DIMENSION_EDGES, MAX_DIMENSIONS, NOTHING, Task,
    custom::{MAX_CUSTOM_BYTES, MAX_CUSTOM_METRICS},
    id::MAX_NAME_BYTES,
};
use web::{
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::schemas::{maybe, text};

/// Adds the fields of the judgement that a task allows.
pub(super) fn of_task(new: ObjectBuilder, task: &str) -> RefOr<Schema> {
    let [binary, _, regression, ranking] = Task::NAMES;
    let is_of_task = |name: &str| match name {
        "positive_label" => [binary, ranking].contains(&task),
        "threshold" | "costs" => task == binary,
        "interval_level" => task == regression,
        _ => true,
    };
    let new = new.property("task", schema::one_of([task])).required("task");
    let positive_label = maybe(text(MAX_NAME_BYTES), Type::String);
    let said = judging().into_iter().chain([("positive_label", positive_label)]);
    let said = said.map(|(name, schema)| match is_of_task(name) {
        true => (name, schema),
        false => (name, ObjectBuilder::new().schema_type(Type::Null).into()),
    });
    said.fold(new, |new, (name, schema)| new.property(name, schema)).into()
}

/// A number in a text.
const NUMBER: &str = "-?[0-9]{1,9}(\\.[0-9]{1,6})?";

fn costs_pattern() -> String {
    let from = |at: usize| {
        let more = Costs::NAMES[at + 1..].iter().map(|name| format!("(,{name}={NUMBER})?"));
        format!("{}={NUMBER}{}", Costs::NAMES[at], more.collect::<String>())
    };
    (0..Costs::NAMES.len()).map(from).collect::<Vec<_>>().join("|")
}

/// Gains and costs of predictions.
pub fn costs() -> ObjectBuilder {
    schema::string().pattern(Some(format!("^({})$", costs_pattern())))
}

/// Fields of the judgement for any task.
pub fn judging() -> [(&'static str, RefOr<Schema>); 5] {
    let number = || ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true));
    let of_text = |pattern: String| schema::string().pattern(Some(pattern));
    let costs = of_text(format!("^({NOTHING}|{})$", costs_pattern()));
    let name = &schema::NAME_PATTERN.trim_start_matches('^').trim_end_matches('$');
    let dimension = format!("^(tag\\.{name}|feature\\.{name}(:{NUMBER}){{1,{MAX_DIMENSION_EDGES}}})$");
    let dimensions = schema::array(of_text(dimension)).max_items(Some(MAX_DIMENSIONS)).unique_items(true);
    [
        ("threshold", number().description(Some("From which score on a prediction without a label is positive.")).into()),
        (
            "costs",
            maybe(
                costs.description(Some(
                    "What a prediction of a binary task gains (tp, tn) and costs (fp, fn), such as `tp=10,fp=2,fn=50`; what is not named is 0. `none` takes them away.",
                )),
                Type::String,
            ),
        ),
        (
            "interval_level",
            number()
                .minimum(Some(0))
                .exclusive_maximum(Some(1))
                .description(Some(
                    "The share of real numbers that predicted intervals are to hold, such as 0.8; 0 when it is not known.",
                ))
                .into(),
        ),
        (
            "dimensions",
            dimensions
                .schema_type(schema::types(&[Type::Array], true))
                .description(Some(
                    "By which tags and features evaluations are stored beside by release: `tag.carrier`, or `feature.distance:500:1000` with the numbers at which new bins begin.",
                ))
                .into(),
        ),
        (
            "custom_metrics",
            schema::map(Some(schema::name()), maybe(text(MAX_CUSTOM_BYTES), Type::String))
                .max_properties(Some(MAX_CUSTOM_METRICS))
                .schema_type(schema::types(&[Type::Object], true))
                .description(Some(
                    "Metrics of its own by name, each an aggregate in SQL over the columns of `joined`, such as `avg(abs(value - outcome_value))`; null or `none` takes one away, and what is not named stays.",
                ))
                .into(),
        ),
    ]
}
