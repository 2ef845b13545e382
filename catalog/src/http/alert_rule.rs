//! Fields of an alert rule, for the OpenAPI document.

use event::Kind;
use serde_json::Value;
use web::{
    openapi::{
        Type,
        schema::{ArrayBuilder, ObjectBuilder},
    },
    schema,
};

use crate::{MAX_DELAY_DAYS, MAX_FOR_DAYS, MAX_WEBHOOKS, WINDOW_DAYS};

/// Name and schema of a field.
type Field = (&'static str, ObjectBuilder);

fn text(text: ObjectBuilder, says: &str) -> ObjectBuilder {
    schema::nullable(text).description(Some(says))
}

fn kind(says: &str) -> ObjectBuilder {
    let kinds = Kind::ALL.map(Kind::name).into_iter().map(Value::from).chain([Value::Null]);
    schema::nullable(schema::string()).enum_values(Some(kinds)).description(Some(says))
}

fn number(says: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true)).description(Some(says))
}

fn count(bounds: std::ops::RangeInclusive<usize>, says: &str) -> ObjectBuilder {
    schema::integer(bounds).schema_type(schema::types(&[Type::Integer], true)).description(Some(says))
}

/// Fields of the watched value.
fn watched() -> Vec<Field> {
    let time = schema::string().pattern(Some("^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$"));
    vec![
        (
            "figure",
            text(
                schema::string(),
                "It watches this figure of the evaluations of a release; or a logged metric, of a release or of the whole workspace: metric.NAME is the mean of its observations, metric.NAME:STATISTIC their mean, sum, min, max or last.",
            ),
        ),
        ("count", kind("It watches how many events of this kind there are of a day.")),
        ("missing", kind("It fires when there is no event of this kind of a day.")),
        (
            "lag",
            kind(
                "It watches for how many seconds events of this kind waited to be projected, at most on the day; it fires at once.",
            ),
        ),
        ("by", text(time, "With `missing`: by this time (UTC) of the day; 24:00 unless it is given.")),
        (
            "column",
            text(
                schema::string(),
                "It watches a statistic of this column of predictions: score, value, latency_ms, label, tag.NAME or feature.NAME.",
            ),
        ),
        (
            "drift",
            text(
                schema::string(),
                "It watches how far this column of predictions is from that of the reference: score, value, latency_ms, label, tag.NAME or feature.NAME.",
            ),
        ),
        (
            "statistic",
            text(
                schema::string(),
                "With `column`: which statistic, null_rate, or of numbers mean, std, min, p50, p90, p99 or max. With `drift`: by this statistic of drift; js_distance unless it is given.",
            ),
        ),
        (
            "reference",
            text(
                schema::string(),
                "With `drift`: the days of the reference, as FROM..TO, or one day; of snapshot:NAME, release:NAME and release:NAME/BASELINE the days are kept that they have when the rule is applied.",
            ),
        ),
        (
            "tag",
            text(
                schema::string(),
                "With `figure`: of the predictions with this tag, as NAME=VALUE. The model declares a split by the tag. With `count` of predictions or metrics: of those with this tag.",
            ),
        ),
        (
            "min_maturity",
            number(
                "With `figure`: which share of the predictions must be judged, or the day says nothing; 0 unless it is given.",
            ),
        ),
    ]
}

/// Fields of the scope and of the test of a rule.
fn judged() -> Vec<Field> {
    let [least, _, most] = WINDOW_DAYS.map(|days| days as usize);
    vec![
        ("release", text(schema::name(), "Of this release.")),
        (
            "model",
            text(
                schema::name(),
                "Of the release of this model that is live in `environment` at the end of the day.",
            ),
        ),
        ("environment", text(schema::name(), "Where it is live.")),
        ("above", number("It fires above this number.")),
        ("below", number("It fires below this number.")),
        (
            "moved",
            number("It fires more than so many robust deviations away from the days before, up or down."),
        ),
        ("window", count(least..=most, "With `moved`: how many days before; 14 unless it is given.")),
        (
            "clear",
            number(
                "How far the number (with `moved`, the deviations) must come back before the rule is resolved; the threshold unless it is given.",
            ),
        ),
        (
            "min_n",
            count(
                0..=i64::MAX as usize,
                "With `figure`, of how many predictions or observations it must be made, with `column` and `drift`, how many the day must have; 1 unless it is given.",
            ),
        ),
        (
            "for",
            count(
                1..=MAX_FOR_DAYS as usize,
                "On how many days in a row, before it fires; 1 unless it is given.",
            ),
        ),
        (
            "delay",
            count(
                0..=MAX_DELAY_DAYS as usize,
                "How many days after its end a day is judged, for outcomes that come late; 0 unless it is given.",
            ),
        ),
    ]
}

/// Field of the webhooks to which a rule is posted.
fn notify() -> ArrayBuilder {
    schema::array(schema::name())
        .schema_type(schema::types(&[Type::Array], true))
        .max_items(Some(MAX_WEBHOOKS))
        .unique_items(true)
        .description(Some(
            "To which webhooks it is posted when it crosses; to all of the workspace unless it is given.",
        ))
}

/// Schema of a rule in a request.
pub(super) fn new_rule() -> ObjectBuilder {
    let name = schema::object([("name", schema::name().into())]);
    watched()
        .into_iter()
        .chain(judged())
        .fold(name, |rule, (name, field)| rule.property(name, field))
        .property("notify", notify())
}
