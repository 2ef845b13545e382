mod reference;

use std::collections::BTreeSet;

use super::*;

#[test]
fn metric_names_are_unique_and_rankings_numeric() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        assert_eq!(Metric::named(metric.name), Some(metric));
        assert!(metric.ranking.is_none() || matches!(metric.getter, Getter::Number(_)), "{metric:?}");
    }
}

#[test]
fn logged_metrics_are_named_with_a_statistic() {
    let named = |name: &str| {
        let metric = AnyMetric::named(name)?;
        let logged = metric.logged()?;
        assert_eq!(metric.name(), name);
        Some((logged.metric().to_owned(), logged.statistic().name()))
    };
    let of = |metric: &str, statistic| Some((metric.to_owned(), statistic));
    assert_eq!(named("metric.revenue"), of("revenue", "mean"));
    assert_eq!(named("metric.revenue:sum"), of("revenue", "sum"));
    // Names of metrics are free.
    assert_eq!(named("metric.val/loss: best"), of("val/loss: best", "mean"));
    assert_eq!(named("metric.a:sum:last"), of("a:sum", "last"));
    for none in ["metric.", "metric.:sum", "metrics.a", &format!("metric.{}", "x".repeat(10_000))] {
        assert_eq!(named(none), None, "{none}");
    }
    let (metric, better) = AnyMetric::to_rank_by("metric.clicks:sum", None).unwrap();
    assert_eq!((metric.name(), better), ("metric.clicks:sum", Direction::Max));
}

#[test]
fn only_metrics_with_direction_rank_releases() {
    let (metric, better) = AnyMetric::to_rank_by("brier", None).unwrap();
    assert_eq!((metric.name(), better), ("brier", Direction::Min));
    let (custom, better) = AnyMetric::to_rank_by("custom.cost", None).unwrap();
    assert_eq!((custom.name(), better), ("custom.cost", Direction::Max));
    let less = AnyMetric::to_rank_by("custom.cost", Some(Direction::Min)).unwrap();
    assert_eq!(less, (custom, Direction::Min));
    for name in ["bias", "predictions", "accurate", "custom.", "custom.a b", ""] {
        let error = AnyMetric::to_rank_by(name, None).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("`{name}` is no metric to rank by; there are accuracy, auc,")),
            "{error}"
        );
    }
    for direction in Direction::ALL {
        assert_eq!(Direction::parse(direction.name()).unwrap(), direction);
    }
    assert!(Direction::parse("up").is_err());
}

/// Each metric is described in `docs/metrics.md`, and rankable metrics are listed there with their better direction.
#[test]
fn the_metrics_are_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let words: BTreeSet<&str> = text.split('`').skip(1).step_by(2).collect();
    let missing: Vec<&str> =
        METRICS.iter().map(|metric| metric.name).filter(|name| !words.contains(name)).collect();
    assert_eq!(missing, [""; 0], "are not in docs/metrics.md");
    let ranked = |better: Direction| {
        let names = Metric::ranking_ones().filter(|metric| metric.ranking.unwrap().better == better);
        names.map(|metric| format!("`{}`", metric.name)).collect::<Vec<_>>().join(" ")
    };
    for (better, head) in [(Direction::Max, "greater is better"), (Direction::Min, "less is better")] {
        let line = format!("| {head} | {} |", ranked(better));
        assert!(text.contains(&line), "docs/metrics.md lacks the line {line}");
    }
    let methods = [
        ("Wilson's", Method::Wilson),
        ("Student's", Method::Student),
        ("DeLong's", Method::DeLong),
        ("bootstrap", Method::Bootstrap),
    ];
    for (head, method) in methods {
        let names = METRICS.iter().filter(|metric| metric.method == Some(method));
        let names = names.map(|metric| format!("`{}`", metric.name)).collect::<Vec<_>>().join(" ");
        let line = format!("| {head} | {names} |");
        assert!(text.contains(&line), "docs/metrics.md lacks the line {line}");
    }
}

#[test]
fn day_without_predictions_reports_only_orphaned() {
    let rows = |orphaned| {
        let evaluation = Evaluation { orphaned, ..Evaluation::default() };
        evaluation.rows().map(|row| (row.name.map(str::to_owned), row.orphaned)).collect::<Vec<_>>()
    };
    assert_eq!(rows(3), [(None, Some(3))]);
    assert_eq!(rows(0), []);
    let row = Row { orphaned: Some(3), ..Row::default() };
    for metric in METRICS {
        let is_none = match metric.getter {
            Getter::Text(read) => read(&row).is_none(),
            Getter::Count(read) => read(&row).is_none(),
            Getter::Number(read) => read(&row).is_none(),
        };
        assert_eq!(is_none, metric.name != "orphaned", "{metric:?}");
    }
}
