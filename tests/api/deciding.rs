//! Comparing live releases with those that predict beside them, day after day: a decision is reported once, whatever happens.

use std::sync::Arc;

use catalog::{Catalog, Challenges, DECIDED, HistoryOf};
use event::{Clock, Kind, Task, Timestamp};
use projector::{
    challenges::{LONGEST_DAYS, Outcome, judge},
    rebuild,
};
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use table::Table;
use tests::{
    counted::{Counted, Reads},
    crashing::Crashing,
    faulty::{Faults, FaultyTable},
    on_both_engines,
    register::release_of,
    scene::{Scene, csv},
    sim::Random,
    world::{World, at},
};

on_both_engines!(
    World::on:
    decision_is_announced_once_and_matches_query,
    crashing_comparisons_tell_each_decision_once,
    decisions_survive_later_outcomes_and_rebuilds,
    day_is_compared_after_a_quiet_day,
    another_champion_is_compared_anew,
    idle_comparison_costs_a_read_or_two,
);

const BEGIN: &str = "2026-06-01T00:05:00Z";
const KEYS: usize = 60;
/// Score of each release for the true label.
const RELEASES: [(&str, f64); 3] = [("v1", 0.6), ("v2", 0.9), ("v3", 0.4)];

fn day(number: u32) -> String {
    format!("2026-06-{number:02}")
}

/// Instant at which a day can be compared.
fn after(number: u32) -> Timestamp {
    at(&format!("{}T00:01:00Z", day(number + 2)))
}

async fn predict(scene: &Scene, number: u32) {
    let day = day(number);
    let is_positive = |key: usize| key.is_multiple_of(3);
    let of = |(release, sure): (&'static str, f64)| {
        let day = day.clone();
        (0..KEYS).map(move |key| {
            let score = if is_positive(key) { sure } else { 1.0 - sure };
            json!({ "key": format!("k{key}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score })
        })
    };
    let predictions: Vec<Value> = RELEASES.into_iter().flat_map(of).collect();
    scene.append(Kind::Predictions, predictions.into(), &format!("{day}T12:00:00Z")).await.unwrap();
}

/// Outcomes of a day, appended at an instant.
async fn observe(scene: &Scene, number: u32, now: &str, keys: std::ops::Range<usize>, is_right: bool) {
    let day = day(number);
    let label = |key: usize| if key.is_multiple_of(3) == is_right { "1" } else { "0" };
    let of = |key: usize| json!({ "key": format!("k{key}"), "predicted_on": day, "observed_at": now, "label": label(key) });
    scene.append(Kind::Outcomes, keys.map(of).collect::<Vec<_>>().into(), now).await.unwrap();
}

/// `v1` is live from June on, `v2` is better and `v3` worse. The first comparison is made before the first day is over.
async fn scene(world: World, days: u32) -> Scene {
    let scene = Scene::new(world).await;
    let now = at("2026-06-01T00:00:00Z");
    scene.world.catalog.ensure_release(scene.id(), &release_of("m", "v3"), now).await.unwrap();
    scene.ingest(now).promote(&scene.workspace, "v1", "production", None).await.unwrap();
    scene.project().await;
    assert_eq!(compare(&scene, at(BEGIN)).await, Outcome::default());
    for number in 1..=days {
        predict(&scene, number).await;
        observe(&scene, number, &format!("{}T13:00:00Z", day(number)), 0..KEYS, true).await;
    }
    scene.project().await;
    scene
}

/// One round, as a worker makes it at intervals.
async fn compare(scene: &Scene, now: Timestamp) -> Outcome {
    judge(&*scene.table, &scene.world.catalog, scene.id(), now).await.unwrap()
}

/// Rounds until there is nothing left to do.
async fn compare_all(scene: &Scene, now: Timestamp) -> Outcome {
    let mut all = Outcome::default();
    loop {
        let Outcome { days, decided } = compare(scene, now).await;
        all = Outcome { days: all.days + days, decided: all.decided + decided };
        if days == 0 {
            return all;
        }
    }
}

/// News for followers of the workspace, the earliest first.
async fn told(scene: &Scene) -> Vec<String> {
    let history = scene.world.catalog.history(scene.id(), HistoryOf::Workspace, 100, None).await.unwrap();
    let decided = history.happenings.into_iter().rev().filter(|one| one.what == DECIDED);
    let mut told: Vec<String> = decided
        .map(|one| {
            assert_eq!((one.model.as_deref(), one.environment.as_deref()), (Some("m"), Some("production")));
            format!("{}: {}", one.about, one.note.unwrap())
        })
        .collect();
    told.sort();
    told
}

/// Decisions by the end of a day from a query: the challenger, the day and its advantage.
async fn queried(scene: &Scene, to: u32) -> Vec<String> {
    let to = day(to);
    let columns = "release,decided_at,n_so_far,advantage_so_far";
    let words =
        Params { from: "2026-06-01", to: &to, model: Some("m"), columns: Some(columns), ..Params::default() };
    let request = Request::parse(Dataset::Challengers, &words).unwrap();
    let answer = scene.query(at("2026-06-20T00:00:00Z")).run(scene.id(), &request).await.unwrap();
    let mut rows: Vec<String> = csv(answer).lines().skip(1).map(str::to_owned).collect();
    rows.sort();
    rows
}

async fn decision_is_announced_once_and_matches_query(world: World) {
    let scene = scene(world, 6).await;
    // Not even the first day has been over for a day.
    assert_eq!(compare(&scene, at("2026-06-03T00:00:29Z")).await, Outcome::default());
    let (one, other) = tokio::join!(compare(&scene, after(1)), compare(&scene, after(1)));
    assert_eq!((one.days + other.days, one.decided + other.decided), (1, 0), "{one:?} {other:?}");
    let mut on = 1;
    while told(&scene).await.is_empty() {
        on += 1;
        assert!(on <= 6, "{:?}", queried(&scene, 6).await);
        // The query of the days before shows no decision either.
        assert!(queried(&scene, on - 1).await.iter().all(|row| row.contains(",,")), "day {on}");
        compare(&scene, after(on)).await;
    }
    let rows = queried(&scene, on).await;
    let told_first = told(&scene).await;
    for (row, text) in rows.iter().zip(&told_first) {
        let [release, decided_at, n, advantage] = row.split(',').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let better = if release == "v2" { "better" } else { "worse" };
        let advantage: f64 = advantage.parse().unwrap();
        assert_eq!(decided_at, day(on));
        let begins = format!(
            "{release}: {release} is {better} than v1, which is live in production: its advantage by Brier score is {advantage:+.4} ("
        );
        let ends = format!(" over {n} predictions of both from 2026-06-01 to {}", day(on));
        assert!(text.starts_with(&begins) && text.ends_with(&ends), "{text} is not of {row}");
    }
    assert_eq!((rows.len(), told_first.len()), (2, 2), "{rows:?}: {told_first:?}");
    assert_eq!(compare_all(&scene, after(6)).await, Outcome { days: u64::from(6 - on), decided: 0 });
    assert_eq!(told(&scene).await, told_first);
    // Followers of the model see it too.
    let (task, catalog) = (Task::Binary { positive_label: "1".into() }, &scene.world.catalog);
    let model = catalog.ensure_model(scene.id(), "m", &task, at(BEGIN)).await.unwrap().entity.id;
    let of_model = catalog.history(scene.id(), HistoryOf::Model(&model), 100, None).await.unwrap();
    assert_eq!(of_model.happenings.iter().filter(|one| one.what == DECIDED).count(), 2);
}

async fn crashing_comparisons_tell_each_decision_once(world: World) {
    let scene = scene(world, 6).await;
    let mut lives = 0;
    loop {
        let table = Arc::new(Crashing::new(Arc::clone(&scene.table), lives % 2));
        let dying: Arc<dyn Table> = Arc::clone(&table) as _;
        let ended = judge(&*dying, &Catalog::new(Arc::clone(&dying)), scene.id(), after(6)).await;
        assert_eq!(ended.is_err(), table.is_dead());
        lives += 1;
        if ended.is_ok_and(|ended| ended.days == 0) {
            break;
        }
    }
    assert!(lives > 4, "{lives} lives");
    assert_eq!(told(&scene).await.len(), 2, "{:?}", told(&scene).await);
}

/// One round in which many calls have no answer; half of those were made. Returns 1 if it ended early.
async fn life(scene: &Scene, seed: u64) -> u64 {
    let table: Arc<dyn Table> = Arc::new(FaultyTable::new(Arc::clone(&scene.table), seed, Faults::doubts(6)));
    match judge(&*table, &Catalog::new(Arc::clone(&table)), scene.id(), after(6)).await {
        Ok(_) => 0,
        Err(error) if error.may_pass() => 1,
        Err(error) => panic!("{error}"),
    }
}

async fn decisions_survive_later_outcomes_and_rebuilds(world: World) {
    let scene = scene(world, 6).await;
    let random = Random::new(7);
    let mut ended = 0;
    // Two rounds at one time, in which many calls have no answer; half of those were made.
    for _ in 0..30 {
        let [one, other] = [random.below(u64::MAX), random.below(u64::MAX)].map(|seed| life(&scene, seed));
        let (one, other) = tokio::join!(one, other);
        ended += one + other;
    }
    compare_all(&scene, after(6)).await;
    let before = told(&scene).await;
    assert!(ended > 5 && before.len() == 2, "{ended}: {before:?}");
    // Corrected outcomes reverse everything.
    for number in 1..=6 {
        observe(&scene, number, "2026-06-09T00:00:00Z", 0..KEYS, false).await;
    }
    let pace = rebuild::Pace { share: 1.0, clock: Clock::system() };
    rebuild::rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    assert!(queried(&scene, 6).await[0].contains("-0."), "v2 is worse by now");
    compare_all(&scene, at("2026-06-20T00:00:00Z")).await;
    assert_eq!(told(&scene).await, before);
}

async fn day_is_compared_after_a_quiet_day(world: World) {
    let scene = scene(world, 0).await;
    predict(&scene, 1).await;
    scene.project().await;
    // Outcomes may still come.
    assert_eq!(compare(&scene, after(10)).await, Outcome::default());
    observe(&scene, 1, "2026-06-12T12:00:00Z", 0..30, true).await;
    assert_eq!(compare(&scene, at("2026-06-14T00:00:00Z")).await, Outcome::default(), "not projected");
    scene.project().await;
    assert_eq!(
        compare(&scene, at("2026-06-13T12:00:00Z")).await,
        Outcome::default(),
        "half a minute is not closed"
    );
    // The days after have no predictions, so they have no comparisons.
    assert_eq!(compare(&scene, at("2026-06-13T12:01:00Z")).await.days, 4);
    let stored = Challenges::load(&*scene.table, scene.id()).await.unwrap().unwrap();
    let told: Vec<u64> = stored.all.iter().map(|one| one.ongoing.says().1.n).collect();
    assert_eq!(told, [30, 30]);
    compare_all(&scene, after(12)).await;
    // The wait for outcomes is limited.
    predict(&scene, 13).await;
    scene.project().await;
    let end = at("2026-06-14T00:01:00Z");
    let longest = |seconds| end.plus_seconds(LONGEST_DAYS * 24 * 60 * 60 + seconds);
    assert_eq!(compare(&scene, longest(-31)).await, Outcome::default());
    assert!(compare(&scene, longest(0)).await.days > 0);
}

async fn another_champion_is_compared_anew(world: World) {
    let scene = scene(world, 3).await;
    compare_all(&scene, after(1)).await;
    let now = at("2026-06-02T15:00:00Z");
    scene.ingest(now).promote(&scene.workspace, "v2", "production", None).await.unwrap();
    scene.project().await;
    let standing = async || {
        let stored = Challenges::load(&*scene.table, scene.id()).await.unwrap().unwrap();
        let one = |one: &catalog::Challenge| {
            format!("{} {} {} {}", one.challenger, one.champion, one.since, one.ongoing.says().1.n)
        };
        stored.all.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(standing().await, ["v2 v1 2026-06-01 60", "v3 v1 2026-06-01 60"]);
    compare_all(&scene, after(3)).await;
    // The decision that `v3` is worse than `v2` fell on the first day, and later days are not counted.
    assert_eq!(standing().await, ["v1 v2 2026-06-02 120", "v3 v2 2026-06-02 60"]);
    // A release that is no longer live anywhere is not compared.
    scene
        .ingest(at("2026-06-04T15:00:00Z"))
        .retire(&scene.workspace, "v2", Some("production"), None)
        .await
        .unwrap();
    scene.project().await;
    compare_all(&scene, after(4)).await;
    assert_eq!(standing().await, [""; 0]);
}

async fn idle_comparison_costs_a_read_or_two(world: World) {
    let idle = Scene::new(world).await;
    let counted = Arc::new(Counted::new(Arc::clone(&idle.table)));
    let table: Arc<dyn Table> = Arc::<Counted>::clone(&counted);
    let catalog = Catalog::new(Arc::clone(&table));
    let compare = async |now| judge(&*table, &catalog, idle.id(), now).await.unwrap();
    assert_eq!(compare(at(BEGIN)).await, Outcome::default());
    assert_eq!(counted.take_reads(), Reads { gets: 1, queries: 1, items: 0 });
    let now = at("2026-06-01T00:00:00Z");
    idle.ingest(now).promote(&idle.workspace, "v1", "production", None).await.unwrap();
    compare(at(BEGIN)).await;
    counted.take_reads();
    counted.take_writes();
    compare(at("2026-06-02T23:00:00Z")).await;
    assert_eq!((counted.take_reads(), counted.take_writes()), (Reads { gets: 1, queries: 0, items: 0 }, 0));
}
