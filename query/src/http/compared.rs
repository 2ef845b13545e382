//! The parameters of what compares: with reference days, with another release, with the whole.

use event::Period;
use serde_json::json;
use web::{
    openapi::{Required, Type, path::ParameterBuilder, schema::ObjectBuilder},
    schema,
};

use super::{
    api::{GROUP_BY, parameter},
    leaderboard,
};
use crate::{challengers, head_to_head::AGAINST, request::What, segments};

/// The parameters that only it has.
pub(super) fn parameters(what: What) -> Vec<ParameterBuilder> {
    match what {
        What::Estimates => of_reference(what).into(),
        What::Drift => of_reference(what).into_iter().chain(of_drift()).collect(),
        What::HeadToHead => {
            let says = "The release that it is compared with. Both are judged on what both predicted.";
            let against = parameter(AGAINST, schema::name().into(), Some("c1"), says);
            vec![against.required(Required::True), of_whole_days()]
        }
        What::Segments => of_segments().into(),
        What::Maturity => vec![after_prediction()],
        What::Challengers => of_challengers().into(),
        _ => Vec::new(),
    }
}

/// Whose champion is challenged.
fn of_challengers() -> [ParameterBuilder; 2] {
    let model = parameter(
        challengers::MODEL,
        schema::name().into(),
        Some("risk"),
        "The model whose live release is challenged.",
    );
    let says = "Where the release of the model is live that is challenged.";
    let environment = schema::name().default(Some(json!(challengers::PRODUCTION)));
    let environment = parameter(challengers::ENVIRONMENT, environment.into(), None, says);
    [model.required(Required::True), environment]
}

/// From when on ages of maturity are counted.
fn after_prediction() -> ParameterBuilder {
    let says = "Count how many outcomes had arrived at each age of their predictions, instead of judging days at ages that begin when the day ends. Read from the events; the columns are release, age, predictions, arrived and arrived_share.";
    let is_asked = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false)));
    parameter("after-prediction", is_asked.into(), None, says)
}

/// How segments are asked for.
fn of_segments() -> [ParameterBuilder; 2] {
    let says = "The metric by which they are ranked; by default the primary metric of the workspace.";
    let metric = parameter(
        segments::METRIC,
        leaderboard::metrics_that(|metric| !metric.is_sum()),
        Some("accuracy"),
        says,
    );
    let says = "Also rank segments of two splits each. They are computed from the events.";
    let pairs = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false)));
    [metric, parameter(segments::PAIRS, pairs.into(), None, says)]
}

/// What drift takes besides.
fn of_drift() -> [ParameterBuilder; 3] {
    let says = "Compute it from the events, without the errors of sketches.";
    let exact = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false)));
    let exact = parameter("exact", exact.into(), None, says);
    let says =
        "Only what had been appended by this instant, or by the beginning of this day; it is exact then.";
    let as_of = schema::any_of([schema::time().into(), schema::day().into()]);
    let as_of = parameter("as-of", as_of, None, says);
    let says = "Only these columns of predictions, with commas between: score, value, latency_ms, label, tag.NAME, feature.NAME. Features are read only where one is asked for.";
    let one = "(score|value|latency_ms|label|(tag|feature)[.][A-Za-z0-9][A-Za-z0-9._-]*)";
    let columns = schema::string().pattern(Some(format!("^{one}(,{one})*$")));
    [exact, as_of, parameter("column", columns.into(), None, says)]
}

/// What is compared with reference days takes besides.
fn of_reference(what: What) -> [ParameterBuilder; 2] {
    let says = match what {
        What::Estimates => {
            "The days whose outcomes say what a score means: the first and the last of them with two dots between, one day, `snapshot:` and the name of a snapshot, or `release:` and that of a release for the days that it was trained on, with a slash and a name for those of its baseline."
        }
        _ => {
            "The days to compare with: the first and the last of them with two dots between, one day, `snapshot:` and the name of a snapshot, or `release:` and that of a release for the days that it was trained on, with a slash and a name for those of its baseline."
        }
    };
    let days = schema::reference_days();
    let reference = parameter("reference", days.into(), Some("2026-04-01..2026-05-31"), says);
    [reference.required(Required::True), of_whole_days()]
}

/// Of what periods comparisons are.
fn of_whole_days() -> ParameterBuilder {
    let periods = Period::NAMED.map(|(name, _)| name).into_iter().filter(|name| *name != "hour");
    let periods = schema::one_of(periods).default(Some(json!("day")));
    let says = "Of how many days each comparison is: of one (the default), of a week from Monday on, of a month or a quarter of the calendar, or of the whole window. `day` is the first of them.";
    parameter(GROUP_BY, periods.into(), Some("week"), says)
}
