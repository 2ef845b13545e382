//! The quality of data: what rules on columns read of a day.

use catalog::{AlertRuleBody, DetailedSpec, ReleaseDetails, new::NewSnapshot};
use event::Kind;
use log::key::EntityKind;
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    register::release_of,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

use crate::{
    alerts::{day, rule, tried},
    snapshots::{create, june},
};

on_both_engines!(
    World::on:
    statistics_of_columns_are_watched,
    a_day_without_any_feature_lacks_each,
    each_of_many_releases_lacks_features,
    references_have_names,
);

/// Columns of a release that is live from the second day on, of tags, of features, and of what no prediction has.
async fn statistics_of_columns_are_watched(world: World) {
    let scene = Scene::new(world).await;
    for (number, release, labels) in [(1, "v1", 10), (2, "v1", 8), (3, "v2", 5)] {
        let row = |n: usize| {
            let mut row = json!({ "release": release, "key": format!("k{n}"), "score": n as f64 / 16.0,
                                  "predicted_at": format!("{}T01:00:00Z", day(number)), "features": { "age": n } });
            if n < labels {
                row["label"] = "yes".into();
                row["tags"] = json!({ "carrier": "UA" });
            }
            row
        };
        let rows: Vec<Value> = (0..10).map(row).collect();
        scene.append(Kind::Predictions, rows.into(), "2026-06-05T00:00:00Z").await.unwrap();
    }
    let promoted = json!([{ "release": "v1", "model": "m", "released_at": "2026-06-02T01:00:00Z", "action": "promote",
                            "environment": "production" }]);
    scene.append(Kind::Releases, promoted, "2026-06-05T00:00:00Z").await.unwrap();
    scene.project().await;
    let of = |column: &str, statistic: &str| AlertRuleBody {
        column: Some(column.into()),
        statistic: Some(statistic.into()),
        above: Some(0.3),
        ..rule("x")
    };
    let now = "2026-06-05T00:00:00Z";
    let numbers = async |body: AlertRuleBody| -> Vec<Option<f64>> {
        tried(&scene, body, (1, 4), now).await.into_iter().map(|(_, number, ..)| number).collect()
    };
    let nulls = [Some(0.0), Some(0.2), Some(0.5), None];
    assert_eq!(numbers(of("label", "null_rate")).await, nulls);
    assert_eq!(numbers(of("tag.carrier", "null_rate")).await, nulls);
    assert_eq!(numbers(of("tag.none", "null_rate")).await, [Some(1.0), Some(1.0), Some(1.0), None]);
    assert_eq!(numbers(of("value", "null_rate")).await, [Some(1.0), Some(1.0), Some(1.0), None]);
    assert_eq!(numbers(of("value", "mean")).await, [None; 4]);
    assert_eq!(numbers(of("feature.age", "null_rate")).await, [Some(0.0), Some(0.0), Some(0.0), None]);
    assert_eq!(numbers(of("feature.age", "p50")).await, [Some(4.5), Some(4.5), Some(4.5), None]);
    assert_eq!(
        numbers(of("score", "max")).await,
        [Some(9.0 / 16.0), Some(9.0 / 16.0), Some(9.0 / 16.0), None]
    );
    let of_release = AlertRuleBody { release: Some("v2".into()), ..of("label", "null_rate") };
    assert_eq!(numbers(of_release).await, [None, None, Some(0.5), None]);
    let live = AlertRuleBody {
        model: Some("m".into()),
        environment: Some("production".into()),
        ..of("label", "null_rate")
    };
    assert_eq!(numbers(live).await, [None, Some(0.2), None, None]);
    assert_eq!(
        numbers(AlertRuleBody { min_n: Some(11), ..of("label", "null_rate") }).await,
        nulls,
        "told as it is"
    );
    let states =
        tried(&scene, AlertRuleBody { min_n: Some(11), ..of("label", "null_rate") }, (1, 4), now).await;
    assert!(states.iter().all(|(_, _, state, _)| *state == "no_data"), "{states:?}");
    for column in ["score", "feature.age"] {
        let (_, reads) = scene.world.reads(tried(&scene, of(column, "max"), (1, 4), now)).await;
        assert_eq!(
            (reads.gets, reads.queries),
            (2, 1),
            "which version is read, before and after, and one range"
        );
    }
}

/// Two releases, of which one never has features; on the third day the other one loses all tags and features, and on the first it had
/// none yet.
async fn a_day_without_any_feature_lacks_each(world: World) {
    let scene = Scene::new(world).await;
    for number in 1..=3 {
        let row = |n: usize| {
            let release = ["v1", "v2"][n % 2];
            let mut row = json!({ "release": release, "key": format!("k{n}"), "score": 0.5,
                                  "predicted_at": format!("{}T01:00:00Z", day(number)) });
            if number == 2 && release == "v1" {
                row["features"] = json!({ "age": n, "income": n * 1_000 });
                row["tags"] = json!({ "carrier": "UA" });
            }
            row
        };
        let rows: Vec<Value> = (0..20).map(row).collect();
        scene.append(Kind::Predictions, rows.into(), "2026-06-05T00:00:00Z").await.unwrap();
    }
    scene.project().await;
    let now = "2026-06-05T00:00:00Z";
    let nulls = |column: &str| AlertRuleBody {
        column: Some(column.into()),
        statistic: Some("null_rate".into()),
        above: Some(0.6),
        ..rule("nulls")
    };
    let all = [(1, Some(1.0)), (2, Some(0.5)), (3, Some(1.0)), (4, None)];
    for column in ["feature.age", "feature.income", "tag.carrier"] {
        let found = tried(&scene, nulls(column), (1, 4), now).await;
        let found: Vec<_> = found.into_iter().map(|(number, value, ..)| (number, value)).collect();
        assert_eq!(found, all, "{column}");
    }
    let fired = tried(&scene, nulls("feature.age"), (1, 4), now).await;
    let fired: Vec<u32> = fired.iter().filter(|one| one.2 == "firing").map(|one| one.0).collect();
    // A day without predictions leaves the rule as it was.
    assert_eq!(fired, [1, 3, 4]);
    for (release, values) in [("v1", [1.0, 0.0, 1.0]), ("v2", [1.0; 3])] {
        let body = AlertRuleBody { release: Some(release.into()), ..nulls("feature.age") };
        let found = tried(&scene, body, (1, 3), now).await.into_iter();
        assert_eq!(found.filter_map(|(_, value, ..)| value).collect::<Vec<_>>(), values, "{release}");
    }
    // Drift of rollups says what the events say, on either side.
    let columns = Some("day,column,null_rate,null_rate_reference");
    let drift = async |days: [&str; 2], reference: &str, exact: bool, release: Option<&str>| {
        let [from, to] = days;
        let words =
            Params { from, to, columns, reference: Some(reference), exact, release, ..Params::default() };
        let request = Request::parse(Dataset::Drift, &words).unwrap();
        csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap())
    };
    let days = [1, 2, 3].map(day);
    let [first, second, third] = days.each_ref().map(String::as_str);
    for release in [None, Some("v1"), Some("v2")] {
        for (days, reference) in
            [([first, third], second), ([second, third], first), ([first, second], third)]
        {
            let rolled_up = drift(days, reference, false, release).await;
            let tags_too = drift(days, reference, true, release).await;
            let without_tags = |rows: &str| -> Vec<String> {
                let of_release = release.is_some();
                rows.lines().filter(|row| !(of_release && row.contains("tag."))).map(str::to_owned).collect()
            };
            assert_eq!(without_tags(&rolled_up), without_tags(&tags_too), "{release:?} {days:?} {reference}");
        }
    }
    let lost = drift([third, third], second, false, None).await;
    for row in [",feature.age,1.0,0.5", ",feature.income,1.0,0.5", ",tag.carrier,1.0,0.5"] {
        assert!(lost.contains(&format!("{third}{row}")), "{row}: {lost}");
    }
    let new = drift([second, second], first, false, None).await;
    assert!(new.contains(&format!("{second},feature.age,0.5,1.0")), "{new}");
}

/// A day with so many releases that its head does not keep each apart.
async fn each_of_many_releases_lacks_features(world: World) {
    let scene = Scene::new(world).await;
    let now = "2026-06-05T00:00:00Z";
    let nulls = |release: String| AlertRuleBody {
        column: Some("feature.age".into()),
        statistic: Some("null_rate".into()),
        above: Some(0.6),
        release: Some(release),
        ..rule("nulls")
    };
    const MANY: usize = 60;
    let name = |n: usize| format!("r{n:03}");
    let many = |n: usize| {
        let features = if n == 0 { json!({ "age": 1 }) } else { json!({}) };
        json!({ "release": name(n), "key": format!("k{n}"), "score": 0.5, "features": features,
                "predicted_at": format!("{}T01:00:00Z", day(4)) })
    };
    for n in 0..MANY {
        scene.register(&name(n), "m").await.unwrap();
    }
    scene.append(Kind::Predictions, (0..MANY).map(many).collect(), "2026-06-05T00:00:00Z").await.unwrap();
    scene.project().await;
    let mut unknown = Vec::new();
    for n in 0..MANY {
        let found = tried(&scene, nulls(name(n)), (4, 4), now).await[0].1;
        if found != Some(if n == 0 { 0.0 } else { 1.0 }) {
            unknown.push((n, found));
        }
    }
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The days that a release was trained on, those of a snapshot, and what has none.
async fn references_have_names(world: World) {
    let scene = Scene::new(world).await;
    for number in 1..=3 {
        scene.predict_many(&day(number), "v1", 4, "2026-06-06T00:00:00Z").await;
    }
    scene.project().await;
    let (catalog, id) = (&scene.world.catalog, scene.id());
    let of = |name: &str| NewSnapshot { to: Some(day(2)), ..june(name, "predictions") };
    create(&scene, &of("june")).await.unwrap();
    create(&scene, &NewSnapshot { filter: Some("score > 0.5".into()), ..of("some") }).await.unwrap();
    let details =
        ReleaseDetails { snapshot: Some("2026-05-01..2026-05-31".parse().unwrap()), ..Default::default() };
    let spec = DetailedSpec { details, ..DetailedSpec::from(release_of("m", "v3")) };
    scene.ingest(at(NOW)).create_release(&scene.workspace, spec).await.unwrap();
    let days = async |word: &str| catalog.reference_days(id, word).await.map_err(|error| error.to_string());
    assert_eq!(days("snapshot:june").await.unwrap(), "2026-06-01..2026-06-02");
    assert_eq!(days("release:v3").await.unwrap(), "2026-05-01..2026-05-31");
    assert_eq!(days("2026-06-01").await.unwrap(), "2026-06-01", "as it is");
    let of_v3 = catalog.resolve(EntityKind::Release, &format!("{}/v3", scene.workspace.path)).await.unwrap();
    let spring = Some("2026-04-01..2026-05-31".parse().unwrap());
    catalog.set_baseline(&of_v3, "spring", spring, at(NOW)).await.unwrap();
    assert_eq!(days("release:v3/spring").await.unwrap(), "2026-04-01..2026-05-31");
    let day = Some("2026-06-02".parse().unwrap());
    catalog.set_baseline(&of_v3, "spring", day, at(NOW)).await.unwrap();
    assert_eq!(days("release:v3/spring").await.unwrap(), "2026-06-02", "a baseline may change");
    assert_eq!(
        days("release:v3").await.unwrap(),
        "2026-05-01..2026-05-31",
        "what it was trained on does not"
    );
    for (word, why) in [
        ("snapshot:some", "has only a part of its days (`where`)"),
        ("snapshot:may", "there is no snapshot `may`"),
        ("release:v9", "there is no release `v9`"),
        ("release:v1", "does not say of which days"),
        ("release:v1/spring", "release `v1` has no baseline `spring`; it has none yet"),
        ("release:v3/autumn", "release `v3` has no baseline `autumn`; there are spring"),
        ("release:v9/spring", "there is no release `v9`"),
    ] {
        assert!(days(word).await.unwrap_err().contains(why), "{word}");
    }
    // A rule keeps the days that they are when it is applied.
    let far = AlertRuleBody {
        drift: Some("score".into()),
        reference: Some("snapshot:june".into()),
        above: Some(0.1),
        ..rule("far")
    };
    let applied = catalog.apply_alert_rules(id, vec![far.clone()], at(NOW)).await.unwrap();
    assert_eq!(applied[0].body.reference.as_deref(), Some("2026-06-01..2026-06-02"));
    let wrong = AlertRuleBody { reference: Some("snapshot:may".into()), ..far };
    let wrong = catalog.apply_alert_rules(id, vec![wrong], at(NOW)).await.unwrap_err().to_string();
    assert!(wrong.contains("alert rule `far`: there is no snapshot `may`"), "{wrong}");
}
