//! Outcomes without a date: their list with its counts and reasons; files of them lead to the same metrics as files with dates.
//! Each on a SQLite file and on DynamoDB Local.

use std::{fs, sync::atomic::Ordering};

use event::Kind;
use ingest::file::{Chunk, FileReader, FileSpec, Mapping};
use log::{key, scan};
use query::{Dataset, Params, Request, UnmatchedPage, UnmatchedParams, UnmatchedRequest, UnmatchedState};
use serde_json::json;
use table::Condition;
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::at,
};

use crate::unmatched::{append, counts, observe, outcome, predicted, resolved, round};

on_both_engines!(
    Scene::on:
    what_waits_is_listed_counted_and_explained,
    pages_of_unmatched_outcomes_match_the_whole_list,
    undated_file_yields_metrics_of_dated_file,
);

/// Page of unmatched outcomes.
async fn listed(scene: &Scene, words: UnmatchedParams, now: &str) -> UnmatchedPage {
    let request = UnmatchedRequest::parse(&words, at(now)).unwrap();
    scene.query(at(now)).unmatched(scene.id(), &request).await.unwrap()
}

fn in_state(state: UnmatchedState) -> UnmatchedParams {
    UnmatchedParams { state: Some(state), ..UnmatchedParams::default() }
}

/// Numbers of waiting, decided, appended, expired and refused outcomes.
fn by_state(page: &UnmatchedPage) -> [u64; 5] {
    UnmatchedState::ALL.map(|state| page.counts.get(&state).copied().unwrap_or_default())
}

async fn what_waits_is_listed_counted_and_explained(scene: Scene) {
    predicted(&scene).await;
    let far = json!({
        "key": "far", "observed_at": "2026-06-05T00:00:00Z", "label": "1", "predicted_since": "2026-05-01T00:00:00Z",
    });
    let events = vec![
        outcome("k1", "2026-06-05T00:00:00Z", "1"),
        outcome("never", "2026-06-05T00:00:00Z", "1"),
        outcome("k2", "2026-06-05T00:00:00Z", "1"),
        far,
    ];
    observe(&scene, events, None, "2026-06-05T10:00:00Z").await.unwrap();
    let now = "2026-06-05T10:00:10Z";
    let page = listed(&scene, UnmatchedParams::default(), now).await;
    assert_eq!((by_state(&page), page.next, page.warnings.len()), ([4, 0, 0, 0, 0], None, 0));
    assert!(page.outcomes.iter().all(|one| one.why.starts_with("no worker has looked")), "{page:?}");
    // It is decided, and the deciding worker dies.
    let dying = append(&scene, "2026-06-05T10:01:00Z");
    dying.lost.store(1, Ordering::Relaxed);
    assert!(round(&scene, &dying, "2026-06-05T10:01:00Z").await.is_err());
    let now = "2026-06-05T10:02:00Z";
    let page = listed(&scene, in_state(UnmatchedState::Decided), now).await;
    assert_eq!((by_state(&page), page.outcomes.len()), ([2, 2, 0, 0, 0], 2));
    let judged = "it labels the prediction of 2026-06-03T01:00:00Z";
    assert_eq!(page.outcomes[0].why, format!("{judged}, and is to be appended"));
    assert_eq!(resolved(&scene, "2026-06-05T10:03:00Z").await.waiting, 2);
    let page =
        listed(&scene, UnmatchedParams { key: Some("k2".into()), ..UnmatchedParams::default() }, now).await;
    let [one] = &page.outcomes[..] else { panic!("{page:?}") };
    assert_eq!((by_state(&page), one.state, &*one.why), ([0, 0, 1, 0, 0], UnmatchedState::Appended, judged));
    assert_eq!(one.predicted_at, Some(at("2026-06-03T01:00:00Z")));
    assert_eq!(one.decided_as_of, Some(at("2026-06-05T10:00:30Z")));
    // A waiting outcome names the days that were searched, and the end of its wait.
    let now = "2026-06-05T10:20:00Z";
    assert_eq!(resolved(&scene, now).await.waiting, 2);
    let page = listed(&scene, in_state(UnmatchedState::Waiting), now).await;
    assert_eq!(by_state(&page), [2, 0, 2, 0, 0]);
    let waits = |key: &str| page.outcomes.iter().find(|one| one.key == key).unwrap();
    let said = "no prediction of its key from 2026-03-07 to 2026-06-05 was found at 2026-06-05T10:03:00Z; it is looked for again when more has come";
    assert_eq!((&*waits("never").why, waits("never").looked_at), (said, Some(at("2026-06-05T10:03:00Z"))));
    assert_eq!(waits("never").expires_at, Some(at("2026-09-03T10:00:00Z")));
    assert_eq!(waits("far").predicted_since, at("2026-05-01T00:00:00Z"));
    // An expired day may have had it.
    scene.world.catalog.set_retention(scene.id(), Some(10), at("2026-06-05T11:00:00Z")).await.unwrap();
    let page =
        listed(&scene, UnmatchedParams { key: Some("never".into()), ..UnmatchedParams::default() }, now)
            .await;
    let why = &page.outcomes[0].why;
    assert!(
        why.contains("from 2026-05-26 to 2026-06-05") && why.contains("the events of 2026-05-25 are gone"),
        "{why}"
    );
    scene.world.catalog.set_retention(scene.id(), None, at("2026-06-05T11:00:00Z")).await.unwrap();
    assert_eq!(resolved(&scene, "2026-09-03T11:00:00Z").await, counts(0, 2, 0));
    let page = listed(&scene, UnmatchedParams::default(), "2026-09-03T12:00:00Z").await;
    assert_eq!(by_state(&page), [0, 0, 2, 2, 0]);
    assert!(page.outcomes[3].why.contains("was found for 90 days"), "{page:?}");
    // No outcomes came on other days.
    let [from, to] = ["2026-06-06", "2026-06-30"].map(|day| day.parse().ok());
    let june = UnmatchedParams { from, to, ..UnmatchedParams::default() };
    assert_eq!(by_state(&listed(&scene, june, "2026-09-03T12:00:00Z").await), [0; 5]);
}

async fn pages_of_unmatched_outcomes_match_the_whole_list(scene: Scene) {
    scene.world.set_lanes(scene.id(), 3).await;
    predicted(&scene).await;
    for day in 5..9 {
        let events = (0..7)
            .map(|n| outcome(&format!("k{}", 2 * n + day % 2), "2026-06-05T00:00:00Z", &day.to_string()));
        observe(&scene, events.collect(), None, &format!("2026-06-0{day}T10:00:00Z")).await.unwrap();
        if day == 6 {
            resolved(&scene, "2026-06-06T10:01:00Z").await;
        }
    }
    let now = "2026-06-08T11:00:00Z";
    let all = listed(&scene, UnmatchedParams::default(), now).await;
    assert_eq!((all.outcomes.len(), all.next, by_state(&all)), (28, None, [18, 0, 10, 0, 0]));
    assert!(all.outcomes.is_sorted_by_key(|one| one.place));
    let (waiting, appended) = (Some(UnmatchedState::Waiting), Some(UnmatchedState::Appended));
    for (limit, state) in [(1, None), (3, waiting), (5, appended), (1000, None)] {
        let (mut rows, mut sums, mut after) = (Vec::new(), [0; 5], None);
        loop {
            let words = UnmatchedParams { limit: Some(limit), state, after, ..UnmatchedParams::default() };
            let page = listed(&scene, words, now).await;
            assert!(page.outcomes.len() <= limit);
            sums.iter_mut().zip(by_state(&page)).for_each(|(sum, more)| *sum += more);
            rows.extend(page.outcomes);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let mut wanted = all.outcomes.clone();
        wanted.retain(|one| state.is_none_or(|state| one.state == state));
        assert_eq!((rows, sums), (wanted, by_state(&all)), "{limit} {state:?}");
    }
    let none = listed(&scene, UnmatchedParams { limit: Some(0), ..UnmatchedParams::default() }, now).await;
    assert_eq!((none.outcomes.len(), by_state(&none)), (0, by_state(&all)));
    // Unreadable segments are reported, and the other outcomes are listed.
    let day = "2026-06-08".parse().unwrap();
    let heads = scan::heads_of_kind(&*scene.table, scene.id(), day, Kind::Unmatched).await.unwrap();
    let key = key::segment(&heads[0].log, heads[0].seq);
    let mut item = scene.table.get(&key).await.unwrap().unwrap();
    let lost =
        all.outcomes.iter().filter(|one| (one.place.day, one.place.lane) == (day, heads[0].log.lane)).count();
    item.attributes.insert("data".into(), vec![1_u8, 2, 3].into());
    scene.table.put(item, Condition::None).await.unwrap();
    let page = listed(&scene, UnmatchedParams::default(), now).await;
    assert!(lost > 0 && page.warnings.len() == 1 && page.next.is_none(), "{page:?}");
    assert_eq!(page.outcomes.len(), 28 - lost);
}

/// Imports a file of outcomes as the command line does; returns the number of stored rows.
pub(crate) async fn import(scene: &Scene, text: &str, now: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outcomes.csv");
    fs::write(&path, text).unwrap();
    let spec = FileSpec { kind: Kind::Outcomes, mapping: Mapping::default() };
    let ingest = scene.ingest(at(now));
    let mut appended = 0;
    for chunk in FileReader::open(&path, &spec, at(now)).unwrap() {
        let Chunk { origin, batch, bad, .. } = chunk.unwrap();
        let batch = batch.unwrap();
        assert!(bad.is_empty() && ingest.problems(&scene.workspace, &batch).await.unwrap().is_empty());
        let good: Vec<usize> = (0..batch.rows()).collect();
        appended += ingest.submit_chunk(&scene.workspace, &origin, &batch, &good).await.unwrap().appended;
    }
    appended
}

/// Metrics of a release on each day.
async fn metrics(scene: &Scene, release: &str) -> Vec<String> {
    let columns = Some("day,predictions,labelled,accuracy,precision,recall,auc,brier,log_loss");
    let words =
        Params { from: "2026-06-01", to: "2026-06-30", columns, release: Some(release), ..Params::default() };
    let request = Request::parse(Dataset::Evaluations, &words).unwrap();
    let text = csv(scene.query(at("2026-06-30T00:00:00Z")).run(scene.id(), &request).await.unwrap());
    text.lines().map(str::to_owned).collect()
}

async fn undated_file_yields_metrics_of_dated_file(scene: Scene) {
    const ROWS: u32 = 60;
    scene.world.set_lanes(scene.id(), 3).await;
    let instant = |n: u32| format!("2026-06-0{}T01:00:{:02}Z", 1 + n % 3, n);
    let label = |n: u32| if n * 7 % 10 < 4 { "1" } else { "0" };
    for (release, key) in [("v1", "d"), ("v2", "m")] {
        let event = |n: u32| {
            json!({
                "key": format!("{key}{n}"), "predicted_at": instant(n), "release": release,
                "score": f64::from(n * 13 % 20) / 20.0,
            })
        };
        let events: Vec<_> = (0..ROWS).map(event).collect();
        scene.append(Kind::Predictions, events.into(), "2026-06-04T00:00:00Z").await.unwrap();
    }
    let line = |key: &str, n: u32, is_dated: bool| {
        let predicted_at = if is_dated { instant(n) } else { String::new() };
        format!("{key}{n},2026-06-05T00:00:00Z,{predicted_at},{}\n", label(n))
    };
    let file = |lines: String| format!("key,observed_at,predicted_at,label\n{lines}");
    let dated = file((0..ROWS).map(|n| line("d", n, true)).collect());
    // Two of three rows have no date.
    let mixed = file((0..ROWS).map(|n| line("m", n, n % 3 == 0)).collect());
    let now = "2026-06-05T10:00:00Z";
    assert_eq!((import(&scene, &dated, now).await, import(&scene, &mixed, now).await), (60, 60));
    // On another day it is still the same file.
    assert_eq!(import(&scene, &mixed, "2026-06-06T00:00:00Z").await, 0);
    scene.project().await;
    let whole = metrics(&scene, "v1").await;
    assert!(whole.len() == 4 && !whole[1].contains(",,"), "{whole:?}");
    assert_ne!(metrics(&scene, "v2").await, whole, "they wait");
    assert_eq!(resolved(&scene, "2026-06-06T00:01:00Z").await, counts(40, 0, 0));
    assert_eq!(metrics(&scene, "v2").await, whole);
    assert_eq!(import(&scene, &mixed, "2026-06-07T00:00:00Z").await, 0);
    scene.assert_verified().await;
}
