//! Judging alert rules: each day once, when it is due and projected; a transition is recorded once, whatever happens, and stays.

mod early;

use std::sync::Arc;

use catalog::{AlertRuleBody, Catalog, HistoryOf, RuleTransition};
use event::{Clock, Result, Timestamp, Window};
use projector::{
    alert::{Outcome, judge},
    rebuild,
};
use query::Sql;
use table::Table;
use tests::{
    crashing::Crashing,
    engine::Engine,
    faulty::{Faults, FaultyTable},
    on_both_engines,
    scene::{Scene, csv},
    sim::Random,
    world::{World, at},
};

on_both_engines!(
    World::on:
    transition_is_recorded_once_and_told_to_followers,
    crashing_judges_record_each_transition_once,
    crashing_judges_resolve_deleted_rule_once,
    what_was_decided_stays_when_numbers_change,
    a_day_is_judged_when_it_is_projected,
    a_rule_that_is_deleted_is_forgotten,
    day_due_before_its_rule_is_not_judged,
    lag_rule_fires_once_a_day_while_behind,
    history_with_crashes_and_replays_records_transitions_once,
);

const CREATED: &str = "2026-06-01T12:00:00Z";
const NOW: &str = "2026-06-05T00:01:00Z";

fn day(number: u32) -> String {
    format!("2026-06-{number:02}")
}

fn few() -> AlertRuleBody {
    AlertRuleBody {
        name: "few".into(),
        count: Some("predictions".into()),
        below: Some(5.0),
        ..AlertRuleBody::default()
    }
}

/// Predictions of the days from the first of June on, with these counts, and the rule.
async fn scene(world: World, counts: &[usize]) -> Scene {
    let scene = Scene::new(world).await;
    for (number, count) in (1..).zip(counts).filter(|(_, count)| **count > 0) {
        scene.predict_many(&day(number), "v1", *count, &format!("{}T02:00:00Z", day(number))).await;
    }
    scene.world.catalog.apply_alert_rules(scene.id(), vec![few()], at(CREATED)).await.unwrap();
    scene
}

async fn judged(scene: &Scene, now: &str) -> Outcome {
    judge(&*scene.table, &scene.world.catalog, scene.id(), at(now)).await.unwrap()
}

/// Transitions, the earliest first.
async fn transitions(scene: &Scene) -> Vec<String> {
    let named = |one: &RuleTransition| format!("{} {} {}", one.day, one.rule, one.transition.name());
    recorded(scene).await.iter().map(named).collect()
}

/// Transitions as records, the earliest first.
async fn recorded(scene: &Scene) -> Vec<RuleTransition> {
    let (from, to) = (day(1).parse().unwrap(), day(30).parse().unwrap());
    let mut all = scene.world.catalog.transitions(scene.id(), from, to, 100).await.unwrap();
    all.reverse();
    all
}

/// News for followers of the workspace, the earliest first.
async fn told(scene: &Scene) -> Vec<String> {
    let history = scene.world.catalog.history(scene.id(), HistoryOf::Workspace, 100, None).await.unwrap();
    let alerts = history.happenings.iter().rev().filter(|one| one.what == "alert");
    alerts.map(|one| format!("{}: {}", one.about, one.note.as_deref().unwrap())).collect()
}

const RULE_TRANSITION: [&str; 2] = ["2026-06-02 few fires", "2026-06-04 few resolves"];
const TOLD: [&str; 2] = [
    "few: the number of predictions on 2026-06-02 is 1, below 5",
    "few: the number of predictions on 2026-06-04 is 9 again",
];

async fn transition_is_recorded_once_and_told_to_followers(world: World) {
    let scene = scene(world, &[9, 1, 1, 9]).await;
    scene.project().await;
    assert_eq!(judged(&scene, CREATED).await, Outcome::default(), "nothing is due");
    assert_eq!(judged(&scene, "2026-06-04T00:01:00Z").await, Outcome { days: 3, transitions: 1, firing: 1 });
    assert_eq!(judged(&scene, "2026-06-04T00:02:00Z").await, Outcome { days: 0, transitions: 0, firing: 1 });
    // The day is over, but not all events appended before its end are visible.
    assert_eq!(judged(&scene, "2026-06-05T00:00:29Z").await.days, 0);
    let (one, other) = tokio::join!(judged(&scene, NOW), judged(&scene, NOW));
    assert_eq!(one.transitions + other.transitions, 1, "{one:?} {other:?}");
    assert_eq!(
        (transitions(&scene).await, told(&scene).await),
        (RULE_TRANSITION.map(String::from).into(), TOLD.map(String::from).into())
    );
    let last = scene
        .world
        .catalog
        .transitions(scene.id(), day(4).parse().unwrap(), day(4).parse().unwrap(), 1)
        .await;
    let last = last.unwrap().remove(0);
    assert_eq!((last.value, last.read_version.values().sum::<u64>()), (Some(9.0), 1));
    let standing = scene.world.catalog.judged_rules(scene.id()).await.unwrap()["few"].clone();
    assert_eq!((standing.day.to_string(), standing.standing.state.name()), (day(4), "resolved"));
}

async fn crashing_judges_record_each_transition_once(world: World) {
    let scene = scene(world, &[9, 1, 1, 9]).await;
    scene.project().await;
    let mut lives = 0;
    loop {
        let table = Arc::new(Crashing::new(Arc::clone(&scene.table), lives % 2));
        let dying: Arc<dyn Table> = Arc::clone(&table) as _;
        let ended = judge(&*dying, &scene.world.catalog, scene.id(), at(NOW)).await;
        assert_eq!(ended.is_err(), table.is_dead());
        lives += 1;
        if ended.is_ok() {
            break;
        }
    }
    assert!(lives > 4, "{lives} lives");
    assert_eq!(
        (transitions(&scene).await, told(&scene).await),
        (RULE_TRANSITION.map(String::from).into(), TOLD.map(String::from).into())
    );
}

async fn crashing_judges_resolve_deleted_rule_once(world: World) {
    let scene = scene(world, &[1]).await;
    scene.project().await;
    let catalog = &scene.world.catalog;
    assert_eq!(judged(&scene, "2026-06-02T00:01:00Z").await.firing, 1);
    catalog.delete_alert_rule(scene.id(), "few").await.unwrap();
    let mut lives = 0;
    loop {
        let table = Arc::new(Crashing::new(Arc::clone(&scene.table), lives % 2));
        let dying: Arc<dyn Table> = Arc::clone(&table) as _;
        let ended = judge(&*dying, &scene.world.catalog, scene.id(), at("2026-06-02T00:02:00Z")).await;
        assert_eq!(ended.is_err(), table.is_dead());
        lives += 1;
        if ended.is_ok() {
            break;
        }
    }
    assert!(lives > 1, "{lives} lives");
    assert!(catalog.judged_rules(scene.id()).await.unwrap().is_empty());
    assert_eq!(transitions(&scene).await, ["2026-06-01 few fires", "2026-06-02 few resolves"]);
    assert_eq!(told(&scene).await[1..], ["few: the rule was deleted while it fired"]);
}

async fn what_was_decided_stays_when_numbers_change(world: World) {
    let scene = scene(world, &[9, 1, 1, 9]).await;
    scene.project().await;
    judged(&scene, NOW).await;
    let before = transitions(&scene).await;
    // By now the second day has enough.
    scene.predict_many(&day(2), "v2", 8, "2026-06-05T02:00:00Z").await;
    scene.project().await;
    assert_eq!(judged(&scene, "2026-06-05T03:00:00Z").await, Outcome::default());
    assert_eq!(transitions(&scene).await, before);
    // A changed rule goes on from its state, and judges no day twice.
    let strict = AlertRuleBody { below: Some(10.0), ..few() };
    scene
        .world
        .catalog
        .apply_alert_rules(scene.id(), vec![strict], at("2026-06-05T04:00:00Z"))
        .await
        .unwrap();
    assert_eq!(judged(&scene, "2026-06-05T05:00:00Z").await, Outcome::default());
    assert_eq!(judged(&scene, "2026-06-06T00:01:00Z").await, Outcome { days: 1, transitions: 1, firing: 1 });
}

async fn a_day_is_judged_when_it_is_projected(world: World) {
    let scene = scene(world, &[9]).await;
    assert_eq!(judged(&scene, "2026-06-02T00:01:00Z").await, Outcome::default());
    scene.project().await;
    // An event appended after the day was due does not delay it.
    scene.predict_many(&day(1), "v2", 3, "2026-06-02T00:00:30Z").await;
    assert_eq!(judged(&scene, "2026-06-02T00:01:00Z").await, Outcome { days: 1, transitions: 0, firing: 0 });
    // Events that cannot be projected for hours do not delay the rule for ever.
    scene.predict_many(&day(2), "v1", 9, "2026-06-02T02:00:00Z").await;
    assert_eq!(judged(&scene, "2026-06-03T05:59:00Z").await.days, 0);
    assert_eq!(judged(&scene, "2026-06-03T06:00:00Z").await, Outcome { days: 1, transitions: 1, firing: 1 });
}

async fn a_rule_that_is_deleted_is_forgotten(world: World) {
    let (scene, catalog) = {
        let scene = scene(world, &[1]).await;
        let catalog = catalog::Catalog::new(Arc::clone(&scene.table));
        (scene, catalog)
    };
    scene.project().await;
    assert_eq!(judged(&scene, "2026-06-02T00:01:00Z").await.firing, 1);
    catalog.delete_alert_rule(scene.id(), "few").await.unwrap();
    assert_eq!(catalog.watched_workspaces().await.unwrap(), [scene.id().clone()], "it is to be told");
    // A new rule of its name is another rule, and begins without a transition on the day of its creation.
    let again: Timestamp = at("2026-06-03T12:00:00Z");
    catalog.apply_alert_rules(scene.id(), vec![few()], again).await.unwrap();
    let over = Outcome { days: 0, transitions: 1, firing: 0 };
    assert_eq!(judged(&scene, "2026-06-03T12:01:00Z").await, over);
    assert_eq!(judged(&scene, "2026-06-03T12:02:00Z").await, Outcome::default(), "it is told once");
    scene.predict_many(&day(3), "v1", 9, "2026-06-03T13:00:00Z").await;
    scene.project().await;
    assert_eq!(judged(&scene, "2026-06-04T00:01:00Z").await, Outcome { days: 1, transitions: 0, firing: 0 });
    catalog.delete_alert_rule(scene.id(), "few").await.unwrap();
    assert_eq!(judged(&scene, "2026-06-04T00:02:00Z").await, Outcome::default());
    assert!(catalog.judged_rules(scene.id()).await.unwrap().is_empty());
    assert_eq!(transitions(&scene).await, ["2026-06-01 few fires", "2026-06-03 few resolves"]);
    assert_eq!(told(&scene).await.last().unwrap(), "few: the rule was deleted while it fired");
}

async fn day_due_before_its_rule_is_not_judged(world: World) {
    let scene = scene(world, &[]).await;
    let catalog = &scene.world.catalog;
    catalog.delete_alert_rule(scene.id(), "few").await.unwrap();
    let late = |name: &str, by: &str| AlertRuleBody {
        name: name.into(),
        missing: Some("predictions".into()),
        by: Some(by.into()),
        ..AlertRuleBody::default()
    };
    // At noon the one rule was due on that day, and the other is not yet.
    let rules = vec![late("by-night", "00:05"), late("by-evening", "18:00")];
    catalog.apply_alert_rules(scene.id(), rules, at(CREATED)).await.unwrap();
    assert_eq!(judged(&scene, "2026-06-01T12:01:00Z").await, Outcome::default());
    assert_eq!(judged(&scene, "2026-06-01T18:01:00Z").await, Outcome { days: 1, transitions: 1, firing: 1 });
    assert_eq!(judged(&scene, "2026-06-02T00:06:00Z").await, Outcome { days: 1, transitions: 1, firing: 2 });
    assert_eq!(transitions(&scene).await, ["2026-06-01 by-evening fires", "2026-06-02 by-night fires"]);
}

async fn lag_rule_fires_once_a_day_while_behind(world: World) {
    let scene = scene(world, &[]).await;
    let catalog = &scene.world.catalog;
    catalog.delete_alert_rule(scene.id(), "few").await.unwrap();
    let lag = |name: &str, kind: &str| AlertRuleBody {
        name: name.into(),
        lag: Some(kind.into()),
        above: Some(60.0),
        ..AlertRuleBody::default()
    };
    let rules = vec![lag("behind", "predictions"), lag("other", "outcomes")];
    catalog.apply_alert_rules(scene.id(), rules, at(CREATED)).await.unwrap();
    let days = async |now: &str| {
        let Outcome { days, transitions, firing } = judged(&scene, now).await;
        (days, transitions, firing)
    };
    assert_eq!(days("2026-06-01T13:00:00Z").await, (0, 0, 0));
    scene.predict_many(&day(2), "v1", 1, "2026-06-02T02:00:00Z").await;
    // Both rules judge the first day. Events appended 20 s before the closed instant are behind, but not by more than a minute.
    assert_eq!(days("2026-06-02T02:00:50Z").await, (2, 0, 0));
    let (one, other) = tokio::join!(days("2026-06-02T02:02:00Z"), days("2026-06-02T02:02:00Z"));
    assert_eq!((one.1 + other.1, one.2.max(other.2)), (1, 1), "{one:?} {other:?}");
    let behind = "behind: the lag of predictions in seconds on 2026-06-02 is 90, above 60";
    assert_eq!(told(&scene).await, [behind]);
    // It is reported once, however long it lasts; and on the day after it is resolved, at its end.
    assert_eq!(days("2026-06-02T12:00:00Z").await, (0, 0, 1));
    scene.project().await;
    assert_eq!(days("2026-06-02T12:01:00Z").await, (0, 0, 1));
    assert_eq!(days("2026-06-03T00:01:00Z").await, (1, 0, 1), "the other rule judges the second day");
    assert_eq!(days("2026-06-03T23:59:00Z").await, (0, 0, 1));
    assert_eq!(days("2026-06-04T00:01:00Z").await, (2, 1, 0));
    let well = "behind: the lag of predictions in seconds on 2026-06-03 is 0 again";
    assert_eq!(told(&scene).await, [behind, well]);
    // Days without a look have no value.
    assert_eq!(days("2026-06-06T00:01:00Z").await, (4, 0, 0));
    let judged = catalog.judged_rules(scene.id()).await.unwrap();
    assert_eq!((judged.len(), judged["behind"].standing.state.name()), (2, "no_data"));
    // A test shows the highest value of each day.
    let window = Window::new(day(1).parse().unwrap(), day(5).parse().unwrap()).unwrap();
    let rule = catalog.alert_rule(scene.id(), "behind").await.unwrap();
    let tried = catalog.test_alert_rule(scene.id(), &rule, window, at("2026-06-06T00:01:00Z")).await.unwrap();
    let values: Vec<Option<f64>> = tried.iter().map(|day| day.reading.value).collect();
    let most = 10.0 * 60.0 * 60.0 - 30.0;
    assert_eq!(values, [Some(0.0), Some(most), Some(0.0), Some(0.0), None]);
}

/// Days of a random history.
const DAYS: u32 = 12;

/// One in so many calls of a judge has no answer, and ends its life; half of those calls were made.
const DOUBTS: u64 = 8;

/// Histories besides those on both engines.
const HISTORIES: u64 = 8;

/// Transitions of a rule that fires below five, on days with these counts.
fn expected(counts: &[usize]) -> Vec<String> {
    let mut is_firing = false;
    let mut rule_transition = Vec::new();
    for (number, count) in (1..).zip(counts) {
        if is_firing != (*count < 5) {
            is_firing = !is_firing;
            rule_transition.push(format!(
                "{} few {}",
                day(number),
                if is_firing { "fires" } else { "resolves" }
            ));
        }
    }
    rule_transition
}

/// Events of a history: lives of judges that ended early, and rebuilds.
#[derive(Debug, Default)]
struct Lived {
    ended: u64,
    rebuilt: u64,
}

impl Lived {
    /// Projects all that is behind, or folds everything again.
    async fn project(&mut self, scene: &Scene, is_rebuild: bool) {
        // A scene projects into the first version only.
        if !is_rebuild && self.rebuilt == 0 {
            return scene.project().await;
        }
        let pace = rebuild::Pace { share: 1.0, clock: Clock::system() };
        rebuild::rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
        self.rebuilt += 1;
    }

    /// Runs two judges at one time, each until it is done or a call is not answered.
    async fn judge(&mut self, scene: &Scene, random: &Random, now: &str) {
        let life = |seed| async move {
            let table = FaultyTable::new(Arc::clone(&scene.table), seed, Faults::doubts(DOUBTS));
            let table: Arc<dyn Table> = Arc::new(table);
            let ended: Result<Outcome> =
                judge(&*table, &Catalog::new(Arc::clone(&table)), scene.id(), at(now)).await;
            match ended {
                Ok(_) => 0,
                Err(error) if error.may_pass() => 1,
                Err(error) => panic!("{error}"),
            }
        };
        let (one, other) = tokio::join!(life(random.below(u64::MAX)), life(random.below(u64::MAX)));
        self.ended += one + other;
    }
}

/// A history in which judges die, run concurrently and begin again, and numbers change after they were judged.
async fn history(world: World, seed: u64) -> Lived {
    let (scene, random) = (scene(world, &[]).await, Random::new(seed));
    let (mut counts, mut lived, mut before) = (Vec::new(), Lived::default(), Vec::new());
    for number in 1..=DAYS {
        counts.push(1 + random.below(8) as usize);
        let noon = format!("{}T12:00:00Z", day(number));
        scene.predict_many(&day(number), "v1", counts[counts.len() - 1], &noon).await;
        if random.hits(2) {
            lived.project(&scene, random.hits(4)).await;
        }
        let now = format!("{}T00:01:00Z", day(number + 1));
        for _ in 0..random.below(5) {
            lived.judge(&scene, &random, &now).await;
        }
        lived.project(&scene, random.hits(6)).await;
        let judged = scene.world.catalog.judged_rules(scene.id()).await.unwrap();
        if let Some(judged) = judged.get("few").filter(|_| random.hits(2)) {
            // A low count is high by now.
            scene.predict_many(&judged.day.to_string(), "v2", 9, &now).await;
            lived.project(&scene, false).await;
        }
        let rule_transition = recorded(&scene).await;
        assert!(rule_transition.starts_with(&before), "seed {seed}: {rule_transition:?} after {before:?}");
        before = rule_transition;
    }
    let end = format!("{}T00:02:00Z", day(DAYS + 1));
    judged(&scene, &end).await;
    lived.project(&scene, true).await;
    assert_eq!(judged(&scene, &end).await.days, 0, "seed {seed}");
    assert_eq!(transitions(&scene).await, expected(&counts), "seed {seed}: {counts:?}");
    let texts: Vec<String> =
        recorded(&scene).await.iter().map(|one| format!("{}: {}", one.rule, one.text)).collect();
    assert_eq!(told(&scene).await, texts, "seed {seed}");
    lived
}

async fn history_with_crashes_and_replays_records_transitions_once(world: World) {
    history(world, 0).await;
}

#[tokio::test]
async fn random_histories_with_crashes_record_transitions_once() {
    let mut all = Lived::default();
    for seed in 1..=HISTORIES {
        let lived = history(World::on(Engine::Sqlite).await, seed).await;
        all.ended += lived.ended;
        all.rebuilt += lived.rebuilt;
    }
    assert!(all.ended > 4 * HISTORIES && all.rebuilt > HISTORIES, "{all:?}");
}
