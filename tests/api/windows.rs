//! Evaluations of other windows than UTC days: hours, days of a time zone, and the time for which releases were live.

use event::Kind;
use query::{Dataset, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    days_of_a_place_have_its_hours,
    midday_promotion_is_evaluated_correctly,
    empty_answer_names_unfolded_events,
);

const LATER: &str = "2026-06-04T12:00:00Z";

/// A prediction of a release every half an hour of a UTC day, and the outcomes of all but the last one.
async fn predict(scene: &Scene, day: &str, release: &str) {
    let prediction = |n: usize| {
        let time = format!("{day}T{:02}:{:02}:00Z", n / 2, n % 2 * 30);
        json!({ "key": format!("k{n}"), "predicted_at": time, "release": release, "score": n as f64 / 48.0 })
    };
    let outcome = |n: usize| {
        let label = if n.is_multiple_of(3) { "1" } else { "0" };
        json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T23:00:00Z"), "label": label })
    };
    scene.append(Kind::Predictions, (0..48).map(prediction).collect(), LATER).await.unwrap();
    scene.append(Kind::Outcomes, (0..47).map(outcome).collect(), LATER).await.unwrap();
}

async fn rows(scene: &Scene, words: Params<'_>) -> Vec<String> {
    let request = Request::parse(Dataset::Evaluations, &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

async fn days_of_a_place_have_its_hours(world: World) {
    let scene = Scene::new(world).await;
    for day in ["2025-10-25", "2025-10-26", "2026-03-28", "2026-03-29"] {
        predict(&scene, day, "v1").await;
    }
    scene.project().await;
    let columns = Some("day,predictions,labelled,tp,fp,tn,fn,accuracy,auc,brier");
    let of_day = |day| Params { from: day, to: day, columns, ..Params::default() };
    for (day, hours) in [("2025-10-26", 25), ("2026-03-29", 23)] {
        let berlin = |period| Params {
            time_zone: Some("Europe/Berlin"),
            period,
            columns: Some("day,hour,predictions,labelled"),
            ..of_day(day)
        };
        let found = rows(&scene, berlin(Some("hour"))).await;
        // There are no predictions after the last UTC day, so the last hour or two of the local day have none.
        assert!(found.len() == hours && found.iter().all(|row| row.starts_with(day)), "{found:?}");
        assert!(found.iter().all(|row| row.contains(",2,")), "{found:?}");
        let whole = rows(&scene, berlin(None)).await;
        assert_eq!(whole, [format!("{day},,{},{}", 2 * hours, 2 * hours - 1)]);
    }
    // In a zone with the days of UTC, the metrics are equal.
    let stored = rows(&scene, of_day("2026-03-28")).await;
    assert_eq!(stored.len(), 1);
    for zone in ["UTC", "Africa/Abidjan"] {
        assert_eq!(rows(&scene, Params { time_zone: Some(zone), ..of_day("2026-03-28") }).await, stored);
    }
    let utc = Params { period: Some("hour"), columns: Some("hour,predictions"), ..of_day("2026-03-28") };
    let found = rows(&scene, utc.clone()).await;
    assert_eq!((found.len(), &*found[23]), (24, "2026-03-28T23:00:00Z,2"));
    // A month of the zone begins and ends with its days.
    let month = Params {
        from: "2026-03-01",
        to: "2026-03-28",
        time_zone: Some("America/New_York"),
        period: Some("month"),
        columns: Some("day,predictions"),
        ..Params::default()
    };
    // Four hours of the next UTC day still belong to it.
    assert_eq!(rows(&scene, month).await, ["2026-03-01,56"]);
    let refused =
        Request::parse(Dataset::Evaluations, &Params { time_zone: Some("Berlin"), ..utc }).unwrap_err();
    assert!(refused.to_string().starts_with("time-zone: `Berlin` is no time zone"), "{refused}");
}

async fn midday_promotion_is_evaluated_correctly(world: World) {
    let scene = Scene::new(world).await;
    let promoted = async |release: &str, time: &str, now: &str| {
        let event = json!([{ "release": release, "released_at": time, "model": "m", "action": "promote", "environment": "production" }]);
        scene.append(Kind::Releases, event, now).await.unwrap();
    };
    promoted("v1", "2026-06-02T00:00:00Z", "2026-06-02T00:00:01Z").await;
    predict(&scene, "2026-06-03", "v1").await;
    predict(&scene, "2026-06-03", "v2").await;
    // Only days later it is known that the second release was live from noon on.
    promoted("v2", "2026-06-03T12:00:00Z", "2026-06-08T00:00:00Z").await;
    scene.project().await;
    let live = Params {
        from: "2026-06-03",
        to: "2026-06-03",
        environment: Some("production"),
        columns: Some("model,release,predictions,labelled,wins,losses,ties"),
        ..Params::default()
    };
    assert_eq!(rows(&scene, live.clone()).await, ["m,,48,47,0,0,47"]);
    // Live predictions are as near to the truth as those that were not live.
    let by_release = Params { by: Some("release"), ..live.clone() };
    assert_eq!(rows(&scene, by_release.clone()).await, [",v1,24,24,0,0,24", ",v2,24,23,0,0,23"]);
    assert_eq!(rows(&scene, Params { release: Some("v2"), ..live.clone() }).await, [",v2,24,23,0,0,23"]);
    let shadow = Params { shadow: true, ..live.clone() };
    assert_eq!(rows(&scene, shadow).await, [",v1,24,23,0,0,23", ",v2,24,24,0,0,24"]);
    // By hours each release appears as long as it was live.
    let hours = Params { period: Some("hour"), columns: Some("hour,release"), ..by_release.clone() };
    let found = rows(&scene, hours).await;
    assert_eq!(found[11..13], ["2026-06-03T11:00:00Z,v1", "2026-06-03T12:00:00Z,v2"]);
    // As of an earlier instant, the first one was live all day.
    let before = Params { as_of: Some("2026-06-07"), ..by_release.clone() };
    assert_eq!(rows(&scene, before).await, [",v1,48,47,0,0,47"]);
    let request =
        Request::parse(Dataset::Evaluations, &Params { environment: Some("staging"), ..live.clone() });
    let refused = scene.query(at(NOW)).run(scene.id(), &request.unwrap()).await.unwrap_err().to_string();
    assert_eq!(refused, "there is no environment `staging`; there are production");
    let refused = Request::parse(Dataset::Evaluations, &Params { environment: None, shadow: true, ..live });
    assert!(refused.unwrap_err().to_string().contains("name the environment"));
}

/// Right after a write, before any projector has seen it.
async fn empty_answer_names_unfolded_events(world: World) {
    let scene = Scene::new(world).await;
    predict(&scene, "2026-06-02", "v1").await;
    let warned = async |what: Dataset, day: &str| {
        let reference = (what == Dataset::Drift).then_some("2026-06-01");
        let words = Params { from: day, to: day, reference, ..Params::default() };
        let request = Request::parse(what, &words).unwrap();
        scene.query(at(NOW)).run(scene.id(), &request).await.unwrap().warnings
    };
    for (what, is) in [
        (Dataset::Rollups, "folded"),
        (Dataset::Drift, "folded"),
        (Dataset::Evaluations, "evaluated"),
        (Dataset::Classes, "evaluated"),
    ] {
        let found = warned(what, "2026-06-02").await;
        let says = format!(" of 2026-06-02 were appended and are not {is} yet: ask again");
        assert!(found.len() == 1 && found[0].contains(&says), "{what:?}: {found:?}");
        assert_eq!(warned(what, "2026-06-01").await, [""; 0], "nothing was appended");
    }
    scene.project().await;
    for what in [Dataset::Rollups, Dataset::Drift, Dataset::Evaluations, Dataset::Classes] {
        assert_eq!(warned(what, "2026-06-02").await, [""; 0], "{what:?}");
    }
}
