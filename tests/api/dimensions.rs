//! Evaluations by the dimensions that a model declares: stored ones equal those computed from the events.

use catalog::Catalog;
use event::{Clock, Kind, NewDefinition};
use fold::Evaluation;
use log::{
    evaluated::{self, At, Content, OfGone},
    key,
};
use projector::{
    rebuild::{Pace, rebuild},
    verify::verify,
};
use query::{Answer, Dataset, Format, Params, Request, Source};
use serde_json::json;
use table::Condition;
use tests::{
    on_both_engines,
    scene::{NOW, Scene},
    world::{World, at},
};

on_both_engines!(
    World::on:
    stored_split_equals_computed_split,
    days_before_a_split_was_declared_are_computed,
    stored_splits_survive_rebuild_and_expiry,
);

const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
const LATER: &str = "2026-06-04T12:00:00Z";

/// Predictions of a release on a day with two tags and a feature, and their outcomes.
async fn predict(scene: &Scene, day: &str, release: &str, count: usize) {
    let prediction = |n: usize| {
        let time = format!("{day}T{:02}:{:02}:00Z", n / 60, n % 60);
        let carrier = ["UA", "AA", "DL"][n % 3];
        let tags = if n.is_multiple_of(5) {
            json!({})
        } else {
            json!({ "carrier": carrier, "tail": format!("N{n}") })
        };
        json!({
            "key": format!("k{n}"), "predicted_at": time, "release": release, "score": (n * 7 % 10) as f64 / 10.0,
            "tags": tags, "features": { "hours": n as f64 },
        })
    };
    let outcome = |n: usize| {
        let label = if n.is_multiple_of(4) { "1" } else { "0" };
        json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T23:00:00Z"), "label": label })
    };
    scene.append(Kind::Predictions, (0..count).map(prediction).collect(), LATER).await.unwrap();
    scene.append(Kind::Outcomes, (0..count).map(outcome).collect(), LATER).await.unwrap();
}

async fn declare(scene: &Scene, dimensions: &[&str], from: &str) {
    let new = NewDefinition {
        dimensions: Some(dimensions.iter().map(|dimension| (*dimension).to_owned()).collect()),
        from: Some(from.parse().unwrap()),
        ..NewDefinition::default()
    };
    scene.ingest(at("2026-06-05T00:00:00Z")).define_model(&scene.workspace, "m", &new).await.unwrap();
}

/// Both days by a column.
fn by<'a>(by: &'a str, bins: Option<&'a str>) -> Params<'a> {
    Params { from: DAYS[0], to: DAYS[1], by: Some(by), bins, ..Params::default() }
}

fn pace() -> Pace {
    Pace { share: 1.0, clock: Clock::from_fn(|| at(NOW)) }
}

async fn run(scene: &Scene, what: Dataset, words: &Params<'_>) -> Answer {
    let request = Request::parse(what, words).unwrap();
    scene.query(at(NOW)).run(scene.id(), &request).await.unwrap()
}

/// Rows, and their source.
async fn rows(scene: &Scene, what: Dataset, words: &Params<'_>) -> (String, Source) {
    let mut answer = run(scene, what, words).await;
    let mut text = Vec::new();
    Format::Csv.write(&mut answer.frame, &mut text).unwrap();
    (String::from_utf8(text).unwrap(), answer.source.unwrap())
}

/// Two releases with common keys, both with the dimensions of their model.
async fn scene_with_splits(world: World) -> Scene {
    let scene = Scene::new(world).await;
    for day in DAYS {
        predict(&scene, day, "v1", 80).await;
        predict(&scene, day, "v2", 50).await;
    }
    declare(&scene, &["tag.carrier", "tag.tail", "feature.hours:10:40"], DAYS[0]).await;
    scene.project().await;
    scene
}

async fn stored_split_equals_computed_split(world: World) {
    let scene = scene_with_splits(world).await;
    // As of now, from the present log: computed.
    let then = Some(NOW);
    for what in [Dataset::Evaluations, Dataset::Classes, Dataset::Confusion] {
        for words in [by("tag.carrier", None), by("feature.hours", Some("10,40"))] {
            for release in [None, Some("v2")] {
                let words = Params { release, ..words.clone() };
                let (stored, source) = rows(&scene, what, &words).await;
                assert_eq!(source, Source::Stored, "{words:?}");
                let (computed, source) = rows(&scene, what, &Params { as_of: then, ..words.clone() }).await;
                assert_eq!(source, Source::Events);
                assert_eq!(stored, computed, "{words:?}");
                assert!(stored.lines().count() > 6, "{stored}");
            }
        }
    }
    let source = async |words: &Params<'_>| rows(&scene, Dataset::Evaluations, words).await.1;
    let plain = Params { from: DAYS[0], to: DAYS[1], ..Params::default() };
    assert_eq!(source(&plain).await, Source::Stored);
    // A query without dimensions does not read their rows: it works even when one is lost.
    let of_days = rows(&scene, Dataset::Evaluations, &plain).await;
    let apart = key::all_slices(scene.id(), 1);
    let apart = table::query_all(&*scene.table, table::Query::table(apart)).await.unwrap();
    assert_eq!(apart.len(), DAYS.len());
    scene.table.delete(&apart[0].key, Condition::None).await.unwrap();
    assert_eq!(rows(&scene, Dataset::Evaluations, &plain).await, of_days);
    let request = Request::parse(Dataset::Evaluations, &by("tag.carrier", None)).unwrap();
    let lost = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap_err();
    assert!(lost.to_string().contains("a part of its generation is missing"), "{lost}");
    scene.table.put(apart[0].clone(), Condition::None).await.unwrap();
    // Any other question is computed.
    for words in [
        by("tag.carrier,tag.tail", None),
        by("tag.origin", None),
        by("model,tag.carrier", None),
        by("feature.hours", Some("10,41")),
        by("feature.hours", None),
        Params { threshold: Some("0.3"), ..by("tag.carrier", None) },
        Params { costs: Some("fp=1"), ..by("tag.carrier", None) },
        Params { period: Some("all"), ..by("tag.carrier", None) },
        Params { time_zone: Some("Europe/Berlin"), ..by("tag.carrier", None) },
        Params { interval: true, ..by("tag.carrier", None) },
    ] {
        assert_eq!(source(&words).await, Source::Events, "{words:?}");
    }
    // Each of the 64 values of the day has a row, and so has the missing value.
    let tails = Params { release: Some("v1"), columns: Some("tag.tail,predictions"), ..by("tag.tail", None) };
    let (tails, source) = rows(&scene, Dataset::Evaluations, &Params { to: DAYS[0], ..tails }).await;
    assert_eq!(source, Source::Stored);
    assert_eq!(tails.lines().count(), 1 + 64 + 1, "{tails}");
    scene.assert_verified().await;
    // Rows of dimensions in the parts of releases, their older form, are read as well.
    let tags = by("tag.carrier", None);
    let before = rows(&scene, Dataset::Evaluations, &tags).await;
    let days = DAYS.map(|day| At { workspace: scene.id(), version: 1, day: day.parse().unwrap() });
    for at in days {
        let (head, states) = evaluated::load(&*scene.table, at).await.unwrap().unwrap();
        let state = Evaluation::from_states(&states).unwrap().to_state();
        let content = Content {
            applied: head.applied.clone(),
            rows: head.rows,
            states: vec![state],
            slices: Vec::new(),
        };
        evaluated::write(&*scene.table, at, &head, content, OfGone::Refused).await.unwrap();
    }
    assert_eq!(rows(&scene, Dataset::Evaluations, &tags).await, before);
    scene.assert_verified().await;
}

async fn days_before_a_split_was_declared_are_computed(world: World) {
    let scene = Scene::new(world).await;
    for day in DAYS {
        predict(&scene, day, "v1", 30).await;
    }
    scene.project().await;
    declare(&scene, &["tag.carrier"], DAYS[1]).await;
    scene.project().await;
    let both = by("tag.carrier", None);
    assert_eq!(rows(&scene, Dataset::Evaluations, &both).await.1, Source::Events);
    let second = Params { from: DAYS[1], ..both.clone() };
    let (stored, source) = rows(&scene, Dataset::Evaluations, &second).await;
    assert_eq!(source, Source::Stored);
    // Without the declaration the day is evaluated without them.
    declare(&scene, &[], DAYS[1]).await;
    scene.project().await;
    let (computed, source) = rows(&scene, Dataset::Evaluations, &second).await;
    assert_eq!((source, computed.len()), (Source::Events, stored.len()));
    scene.assert_verified().await;
}

async fn stored_splits_survive_rebuild_and_expiry(world: World) {
    let scene = scene_with_splits(world).await;
    let words = by("tag.carrier", None);
    let before = rows(&scene, Dataset::Evaluations, &words).await;
    assert_eq!(before.1, Source::Stored);
    rebuild(&*scene.table, scene.id(), &pace(), |_| {}).await.unwrap();
    assert_eq!(rows(&scene, Dataset::Evaluations, &words).await, before);
    let (catalog, now) = (Catalog::new(scene.table.clone()), at("2026-06-06T00:00:00Z"));
    catalog.set_retention(scene.id(), Some(2), now).await.unwrap();
    scene.expire(now).await;
    assert_eq!(scene.expire(now.plus_seconds(3_600)).await.days, 2);
    assert_eq!(rows(&scene, Dataset::Evaluations, &words).await, before);
    rebuild(&*scene.table, scene.id(), &pace(), |_| {}).await.unwrap();
    assert_eq!(rows(&scene, Dataset::Evaluations, &words).await, before);
    let report = verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
    assert_eq!((report.faults.as_slice(), report.expired), ([].as_slice(), 2));
}
