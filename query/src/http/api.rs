//! What the OpenAPI document says of the query service.

use axum::http::{HeaderName, StatusCode};
use catalog::SNAPSHOTS_OF;
use event::{
    Kind, MAX_WINDOW_DAYS, Period,
    fields::{FieldType, TAG_PREFIX},
};
use fold::evaluation::MAX_BY;
use log::after::BEGIN;
use serde_json::{Value, json};
use web::{
    Operation,
    openapi::{
        Header, RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn, ParameterStyle},
        response::ResponseBuilder,
        schema::{AdditionalProperties, ObjectBuilder},
    },
    schema,
};

use super::{
    compared,
    explained::{self, EXPLAIN, or_explained},
    media_type, said,
};
use crate::{
    breakdown,
    change::{CHANGE, CHANGES, SUFFIX},
    column_type::ColumnType,
    narrow::{self, KEY, MAX_LIMIT, OLDEST, ORDERS},
    output::Format,
    pages::{MAX_PAGE_ROWS, PAGE_ROWS},
    request::What,
    sql::MAX_STATEMENT_BYTES,
    zero_division::ZERO_DIVISIONS,
};

pub(super) fn query(what: What) -> Operation {
    let name = what.name();
    let path = format!("/v1/workspaces/{{category}}/{{name}}/{name}");
    let operation = Operation::get(path, &format!("query_{name}"))
        .tag("query")
        .summary(what.summary())
        .description(format!(
            "From the first to the last day, both included, or of the `last` ones; at most {MAX_WINDOW_DAYS} days. `HEAD` checks the parameters, the workspace and the release, and reads no events."
        ));
    let operation = parameters(what).into_iter().fold(operation, Operation::takes);
    let row = schema::component(&row_name(what));
    let rows = with_header(rows_of(&row, what.has_history()), said::OF_WINDOW);
    let rows = if is_paged(what) { with_header(rows, said::OF_NEXT) } else { rows };
    operation.answers(StatusCode::OK, or_explained(rows).build())
}

/// What is said of `from` where a week is read when it is not named.
pub(super) fn says_first_day() -> String {
    format!(
        "The first UTC day; six days before the last one by default. A window has at most {MAX_WINDOW_DAYS} days."
    )
}

/// What is said of `from`, `to` and `last`.
const WINDOW: (&str, &str, &str) = (
    "The first UTC day.",
    "The last UTC day.",
    "How many days or weeks the window has that ends today, in place of `from` and `to`: `7d`, `2w`. The header `Almanac-Window` says which days they are.",
);
const WINDOW_OF_ROWS: (&str, &str, &str) = (
    "The first UTC day, or an instant: then only what happened then or later is read.",
    "The last UTC day, or an instant: then only what happened before it is read.",
    "How many days, weeks or hours the window has that ends now, in place of `from` and `to`: `7d`, `2w`, `6h`. The header `Almanac-Window` says which days or instants they are.",
);

pub(super) const GROUP_BY: &str = "group-by";

/// Lengths of windows: up to [`MAX_WINDOW_DAYS`] days, and whole weeks within them.
const LAST: &str = "^(([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|36[0-5][0-9]|3660)d|([1-9][0-9]?|[1-4][0-9]{2}|5[01][0-9]|52[0-2])w)$";
const LAST_OF_ROWS: &str = "^(([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|36[0-5][0-9]|3660)d|([1-9][0-9]?|[1-4][0-9]{2}|5[01][0-9]|52[0-2])w|[1-9][0-9]{0,3}h)$";

pub(super) fn parameter(
    name: &str,
    schema: RefOr<Schema>,
    example: Option<&str>,
    says: &str,
) -> ParameterBuilder {
    web::parameter(ParameterIn::Query, name, schema, says).example(example.map(Value::from))
}

/// The parameters that the words of a request are in.
pub(super) fn parameters(what: What) -> Vec<ParameterBuilder> {
    let day = || schema::day().into();
    let is_of_rows = what.rows_of().is_some();
    let bound = || if is_of_rows { schema::any_of([day(), schema::time().into()]) } else { day() };
    let (from, to, says_last) = if is_of_rows { WINDOW_OF_ROWS } else { WINDOW };
    let last = schema::string().pattern(Some(if is_of_rows { LAST_OF_ROWS } else { LAST }));
    let mut parameters = vec![
        parameter("from", bound(), Some("2026-06-01"), from),
        parameter("to", bound(), Some("2026-06-30"), to),
        parameter("last", last.into(), None, says_last),
    ];
    if what.has_releases() {
        parameters.push(release(what));
    }
    let columns = schema::array(column_name(what)).min_items(Some(1)).unique_items(true);
    parameters.push(
        parameter("columns", columns.into(), None, "Only these columns, in this order, with commas between. One whose name has a comma, as that of a class may, stands in double quotes.")
            .style(Some(ParameterStyle::Form))
            .explode(Some(false)),
    );
    if what.has_history() {
        let says = "Only what had been appended by this instant, or by the beginning of this day. An instant that is not closed yet is answered as of the last closed one; the header `Almanac-As-Of` says which.";
        parameters.push(parameter("as-of", schema::any_of([schema::time().into(), day()]), None, says));
        let says = "Only what an earlier answer was read from: what its header `Almanac-Read-Version` said. The answer is the same to the byte, whatever was appended since. It takes the place of `as-of`.";
        parameters.push(parameter(
            "read_version",
            schema::string().pattern(Some("^[A-Za-z0-9_-]+$")).into(),
            None,
            says,
        ));
    }
    if SNAPSHOTS_OF.contains(&what.name()) {
        let says = "Read the rows of this snapshot again, as they were known when it was made. It says all that is read; beside it only `format` may be named.";
        parameters.push(parameter("snapshot", schema::name().into(), None, says));
    }
    if let Some(kind) = what.rows_of() {
        parameters.extend(of_rows(what, kind));
    }
    if what.judges_only(narrow::WHERE) {
        parameters.extend(of_conditions(Kind::Predictions, "Judge, from the events, only predictions"));
    }
    if what.is_judged() {
        let all = of_evaluations().into_iter().map(ParameterBuilder::build);
        let is_compared = matches!(what, What::HeadToHead | What::Estimates);
        let takes = |name: &str| what.takes(name) && !(is_compared && name == GROUP_BY);
        parameters.extend(all.filter(|parameter| takes(&parameter.name)).map(ParameterBuilder::from));
    }
    parameters.extend(compared::parameters(what));
    if what == What::Rollups {
        let says = "By what they are broken down: by release (the default), by metric, by a tag, by all features or by one. Each has columns of its own; by a tag there is no release.";
        let columns =
            breakdown::families().map(|family| schema::string().pattern(Some(family.pattern())).into());
        let names = schema::one_of(["release", "metric", "feature"]).into();
        let by = schema::any_of(std::iter::once(names).chain(columns));
        parameters.push(parameter("by", by, None, says));
    }
    parameters.extend(what.takes(CHANGE).then(change));
    let formats = Format::ALL.map(Format::name).into_iter();
    let formats: Vec<&str> = formats.chain(what.has_history().then_some(said::READ_VERSION_FORMAT)).collect();
    let format = schema::one_of(formats).default(Some(json!(Format::Ndjson.name())));
    let says = match what.has_history() {
        true => {
            "The format of the answer; `read_version` answers no rows, but the read version as text, however long it is."
        }
        false => "The format of the answer.",
    };
    parameters.push(parameter("format", format.into(), None, says));
    parameters.push(parameter(EXPLAIN, explained::flag().into(), None, explained::SAYS));
    parameters
}

fn change() -> ParameterBuilder {
    let says = "Add to each number of a row its difference to the same number of the same series a day, a week or a period before, as the column `NAME_change`: null, where there is none. A period is the day, week, month or quarter of `group-by`, of which the first is answered as a whole.";
    parameter(CHANGE, schema::one_of(CHANGES).into(), Some("period"), says)
}

/// Whether it may be read page by page.
fn is_paged(what: What) -> bool {
    matches!(what, What::Events(_))
}

/// The conditions on rows, or on the predictions that are judged.
fn of_conditions(kind: Kind, rows: &str) -> Vec<ParameterBuilder> {
    let text = || schema::string().min_length(Some(1));
    let words = |name: &str, schema: RefOr<Schema>, says: String| {
        web::parameter(ParameterIn::Query, name, schema, &says)
    };
    let says = format!(
        "{rows} for which this holds: an expression of SQL over their columns, such as `{} >= '2026-06-01T12:00:00Z'`.",
        kind.time_field()
    );
    let mut parameters = vec![words("where", text().max_length(Some(MAX_STATEMENT_BYTES / 2)).into(), says)];
    if kind.families().iter().any(|family| family.prefix == TAG_PREFIX) {
        let tag = text().pattern(Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,127}=[^,]*$"));
        let says = format!("{rows} with these tags, as `NAME=VALUE` with commas between.");
        parameters.push(words("tag", tag.into(), says));
    }
    if kind.field(KEY).is_some() {
        parameters.push(words("key", text().into(), format!("{rows} of this key.")));
    }
    parameters
}

/// The parameters that only events and joined rows have.
fn of_rows(what: What, kind: Kind) -> Vec<ParameterBuilder> {
    let parameter = |name: &str, schema: RefOr<Schema>, says: &str| {
        web::parameter(ParameterIn::Query, name, schema, says)
    };
    let mut parameters = of_conditions(kind, "Only rows");
    if kind.field(KEY).is_some() {
        let share = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(1));
        let says = "Only rows of this share of all keys, which are the same keys each time.";
        parameters.push(parameter("sample", share.into(), says));
    }
    let limit = schema::integer(1..=MAX_LIMIT);
    let says = match is_paged(what) {
        true => format!(
            "Only the first so many; with `after` so many on this page, {PAGE_ROWS} by default and {MAX_PAGE_ROWS} at most."
        ),
        false => "Only the first so many.".to_owned(),
    };
    parameters.push(parameter("limit", limit.into(), &says));
    if is_paged(what) {
        let says = format!(
            "Answer page by page: `{BEGIN}` asks for the first page, what the header `Almanac-Next` of a page says for the one after it, beside the words of the same request. All pages are of the read version of the first one, whatever is appended meanwhile."
        );
        let after = schema::string().pattern(Some("^[A-Za-z0-9_-]+$"));
        parameters.push(parameter("after", after.into(), &says));
    }
    let says = "In which order they come: as they stand in the log (the default), or the last day first and of each day the latest first.";
    let orders = schema::one_of(ORDERS).default(Some(json!(OLDEST)));
    parameters.push(parameter("order", orders.into(), says));
    parameters
}

fn release(what: What) -> ParameterBuilder {
    let (says, required) = match what {
        What::HeadToHead => ("The release that is compared.", Required::True),
        _ => ("Only what belongs to this release.", Required::False),
    };
    parameter("release", schema::name().into(), Some("v1"), says).required(required)
}

/// The parameters that only evaluations have, and what is made of them.
fn of_evaluations() -> [ParameterBuilder; 11] {
    let says = "Judge predictions with a score as positive from this score on, whatever their labels and the definition of their release say. The metrics are computed from the events.";
    let number = ObjectBuilder::new().schema_type(Type::Number);
    let threshold = web::parameter(ParameterIn::Query, "threshold", number, says);
    let says = "What a prediction of a binary task gains (tp, tn) and costs (fp, fn), whatever the definition of its release says; what is not named is 0. The metrics are computed from the events.";
    let costs = web::parameter(ParameterIn::Query, "costs", catalog::http::costs(), says);
    let says = "Of how much time each row is: of an hour, which begins at `hour`, of a day (the default), of a week from Monday on, of a month or a quarter of the calendar, or of the whole window. `day` is the first of its days. Metrics of anything but a day are computed from the events.";
    let periods = schema::one_of(Period::NAMED.map(|(name, _)| name)).default(Some(json!("day")));
    let period = web::parameter(ParameterIn::Query, GROUP_BY, periods, says);
    let says = "What precision, recall, F1, specificity and the means of classes say where they divide by zero (`zero_division` of scikit-learn; `null` is its `nan`).";
    let values = schema::one_of(ZERO_DIVISIONS.map(|(name, _)| name)).default(Some(json!("null")));
    let zero_division = web::parameter(ParameterIn::Query, "zero-division", values, says);
    let says = "Say how sure each metric is: from how many predictions it is, and its 95% interval. Computed from the events; `columns` that name one of these columns ask for it too.";
    let interval = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false)));
    let interval = web::parameter(ParameterIn::Query, "interval", interval, says);
    let says = "Of what each row is, with commas between: of a release (the default) or a model, and within it of each value of a tag or each bin of a feature. Values beyond the 256 most frequent of the window are `(others)`, no value is `(none)`. The metrics are computed from the events.";
    let names = schema::one_of([breakdown::RELEASE, breakdown::MODEL]).into();
    let columns = breakdown::families().map(|family| schema::string().pattern(Some(family.pattern())).into());
    let by = schema::array(schema::any_of(std::iter::once(names).chain(columns)));
    let by = by.min_items(Some(1)).max_items(Some(MAX_BY)).unique_items(true);
    let by = web::parameter(ParameterIn::Query, "by", by, says);
    let says = "The bins of features: how many, which begin at quantiles of the window (10 by default, and the same for all its days and releases), or the numbers at which they begin, with commas between.";
    let bins = schema::string().pattern(Some("^-?[0-9]"));
    let bins = web::parameter(ParameterIn::Query, "bins", bins, says);
    let says = "The time zone in which hours, days, weeks and months begin, such as `Europe/Berlin`; UTC by default. Then `from`, `to` and `day` are days of that place, and the metrics are computed from the events.";
    let zone = web::parameter(ParameterIn::Query, "time-zone", schema::string(), says);
    let says = "Judge only predictions of releases that were live in this environment when they predicted. The rows are of models, whichever release was live, unless `by` or `release` says otherwise. Computed from the events.";
    let environment = web::parameter(ParameterIn::Query, "environment", schema::name(), says);
    let says = "Judge instead what was not live in the environment when it predicted, by release.";
    let shadow = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false)));
    let shadow = web::parameter(ParameterIn::Query, "shadow", shadow, says);
    let says = "Leave out days of which a smaller share of the predictions is judged than of all that will be in the end. What will come is told by the days of the window, of which some must be 30 days old. Computed from the events; not with `group-by` or `time-zone`.";
    let share = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(1));
    let mature = web::parameter(ParameterIn::Query, "mature", share, says);
    [
        mature,
        zone.example(Some(json!("Europe/Berlin"))),
        environment,
        shadow,
        by.style(Some(ParameterStyle::Form)).explode(Some(false)),
        bins,
        period.example(Some(json!("week"))),
        threshold.example(Some(json!(0.3))),
        costs.example(Some(json!("fp=2,fn=50"))),
        zero_division.example(Some(json!("0"))),
        interval.example(Some(json!(true))),
    ]
}

fn column_name(what: What) -> RefOr<Schema> {
    let names = schema::one_of(what.columns().iter().map(|(name, _)| *name)).into();
    let patterns = what.families().into_iter().map(|family| schema::string().pattern(Some(family.pattern())));
    let all: Vec<RefOr<Schema>> = std::iter::once(names).chain(patterns.map(Into::into)).collect();
    match all.len() {
        1 => all.into_iter().next().unwrap_or_else(|| schema::string().into()),
        _ => schema::any_of(all),
    }
}

/// Rows in every format.
pub(super) fn rows_in(row: &RefOr<Schema>) -> ResponseBuilder {
    let rows = Format::ALL.into_iter().fold(ResponseBuilder::new(), |response, format| {
        let schema = match format {
            Format::Ndjson => schema::array(row.clone()).into(),
            Format::Table | Format::Csv | Format::CsvSpreadsheet => schema::string().into(),
            Format::Parquet | Format::Ipc | Format::IpcStream | Format::IpcStreamLz4 => {
                schema::bytes(media_type(format))
            }
        };
        response.content(media_type(format), web::content(schema, None))
    });
    rows.description("The rows; of NDJSON, one object a line.")
}

/// Rows; those from the logs have headers that say what they were read from.
pub(super) fn rows_of(row: &RefOr<Schema>, has_history: bool) -> ResponseBuilder {
    match has_history {
        true => said::HEADERS.into_iter().fold(rows_in(row), with_header),
        false => rows_in(row),
    }
}

/// A response with a header, and what is said of it.
pub(super) fn with_header(response: ResponseBuilder, (name, says): (HeaderName, &str)) -> ResponseBuilder {
    let mut header = Header::new(schema::string());
    header.description = Some(says.into());
    response.header(name.as_str(), header)
}

pub(super) fn row_name(what: What) -> String {
    format!("Row.{}", what.name())
}

fn json_type(kind: FieldType) -> Type {
    match kind {
        FieldType::Float => Type::Number,
        FieldType::Time | FieldType::Text => Type::String,
    }
}

/// An object with these columns.
fn object_of(columns: impl IntoIterator<Item = (&'static str, ColumnType)>) -> ObjectBuilder {
    columns.into_iter().fold(schema::closed(), |row, (name, kind)| {
        let value = match kind {
            ColumnType::Day => schema::day(),
            ColumnType::Count => schema::count().schema_type(schema::types(&[Type::Integer], true)),
            ColumnType::Field(FieldType::Time) => {
                schema::time().schema_type(schema::types(&[Type::String], true))
            }
            ColumnType::Field(kind) => {
                ObjectBuilder::new().schema_type(schema::types(&[json_type(kind)], true))
            }
        };
        row.property(name, value)
    })
}

/// A row that has these columns and no others.
pub(super) fn row_of(columns: impl IntoIterator<Item = (&'static str, ColumnType)>) -> RefOr<Schema> {
    object_of(columns).into()
}

/// A row as NDJSON has it.
fn row(what: What) -> RefOr<Schema> {
    let row = object_of(what.columns());
    let families = what.families();
    let mut called: Vec<String> = families
        .iter()
        .map(|family| format!("{} as `{}`", family.name, family.columns_are_called()))
        .collect();
    let mut types: Vec<Type> = families.iter().map(|family| json_type(family.kind)).collect();
    if what.takes(CHANGE) {
        called.push(format!("changes as `NAME{SUFFIX}`"));
        types.push(Type::Number);
    }
    if called.is_empty() {
        return row.into();
    }
    types.dedup();
    let member = ObjectBuilder::new().schema_type(schema::types(&types, true));
    let row = row
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(member.into()))))
        .description(Some(format!("Besides the fields, {}.", called.join(", "))));
    row.into()
}

/// What the operations refer to.
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    What::all().map(|what| (row_name(what), row(what))).chain(explained::schemas()).collect()
}
