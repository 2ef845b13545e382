//! Filters of keys: days and lanes without a key are skipped by them, and the answer is unchanged. Each on a SQLite file and on
//! DynamoDB Local.

use std::collections::BTreeSet;

use catalog::Pin;
use event::{Clock, Day, Kind, Timestamp};
use log::{
    key,
    key_filter::{self, At},
};
use projector::{key_filters::make, rebuild, verify::verify};
use query::{Params, Request};
use serde_json::{Value, json};
use table::{Condition, Query, query_all};
use tests::{
    counted::Reads,
    on_both_engines,
    scene::{Scene, csv},
    world::at,
};

use crate::{
    keys::{compare, explained, filled, numbers},
    streamed::{PREDICTIONS, STREAMED, WHOLE, june, query},
};

on_both_engines!(
    Scene::on:
    filters_change_no_answer,
    key_filter_spares_reading_other_days,
    key_filters_are_rebuilt_once_outdated,
    filters_are_verified_and_rebuilt_and_expire,
);

const LATER: &str = "2026-06-20T00:00:00Z";

/// Makes the filters that are due at an instant.
async fn made(scene: &Scene, now: &str) -> u64 {
    scene.project().await;
    make(&*scene.table, scene.id(), (None, &BTreeSet::new()), at(now)).await.unwrap()
}

async fn filters_change_no_answer(scene: Scene) {
    filled(&scene, 7).await;
    let filters = made(&scene, LATER).await;
    assert!(filters > 8, "{filters}");
    let numbers = numbers();
    let enough = 8 * numbers.len();
    let (rows, [_, by_filters]) = compare(&scene, &numbers).await;
    assert!(rows > enough && by_filters > enough as u64, "{rows} {by_filters}");
    // Later events are read, in lanes that had none as well.
    let later = |number: u32| {
        json!({
            "key": format!("k{number}"), "predicted_at": format!("2026-06-0{}T09:00:00Z", 1 + number % 5),
            "release": "v1", "score": 0.125,
        })
    };
    scene.append(Kind::Predictions, (0..30).map(later).collect(), "2026-06-21T00:00:00Z").await.unwrap();
    let (more, [_, by_filters]) = compare(&scene, &numbers).await;
    assert!(more > rows && by_filters > enough as u64, "{more} {by_filters}");
}

/// Predictions of `count` keys of its own on each of `days` days, by four lanes.
async fn days(scene: &Scene, days: u32, count: u32) {
    scene.world.set_lanes(scene.id(), 4).await;
    for day in 1..=days {
        let of = |number: u32| {
            json!({
                "key": format!("d{day}-{number}"), "predicted_at": format!("2026-06-{day:02}T01:00:00Z"),
                "release": "v1", "score": 0.5, "tags": { format!("of{day}"): "x" },
            })
        };
        for some in 0..4 {
            let events: Value = (some * count..(some + 1) * count).map(of).collect();
            let then = format!("2026-06-{:02}T0{some}:00:00Z", day + 1);
            scene.append(Kind::Predictions, events, &then).await.unwrap();
        }
    }
}

async fn asked(scene: &Scene, words: &Params<'_>) -> (String, Reads) {
    let query = query(&scene.table, WHOLE);
    let request = Request::parse(PREDICTIONS, words).unwrap();
    let (answer, reads) = scene.world.reads(query.run(scene.id(), &request)).await;
    let answer = answer.unwrap();
    (format!("{:?} {}", answer.read_version.as_ref().map(ToString::to_string), csv(answer)), reads)
}

async fn key_filter_spares_reading_other_days(scene: Scene) {
    const DAYS: u64 = 12;
    days(&scene, DAYS as u32, 10).await;
    let known = Params { key: Some("d5-3"), columns: Some("day,key"), ..june() };
    let unknown = Params { key: Some("d50-3"), columns: None, ..june() };
    let before = [asked(&scene, &known).await, asked(&scene, &unknown).await];
    assert_eq!(made(&scene, LATER).await, DAYS);
    let after = [asked(&scene, &known).await, asked(&scene, &unknown).await];
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.0, before.0);
        // Every day has its four lanes, with four segments each, and one item with the number of lanes.
        assert!(before.1.items >= DAYS * 16, "{before:?}");
        // For each day: the head and a part of its filter, and a look for later events.
        assert!(after.1.gets <= before.1.gets + 2 * DAYS + 1, "{after:?}");
        assert!(after.1.queries <= before.1.queries + 5 * DAYS, "{after:?}");
    }
    // A known key is read in its lane of its day; one of 256 unknown ones may be read by mistake.
    let [known_items, unknown_items] = after.map(|(_, reads)| reads.items);
    assert!(known_items <= 12 && unknown_items <= 12, "{known_items} {unknown_items}");
    for bounds in [WHOLE, STREAMED] {
        let query = query(&scene.table, bounds);
        let said = explained(&query, &scene, PREDICTIONS, &known).await;
        assert_eq!((said.rows, said.segments.unpacked), (1, 1), "{said}");
        assert!(said.segments.skipped["filter"] >= said.segments.found - 12, "{said}");
        let text = said.to_string();
        assert!(text.contains("the filter of their day says that they have no key that is wanted"), "{text}");
        // An instant within the range of a filter disables it.
        let then = Params { as_of: Some("2026-06-02T02:30:00Z"), ..known.clone() };
        assert_eq!(explained(&query, &scene, PREDICTIONS, &then).await.segments.skipped["filter"], 0);
        let then = Params { as_of: Some("2026-06-19T00:00:00Z"), ..known.clone() };
        assert!(explained(&query, &scene, PREDICTIONS, &then).await.segments.skipped["filter"] > 0);
    }
}

async fn key_filters_are_rebuilt_once_outdated(scene: Scene) {
    days(&scene, 2, 5).await;
    scene.observe_many("2026-06-01", "1", 3, "2026-06-03T00:00:00Z").await;
    assert_eq!(made(&scene, "2026-06-02T00:59:00Z").await, 0, "no day is over for an hour");
    assert_eq!(made(&scene, "2026-06-02T01:00:00Z").await, 2, "of predictions and of outcomes");
    assert_eq!(made(&scene, "2026-06-03T12:00:00Z").await, 1, "of the next day");
    assert_eq!(made(&scene, LATER).await, 0, "nothing came since");
    let more = async |now: &str| {
        scene.predict_many("2026-06-01", "v1", 1, now).await;
        made(&scene, now).await
    };
    assert_eq!(more("2026-06-20T01:00:00Z").await, 1, "it is old");
    assert_eq!(more("2026-06-20T02:00:00Z").await, 0, "little came since");
    assert_eq!(more("2026-06-21T02:00:00Z").await, 1);
}

async fn filters_are_verified_and_rebuilt_and_expire(scene: Scene) {
    days(&scene, 3, 5).await;
    assert_eq!(made(&scene, LATER).await, 3);
    let verified = async || {
        let report = verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
        (report.filters, report.faults)
    };
    assert_eq!(verified().await, (3, Vec::new()));
    let words = Params { key: Some("d2-3"), columns: Some("day,key"), ..june() };
    let (answer, _) = asked(&scene, &words).await;
    // A damaged part of a filter.
    let day: Day = "2026-06-02".parse().unwrap();
    let filter = At { workspace: scene.id(), version: 1, day, kind: Kind::Predictions };
    let head = key_filter::head(&*scene.table, filter).await.unwrap().unwrap();
    let part = key::key_filter_part(scene.id(), 1, day, Kind::Predictions, (head.digest, 0));
    let item = scene.table.get(&part).await.unwrap().unwrap();
    let mut bytes = item.bytes("data").unwrap().to_vec();
    bytes[20] ^= 1;
    scene.table.put(item.with("data", bytes), Condition::Exists).await.unwrap();
    let (_, faults) = verified().await;
    assert!(
        faults[0].contains("2026-06-02: the filter of the keys of its predictions is not that of"),
        "{faults:?}"
    );
    assert_eq!(asked(&scene, &words).await.0, answer, "it is read without it");
    // A rebuild makes all of them again, and leaves none of the old ones.
    let pace = rebuild::Pace { share: 1.0, clock: Clock::from_fn(|| at(LATER)) };
    rebuild::rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    assert_eq!(verified().await, (3, Vec::new()));
    let stored = async |version| {
        let all = Query::table(key::all_key_filters(scene.id(), version));
        query_all(&*scene.table, all).await.unwrap().into_iter().map(|item| item.key.sk).collect::<Vec<_>>()
    };
    assert_eq!((stored(1).await.len(), stored(2).await.len()), (0, 6));
    assert_eq!(asked(&scene, &words).await.0, answer);
    // They go with the events of their day.
    let now: Timestamp = at("2026-06-20T00:00:00Z");
    scene.world.catalog.set_retention(scene.id(), Some(1), now).await.unwrap();
    scene.world.catalog.pin(scene.id(), &Pin::Day("2026-06-03".parse().unwrap()), true, now).await.unwrap();
    scene.expire(now).await;
    let deleted = scene.expire(at("2026-06-20T02:00:00Z")).await;
    assert_eq!(deleted.days, 2);
    let left = stored(2).await;
    assert!(left.len() == 2 && left.iter().all(|sk| sk.contains("2026-06-03")), "{left:?}");
    assert_eq!(make(&*scene.table, scene.id(), (None, &BTreeSet::new()), at(LATER)).await.unwrap(), 0);
    assert_eq!(verified().await, (1, Vec::new()));
}
