//! Interrupted erasures, and concurrent work: evaluations, vintages, unmatched outcomes, reviews. Each on a SQLite file and on
//! DynamoDB Local.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use catalog::{AnsweredBy, DEFAULT_LEASE_SECONDS, ErasurePhase, ReviewPolicy, ReviewSpec, Verdict, Vote};
use event::{ErrorKind, Kind, Window, pseudonym::is_pseudonym};
use log::{active, erased::ErasureEpoch, key, scan};
use projector::key_filters;
use query::{Dataset, Params};
use serde_json::json;
use table::{Condition, Index, Query, Table, query_all};
use tests::{
    hooked::{Asked, Hooked, Turn as Call},
    on_both_engines,
    scene::{NOW, Scene},
    world::at,
};

use crate::{
    erasure::{DAYS, KEY, SENT, assert_gone, begin, carry, erase, everything, filled, rows, unsegmented},
    unmatched::{observe, outcome, resolved},
};

on_both_engines!(
    Scene::on:
    an_erasure_goes_on_wherever_a_process_dies,
    nothing_is_decided_while_events_are_written_again,
    reviews_and_answers_lose_the_key,
    erasing_shown_values_keeps_arena_votes,
    unmatched_outcome_judges_prediction_under_pseudonym,
    what_cannot_be_read_is_told,
    days_without_the_keys_are_copied,
);

/// Dies at each write in turn, and goes on in another process, with the same result.
async fn an_erasure_goes_on_wherever_a_process_dies(scene: Scene) {
    filled(&scene).await;
    let before = unsegmented(&scene).await;
    let erasure = begin(&scene, &[KEY]).await.unwrap();
    let mut deaths = 0;
    let done = loop {
        let left = Arc::new(AtomicUsize::new(6 + 4 * deaths));
        let (died, mut dies) = tokio::sync::mpsc::unbounded_channel();
        // Beats are written at times of their own.
        let hooked: Arc<dyn Table> = Hooked::new(Arc::clone(&scene.table), move |asked| match asked {
            Asked::Write(_) if left.load(Ordering::SeqCst) == 0 => {
                died.send(()).unwrap();
                Call::Hang
            }
            Asked::Write(_) => {
                left.fetch_sub(1, Ordering::SeqCst);
                Call::Pass
            }
            _ => Call::Pass,
        });
        tokio::select! {
            biased;
            done = carry(&hooked, &erasure) => break done.unwrap(),
            _ = dies.recv() => deaths += 1,
        }
        assert!(deaths < 5_000, "it comes to an end");
    };
    assert!(deaths > 4, "{deaths}");
    assert_eq!((done.rows, done.days), (11, 3), "each row was counted once");
    assert_gone(&scene).await;
    assert_eq!(unsegmented(&scene).await, before);
}

async fn nothing_is_decided_while_events_are_written_again(scene: Scene) {
    filled(&scene).await;
    let erasure = begin(&scene, &[KEY]).await.unwrap();
    let rewriting = Arc::new(AtomicUsize::new(0));
    let (reached, mut reaches) = tokio::sync::mpsc::unbounded_channel();
    let hooked: Arc<dyn Table> = Hooked::new(Arc::clone(&scene.table), {
        let rewriting = Arc::clone(&rewriting);
        move |asked| match asked {
            Asked::Write(key) if key::parse_segment(key).is_some() => {
                rewriting.fetch_add(1, Ordering::SeqCst);
                reached.send(()).unwrap();
                Call::Hang
            }
            _ => Call::Pass,
        }
    });
    tokio::select! {
        done = carry(&hooked, &erasure) => panic!("{done:?}"),
        _ = reaches.recv() => {}
    }
    let epoch = ErasureEpoch::load(&*scene.table, scene.id()).await.unwrap();
    assert!(epoch.is_rewriting && epoch.is_open);
    // A day that has grown is not evaluated, and gets no vintage.
    scene.predict_many(DAYS[0], "v1", 2, "2026-06-05T00:00:00Z").await;
    let day = projector::WorkspaceDay { workspace: scene.id().clone(), day: DAYS[0].parse().unwrap() };
    let dirty = scan::heads(&*scene.table, scene.id()).await.unwrap().into_iter().map(|head| head.log);
    let dirty = dirty.filter(|log| log.day == day.day).collect();
    let grown = projector::project::project(&*scene.table, 1, &day, &dirty).await.unwrap();
    let refused = projector::evaluate::evaluate(&*scene.table, 1, &day, &grown.applied).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    let made = scene.keep_vintages(at(NOW)).await;
    assert!(made.vintages == 0 && made.waiting > 0, "{made:?}");
    let done = carry(&scene.table, &erasure).await.unwrap();
    assert_eq!(done.rows, 11);
    let epoch = ErasureEpoch::load(&*scene.table, scene.id()).await.unwrap();
    assert!(!epoch.is_rewriting && !epoch.is_open);
    assert!(scene.keep_vintages(at(NOW)).await.vintages > 0);
    assert_gone(&scene).await;
}

async fn reviews_and_answers_lose_the_key(scene: Scene) {
    filled(&scene).await;
    let window = Window::of(DAYS[0].parse().unwrap());
    let spec =
        ReviewSpec { model: Some("m".into()), seed: 7, with_outcomes: true, ..ReviewSpec::new(window) };
    let review = scene.query(at(NOW)).create_review(&scene.workspace, "june", spec.clone()).await.unwrap().0;
    let ingest = scene.ingest(at(NOW));
    let ann = AnsweredBy::Reviewer("user:ann".into());
    while let Some(served) =
        ingest.next_of((scene.id(), &review), ("user:ann", DEFAULT_LEASE_SECONDS)).await.unwrap()
    {
        let answered = ingest.answer(served.link.item(), &ann, Verdict::Label("1".into())).await.unwrap();
        assert!(answered.is_appended);
    }
    scene.project().await;
    let done = erase(&scene, &[KEY]).await;
    assert_eq!((done.rows, done.items), (12, 2), "the outcome of the answer; the item and the answer");
    assert_gone(&scene).await;
    // A new review of the same predictions judges them under the pseudonym.
    let again = ReviewSpec { seed: 8, ..spec };
    let review = scene.query(at(NOW)).create_review(&scene.workspace, "again", again).await.unwrap().0;
    let bob = AnsweredBy::Reviewer("user:bob".into());
    let mut judged = 0;
    while let Some(served) =
        ingest.next_of((scene.id(), &review), ("user:bob", DEFAULT_LEASE_SECONDS)).await.unwrap()
    {
        judged += usize::from(is_pseudonym(&served.item.key));
        let answered = ingest.answer(served.link.item(), &bob, Verdict::Label("0".into())).await.unwrap();
        assert!(answered.is_appended, "{served:?}");
    }
    assert_eq!(judged, 1);
    scene.project().await;
    assert_gone(&scene).await;
}

async fn erasing_shown_values_keeps_arena_votes(scene: Scene) {
    filled(&scene).await;
    let shown = |release: &str| {
        json!({ "key": KEY, "predicted_at": format!("{}T02:00:00Z", DAYS[0]), "release": release, "score": 0.5,
            "tags": { "text": format!("smith by {release}") } })
    };
    scene.append(Kind::Predictions, json!([shown("v1"), shown("v2")]), SENT).await.unwrap();
    let releases = ["v1", "v2"].map(str::to_owned).into();
    let window = Window::of(DAYS[0].parse().unwrap());
    let spec = ReviewSpec { policy: ReviewPolicy::Pairs, seed: 7, releases, ..ReviewSpec::new(window) };
    let query = scene.query(at(NOW));
    let review = query.create_review(&scene.workspace, "duel", spec).await.unwrap().0;
    let (ingest, ann) = (scene.ingest(at(NOW)), AnsweredBy::Reviewer("user:ann".into()));
    let mut votes = 0;
    while let Some(served) =
        ingest.next_of((scene.id(), &review), ("user:ann", DEFAULT_LEASE_SECONDS)).await.unwrap()
    {
        ingest.answer(served.link.item(), &ann, Verdict::Vote(Vote::Left)).await.unwrap();
        votes += 1;
    }
    assert_eq!(votes, 13, "one of each key, and another of the one that is erased");
    scene.project().await;
    let before = query.rank_arena(scene.id(), "duel", None).await.unwrap();
    assert!(everything(&scene).await.contains("smith by v2"));
    erase(&scene, &[KEY]).await;
    assert_gone(&scene).await;
    assert_eq!(query.rank_arena(scene.id(), "duel", None).await.unwrap(), before);
}

async fn unmatched_outcome_judges_prediction_under_pseudonym(scene: Scene) {
    filled(&scene).await;
    let now = "2026-06-10T00:00:00Z";
    // One outcome was decided before, one waits meanwhile, and the prediction of another one comes later.
    observe(&scene, vec![outcome(KEY, "2026-06-02T06:00:00Z", "1")], Some("early"), "2026-06-05T00:00:00Z")
        .await
        .unwrap();
    assert_eq!(resolved(&scene, now).await.found, 1);
    let waits =
        vec![outcome(KEY, "2026-06-03T06:00:00Z", "0"), outcome("person-0099", "2026-06-03T06:00:00Z", "0")];
    observe(&scene, waits, Some("late"), "2026-06-06T00:00:00Z").await.unwrap();
    key_filters::make(&*scene.table, scene.id(), (None, &[].into()), at(NOW)).await.unwrap();
    let erasure = begin(&scene, &[KEY]).await.unwrap();
    let paused = resolved(&scene, now).await;
    assert_eq!((paused.found, paused.waiting), (0, 0), "nothing is looked for while keys are being erased");
    let done = carry(&scene.table, &erasure).await.unwrap();
    assert_eq!(done.rows, 11 + 3, "two unmatched outcomes, and what one of them became");
    scene.project().await;
    let active = active::load(&*scene.table, scene.id()).await.unwrap();
    assert_eq!(active.version, 2);
    let append = crate::unmatched::append(&scene, now);
    let days = (None, &[].into());
    let found = projector::unmatched::resolve(
        &*scene.table,
        &scene.world.catalog,
        &append,
        scene.id(),
        days,
        at(now),
    );
    let found = found.await.unwrap();
    assert_eq!((found.found, found.waiting), (1, 1), "that of the pseudonym judges its prediction");
    let pseudonym = done.pseudonyms[0].as_str();
    let columns = Some("key,predicted_at,label");
    let outcomes = rows(
        &scene,
        Dataset::Events(Kind::Outcomes),
        Params { key: Some(pseudonym), columns, ..Params::default() },
    )
    .await;
    assert!(outcomes.contains("2026-06-03T01:07:00"), "{outcomes}");
    let all = everything(&scene).await;
    assert!(!all.contains(KEY) && !all.contains("smith"));
}

async fn what_cannot_be_read_is_told(scene: Scene) {
    filled(&scene).await;
    let heads = scan::heads(&*scene.table, scene.id()).await.unwrap();
    let head = heads.iter().find(|head| head.log.kind == Kind::Outcomes && head.seq > 1).unwrap();
    let segment = key::segment(&head.log, head.seq);
    let whole = scene.table.get(&segment).await.unwrap().unwrap();
    let damaged = whole.clone().with("data", vec![1, 2, 3]);
    scene.table.put(damaged, Condition::Exists).await.unwrap();
    // Projections that cannot be folded again stay as they are.
    let erasure = begin(&scene, &[KEY]).await.unwrap();
    let error = carry(&scene.table, &erasure).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let stuck = scene.world.catalog.erasure(scene.id(), &erasure.id).await.unwrap();
    assert_eq!(stuck.phase, ErasurePhase::Folding);
    assert_eq!(stuck.unreadable, [format!("{}/{:010}", head.log, head.seq)]);
    // After the repair it goes on; the key in that segment needs another erasure.
    scene.table.put(whole, Condition::Exists).await.unwrap();
    let done = carry(&scene.table, &erasure).await.unwrap();
    assert_eq!((done.phase, done.unreadable.len()), (ErasurePhase::Done, 1));
    let again = erase(&scene, &[KEY]).await;
    assert_eq!((done.rows + again.rows, again.unreadable.len()), (11, 0));
    assert_gone(&scene).await;
}

/// Projections of days without the keys are copied, not folded again: they count as many writes as before.
async fn days_without_the_keys_are_copied(scene: Scene) {
    const OTHER: &str = "person-of-the-first-day";
    filled(&scene).await;
    for day in DAYS {
        let key = if day == DAYS[0] { OTHER } else { "person-0000" };
        let event = json!([{ "key": key, "predicted_at": format!("{day}T05:00:00Z"), "release": "v1", "score": 0.5,
            "features": { "income": 7 } }]);
        scene.append(Kind::Predictions, event, SENT).await.unwrap();
        scene.project().await;
    }
    key_filters::make(&*scene.table, scene.id(), (None, &[].into()), at(NOW)).await.unwrap();
    let version = async || active::load(&*scene.table, scene.id()).await.unwrap().version;
    let (before, metrics) = (version().await, unsegmented(&scene).await);
    let by = async |by| rows(&scene, Dataset::Rollups, Params { by: Some(by), ..Params::default() }).await;
    let broken_down = [by("tag.branch").await, by("metric").await];
    // All stored items of a version for each day, by the end of the key.
    let stored = async |version| {
        let mut days = DAYS.map(|_| Vec::new());
        for part in ["rollup", "feature", "keys"] {
            let partition = format!("w#{}/{part}/v{version}", scene.id());
            for item in query_all(&*scene.table, Query::index(Index::Table, partition)).await.unwrap() {
                let day = DAYS.iter().position(|day| item.key.sk.contains(day)).unwrap();
                // Evaluations are compared by their content.
                if !item.key.sk.contains("/eval") && !item.key.sk.starts_with("slice#") {
                    days[day].push((part, item.key.sk, item.attributes));
                }
            }
        }
        days
    };
    let old = stored(before).await;
    let done = erase(&scene, &[OTHER]).await;
    assert_eq!((done.rows, done.days, version().await), (1, 1, before + 1));
    let new = stored(before + 1).await;
    assert!(old[1..] == new[1..] && old[1].len() > 8, "{old:?} {new:?}");
    assert_ne!(old[0], new[0], "the first day was folded again");
    scene.assert_verified().await;
    assert!(!everything(&scene).await.contains(OTHER));
    assert_eq!(unsegmented(&scene).await, metrics);
    assert_eq!([by("tag.branch").await, by("metric").await], broken_down);
    // Later events are folded into the copies.
    let event = json!([{ "key": "person-0001", "predicted_at": format!("{}T06:00:00Z", DAYS[1]), "release": "v1", "score": 0.5 }]);
    scene.append(Kind::Predictions, event, SENT).await.unwrap();
    scene.project().await;
    scene.assert_verified().await;
}
