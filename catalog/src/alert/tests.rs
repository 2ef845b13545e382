use std::sync::Arc;

use event::Clock;
use fold::alert::{Reading, Standing};
use table::sqlite::SqliteTable;

use super::*;
use crate::Catalog;

fn body(name: &str) -> AlertRuleBody {
    AlertRuleBody { name: name.into(), ..AlertRuleBody::default() }
}

/// A rule with all fields of a metric.
fn full() -> AlertRuleBody {
    AlertRuleBody {
        metric: Some("auc".into()),
        model: Some("churn".into()),
        environment: Some("production".into()),
        below: Some(0.7),
        clear: Some(0.75),
        min_n: Some(1_000),
        for_days: Some(2),
        delay: Some(3),
        ..body("auc-low")
    }
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn why(body: AlertRuleBody) -> String {
    AlertRule::of(body, Timestamp::default()).unwrap_err().to_string()
}

#[test]
fn lag_rule_accepts_only_its_own_fields() {
    let lag = || AlertRuleBody { lag: Some("outcomes".into()), above: Some(60.0), ..body("behind") };
    AlertRule::of(lag(), Timestamp::default()).unwrap();
    let text = |text: &str| Some(text.to_owned());
    for (body, reason) in [
        (AlertRuleBody { lag: text("rows"), ..lag() }, "`lag` is one of predictions"),
        (AlertRuleBody { count: text("outcomes"), ..lag() }, "`column`, `drift` and `lag`"),
        (AlertRuleBody { above: None, ..lag() }, "`above` so many seconds"),
        (AlertRuleBody { above: Some(9.0), ..lag() }, "`above` so many seconds, 10 or more"),
        (AlertRuleBody { above: None, below: Some(60.0), ..lag() }, "no `below` and no `moved`"),
        (AlertRuleBody { above: None, moved: Some(5.0), ..lag() }, "no `below` and no `moved`"),
        (AlertRuleBody { release: text("v1"), ..lag() }, "`lag` is of the whole workspace"),
        (AlertRuleBody { delay: Some(1), ..lag() }, "`lag` has no `delay`"),
        (AlertRuleBody { min_n: Some(1), ..lag() }, "`min_n` belongs to"),
        (AlertRuleBody { by: text("06:00"), ..lag() }, "`by` belongs to `missing`"),
    ] {
        let said = why(body.clone());
        assert!(said.contains(reason), "{body:?}: {said}");
    }
}

#[test]
fn alert_day_is_due_once_over_and_mature() {
    let day: Day = "2026-06-10".parse().unwrap();
    let rule = AlertRule::of(full(), Timestamp::default()).unwrap();
    assert_eq!(rule.due(day), at("2026-06-14T00:00:00Z"));
    let late =
        AlertRuleBody { missing: Some("predictions".into()), by: Some("06:30".into()), ..body("late") };
    assert_eq!(AlertRule::of(late, Timestamp::default()).unwrap().due(day), at("2026-06-10T06:30:00Z"));
    assert_eq!(rule.look_back(), 0);
    let moved = AlertRuleBody { below: None, clear: None, moved: Some(4.0), ..full() };
    assert_eq!(AlertRule::of(moved, Timestamp::default()).unwrap().look_back(), 14);
}

#[test]
fn only_rising_rules_are_judged_before_day_end() {
    let text = |text: &str| Some(text.to_owned());
    let many = AlertRuleBody { count: text("predictions"), above: Some(5.0), ..body("many") };
    let rises = |body: AlertRuleBody| AlertRule::of(body, Timestamp::default()).unwrap().only_rises();
    assert!(rises(many.clone()));
    assert!(rises(AlertRuleBody { tag: text("shop=a"), ..many.clone() }));
    assert!(rises(AlertRuleBody { release: text("v1"), ..many.clone() }));
    assert!(rises(AlertRuleBody { lag: text("outcomes"), above: Some(60.0), ..body("behind") }));
    // Another release may be live in the evening.
    assert!(!rises(AlertRuleBody { model: text("m"), environment: text("e"), ..many.clone() }));
    assert!(!rises(AlertRuleBody { above: None, below: Some(5.0), ..many.clone() }));
    assert!(!rises(AlertRuleBody { above: None, moved: Some(5.0), ..many }));
    assert!(!rises(AlertRuleBody { below: None, clear: None, above: Some(0.5), ..full() }));
}

#[test]
fn invalid_alert_rule_is_refused_with_reason() {
    let count = || AlertRuleBody { count: Some("predictions".into()), below: Some(1.0), ..body("few") };
    let missing = || AlertRuleBody { missing: Some("predictions".into()), ..body("late") };
    AlertRule::of(count(), Timestamp::default()).unwrap();
    AlertRule::of(missing(), Timestamp::default()).unwrap();
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        (body(""), "the name"),
        (body("x"), "`metric`, `count`, `missing`, `column`, `drift` and `lag`"),
        (
            AlertRuleBody { metric: text("auc"), ..count() },
            "`metric`, `count`, `missing`, `column`, `drift` and `lag`",
        ),
        (AlertRuleBody { metric: text("nothing"), ..full() }, "no metric"),
        (AlertRuleBody { count: text("rows"), ..count() }, "`count` is one of predictions"),
        (AlertRuleBody { by: text("06:00"), ..count() }, "`by` belongs to `missing`"),
        (AlertRuleBody { by: text("6:00"), ..missing() }, "time of the day"),
        (AlertRuleBody { by: text("24:01"), ..missing() }, "time of the day"),
        (AlertRuleBody { by: text("00:00"), ..missing() }, "time of the day"),
        (AlertRuleBody { by: text("+1:00"), ..missing() }, "time of the day"),
        (AlertRuleBody { above: Some(1.0), ..missing() }, "no threshold"),
        (AlertRuleBody { clear: Some(1.0), ..missing() }, "no `clear`"),
        (AlertRuleBody { release: text("v1"), missing: text("outcomes"), ..missing() }, "whole workspace"),
        (AlertRuleBody { model: None, ..full() }, "either a `release`"),
        (AlertRuleBody { release: text("v1"), ..full() }, "either a `release`"),
        (AlertRuleBody { model: None, environment: None, ..full() }, "a metric is of a release"),
        (AlertRuleBody { model: text("a/b"), ..full() }, "the name"),
        (AlertRuleBody { below: None, ..full() }, "`above`, `below` and `moved`"),
        (AlertRuleBody { above: Some(1.0), ..full() }, "`above`, `below` and `moved`"),
        (AlertRuleBody { below: Some(f64::NAN), ..full() }, "finite"),
        (AlertRuleBody { clear: Some(0.6), ..full() }, "good side"),
        (AlertRuleBody { below: None, above: Some(0.7), ..full() }, "good side"),
        (AlertRuleBody { below: None, moved: Some(0.0), ..full() }, "above 0"),
        (AlertRuleBody { below: None, moved: Some(2.0), clear: Some(-0.1), ..full() }, "good side"),
        (AlertRuleBody { window: Some(7), ..full() }, "`window` belongs to `moved`"),
        (AlertRuleBody { below: None, moved: Some(2.0), window: Some(3), ..full() }, "4 to 90 days"),
        (AlertRuleBody { min_n: Some(5), ..count() }, "`min_n` belongs to `metric`, `column` and `drift`"),
        (AlertRuleBody { min_n: Some(u64::MAX), ..full() }, "too great"),
        (AlertRuleBody { for_days: Some(0), ..full() }, "`for` is 1 to 90 days"),
        (AlertRuleBody { delay: Some(91), ..full() }, "`delay` is 0 to 90 days"),
    ];
    for (body, reason) in cases {
        let said = why(body.clone());
        assert!(said.contains(reason), "{body:?}: {said}");
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn count() -> AlertRuleBody {
    AlertRuleBody { count: text("predictions"), below: Some(1.0), ..body("few") }
}

fn missing(kind: &str) -> AlertRuleBody {
    AlertRuleBody { missing: text(kind), ..body("late") }
}

fn far() -> AlertRuleBody {
    let reference = text("2026-04-01..2026-04-30");
    AlertRuleBody { drift: text("score"), reference, above: Some(0.2), ..body("far") }
}

fn column(column: &str, statistic: &str) -> AlertRuleBody {
    AlertRuleBody { column: text(column), statistic: text(statistic), above: Some(0.1), ..body("nulls") }
}

#[test]
fn rules_on_drift_columns_and_filters_are_accepted() {
    let live = |body: AlertRuleBody| AlertRuleBody { model: text("m"), environment: text("e"), ..body };
    let drift = |column: &str| AlertRuleBody { drift: text(column), ..far() };
    for good in [
        drift("score"),
        drift("label"),
        drift("tag.carrier"),
        drift("feature.age"),
        live(far()),
        AlertRuleBody { tag: text("x=1"), ..count() },
        AlertRuleBody { release: text("v1"), ..missing("predictions") },
        live(column("score", "p99")),
        live(column("label", "null_rate")),
        live(column("feature.age", "max")),
    ] {
        AlertRule::of(good, Timestamp::default()).unwrap();
    }
}

#[test]
fn invalid_column_rule_is_refused_with_reason() {
    for (body, reason) in [
        (column("scores", "mean"), "`column` is a column of predictions"),
        (column("label", "mean"), "`statistic` of label is one of null_rate, not `mean`"),
        (column("score", "psi"), "is one of null_rate, mean, std, min, p50, p90, p99, max, not `psi`"),
        (AlertRuleBody { statistic: None, ..column("score", "") }, "`statistic` of score is one of"),
        (AlertRuleBody { release: text("v1"), ..column("tag.x", "null_rate") }, "not counted by release"),
        (AlertRuleBody { reference: text("2026-04-01"), ..column("score", "min") }, "belongs to `drift`"),
        (AlertRuleBody { drift: text("score"), ..column("score", "min") }, "`column`, `drift` and `lag`"),
    ] {
        let said = why(body.clone());
        assert!(said.contains(reason), "{body:?}: {said}");
    }
}

#[test]
fn invalid_drift_rule_is_refused_with_reason() {
    for (body, reason) in [
        (AlertRuleBody { drift: text("scores"), ..far() }, "`drift` is a column of predictions"),
        (AlertRuleBody { drift: text("tag."), ..far() }, "`drift` is a column of predictions"),
        (AlertRuleBody { statistic: text("chi2"), ..far() }, "`statistic` of score is one of js_distance"),
        (
            AlertRuleBody { drift: text("label"), statistic: text("ks"), ..far() },
            "l_infinity, unseen_rate, others_rate, p_value, not `ks`",
        ),
        (AlertRuleBody { reference: None, ..far() }, "needs the days of a `reference`"),
        (AlertRuleBody { reference: text("2026-04"), ..far() }, "`reference`: "),
        (AlertRuleBody { reference: text("2026-04-02..2026-04-01"), ..far() }, "`reference`: "),
        (AlertRuleBody { reference: text("2026-04-01..2026-07-02"), ..far() }, "at most 92 days"),
        (
            AlertRuleBody { drift: text("tag.x"), model: text("m"), environment: text("e"), ..far() },
            "not counted by release",
        ),
        (AlertRuleBody { drift: text("tag.x"), release: text("v1"), ..far() }, "not counted by release"),
        (AlertRuleBody { min_completeness: Some(0.5), ..far() }, "`min_completeness` belongs to `metric`"),
        (AlertRuleBody { drift: Some(format!("feature.{}", "x".repeat(129))), ..far() }, "is a column of"),
        (AlertRuleBody { drift: text("scores.yes"), ..far() }, "is a column of"),
        (AlertRuleBody { drift: text("key"), ..far() }, "is a column of"),
    ] {
        let said = why(body.clone());
        assert!(said.contains(reason), "{body:?}: {said}");
    }
}

#[test]
fn invalid_tag_or_maturity_rule_is_refused() {
    for (body, reason) in [
        (AlertRuleBody { tag: text("x=1"), release: text("v1"), ..count() }, "not counted by release"),
        (
            AlertRuleBody { tag: text("x=1"), count: text("outcomes"), ..count() },
            "predictions and metrics have",
        ),
        (AlertRuleBody { tag: text("x"), ..count() }, "NAME=VALUE"),
        (AlertRuleBody { release: text("v1"), ..missing("outcomes") }, "outcomes name no release"),
        (AlertRuleBody { release: text("v1"), delay: Some(1), ..missing("predictions") }, "has no `delay`"),
        (AlertRuleBody { reference: text("2026-04-01"), ..full() }, "`reference` belongs to `drift`"),
        (AlertRuleBody { statistic: text("psi"), ..count() }, "`statistic` belongs to `column` and `drift`"),
        (AlertRuleBody { min_completeness: Some(1.5), ..full() }, "share from 0 to 1"),
        (
            AlertRuleBody { tag: text("x=1"), ..missing("predictions") },
            "`tag` belongs to `metric` and `count`",
        ),
        (AlertRuleBody { tag: text("x="), ..full() }, "NAME=VALUE"),
        (AlertRuleBody { tag: Some(format!("x={}", "y".repeat(129))), ..full() }, "1 to 128 bytes"),
        (AlertRuleBody { tag: Some(format!("{}=y", "x".repeat(129))), ..full() }, "the name"),
    ] {
        let said = why(body.clone());
        assert!(said.contains(reason), "{body:?}: {said}");
    }
}

#[tokio::test]
async fn rules_are_applied_all_or_none_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let table = SqliteTable::open(&folder.path().join("t.db"), clock.clone()).unwrap();
    let catalog = Catalog::new(Arc::new(table));
    let id = catalog.ensure_workspace("credit/prod", clock.now()).await.unwrap().entity.id;
    let (first, later) = (at("2026-06-10T00:00:00Z"), at("2026-06-11T00:00:00Z"));
    let few = |n: usize| AlertRuleBody {
        count: Some("outcomes".into()),
        below: Some(1.0),
        ..body(&format!("few-{n}"))
    };
    let apply = async |bodies, now| catalog.apply_alert_rules(&id, bodies, now).await;
    assert!(catalog.alert_rules(&id).await.unwrap().is_empty());
    assert!(apply(vec![full(), body("wrong")], first).await.is_err());
    assert!(apply(vec![full(), full()], first).await.unwrap_err().to_string().contains("twice"));
    assert!(catalog.alert_rules(&id).await.unwrap().is_empty(), "all or none");
    let applied = apply(vec![full(), few(0)], first).await.unwrap();
    assert_eq!(applied, catalog.alert_rules(&id).await.unwrap());
    // A change keeps the instant at which the rule began, and others as they are.
    let changed = apply(vec![AlertRuleBody { below: Some(0.6), ..full() }], later).await.unwrap();
    assert_eq!((changed.len(), changed[0].created_at, changed[0].rule.test), (1, first, Test::Below(0.6)));
    assert_eq!(catalog.alert_rules(&id).await.unwrap().len(), 2);
    assert_eq!(catalog.alert_rule(&id, "few-0").await.unwrap(), applied[1]);
    let many = (1..=MAX_ALERT_RULES).map(few).collect();
    assert!(apply(many, later).await.unwrap_err().is_conflict());
    catalog.delete_alert_rule(&id, "few-0").await.unwrap();
    for missing in
        [catalog.delete_alert_rule(&id, "few-0").await, catalog.alert_rule(&id, "few-0").await.map(drop)]
    {
        assert_eq!(missing.unwrap_err().kind(), event::ErrorKind::NotFound);
    }
    assert_eq!(catalog.alert_rules(&id).await.unwrap(), changed);
    assert_eq!(catalog.watched_workspaces().await.unwrap(), std::slice::from_ref(&id));
    catalog.delete_alert_rule(&id, "auc-low").await.unwrap();
    assert!(catalog.alert_rules(&id).await.unwrap().is_empty());
    assert_eq!(catalog.watched_workspaces().await.unwrap(), [id], "where it stood is to be forgotten");
}

fn says(body: AlertRuleBody, value: f64, measured: f64, transition: Transition) -> String {
    let rule = AlertRule::of(AlertRuleBody { name: "x".into(), ..body }, Timestamp::default()).unwrap();
    let day = JudgedDay {
        day: "2026-06-03".parse().unwrap(),
        reading: Reading { value: Some(value), n: None },
        measured: Some(measured),
        standing: Standing::default(),
        transition: Some(transition),
    };
    rule.says(&day, transition)
}

#[test]
fn alert_text_names_value_and_threshold() {
    let text = |text: &str| Some(text.to_owned());
    let metric =
        AlertRuleBody { metric: text("auc"), release: text("v1"), below: Some(0.7), ..Default::default() };
    assert_eq!(
        says(metric.clone(), 0.65, 0.65, Transition::Fires),
        "auc of v1 on 2026-06-03 is 0.65, below 0.7"
    );
    assert_eq!(says(metric, 0.75, 0.75, Transition::Resolves), "auc of v1 on 2026-06-03 is 0.75 again");
    let moved = AlertRuleBody { count: text("predictions"), moved: Some(4.0), ..Default::default() };
    let told = "the number of predictions on 2026-06-03 is 3, -7.2 deviations from the 14 days before";
    assert_eq!(says(moved, 3.0, -7.2, Transition::Fires), told);
    let late = AlertRuleBody { missing: text("outcomes"), by: text("06:00"), ..Default::default() };
    assert_eq!(
        says(late.clone(), 1.0, 1.0, Transition::Fires),
        "no outcomes of 2026-06-03 had come by 06:00"
    );
    let of_v1 = AlertRuleBody { release: text("v1"), missing: text("predictions"), ..late.clone() };
    assert_eq!(
        says(of_v1, 1.0, 1.0, Transition::Fires),
        "no predictions of v1 had come on 2026-06-03 by 06:00"
    );
    assert_eq!(says(late, 0.0, 0.0, Transition::Resolves), "outcomes of 2026-06-03 had come by 06:00 again");
}
