//! Descriptions of the parameters of queries: of each that a dataset takes, by its name.

use event::{Kind, Period};
use fold::evaluation::MAX_BY;
use log::after::BEGIN;
use serde_json::{Value, json};
use web::{
    openapi::{
        RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn, ParameterStyle},
        schema::ObjectBuilder,
    },
    schema,
};

use super::{
    api::column_name,
    explained::{self, EXPLAIN},
    leaderboard, said,
};
use crate::{
    breakdown,
    challengers::PRODUCTION,
    change::{CHANGE, CHANGES},
    output::Format,
    pages::{MAX_PAGE_ROWS, PAGE_ROWS},
    request::{Dataset, ZERO_DIVISIONS},
    row_filter::{MAX_LIMIT, OLDEST, ORDERS},
    sql::MAX_STATEMENT_BYTES,
};

/// The schema of a parameter, and what is said of it.
type Said = Option<(RefOr<Schema>, String)>;

/// Lengths of windows: up to [`MAX_WINDOW_DAYS`] days, and whole weeks within them.
const LAST: &str = "^(([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|36[0-5][0-9]|3660)d|([1-9][0-9]?|[1-4][0-9]{2}|5[01][0-9]|52[0-2])w)$";
const LAST_OF_ROWS: &str = "^(([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|36[0-5][0-9]|3660)d|([1-9][0-9]?|[1-4][0-9]{2}|5[01][0-9]|52[0-2])w|[1-9][0-9]{0,3}h)$";

/// Examples of parameters.
const EXAMPLES: [(&str, &str); 12] = [
    ("from", "2026-06-01"),
    ("to", "2026-06-30"),
    ("release", "v1"),
    ("time-zone", "Europe/Berlin"),
    ("period", "week"),
    ("costs", "fp=2,fn=50"),
    ("zero-division", "0"),
    ("reference", "2026-04-01..2026-05-31"),
    ("against", "c1"),
    ("metric", "accuracy"),
    ("model", "risk"),
    (CHANGE, "period"),
];

/// The parameters that a dataset takes.
pub(super) fn parameters(what: Dataset) -> impl Iterator<Item = ParameterBuilder> {
    what.parameters().filter_map(move |name| parameter(what, name))
}

fn parameter(what: Dataset, name: &str) -> Option<ParameterBuilder> {
    let all = [of_window, of_reading, of_rows, of_judging, of_metrics, of_comparisons];
    let (schema, says) = all.into_iter().find_map(|of| of(what, name))?;
    let is_list = matches!(schema, RefOr::T(Schema::Array(_)));
    let is_required = match name {
        "reference" | "against" | "model" => true,
        "release" => what == Dataset::HeadToHead,
        _ => false,
    };
    let example = match name {
        "threshold" => Some(json!(0.3)),
        "interval" => Some(json!(true)),
        _ => None,
    };
    let named = EXAMPLES.into_iter().find(|(of, _)| *of == name).map(|(_, text)| Value::from(text));
    let parameter = web::parameter(ParameterIn::Query, name, schema, &says)
        .example(example.or(named))
        .required(if is_required { Required::True } else { Required::False });
    Some(if is_list { parameter.style(Some(ParameterStyle::Form)).explode(Some(false)) } else { parameter })
}

fn said(schema: impl Into<RefOr<Schema>>, says: impl Into<String>) -> Said {
    Some((schema.into(), says.into()))
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Number)
}

fn share() -> ObjectBuilder {
    number().minimum(Some(0)).maximum(Some(1))
}

pub(super) fn instant_or_day() -> RefOr<Schema> {
    schema::any_of([schema::time().into(), schema::day().into()])
}

fn list(of: impl Into<RefOr<Schema>>) -> web::openapi::schema::ArrayBuilder {
    schema::array(of).min_items(Some(1)).unique_items(true)
}

/// Which days are read, and how they are answered.
fn of_window(what: Dataset, name: &str) -> Said {
    let is_of_rows = what.rows_of().is_some();
    let bound = || if is_of_rows { instant_or_day() } else { schema::day().into() };
    let last = |pattern| schema::string().pattern(Some(pattern));
    match (name, is_of_rows) {
        ("from", false) => said(bound(), "The first UTC day."),
        ("from", true) => {
            said(bound(), "The first UTC day, or an instant: then only what happened then or later is read.")
        }
        ("to", false) => said(bound(), "The last UTC day."),
        ("to", true) => {
            said(bound(), "The last UTC day, or an instant: then only what happened before it is read.")
        }
        ("last", false) => said(
            last(LAST),
            "How many days or weeks the window has that ends today, in place of `from` and `to`: `7d`, `2w`. The answer says which days they are.",
        ),
        ("last", true) => said(
            last(LAST_OF_ROWS),
            "How many days, weeks or hours the window has that ends now, in place of `from` and `to`: `7d`, `2w`, `6h`. The answer says which days or instants they are.",
        ),
        ("release", _) => said(
            schema::name(),
            match what {
                Dataset::HeadToHead => "The release that is compared.",
                _ => "Only what belongs to this release.",
            },
        ),
        ("columns", _) => said(
            list(column_name(what)),
            "Only these columns, in this order, with commas between; a name with a comma stands in double quotes.",
        ),
        _ => None,
    }
}

/// Parameters of the state that is read, and of the form of the answer.
fn of_reading(what: Dataset, name: &str) -> Said {
    match name {
        "as-of" if what == Dataset::Drift => said(
            instant_or_day(),
            "Only what had been appended by this instant, or by the beginning of this day; it is exact then.",
        ),
        "as-of" => said(
            instant_or_day(),
            "Only what had been appended by this instant, or by the beginning of this day. An instant that is not closed yet is answered as of the last closed one; the answer says which.",
        ),
        "read-version" => said(
            schema::string().pattern(Some("^[A-Za-z0-9_-]+$")),
            "Only what an earlier answer was read from, as its header `Almanac-Read-Version` said, or `--show-read-version`. It takes the place of `as-of`.",
        ),
        "snapshot" => {
            said(schema::name(), "Read the rows of this snapshot again, as they were known when it was made.")
        }
        "format" => {
            let formats = Format::ALL.map(Format::name).into_iter();
            let formats = formats.chain(what.has_history().then_some(said::READ_VERSION_FORMAT));
            let schema = schema::one_of(formats).default(Some(json!(Format::Ndjson.name())));
            let says = match what.has_history() {
                true => {
                    "The format of the answer; without it that of the header `Accept`. `read-version` answers no rows, but the read version as text, however long it is."
                }
                false => "The format of the answer; without it that of the header `Accept`.",
            };
            said(schema, says)
        }
        EXPLAIN => said(explained::flag(), explained::SAYS),
        _ => None,
    }
}

/// Which rows are read, or which predictions are judged.
fn of_rows(what: Dataset, name: &str) -> Said {
    let kind = what.rows_of().unwrap_or(Kind::Predictions);
    let rows = match what.rows_of() {
        Some(_) => "Only rows",
        None => "Judge, from the events, only predictions",
    };
    let text = || schema::string().min_length(Some(1));
    let is_paged = is_paged(what);
    match name {
        "where" => said(
            text().max_length(Some(MAX_STATEMENT_BYTES / 2)),
            format!(
                "{rows} for which this holds: an expression of SQL over their columns, such as `{} >= '2026-06-01T12:00:00Z'`.",
                kind.time_field()
            ),
        ),
        "tag" => said(
            schema::array(text().pattern(Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,127}=[^,]*$")))
                .min_items(Some(1)),
            format!("{rows} with these tags, as `NAME=VALUE` with commas between."),
        ),
        "key" => said(text(), format!("{rows} of this key.")),
        "sample" => said(share(), "Only rows of this share of all keys, which are the same keys each time."),
        "limit" if is_paged => said(
            schema::integer(1..=MAX_LIMIT),
            format!(
                "Only the first so many; with `after` so many on this page, {PAGE_ROWS} by default and {MAX_PAGE_ROWS} at most."
            ),
        ),
        "limit" => said(schema::integer(1..=MAX_LIMIT), "Only the first so many."),
        "after" => said(
            schema::string().pattern(Some("^[A-Za-z0-9_-]+$")),
            format!(
                "Answer page by page: `{BEGIN}` asks for the first page, what the header `Almanac-Next` of a page says for the one after it, beside the words of the same request."
            ),
        ),
        "order" => said(
            schema::one_of(ORDERS).default(Some(json!(OLDEST))),
            "In which order they come: as they stand in the log (the default), or the last day first and of each day the latest first.",
        ),
        _ => None,
    }
}

/// Returns true if it may be read page by page.
pub(super) fn is_paged(what: Dataset) -> bool {
    matches!(what, Dataset::Events(_))
}

/// Parameters of the judgement of predictions.
fn of_judging(what: Dataset, name: &str) -> Said {
    match name {
        "environment" if what == Dataset::Challengers => said(
            schema::name().default(Some(json!(PRODUCTION))),
            "Where the release of the model is live that is challenged.",
        ),
        "environment" => said(
            schema::name(),
            "Judge only predictions of releases that were live in this environment when they predicted. The rows are of models, whichever release was live, unless `group-by` or `release` says otherwise. Computed from the events.",
        ),
        "shadow" => said(
            explained::flag(),
            "Judge instead what was not live in the environment when it predicted, by release. Only with `environment`.",
        ),
        "threshold" => said(
            number(),
            "Judge predictions with a score as positive from this score on, whatever their labels and the definition of their release say.",
        ),
        "costs" => said(
            catalog::http::costs(),
            "What a prediction of a binary task gains (tp, tn) and costs (fp, fn), whatever the definition of its release says; what is not named is 0.",
        ),
        "zero-division" => said(
            schema::one_of(ZERO_DIVISIONS.map(|(name, _)| name)).default(Some(json!("null"))),
            "What precision, recall, F1, specificity and the means of classes say where they divide by zero (`zero_division` of scikit-learn; `null` is its `nan`).",
        ),
        "interval" => said(
            explained::flag(),
            "Say how sure each metric is: from how many predictions it is, and its 95% interval. Computed from the events; `columns` that name one of these columns ask for it too.",
        ),
        "min-completeness" => said(
            share(),
            "Leave out days of which a smaller share of the predictions is judged than of all that will be in the end. What will come is told by the days of the window, of which some must be 30 days old. Computed from the events; not with `period` or `time-zone`.",
        ),
        "after-prediction" => said(
            explained::flag(),
            "Count how many outcomes had arrived at each age of their predictions, instead of judging days at ages that begin when the day ends. Read from the events; the columns are release, age, predictions, arrived and arrived_share.",
        ),
        "nowcast" => said(
            schema::string(),
            "Say which final value of this metric is expected of days whose labels still come, with a band: a row a day. It is learned from at least 19 days that are 30 days old, of the window and the 121 days before.",
        ),
        _ => None,
    }
}

/// Parameters by which rows are broken down.
fn of_metrics(what: Dataset, name: &str) -> Said {
    let families =
        || breakdown::families().map(|family| schema::string().pattern(Some(family.pattern())).into());
    let is_compared = matches!(what, Dataset::Drift | Dataset::HeadToHead | Dataset::Estimates);
    let periods = || Period::NAMED.map(|(name, _)| name).into_iter();
    match name {
        "group-by" if what == Dataset::Rollups => {
            let names = schema::one_of(["release", "metric", "feature"]).into();
            said(
                schema::any_of(std::iter::once(names).chain(families())),
                "By what they are broken down: by release (the default), by metric, by a tag, by all features or by one. Each has columns of its own; by a tag there is no release.",
            )
        }
        "group-by" => {
            let names = schema::one_of([breakdown::RELEASE, breakdown::MODEL]).into();
            said(
                list(schema::any_of(std::iter::once(names).chain(families()))).max_items(Some(MAX_BY)),
                "Of what each row is, with commas between: of a release (the default) or a model, and within it of each value of a tag or each bin of a feature. Values beyond the 256 most frequent of the window are `(others)`, no value is `(none)`.",
            )
        }
        "bins" => said(
            schema::string().pattern(Some("^-?[0-9]")),
            "The bins of features: how many, which begin at quantiles of the window (10 by default, and the same for all its days and releases), or the numbers at which they begin, with commas between.",
        ),
        "period" if is_compared => said(
            schema::one_of(periods().filter(|name| *name != "hour")).default(Some(json!("day"))),
            "Of how many days each comparison is: of one (the default), of a week from Monday on, of a month or a quarter of the calendar, or of the whole window. `day` is the first of them.",
        ),
        "period" => said(
            schema::one_of(periods()).default(Some(json!("day"))),
            "Of how much time each row is: of an hour, which begins at `hour`, of a day (the default), of a week from Monday on, of a month or a quarter of the calendar, or of the whole window. `day` is the first of its days. Metrics of anything but a day are computed from the events.",
        ),
        "time-zone" => said(
            schema::string(),
            "The time zone in which hours, days, weeks and months begin, such as `Europe/Berlin`; UTC by default. Then `from`, `to` and `day` are days of that place, and the metrics are computed from the events.",
        ),
        CHANGE => said(
            schema::one_of(CHANGES),
            "Add to each number of a row its difference to the same number of the same series a day, a week or a period before, as the column `NAME_change`.",
        ),
        _ => None,
    }
}

/// Parameters of comparisons: with reference days, with another release, with the whole.
fn of_comparisons(what: Dataset, name: &str) -> Said {
    match name {
        "reference" => {
            let days = match what {
                Dataset::Estimates => "The days whose outcomes say what a score means",
                _ => "The days to compare with",
            };
            said(
                schema::reference_days(),
                format!(
                    "{days}: the first and the last of them with two dots between, one day, `snapshot:` and the name of a snapshot, or `release:` and that of a release for the days that it was trained on, with a slash and a name for those of its baseline."
                ),
            )
        }
        "exact" => said(explained::flag(), "Compute it from the events, without the errors of sketches."),
        "column" => {
            let one = "^(score|value|latency_ms|label|(tag|feature)[.][A-Za-z0-9][A-Za-z0-9._-]*)$";
            said(
                list(schema::string().pattern(Some(one))),
                "Only these columns of predictions, with commas between: score, value, latency_ms, label, tag.NAME, feature.NAME. Features are read only where one is asked for.",
            )
        }
        "against" => said(
            schema::name(),
            "The release that it is compared with. Both are judged on what both predicted.",
        ),
        "metric" => said(
            leaderboard::metrics_that(|metric| !metric.is_sum()),
            "The metric by which they are ranked; by default the primary metric of the workspace.",
        ),
        "pairs" => said(
            explained::flag(),
            "Also rank slices of two dimensions each. They are computed from the events.",
        ),
        "model" => said(schema::name(), "The model whose live release is challenged."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;

    #[test]
    fn every_parameter_is_described_and_read() {
        let now = event::Timestamp::parse("2026-06-01T00:00:00Z").unwrap();
        let others = ["snapshot", "after", "format", EXPLAIN];
        for what in Dataset::all() {
            let names: Vec<&str> = what.parameters().collect();
            let described: Vec<String> = parameters(what).map(|parameter| parameter.build().name).collect();
            assert_eq!(described, names);
            for name in names.into_iter().filter(|name| !others.contains(name)) {
                let words = Params::of([(name, "true")], now).unwrap();
                assert_eq!(words.given().collect::<Vec<_>>(), [(name, "true")]);
            }
        }
    }
}
