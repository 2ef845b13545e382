//! Arenas: the served pairs, the events of votes, and the ranking of releases by votes. Each on a SQLite file and on DynamoDB
//! Local.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{
    AnsweredBy, DEFAULT_LEASE_SECONDS, Review, ReviewPolicy, ReviewSpec, Served, Verdict, Vote,
    guest_reviewer,
};
use event::{ErrorKind, Kind, Window};
use futures::future::join_all;
use log::{key::ReviewItemId, scan};
use query::{ArenaRanking, Dataset, Params, Request};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::{at, cost},
};

use crate::reviews::{by, dying, item, kind_of, next};

on_both_engines!(
    Scene::on:
    c4_arena_pairs_follow_live_releases,
    c4_least_voted_pair_comes_first_without_names,
    c5_judge_sees_pair_on_key_only_once,
    c6_a_link_is_good_for_one_vote,
    vote_stores_two_metrics_once_despite_crashes,
    ranking_matches_log_now_and_as_of_past,
    votes_that_are_none_are_refused,
);

pub(crate) const DAY: &str = "2026-06-01";
pub(crate) const NOW: &str = "2026-06-10T00:00:00Z";
pub(crate) const ANN: &str = "user:ann";
pub(crate) const BOB: &str = "user:bob";

pub(crate) fn spec(n: u32, releases: &[&str]) -> ReviewSpec {
    let releases = releases.iter().map(|&release| release.to_owned()).collect();
    let window = Window::of(DAY.parse().unwrap());
    ReviewSpec { policy: ReviewPolicy::Pairs, n: Some(n), seed: 7, releases, ..ReviewSpec::new(window) }
}

/// Predictions of the releases for `k0`, `k1`, ... on a day: each with a text of its own and a common one.
pub(crate) async fn predict(scene: &Scene, releases: &[&str], keys: usize, day: &str) {
    let one = |release: &str, n: usize| {
        json!({
            "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": 0.5,
            "tags": { "text": format!("{n} by {}", release.len()), "question": format!("what is {n}?") },
        })
    };
    let events = releases.iter().flat_map(|release| (0..keys).map(move |n| one(release, n)));
    scene.append(Kind::Predictions, events.collect(), "2026-06-04T12:00:00Z").await.unwrap();
}

pub(crate) async fn act(scene: &Scene, action: &str, release: &str, environment: &str, now: &str) {
    let event = json!([
        { "release": release, "released_at": now, "model": "m", "action": action, "environment": environment },
    ]);
    scene.append(Kind::Releases, event, now).await.unwrap();
}

pub(crate) async fn arena(scene: &Scene, name: &str, spec: ReviewSpec) -> Review {
    scene.query(at(NOW)).create_review(&scene.workspace, name, spec).await.unwrap().0
}

async fn vote(scene: &Scene, review: &Review, served: &Served, by: &AnsweredBy, vote: Vote, now: &str) {
    let at_item = item(scene, review, served.item.id.number);
    let answered = scene.ingest(at(now)).answer(&at_item, by, Verdict::Vote(vote)).await.unwrap();
    assert!(answered.is_appended);
}

/// Releases of an item, by name.
pub(crate) fn pair(served: &Served) -> String {
    let mut releases: Vec<&str> = served.item.said.iter().map(|said| said.release.as_str()).collect();
    releases.sort_unstable();
    releases.join("-")
}

/// Vote for this release.
fn for_release(served: &Served, release: &str) -> Vote {
    if served.item.said[0].release == release { Vote::Left } else { Vote::Right }
}

async fn ranking(scene: &Scene, name: &str, as_of: Option<&str>, now: &str) -> ArenaRanking {
    scene.query(at(now)).rank_arena(scene.id(), name, as_of).await.unwrap()
}

fn records(ranking: &ArenaRanking) -> Vec<String> {
    let of = |ranked: &fold::ranking::Ranked| {
        format!("{} {}-{}-{}", ranked.release, ranked.wins, ranked.losses, ranked.ties)
    };
    ranking.ranking.releases.iter().map(of).collect()
}

/// Votes of June, as metrics.
async fn votes(scene: &Scene) -> Vec<String> {
    let columns = Some("name,measured_at,value,release,key,tag.against");
    let words = Params { from: "2026-06-01", to: "2026-06-30", columns, ..Params::default() };
    let request = Request::parse(Dataset::Events(Kind::Metrics), &words).unwrap();
    let text = csv(scene.query(at("2026-06-30T00:00:00Z")).run(scene.id(), &request).await.unwrap());
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

async fn c4_arena_pairs_follow_live_releases(scene: Scene) {
    scene.register("v3", "m").await.unwrap();
    predict(&scene, &["v1", "v2", "v3"], 4, DAY).await;
    let alone = scene.query(at(NOW)).create_review(&scene.workspace, "duel", spec(4, &[])).await.unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::Invalid, "nothing is live");
    let unknown = spec(4, &["v1", "v2", "v9"]);
    let unknown = scene.query(at(NOW)).create_review(&scene.workspace, "duel", unknown).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no release `v9` in credit/prod; there are v1, v2, v3");
    act(&scene, "promote", "v1", "production", "2026-06-05T00:00:00Z").await;
    act(&scene, "promote", "v2", "shadow", "2026-06-05T00:00:00Z").await;
    let duel = arena(&scene, "duel", spec(4, &[])).await;
    assert_eq!(duel.items, 4);
    assert_eq!(duel, arena(&scene, "duel", spec(4, &[])).await, "the same words are the same arena");
    let catalog = &scene.world.catalog;
    let pairs = async || -> Vec<(String, u32)> {
        let pairs = catalog.arena_pairs(scene.id(), &duel.id).await.unwrap();
        pairs.into_iter().map(|pair| (pair.releases.join("-"), pair.items)).collect()
    };
    assert_eq!(pairs().await, [("v1-v2".to_owned(), 4)]);
    let served = next(&scene, &duel, ANN, NOW).await.unwrap();
    assert_eq!(pair(&served), "v1-v2");
    vote(&scene, &duel, &served, &by(ANN), Vote::Tie, NOW).await;
    // Another release replaces the second one, which is no longer served, except for items already picked.
    act(&scene, "promote", "v3", "shadow", "2026-06-10T01:00:00Z").await;
    let later = "2026-06-10T02:00:00Z";
    assert_eq!(next(&scene, &duel, BOB, later).await, None);
    let query = scene.query(at(later));
    let (refreshed, _) = query.refresh_arena(&scene.workspace, "duel", None).await.unwrap();
    assert_eq!((refreshed.items, refreshed.id.clone()), (8, duel.id.clone()));
    assert_eq!(pairs().await, [("v1-v2".to_owned(), 4), ("v1-v3".to_owned(), 4)]);
    let (again, _) = query.refresh_arena(&scene.workspace, "duel", None).await.unwrap();
    assert_eq!(again, refreshed, "there is nothing more");
    assert_eq!(pair(&next(&scene, &duel, BOB, later).await.unwrap()), "v1-v3");
    // A reviewer keeps its item; a release that is live again is served again.
    act(&scene, "promote", "v2", "shadow", "2026-06-10T03:00:00Z").await;
    let third = "2026-06-10T04:00:00Z";
    let fresh: Vec<String> = join_all(
        ["user:a", "user:b", "user:c"]
            .map(|name| async { pair(&next(&scene, &duel, name, third).await.unwrap()) }),
    )
    .await;
    assert_eq!(fresh, ["v1-v2"; 3]);
    // Later days have other keys.
    predict(&scene, &["v1", "v2"], 2, "2026-06-03").await;
    let to = Some("2026-06-03".parse().unwrap());
    let (longer, _) = scene.query(at(third)).refresh_arena(&scene.workspace, "duel", to).await.unwrap();
    assert_eq!(longer.items, 10);
    let ranked = ranking(&scene, "duel", None, third).await.to_json();
    let live: Vec<&Value> = ranked["pairs"].as_array().unwrap().iter().map(|pair| &pair["live"]).collect();
    assert_eq!(live, [&json!(true), &json!(false)]);
}

async fn c4_least_voted_pair_comes_first_without_names(scene: Scene) {
    scene.register("v3", "m").await.unwrap();
    predict(&scene, &["v1", "v2", "v3"], 20, DAY).await;
    let duel = arena(&scene, "duel", spec(20, &["v1", "v2", "v3"])).await;
    assert_eq!(duel.items, 60);
    let mut counts = BTreeMap::<String, u32>::new();
    let mut lefts = BTreeSet::new();
    for number in 0..12 {
        let now = format!("2026-06-10T00:00:{number:02}Z");
        let served = next(&scene, &duel, ANN, &now).await.unwrap();
        let least = counts.values().min().copied().filter(|_| counts.len() == 3).unwrap_or(0);
        let count = counts.entry(pair(&served)).or_default();
        assert_eq!(*count, least, "{}", pair(&served));
        *count += 1;
        lefts.insert((pair(&served), served.item.said[0].release.clone()));
        let asked = catalog::http::asked_json(&duel, &served.item);
        let sides = asked["sides"].as_array().unwrap();
        assert!(
            sides.len() == 2 && sides.iter().all(|side| side["score"] == 0.5 && side["release"].is_null())
        );
        assert!(asked["tags"]["question"].is_string(), "what both have is told once: {asked}");
        assert!(!asked.to_string().contains("v1"), "{asked}");
        vote(&scene, &duel, &served, &by(ANN), Vote::Left, &now).await;
    }
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [4, 4, 4]);
    assert!(lefts.len() > 3, "sides change: {lefts:?}");
    // Serving reads the workspace, the expiry, the turn, the pairs, a page of items and the item, however many items there are.
    let asked = ((scene.id(), &duel), (ANN, DEFAULT_LEASE_SECONDS));
    let ingest = scene.ingest(at("2026-06-10T01:00:00Z"));
    let (served, reads) = scene.world.reads(ingest.next_of(asked.0, asked.1)).await;
    assert!(served.unwrap().is_some());
    assert!(reads.gets <= 8 && reads.queries <= 3, "{reads:?}");
    assert!(reads.items <= 45, "{reads:?}");
    // The ranking reads the arena, and one query for its pairs, however many votes there are; the releases are named.
    let query = scene.query(at(NOW));
    let (ranked, reads) = scene.world.reads(query.rank_arena(scene.id(), "duel", None)).await;
    assert_eq!(ranked.unwrap().tallies.len(), 3);
    assert_eq!((cost(reads), reads.items), ((1, 1), 3), "{reads:?}");
}

async fn c5_judge_sees_pair_on_key_only_once(scene: Scene) {
    predict(&scene, &["v1", "v2"], 2, DAY).await;
    let duel = arena(&scene, "duel", ReviewSpec { judges: 2, ..spec(2, &["v1", "v2"]) }).await;
    assert_eq!(duel.items, 4, "each key for two people");
    let mut keys = Vec::new();
    let served = next(&scene, &duel, ANN, NOW).await.unwrap();
    keys.push(served.item.key.clone());
    // An item that was given back, or whose lease ended, is not shown again.
    let at_item = item(&scene, &duel, served.item.id.number);
    scene.world.catalog.give_back(&at_item, &by(ANN), at(NOW)).await.unwrap();
    keys.push(next(&scene, &duel, ANN, NOW).await.unwrap().item.key);
    let later = "2026-06-11T00:00:00Z";
    assert_eq!(next(&scene, &duel, ANN, later).await, None);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 2);
    // Another arena does not show it either; another person sees it, but once only.
    let other = arena(&scene, "other", spec(2, &["v1", "v2"])).await;
    assert_eq!(next(&scene, &other, ANN, later).await, None);
    let mut of_bob = Vec::new();
    while let Some(served) = next(&scene, &duel, BOB, later).await {
        of_bob.push(served.item.key.clone());
        vote(&scene, &duel, &served, &by(BOB), for_release(&served, "v1"), later).await;
    }
    of_bob.sort_unstable();
    assert_eq!(of_bob, ["k0", "k1"]);
    // A review of the same predictions is independent.
    let review = ReviewSpec { policy: ReviewPolicy::Random, ..spec(2, &[]) };
    let review = arena(&scene, "june", review).await;
    assert!(next(&scene, &review, ANN, later).await.is_some());
    // Concurrent reviewers have different items.
    let names: Vec<String> = (0..2).map(|n| format!("user:u{n}")).collect();
    let served = join_all(names.iter().map(|name| next(&scene, &duel, name, later))).await;
    assert_eq!(
        served.into_iter().flatten().map(|served| served.item.id.number).collect::<BTreeSet<_>>().len(),
        2
    );
    // A reviewer that has seen all items costs few reads.
    let ingest = scene.ingest(at("2026-06-12T00:00:00Z"));
    let asked = ((scene.id(), &duel), (BOB, DEFAULT_LEASE_SECONDS));
    assert_eq!(ingest.next_of(asked.0, asked.1).await.unwrap(), None);
    let (none, reads) = scene.world.reads(ingest.next_of(asked.0, asked.1)).await;
    assert!(none.unwrap().is_none() && reads.gets <= 8 && reads.queries <= 2, "{reads:?}");
}

async fn c6_a_link_is_good_for_one_vote(scene: Scene) {
    predict(&scene, &["v1", "v2"], 2, DAY).await;
    let duel = arena(&scene, "duel", spec(2, &["v1", "v2"])).await;
    let bob = guest_reviewer("bob").unwrap();
    let served = next(&scene, &duel, &bob, NOW).await.unwrap();
    let ingest = scene.ingest(at(NOW));
    let (of, shown) = ingest.asked_by(&served.link).await.unwrap();
    assert_eq!((of.name.as_str(), &shown.key), ("duel", &served.item.key));
    let link = AnsweredBy::Link(served.link.digest());
    vote(&scene, &duel, &served, &link, Vote::Tie, NOW).await;
    let at_item = served.link.item();
    assert!(ingest.answer(at_item, &link, Verdict::Vote(Vote::Tie)).await.unwrap().is_repeat);
    let refused = ingest.answer(at_item, &link, Verdict::Vote(Vote::Left)).await;
    assert_eq!(kind_of(refused), ErrorKind::Conflict, "it was used");
    assert_eq!(ingest.asked_by(&served.link).await.unwrap_err().kind(), ErrorKind::Conflict);
    let other = next(&scene, &duel, "guest:eve", NOW).await.unwrap();
    let over = scene.ingest(at("2026-06-10T00:10:00Z"));
    let hers = AnsweredBy::Link(other.link.digest());
    let refused = over.answer(other.link.item(), &hers, Verdict::Vote(Vote::Tie)).await;
    assert_eq!(kind_of(refused), ErrorKind::Conflict, "its time is over");
    assert_eq!(records(&ranking(&scene, "duel", None, NOW).await), ["v1 0-0-1", "v2 0-0-1"]);
}

async fn vote_stores_two_metrics_once_despite_crashes(scene: Scene) {
    let count = 9;
    predict(&scene, &["v1", "v2"], count, DAY).await;
    scene.project().await;
    let before = scene.metrics(None).await;
    let duel = arena(&scene, "duel", spec(20, &["v1", "v2"])).await;
    for writes in 0..count {
        let now = format!("2026-06-10T0{writes}:00:00Z");
        let served = next(&scene, &duel, ANN, &now).await.unwrap();
        let at_item = item(&scene, &duel, served.item.id.number);
        let said = || Verdict::Vote(for_release(&served, "v1"));
        let answered = dying(&scene, writes, &now).answer(&at_item, &by(ANN), said()).await;
        // After the decision, which writes the item, its copy, the note and the count of its pair at once, there is only success.
        assert_eq!(answered.is_ok(), writes >= 4, "{writes}: {answered:?}");
        let counted = writes + usize::from(answered.is_ok());
        let told = format!("v1 {counted}-0-0");
        let ranked = ranking(&scene, "duel", None, &now).await;
        assert!(records(&ranked).contains(&told), "{writes}: counted with the decision: {ranked:?}");
        scene.ingest(at(&now)).finish_answers(scene.id()).await.unwrap();
        assert_eq!(votes(&scene).await.len(), 2 * counted, "{writes}");
        // Repeated concurrently, the same vote succeeds, and counts only once.
        let (ingest, ann) = (scene.ingest(at(&now)), by(ANN));
        let again = join_all((0..3).map(|_| ingest.answer(&at_item, &ann, said()))).await;
        assert!(again.iter().all(|again| again.as_ref().unwrap().is_appended), "{again:?}");
        assert_eq!(votes(&scene).await.len(), 2 * (writes + 1), "{writes}");
        assert_eq!(ingest.finish_answers(scene.id()).await.unwrap(), 0);
    }
    assert_eq!(records(&ranking(&scene, "duel", None, NOW).await), ["v1 9-0-0", "v2 0-9-0"]);
    let lines = votes(&scene).await;
    assert!(
        lines[0].starts_with("arena.duel,2026-06-10T00:00:00Z,0.0,v2,k") && lines[0].ends_with(",v1"),
        "{lines:?}"
    );
    let heads = scan::heads(&*scene.table, scene.id()).await.unwrap();
    let head = heads.iter().find(|head| head.log.kind == Kind::Metrics).unwrap();
    assert_eq!(head.seq, count as u64, "a vote is one segment");
    let segment = scan::segments(&*scene.table, &head.log, 1, 1).await.unwrap().remove(0);
    let authors = segment.authors.read().unwrap();
    assert_eq!(
        (authors[0].principal.as_str(), &authors[0].source),
        (ANN, &Some(format!("job=review; run={}", duel.id)))
    );
    // Judgements of predictions are unchanged; the mean of the metric is the share of votes that a release won.
    scene.project().await;
    scene.assert_verified().await;
    assert_eq!(scene.metrics(None).await, before);
    let words = Params { from: "2026-06-10", to: "2026-06-10", by: Some("metric"), ..Params::default() };
    let request = Request::parse(Dataset::Rollups, &words).unwrap();
    let rollups = csv(scene.query(at("2026-06-11T00:00:00Z")).run(scene.id(), &request).await.unwrap());
    for mean in ["arena.duel,v1,1,9,1.0", "arena.duel,v2,1,9,0.0"] {
        assert!(rollups.contains(mean), "{rollups}");
    }
}

async fn ranking_matches_log_now_and_as_of_past(scene: Scene) {
    scene.register("v3", "m").await.unwrap();
    predict(&scene, &["v1", "v2", "v3"], 6, DAY).await;
    let duel = arena(&scene, "duel", spec(6, &["v1", "v2", "v3"])).await;
    let empty = ranking(&scene, "duel", None, NOW).await;
    assert!(!empty.ranking.is_connected && empty.ranking.releases.iter().all(|one| one.strength.is_none()));
    let mut middle = None;
    for number in 0..18_u32 {
        let now = format!("2026-06-10T{number:02}:00:00Z");
        let served = next(&scene, &duel, ANN, &now).await.unwrap();
        // The first one wins except every fifth time; pairs without it are ties.
        let has_first = served.item.said.iter().any(|said| said.release == "v1");
        let said = match (has_first, number % 5) {
            (true, 0) => match for_release(&served, "v1") {
                Vote::Left => Vote::Right,
                _ => Vote::Left,
            },
            (true, _) => for_release(&served, "v1"),
            (false, _) => Vote::Tie,
        };
        vote(&scene, &duel, &served, &by(ANN), said, &now).await;
        if number == 8 {
            middle = Some(ranking(&scene, "duel", None, &now).await);
        }
    }
    let end = "2026-06-11T00:00:00Z";
    let of_table = ranking(&scene, "duel", None, end).await;
    let of_log = ranking(&scene, "duel", Some("2026-06-10T23:00:00Z"), end).await;
    assert_eq!(of_log.tallies, of_table.tallies);
    assert_eq!(of_log.ranking, of_table.ranking);
    assert_eq!(of_log.ranking.releases[0].release, "v1");
    assert!(of_log.ranking.is_connected && of_log.as_of.is_some());
    let of_then = ranking(&scene, "duel", Some("2026-06-10T08:30:00Z"), end).await;
    assert_eq!(of_then.ranking, middle.unwrap().ranking);
    assert!(ranking(&scene, "duel", Some("2026-06-09"), end).await.ranking.releases.is_empty());
}

async fn votes_that_are_none_are_refused(scene: Scene) {
    predict(&scene, &["v1", "v2"], 2, DAY).await;
    let duel = arena(&scene, "duel", spec(2, &["v1", "v2"])).await;
    let served = next(&scene, &duel, ANN, NOW).await.unwrap();
    let at_item: ReviewItemId = item(&scene, &duel, served.item.id.number);
    let ingest = scene.ingest(at(NOW));
    for wrong in [Verdict::Label("1".into()), Verdict::Value(1.0)] {
        assert_eq!(kind_of(ingest.answer(&at_item, &by(ANN), wrong).await), ErrorKind::Invalid);
    }
    let refused = ingest.answer(&at_item, &by(BOB), Verdict::Vote(Vote::Tie)).await;
    assert_eq!(kind_of(refused), ErrorKind::Conflict, "he does not have it");
    let june = arena(&scene, "june", ReviewSpec { policy: ReviewPolicy::Random, ..spec(2, &[]) }).await;
    let of_review = next(&scene, &june, ANN, NOW).await.unwrap();
    let refused = ingest.answer(of_review.link.item(), &by(ANN), Verdict::Vote(Vote::Tie)).await;
    assert_eq!(kind_of(refused), ErrorKind::Invalid);
    let query = scene.query(at(NOW));
    assert_eq!(query.rank_arena(scene.id(), "june", None).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(query.refresh_arena(&scene.workspace, "june", None).await.is_err());
    let early = query.refresh_arena(&scene.workspace, "duel", Some("2026-05-01".parse().unwrap())).await;
    assert_eq!(early.unwrap_err().kind(), ErrorKind::Invalid);
    // Expired items are not served, and a deleted arena accepts no votes.
    scene.world.catalog.set_retention(scene.id(), Some(1), at(NOW)).await.unwrap();
    assert_eq!(next(&scene, &duel, BOB, NOW).await, None);
    scene.world.catalog.set_retention(scene.id(), None, at(NOW)).await.unwrap();
    scene.world.catalog.delete_review(scene.id(), "duel").await.unwrap();
    let refused = ingest.answer(&at_item, &by(ANN), Verdict::Vote(Vote::Tie)).await;
    assert_eq!(kind_of(refused), ErrorKind::NotFound);
    assert_eq!(votes(&scene).await, [""; 0]);
}
