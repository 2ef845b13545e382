//! Random histories of outcomes without a date have the result of a naive search through all events. Each on a SQLite file and on
//! DynamoDB Local.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use event::{Kind, Timestamp};
use log::{key::UnmatchedSegment, scan, unmatched as kept};
use query::{Dataset, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::at,
};

use crate::unmatched::{append, observe, outcome, resolved, round};

on_both_engines!(Scene::on: histories_end_as_going_through_all_events_says,);

/// A prediction: key, instant, time of its append, and true if it is a retraction.
type Predicted = (String, Timestamp, Timestamp, bool);

/// An outcome: key, instant, time of its append, the label that identifies it, and true if it judges all.
type Observed = (String, Timestamp, Timestamp, String, bool);

/// Naive search through all predictions that had been appended by an instant.
fn naive(
    predicted: &[Predicted],
    (key, observed_at, is_all): (&str, Timestamp, bool),
    as_of: Timestamp,
) -> Vec<Timestamp> {
    let known: Vec<&Predicted> = predicted.iter().filter(|one| one.2 <= as_of).collect();
    let counts = |(number, one): &(usize, &&Predicted)| {
        let is_taken_back =
            known[*number..].iter().any(|later| later.0 == one.0 && later.1 == one.1 && later.3);
        one.0 == key && one.1 <= observed_at && !one.3 && !is_taken_back
    };
    let found: BTreeSet<Timestamp> = known.iter().enumerate().filter(counts).map(|(_, one)| one.1).collect();
    match is_all {
        true => found.into_iter().collect(),
        false => found.last().copied().into_iter().collect(),
    }
}

/// Random histories of predictions, some of them retracted, and outcomes without a date, with rounds that die at some steps. Each
/// outcome judges the result of the naive search as of the first round that found something, and is stored once.
async fn histories_end_as_going_through_all_events_says(scene: Scene) {
    let mut random = fastrand::Rng::with_seed(20_260_608);
    scene.world.set_lanes(scene.id(), 3).await;
    let mut now = at("2026-06-08T23:40:00Z");
    let (mut predicted, mut observed, mut whole) = (Vec::<Predicted>::new(), Vec::new(), Vec::new());
    for step in 0..60 {
        now = now.plus_seconds(20 + random.i64(0..40));
        let text = now.to_string();
        let key = format!("k{}", random.u32(0..5));
        let instant = at(&format!("2026-06-0{}T0{}:00:00Z", 1 + random.u32(0..7), random.u32(0..10)));
        match random.u32(0..10) {
            0..4 => {
                let is_retracted = random.u32(0..4) == 0;
                let mut event =
                    json!({ "key": key, "predicted_at": instant.to_string(), "release": "v1", "score": 0.5 });
                if is_retracted {
                    event = json!({
                        "key": key, "predicted_at": instant.to_string(), "release": "v1", "retracted": true, "reason": "wrong",
                    });
                }
                scene.append(Kind::Predictions, json!([event]), &text).await.unwrap();
                predicted.push((key, instant, now, is_retracted));
            }
            4..7 => {
                // The label identifies the outcome.
                let label = format!("o{step}");
                let mut event = outcome(&key, &instant.to_string(), &label);
                let is_all = random.bool();
                if is_all {
                    event["applies_to"] = "all".into();
                }
                observe(&scene, vec![event.clone()], Some(&label), &text).await.unwrap();
                let again = observe(&scene, vec![event], Some(&label), &now.plus_seconds(1).to_string())
                    .await
                    .unwrap();
                assert!(again.replayed);
                observed.push((key, instant, now, label, is_all));
            }
            dies => {
                let append = append(&scene, &text);
                append.lost.store(u32::from(dies == 8), Ordering::Relaxed);
                append.unheard.store(u32::from(dies == 9), Ordering::Relaxed);
                if round(&scene, &append, &text).await.is_ok() {
                    whole.push(now);
                }
            }
        }
    }
    for _ in 0..2 {
        now = now.plus_seconds(60);
        resolved(&scene, &now.to_string()).await;
        whole.push(now);
    }
    let mut expected = expected(&scene, &predicted, &observed, &whole).await;
    expected.sort_unstable();
    let columns = Some("day,key,predicted_at,label");
    let words = Params { from: "2026-06-01", to: "2026-06-30", columns, ..Params::default() };
    let request = Request::parse(Dataset::Events(Kind::Outcomes), &words).unwrap();
    let text = csv(scene.query(at("2026-06-30T00:00:00Z")).run(scene.id(), &request).await.unwrap());
    let line = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        format!("{},{},{},{}", cells[0], cells[1], at(cells[2]).micros(), cells[3])
    };
    let mut all: Vec<String> = text.lines().skip(1).map(line).collect();
    all.sort_unstable();
    assert_eq!(all, expected);
    let labels: BTreeSet<&str> = all.iter().filter_map(|line| line.split(',').nth(3)).collect();
    assert!((6..observed.len()).contains(&labels.len()) && all.len() > labels.len(), "{all:?}");
    scene.assert_verified().await;
}

/// Expected stored outcomes, after whole rounds at some instants.
async fn expected(
    scene: &Scene,
    predicted: &[Predicted],
    observed: &[Observed],
    whole: &[Timestamp],
) -> Vec<String> {
    let mut expected = Vec::new();
    for (key, observed_at, appended, label, is_all) in observed {
        let question = (key.as_str(), *observed_at, *is_all);
        let found = whole
            .iter()
            .filter(|now| *now >= appended)
            .map(|now| naive(predicted, question, now.plus_seconds(-30)))
            .find(|found| !found.is_empty());
        // A round that died may have decided before its death; its decision is as of then.
        let by_dead = decided(scene, label).await;
        let judged = match by_dead {
            Some((judged, as_of)) => {
                assert_eq!(naive(predicted, question, as_of), judged, "{label}");
                let earlier = whole.iter().filter(|now| *now >= appended && now.plus_seconds(-30) < as_of);
                for now in earlier {
                    assert_eq!(naive(predicted, question, now.plus_seconds(-30)), [], "{label}");
                }
                judged
            }
            None => {
                assert_eq!(found, None, "{label}");
                Vec::new()
            }
        };
        let line = |at: Timestamp| format!("{},{key},{},{label}", at.day(), at.micros());
        expected.extend(judged.into_iter().map(line));
    }
    expected
}

/// Decision about the outcome with a label, and its instant.
async fn decided(scene: &Scene, label: &str) -> Option<(Vec<Timestamp>, Timestamp)> {
    for head in scan::heads(&*scene.table, scene.id()).await.unwrap() {
        if head.log.kind != Kind::Unmatched {
            continue;
        }
        for stored in scan::segments(&*scene.table, &head.log, 1, head.seq).await.unwrap() {
            let columns = stored.unpack(|name| name == "label").unwrap();
            let row =
                (0..columns.rows).find(|row| columns.column("label").unwrap().text(*row) == Some(label));
            let Some(row) = row else { continue };
            let segment = UnmatchedSegment { log: head.log.clone(), seq: stored.seq };
            let mut found = None;
            for (_, decision) in kept::decisions(&*scene.table, &segment, 1).await.unwrap() {
                if let Some(judged) = decision.matched.get(&(row as u32)) {
                    assert_eq!(found, None, "{label} is decided twice");
                    let judged = judged.iter().map(|at| Timestamp::from_micros(*at).unwrap()).collect();
                    found = Some((judged, decision.as_of));
                }
            }
            return found;
        }
    }
    None
}
