use super::*;

/// Evaluates an expression on a row.
fn value(text: &str, row: &[(&str, Value<'static>)]) -> String {
    let metric = CustomMetric::parse("f", &format!("max({text})")).unwrap();
    let leaf = |at: usize| {
        let column = &metric.formula.columns[at];
        let is_it = |name: &&(&str, Value<'static>)| JoinedColumn::named(name.0).as_ref() == Some(column);
        row.iter().find(is_it).map_or(Value::Null, |(_, value)| *value)
    };
    let argument = &metric.formula.aggregates[0].argument;
    argument.number(&leaf).map_or("null".to_owned(), |number| number.to_string())
}

#[test]
fn expressions_agree_with_sql() {
    let row = [
        ("score", Value::Number(0.25)),
        ("value", Value::Number(-3.0)),
        ("label", Value::Text("late")),
        ("outcome_label", Value::Text("it's")),
        ("tag.carrier", Value::Text("UA")),
        ("feature.dep-delay", Value::Number(7.0)),
        ("predicted_at", Value::Number(1_000_000.0)),
        ("observed_at", Value::Number(3_500_000.0)),
    ];
    for (text, expected) in [
        ("1 + 2 * 3 - 4 / 8", "6.5"),
        ("-(1 + 2) * -2", "6"),
        ("- - 2", "2"),
        ("7 % 4 + mod(9, 5)", "7"),
        ("1.5e1 + .5", "15.5"),
        ("score * 4 = 1 and not value > 0", "1"),
        ("score < 0.2 or label = 'late' and value <> -3", "0"),
        ("outcome_label = 'it''s'", "1"),
        ("tag.carrier in ('AA', 'UA')", "1"),
        ("tag.carrier not in ('AA', null)", "null"),
        ("\"feature.dep-delay\" between 7 and 8", "1"),
        ("\"feature.dep-delay\" not between 7 and 8", "0"),
        ("outcome_value is null", "1"),
        ("outcome_value is not null", "0"),
        ("outcome_value = 1 and score > 1", "0"),
        ("outcome_value = 1 or score < 1", "1"),
        ("outcome_value + 1", "null"),
        ("case when outcome_value > 0 then 1 when score > 0 then 2 else 3 end", "2"),
        ("case label when 'early' then 1 when 'late' then 5 end", "5"),
        ("case label when 'early' then 1 end", "null"),
        ("coalesce(outcome_value, lower, value)", "-3"),
        ("nullif(value, -3)", "null"),
        ("nullif(value, 3)", "-3"),
        ("greatest(value, outcome_value, score)", "0.25"),
        ("least(value, outcome_value, score)", "-3"),
        ("observed_at - predicted_at", "2.5"),
        ("observed_at > predicted_at", "1"),
        ("1 / 0", "null"),
        ("ln(0)", "null"),
        ("sqrt(-1)", "null"),
        ("abs(value) + ceil(score) + floor(score) + sign(value) + pow(2, 3)", "11"),
        ("ROUNDABOUT", ""),
    ] {
        if expected.is_empty() {
            assert!(CustomMetric::parse("f", &format!("max({text})")).is_err());
        } else {
            assert_eq!(value(text, &row), expected, "{text}");
        }
    }
}

#[test]
fn metrics_are_written_as_they_are_read() {
    let text = "cost=sum(case when label = 'a=b' then 1 else 0 end) / count(*)\nmean=avg(score) filter (where score > 0)";
    let custom_metrics: Vec<_> = CustomMetric::parse_all(text).unwrap().into_values().flatten().collect();
    let texts = CustomMetric::texts(&custom_metrics);
    assert_eq!(texts["mean"], "avg(score) filter (where score > 0)");
    assert_eq!(CustomMetric::text_of(texts), text);
    assert_eq!(
        (custom_metrics[0].formula.aggregates.len(), custom_metrics[0].column().as_str()),
        (2, "custom.cost")
    );
    let quantile = CustomMetric::parse("q", "quantile_cont(score, 0.9)").unwrap();
    assert_eq!(quantile.formula.aggregates[0].of, AggregateOf::Quantile(0.9));
}

#[test]
fn invalid_metrics_are_refused() {
    let refused = |text: &str| CustomMetric::parse("f", text).unwrap_err().to_string();
    for (text, why) in [
        ("", "the metric `f`: it ends where a value is needed"),
        (
            "1 + 1",
            "the metric `f`: it is no aggregate of rows; there are avg, count, max, median, min, quantile_cont, stddev, stddev_samp, sum, total, var, var_samp, variance",
        ),
        ("score", "the metric `f`: the column `score` stands outside of an aggregate"),
        ("avg(avg(score))", "the metric `f`: the aggregate `avg` stands within another one"),
        ("avg(label)", "the metric `f`: a text stands where a number is needed"),
        ("avg(predicted_at)", "the metric `f`: an instant stands where a number is needed"),
        ("avg(score) > 1", "the metric `f`: true or false stands where a number is needed"),
        ("sum(score = 'a')", "the metric `f`: a text stands where a number is needed"),
        ("sum(score and label)", "the metric `f`: a number stands where true or false is needed"),
        ("avg(score", "the metric `f`: `)` is missing at its end"),
        ("avg(score))", "the metric `f`: `)` has no place after its end"),
        ("avg(score) over ()", "the metric `f`: `over` has no place after its end"),
        (
            "count(distinct key)",
            "the metric `f`: there is no column `distinct`; there are outcome_label, outcome_value, observed_at, key, predicted_at, release, score, label, value, lower, upper, latency_ms, group, tag.NAME, score.CLASS and feature.NAME",
        ),
        (
            "sum(case else 1 end)",
            "the metric `f`: there is no column `else`; there are outcome_label, outcome_value, observed_at, key, predicted_at, release, score, label, value, lower, upper, latency_ms, group, tag.NAME, score.CLASS and feature.NAME",
        ),
        ("sum(case score end)", "the metric `f`: `end` stands where `when` is needed"),
        (
            "quantile_cont(score, 2)",
            "the metric `f`: `quantile_cont` takes a share from 0 to 1, such as 0.9, after its value",
        ),
        ("sum(pow(2))", "the metric `f`: `pow` takes 2 values, not 1"),
        ("sum('a", "the metric `f`: a ' has no end"),
        ("sum(score) ; 1", "the metric `f`: `;` has no place in it"),
        ("sum(1e999)", "the metric `f`: `1e999` is no number"),
        ("sum(\n1)", "the metric `f`: it is not one line of text"),
    ] {
        assert_eq!(refused(text), why, "{text}");
    }
    assert_eq!(refused("sum(sqr(1))"), "the metric `f`: there is no function `sqr`; did you mean `sqrt`?");
    assert!(
        refused("sum(sleep(1))").starts_with("the metric `f`: there is no function `sleep`; there are avg,")
    );
    assert!(refused(&"(".repeat(MAX_CUSTOM_BYTES)).contains("nests deeper than 32"));
    assert!(refused(&"1".repeat(MAX_CUSTOM_BYTES + 1)).contains("longer than 1000 bytes"));
    let each = |n: usize| (0..n).map(|at| (format!("f{at}"), "count(*)".to_owned())).collect::<Vec<_>>();
    let parse = |all: &[(String, String)]| {
        let each = all.iter().map(|(name, text)| CustomMetric::parse(name, text));
        CustomMetric::together(each.collect::<Result<_>>()?)
    };
    assert_eq!(parse(&each(MAX_CUSTOM_METRICS)).unwrap().len(), MAX_CUSTOM_METRICS);
    assert!(parse(&each(MAX_CUSTOM_METRICS + 1)).is_err());
    let medians = |n: usize| [("f".to_owned(), vec!["median(score)"; n].join(" + "))];
    assert!(parse(&medians(MAX_KEEPING)).is_ok());
    let error = parse(&medians(MAX_KEEPING + 1)).unwrap_err().to_string();
    assert_eq!(error, "the metrics of a model have at most 8 quantiles, variances and deviations together");
    for (text, why) in [
        ("f=count(*)\nf=none", "the metric `f` comes twice"),
        ("count", "the metric `count` is not of the form NAME=EXPRESSION"),
    ] {
        assert_eq!(CustomMetric::parse_all(text).unwrap_err().to_string(), why);
    }
}

#[test]
fn a_long_chain_is_read_and_computed() {
    let metric = CustomMetric::parse("f", &format!("sum(1{})", "+1".repeat(490))).unwrap();
    let argument = &metric.formula.aggregates[0].argument;
    assert_eq!(argument.number(&|_| Value::Null), Some(491.0));
}

#[test]
fn the_functions_are_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let words: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let missing: Vec<_> = parser::functions().into_iter().filter(|name| !words.contains(name)).collect();
    assert_eq!(missing, [""; 0], "are not in docs/metrics.md");
}
