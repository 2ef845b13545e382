mod reference;

use std::collections::BTreeSet;

use super::*;

#[test]
fn figure_names_are_unique_and_rankings_numeric() {
    let names: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    assert_eq!(names.len(), FIGURES.len());
    for figure in FIGURES {
        assert_eq!(Figure::named(figure.name), Some(figure));
        assert!(figure.ranking.is_none() || matches!(figure.getter, Getter::Number(_)), "{figure:?}");
    }
}

#[test]
fn logged_metrics_are_named_with_a_statistic() {
    let named = |name: &str| {
        let figure = AnyFigure::named(name)?;
        let logged = figure.logged()?;
        assert_eq!(figure.name(), name);
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
    let (figure, better) = AnyFigure::to_rank_by("metric.clicks:sum", None).unwrap();
    assert_eq!((figure.name(), better), ("metric.clicks:sum", Direction::Max));
}

#[test]
fn only_figures_with_direction_rank_releases() {
    let (figure, better) = AnyFigure::to_rank_by("brier", None).unwrap();
    assert_eq!((figure.name(), better), ("brier", Direction::Min));
    let (custom, better) = AnyFigure::to_rank_by("custom.cost", None).unwrap();
    assert_eq!((custom.name(), better), ("custom.cost", Direction::Max));
    let less = AnyFigure::to_rank_by("custom.cost", Some(Direction::Min)).unwrap();
    assert_eq!(less, (custom, Direction::Min));
    for name in ["bias", "predictions", "accurate", "custom.", "custom.a b", ""] {
        let error = AnyFigure::to_rank_by(name, None).unwrap_err().to_string();
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

/// Each figure is described in `docs/figures.md`, and rankable figures are listed there with their better direction.
#[test]
fn the_figures_are_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/figures.md");
    let text = std::fs::read_to_string(path).unwrap();
    let words: BTreeSet<&str> = text.split('`').skip(1).step_by(2).collect();
    let missing: Vec<&str> =
        FIGURES.iter().map(|figure| figure.name).filter(|name| !words.contains(name)).collect();
    assert_eq!(missing, [""; 0], "are not in docs/figures.md");
    let ranked = |better: Direction| {
        let names = Figure::ranking_ones().filter(|figure| figure.ranking.unwrap().better == better);
        names.map(|figure| format!("`{}`", figure.name)).collect::<Vec<_>>().join(" ")
    };
    for (better, head) in [(Direction::Max, "greater is better"), (Direction::Min, "less is better")] {
        let line = format!("| {head} | {} |", ranked(better));
        assert!(text.contains(&line), "docs/figures.md lacks the line {line}");
    }
    let methods = [
        ("Wilson's", Method::Wilson),
        ("Student's", Method::Student),
        ("DeLong's", Method::DeLong),
        ("bootstrap", Method::Bootstrap),
    ];
    for (head, method) in methods {
        let names = FIGURES.iter().filter(|figure| figure.method == Some(method));
        let names = names.map(|figure| format!("`{}`", figure.name)).collect::<Vec<_>>().join(" ");
        let line = format!("| {head} | {names} |");
        assert!(text.contains(&line), "docs/figures.md lacks the line {line}");
    }
}

#[test]
fn day_without_predictions_reports_only_unmatched() {
    let rows = |unmatched| {
        let evaluation = Evaluation { unmatched, ..Evaluation::default() };
        evaluation.rows().map(|row| (row.name.map(str::to_owned), row.unmatched)).collect::<Vec<_>>()
    };
    assert_eq!(rows(3), [(None, Some(3))]);
    assert_eq!(rows(0), []);
    let row = Row { unmatched: Some(3), ..Row::default() };
    for figure in FIGURES {
        let is_none = match figure.getter {
            Getter::Text(read) => read(&row).is_none(),
            Getter::Count(read) => read(&row).is_none(),
            Getter::Number(read) => read(&row).is_none(),
        };
        assert_eq!(is_none, figure.name != "unmatched", "{figure:?}");
    }
}
