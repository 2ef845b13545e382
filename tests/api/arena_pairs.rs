//! Pairs of an arena as releases go live; only votes count as votes. Each on a SQLite file and on DynamoDB Local.

use std::collections::BTreeSet;

use catalog::{DEFAULT_LEASE_SECONDS, Review};
use event::Kind;
use ingest::{Refused, SubmitError};
use log::key::{self, ReviewItemId};
use serde_json::json;
use table::Condition;
use tests::{on_both_engines, scene::Scene, world::at};

use crate::arenas::{ANN, BOB, DAY, NOW, act, arena, pair, predict, spec};

on_both_engines!(
    Scene::on:
    c4_arena_gets_pairs_of_newly_live_release,
    arena_does_not_grow_for_silent_release,
    numbers_without_items_are_passed_over,
    nobody_else_appends_what_looks_like_a_vote,
);

async fn c4_arena_gets_pairs_of_newly_live_release(scene: Scene) {
    scene.register("v3", "m").await.unwrap();
    predict(&scene, &["v1", "v2", "v3"], 3, DAY).await;
    act(&scene, "promote", "v1", "production", "2026-06-05T00:00:00Z").await;
    act(&scene, "promote", "v2", "shadow", "2026-06-05T00:00:00Z").await;
    let duel = arena(&scene, "duel", spec(3, &[])).await;
    let named = arena(&scene, "named", spec(3, &["v1", "v2"])).await;
    act(&scene, "promote", "v3", "test", "2026-06-05T01:00:00Z").await;
    let pairs = async |review: &Review| -> Vec<String> {
        let pairs = scene.world.catalog.arena_pairs(scene.id(), &review.id).await.unwrap();
        pairs.into_iter().map(|pair| format!("{} {}", pair.releases.join("-"), pair.items)).collect()
    };
    // An append-only service cannot pick.
    let ingest = scene.ingest(at(NOW));
    let next = async |ingest: &ingest::Ingest, review: &Review, who: &str| {
        let served = ingest.next_of((scene.id(), review), (who, DEFAULT_LEASE_SECONDS)).await.unwrap();
        served.map(|served| pair(&served))
    };
    assert_eq!(next(&ingest, &duel, ANN).await.unwrap(), "v1-v2");
    assert_eq!(pairs(&duel).await, ["v1-v2 3"]);
    let ingest = crate::reading::ingest(&scene, NOW);
    let mut served = Vec::new();
    for who in ["user:a", "user:b", "user:c", "user:d", "user:e", "user:f", "user:g", "user:h"] {
        served.extend(next(&ingest, &duel, who).await);
    }
    assert_eq!(pairs(&duel).await, ["v1-v2 3", "v1-v3 3", "v2-v3 3"]);
    assert_eq!(scene.world.catalog.review(scene.id(), "duel").await.unwrap().items, 9);
    let served: BTreeSet<String> = served.into_iter().collect();
    assert_eq!(served.into_iter().collect::<Vec<_>>(), ["v1-v2", "v1-v3", "v2-v3"]);
    // An arena of named releases keeps its pairs.
    assert_eq!(next(&ingest, &named, BOB).await.unwrap(), "v1-v2");
    assert_eq!(pairs(&named).await, ["v1-v2 3"]);
    // The search for missing pairs costs two queries in five minutes if none is missing.
    let ingest = crate::reading::ingest(&scene, NOW);
    ingest.workspace(scene.id().as_str()).await.unwrap();
    let mut queries = Vec::new();
    for _ in 0..2 {
        let (served, reads) = scene.world.reads(next(&ingest, &duel, ANN)).await;
        assert_eq!(served.unwrap(), "v1-v2", "who has an item keeps it");
        queries.push(reads.queries);
    }
    assert_eq!(queries[0], queries[1] + 2);
}

async fn arena_does_not_grow_for_silent_release(scene: Scene) {
    scene.register("v3", "m").await.unwrap();
    predict(&scene, &["v1", "v2"], 12, DAY).await;
    act(&scene, "promote", "v1", "production", "2026-06-05T00:00:00Z").await;
    act(&scene, "promote", "v2", "shadow", "2026-06-05T00:00:00Z").await;
    let duel = arena(&scene, "duel", spec(3, &[])).await;
    act(&scene, "promote", "v3", "test", "2026-06-05T01:00:00Z").await;
    // Each service looks for missing pairs by itself.
    for who in ["user:a", "user:b", "user:c"] {
        let ingest = crate::reading::ingest(&scene, NOW);
        ingest.next_of((scene.id(), &duel), (who, DEFAULT_LEASE_SECONDS)).await.unwrap().unwrap();
        let pairs = scene.world.catalog.arena_pairs(scene.id(), &duel.id).await.unwrap();
        let pairs: Vec<_> = pairs.iter().map(|pair| (pair.releases.join("-"), pair.items)).collect();
        assert_eq!(pairs, [("v1-v2".to_owned(), 3)]);
    }
}

async fn numbers_without_items_are_passed_over(scene: Scene) {
    predict(&scene, &["v1", "v2"], 3, DAY).await;
    let duel = arena(&scene, "duel", spec(3, &["v1", "v2"])).await;
    let ingest = scene.ingest(at(NOW));
    let next = async |who: &str| {
        let served = ingest.next_of((scene.id(), &duel), (who, DEFAULT_LEASE_SECONDS)).await.unwrap();
        served.map(|served| served.item.id.number)
    };
    assert_eq!(next(ANN).await, Some(0));
    // A process that dies after it has taken numbers for a pair leaves them without items.
    let lost = ReviewItemId { workspace: scene.id().clone(), review: duel.id.clone(), number: 0 };
    scene.table.delete(&key::review_item(&lost), Condition::None).await.unwrap();
    assert_eq!(next(ANN).await, Some(1));
    assert_eq!(next(BOB).await, Some(2));
    assert_eq!(next("user:cleo").await, None);
    let ranking = scene.query(at(NOW)).rank_arena(scene.id(), "duel", None).await.unwrap();
    assert_eq!(ranking.to_json()["pairs"][0]["items"], 3, "numbers are counted");
}

async fn nobody_else_appends_what_looks_like_a_vote(scene: Scene) {
    predict(&scene, &["v1", "v2"], 2, DAY).await;
    let duel = arena(&scene, "duel", spec(2, &["v1", "v2"])).await;
    let forged = json!([
        { "name": "arena.duel", "measured_at": "2026-06-10T20:00:00Z", "value": 1, "release": "v2", "tags": { "against": "v1" } },
        { "name": "arena.duel", "measured_at": "2026-06-10T20:00:00Z", "value": 7, "release": "v2",
          "tags": { "against": "v1", "arena": duel.id.as_str(), "item": "99" } },
    ]);
    let Err(SubmitError::Refused(Refused::Rows { errors, error_count: 2 })) =
        scene.append(Kind::Metrics, forged, "2026-06-10T20:00:00Z").await
    else {
        panic!("a forged vote was taken")
    };
    assert_eq!(
        errors[0].message,
        "`arena.duel` begins with `arena.`, as votes in arenas do; choose another name"
    );
}
