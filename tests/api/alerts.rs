//! Alert rules, tested on past days: the reading of each kind of rule, and the days on which it would have fired.

mod some_of;

use std::sync::Arc;

use catalog::{AlertRule, AlertRuleBody, Catalog};
use event::{Clock, Kind, NewDefinition, Timestamp, Window};
use projector::rebuild::{Pace, rebuild};
use serde_json::{Value, json};
use tests::{
    between::{Between, Call},
    on_both_engines,
    scene::{NOW, Scene},
    world::{World, at},
};

on_both_engines!(
    World::on:
    a_metric_is_judged_day_by_day,
    a_metric_of_what_is_live_follows_it,
    counts_are_held_against_the_days_before,
    what_comes_too_late_is_missing,
    drift_is_held_against_a_reference,
    alert_metrics_use_given_tag_and_mature_days,
);

pub(crate) fn day(number: u32) -> String {
    format!("2026-06-{number:02}")
}

pub(crate) fn rule(name: &str) -> AlertRuleBody {
    AlertRuleBody { name: name.into(), ..AlertRuleBody::default() }
}

/// Tests a rule on the days between two of June: the day of the month, the number, the state, and the transition.
pub(crate) async fn tried(
    scene: &Scene,
    body: AlertRuleBody,
    (from, to): (u32, u32),
    now: &str,
) -> Vec<(u32, Option<f64>, &'static str, &'static str)> {
    let rule = AlertRule::of(body, Timestamp::default()).unwrap();
    let window = Window::new(day(from).parse().unwrap(), day(to).parse().unwrap()).unwrap();
    let days = scene.world.catalog.test_alert_rule(scene.id(), &rule, window, at(now)).await.unwrap();
    let told = days.iter().map(|day| {
        let transition = day.transition.map_or("", fold::alert::Transition::name);
        let number = day.day.to_string()[8..].parse().unwrap();
        (number, day.reading.value, day.standing.state.name(), transition)
    });
    told.collect()
}

/// Days of ten predictions of both releases: v1 is right in 5 if all outcomes are positive, in 4 if none is, and on a day without
/// outcomes nothing is known.
async fn judged(scene: &Scene) {
    for (number, label) in [(1, "1"), (2, "none"), (3, "none"), (4, "1")] {
        for release in ["v1", "v2"] {
            scene.predict_many(&day(number), release, 10, "2026-06-06T00:00:00Z").await;
        }
        scene.observe_many(&day(number), label, 10, "2026-06-06T00:00:00Z").await;
    }
    scene.predict_many(&day(5), "v1", 10, "2026-06-06T00:00:00Z").await;
    scene.project().await;
}

async fn a_metric_is_judged_day_by_day(world: World) {
    let scene = Scene::new(world).await;
    judged(&scene).await;
    let low = AlertRuleBody {
        metric: Some("accuracy".into()),
        release: Some("v1".into()),
        below: Some(0.45),
        for_days: Some(2),
        ..rule("low")
    };
    let known = [
        (1, Some(0.5), "ok", ""),
        (2, Some(0.4), "pending", ""),
        (3, Some(0.4), "firing", "fires"),
        (4, Some(0.5), "resolved", "resolves"),
        (5, None, "no_data", ""),
    ];
    assert_eq!(tried(&scene, low.clone(), (1, 5), "2026-06-06T00:00:00Z").await, known);
    assert_eq!(tried(&scene, low.clone(), (1, 5), "2026-06-05T23:59:59Z").await, known[..4], "not over");
    assert_eq!(tried(&scene, low.clone(), (1, 5), "2026-06-01T00:00:00Z").await, []);
    // Two days later; with more events required than exist; of an unknown release.
    let late = AlertRuleBody { delay: Some(2), ..low.clone() };
    assert_eq!(tried(&scene, late, (1, 5), "2026-06-06T00:00:00Z").await, known[..3]);
    for body in [
        AlertRuleBody { min_n: Some(11), ..low.clone() },
        AlertRuleBody { release: Some("v3".into()), ..low.clone() },
    ] {
        let days = tried(&scene, body, (1, 4), "2026-06-06T00:00:00Z").await;
        assert!(days.iter().all(|(_, _, state, _)| *state == "no_data"), "{days:?}");
    }
    let (_, reads) = scene.world.reads(tried(&scene, low, (1, 5), "2026-06-06T00:00:00Z")).await;
    assert_eq!((reads.gets, reads.queries), (2, 5), "which version is read, before and after, and each day");
}

async fn a_metric_of_what_is_live_follows_it(world: World) {
    let scene = Scene::new(world).await;
    judged(&scene).await;
    let low = AlertRuleBody {
        metric: Some("accuracy".into()),
        model: Some("m".into()),
        environment: Some("production".into()),
        below: Some(0.45),
        ..rule("low")
    };
    let promote = |release: &str, when: &str| {
        json!([{ "release": release, "model": "m", "released_at": when, "action": "promote",
                 "environment": "production" }])
    };
    // Live from the second day on; in the evening of the fourth a release without this metric.
    for (release, when) in [("v1", "2026-06-02T23:00:00Z"), ("v3", "2026-06-04T23:00:00Z")] {
        if release == "v3" {
            scene.register("v3", "m").await.unwrap();
        }
        scene.append(Kind::Releases, promote(release, when), "2026-06-06T00:00:00Z").await.unwrap();
    }
    let known = [
        (1, None, "no_data", ""),
        (2, Some(0.4), "firing", "fires"),
        (3, Some(0.4), "firing", ""),
        (4, None, "firing", ""),
    ];
    assert_eq!(tried(&scene, low, (1, 4), "2026-06-06T00:00:00Z").await, known);
}

async fn counts_are_held_against_the_days_before(world: World) {
    let scene = Scene::new(world).await;
    for (number, count) in [(1, 9), (2, 10), (3, 9), (4, 10), (5, 10), (6, 1)] {
        scene.predict_many(&day(number), "v1", count, "2026-06-08T00:00:00Z").await;
    }
    scene.project().await;
    let moved = AlertRuleBody {
        count: Some("predictions".into()),
        moved: Some(4.0),
        window: Some(4),
        ..rule("moved")
    };
    // The rule looks back at days before the window.
    let days = tried(&scene, moved.clone(), (5, 7), "2026-06-08T00:00:00Z").await;
    assert_eq!(
        days,
        [(5, Some(10.0), "ok", ""), (6, Some(1.0), "firing", "fires"), (7, Some(0.0), "firing", "")]
    );
    let few = |release: &str| AlertRuleBody {
        release: Some(release.into()),
        moved: None,
        window: None,
        below: Some(5.0),
        ..moved.clone()
    };
    let days = tried(&scene, few("v1"), (5, 6), "2026-06-08T00:00:00Z").await;
    assert_eq!(days, [(5, Some(10.0), "ok", ""), (6, Some(1.0), "firing", "fires")]);
    let days = tried(&scene, few("v2"), (6, 6), "2026-06-08T00:00:00Z").await;
    assert_eq!(days, [(6, Some(0.0), "firing", "fires")]);
}

async fn what_comes_too_late_is_missing(world: World) {
    let scene = Scene::new(world).await;
    for (number, time) in [(1, "05:59:00"), (2, "06:01:00")] {
        scene.predict_many(&day(number), "v1", 2, &format!("{}T{time}Z", day(number))).await;
    }
    let late =
        AlertRuleBody { missing: Some("predictions".into()), by: Some("06:00".into()), ..rule("late") };
    let known = [(1, Some(0.0), "ok", ""), (2, Some(1.0), "firing", "fires"), (3, Some(1.0), "firing", "")];
    assert_eq!(tried(&scene, late.clone(), (1, 4), "2026-06-04T05:00:00Z").await, known);
    // Events that have expired no longer have arrival times.
    scene.project().await;
    scene.world.catalog.set_retention(scene.id(), Some(1), at("2026-06-10T00:00:00Z")).await.unwrap();
    scene.expire(at("2026-06-10T00:00:00Z")).await;
    scene.expire(at("2026-06-12T00:00:00Z")).await;
    let days = tried(&scene, late, (1, 2), "2026-06-12T00:00:00Z").await;
    assert_eq!(days, [(1, None, "no_data", ""), (2, None, "no_data", "")]);
}

/// Predictions of v1 of a day: scores from `low` on, and the tag `carrier`, which is `UA` for every second one.
async fn scored(scene: &Scene, day: &str, low: f64, count: u32) {
    let row = |n: u32| {
        let carrier = if n.is_multiple_of(2) { "UA" } else { "AA" };
        json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1",
                "score": low + f64::from(n % 10) / 100.0, "tags": { "carrier": carrier },
                "features": { "age": n % 7 } })
    };
    let rows: Vec<Value> = (0..count).map(row).collect();
    scene.append(Kind::Predictions, rows.into(), "2026-06-06T00:00:00Z").await.unwrap();
}

async fn drift_is_held_against_a_reference(world: World) {
    let scene = Scene::new(world).await;
    for (number, low) in [(1, 0.1), (2, 0.1), (3, 0.1), (4, 0.7)] {
        scored(&scene, &day(number), low, 40).await;
    }
    scene.project().await;
    let far = AlertRuleBody {
        drift: Some("score".into()),
        reference: Some("2026-06-01..2026-06-02".into()),
        above: Some(0.5),
        ..rule("far")
    };
    let now = "2026-06-06T00:00:00Z";
    let known = [(3, Some(0.0), "ok", ""), (4, Some(1.0), "firing", "fires"), (5, None, "firing", "")];
    assert_eq!(tried(&scene, far.clone(), (3, 5), now).await, known, "nothing is common to the fourth day");
    // Other statistics and columns; of a release; with more predictions required than exist.
    let one = |change: fn(AlertRuleBody) -> AlertRuleBody| change(far.clone());
    let area = |of| AlertRuleBody { statistic: Some("wasserstein".into()), ..of };
    let days = tried(&scene, one(area), (4, 4), now).await;
    assert!((days[0].1.unwrap() - 0.6).abs() < 1e-9, "{days:?}");
    for column in ["tag.carrier", "feature.age"] {
        let of = AlertRuleBody { drift: Some(column.into()), ..far.clone() };
        assert_eq!(tried(&scene, of, (4, 4), now).await, [(4, Some(0.0), "ok", "")], "{column}");
    }
    let of_v1 = |of| AlertRuleBody { release: Some("v1".into()), ..of };
    assert_eq!(tried(&scene, one(of_v1), (4, 4), now).await, [(4, Some(1.0), "firing", "fires")]);
    let of_v2 = |of| AlertRuleBody { release: Some("v2".into()), ..of };
    assert_eq!(tried(&scene, one(of_v2), (4, 4), now).await, [(4, None, "no_data", "")]);
    let of_many = |of| AlertRuleBody { min_n: Some(41), ..of };
    assert_eq!(tried(&scene, one(of_many), (4, 4), now).await, [(4, Some(1.0), "no_data", "")]);
    let (_, reads) = scene.world.reads(tried(&scene, far.clone(), (1, 5), now)).await;
    assert_eq!((reads.gets, reads.queries), (2, 2), "which version is read, and rollups of both windows");
    // The projector judges it when the day is projected.
    let applied = scene.world.catalog.apply_alert_rules(scene.id(), vec![far], at("2026-06-04T12:00:00Z"));
    applied.await.unwrap();
    scored(&scene, &day(5), 0.1, 40).await;
    let judged = async || {
        let now = at("2026-06-06T00:01:00Z");
        projector::alert::judge(&*scene.table, &scene.world.catalog, scene.id(), now).await.unwrap()
    };
    assert_eq!((judged().await.days, judged().await.days), (1, 0), "the fifth day is not projected");
    scene.project().await;
    assert_eq!(judged().await.days, 1);
    let (from, to) = (day(1).parse().unwrap(), day(30).parse().unwrap());
    let rule_transition = scene.world.catalog.transitions(scene.id(), from, to, 100).await.unwrap();
    let told: Vec<&str> = rule_transition.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(
        told,
        [
            "js_distance of score against 2026-06-01..2026-06-02 on 2026-06-05 is 0 again",
            "js_distance of score against 2026-06-01..2026-06-02 on 2026-06-04 is 1, above 0.5",
        ]
    );
}

async fn alert_metrics_use_given_tag_and_mature_days(world: World) {
    let scene = Scene::new(world).await;
    let new = NewDefinition {
        dimensions: Some(vec!["tag.carrier".into()]),
        from: Some("2026-06-01".parse().unwrap()),
        ..NewDefinition::default()
    };
    scene.ingest(at("2026-06-05T00:00:00Z")).define_model(&scene.workspace, "m", &new).await.unwrap();
    // Outcomes for all predictions of the first day, and for every second one of the second day: those of UA.
    for (number, step) in [(1, 1), (2, 2)] {
        scored(&scene, &day(number), 0.1, 40).await;
        let row = |n: usize| {
            json!({ "key": format!("k{n}"), "predicted_on": day(number), "observed_at": format!("{}T23:00:00Z", day(number)),
                    "label": if n.is_multiple_of(4) { "1" } else { "0" } })
        };
        let rows: Vec<Value> = (0..40).step_by(step).map(row).collect();
        scene.append(Kind::Outcomes, rows.into(), "2026-06-06T00:00:00Z").await.unwrap();
    }
    scene.project().await;
    let low = AlertRuleBody {
        metric: Some("accuracy".into()),
        release: Some("v1".into()),
        below: Some(0.6),
        ..rule("low")
    };
    let now = "2026-06-06T00:00:00Z";
    let numbers = async |body: AlertRuleBody| -> Vec<Option<f64>> {
        tried(&scene, body, (1, 2), now).await.into_iter().map(|(_, number, ..)| number).collect()
    };
    assert_eq!(numbers(low.clone()).await, [Some(0.75), Some(0.5)]);
    let of = |tag: &str| AlertRuleBody { tag: Some(tag.into()), ..low.clone() };
    assert_eq!(numbers(of("carrier=UA")).await, [Some(0.5), Some(0.5)]);
    assert_eq!(numbers(of("carrier=AA")).await, [Some(1.0), None], "none of them is judged");
    assert_eq!(numbers(of("carrier=B6")).await, [None, None]);
    assert_eq!(numbers(of("other=UA")).await, [None, None], "no dimension is declared by it");
    let mature = |share| AlertRuleBody { min_completeness: Some(share), ..low.clone() };
    assert_eq!(numbers(mature(0.5)).await, [Some(0.75), Some(0.5)]);
    assert_eq!(numbers(mature(0.51)).await, [Some(0.75), None]);
}
