//! An imported history of another system: it counts as known at the earlier instants that its import states.

use std::sync::Arc;

use event::{Clock, Kind};
use ingest::{Receipt, Remember, SubmitError, json::read_json_array};
use log::{
    audit::{Author, by},
    key::AuditLog,
    rollup_vintage,
};
use projector::rebuild::{Pace, rebuild};
use query::{AuditParams, AuditRequest, Dataset, Params, Request, Source};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    an_imported_history_keeps_its_vintages,
    what_is_stated_never_overtakes_what_was_seen,
    a_read_version_outlives_what_is_stated_later,
    what_cannot_have_been_known_is_refused,
);

const DAY: &str = "2026-06-01";
/// Instant of the import.
const NOW: &str = "2026-06-28T12:00:00Z";

fn predictions(day: &str) -> Value {
    let event = |n: usize| json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1", "score": 0.5 });
    (0..8).map(event).collect()
}

fn outcomes(day: &str) -> Value {
    let event = |n: usize| json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"), "label": "1" });
    (0..8).map(event).collect()
}

async fn state(scene: &Scene, kind: Kind, events: Value, known_at: &str) -> Result<Receipt, SubmitError> {
    let author = Author::named("user:ann").stating(at(known_at));
    let batch = read_json_array(kind, events.to_string().as_bytes(), at(NOW))?;
    let ingest = scene.ingest(at(NOW));
    by(Arc::new(author), ingest.submit(&scene.workspace, batch, None, Remember::Week)).await
}

/// Rows of a day as of an instant, or at ages, with the warnings.
async fn told(
    scene: &Scene,
    what: Dataset,
    words: Params<'_>,
    now: &str,
) -> (String, Vec<String>, Option<Source>) {
    let request = Request::parse(what, &words).unwrap();
    let answer = scene.query(at(now)).run(scene.id(), &request).await.unwrap();
    let (warnings, source) = (answer.warnings.clone(), answer.source);
    (csv(answer).lines().skip(1).collect::<Vec<_>>().join(" "), warnings, source)
}

fn words<'a>(day: &'a str, columns: &'a str, as_of: Option<&'a str>) -> Params<'a> {
    Params { from: day, to: day, columns: Some(columns), as_of, ..Params::default() }
}

async fn labelled(scene: &Scene, day: &str, as_of: &str, now: &str) -> (String, Vec<String>) {
    let words = words(day, "predictions,labelled", Some(as_of));
    let (rows, warnings, _) = told(scene, Dataset::Evaluations, words, now).await;
    (rows, warnings)
}

async fn an_imported_history_keeps_its_vintages(world: World) {
    const SEEN: &str = "2026-06-02";
    let scene = Scene::new(world).await;
    scene.world.set_lanes(scene.id(), 4).await;
    // The predictions of another day were appended on time, and its vintages have no outcome.
    scene.append(Kind::Predictions, predictions(SEEN), "2026-06-02T02:00:00Z").await.unwrap();
    scene.project().await;
    assert_eq!(scene.keep_vintages(at("2026-06-12T00:00:00Z")).await.vintages, 5);
    state(&scene, Kind::Predictions, predictions(DAY), "2026-06-01T02:00:00Z").await.unwrap();
    for (day, known_at) in [(DAY, "2026-06-11T00:00:00Z"), (SEEN, "2026-06-05T00:00:00Z")] {
        let receipt = state(&scene, Kind::Outcomes, outcomes(day), known_at).await.unwrap();
        assert_eq!((receipt.appended, receipt.known_later), (8, None));
    }
    scene.project().await;
    assert_eq!(
        scene.keep_vintages(at(NOW)).await.vintages,
        0,
        "no vintage is decided while more may be stated"
    );
    // Nor is an earlier decision revoked, as if a clock had been ahead.
    let seen = SEEN.parse().unwrap();
    let kept = rollup_vintage::last_age(&*scene.table, scene.id(), seen).await.unwrap();
    let pace = Pace { share: 1.0, clock: Clock::from_fn(|| at(NOW)) };
    rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    assert!(kept.is_some());
    assert_eq!(rollup_vintage::last_age(&*scene.table, scene.id(), seen).await.unwrap(), kept);
    let (none, warnings) = labelled(&scene, DAY, "2026-06-01T01:30:00Z", NOW).await;
    assert_eq!((none.as_str(), warnings.len()), ("", 0));
    let (before, warnings) = labelled(&scene, DAY, "2026-06-10T23:59:59Z", NOW).await;
    assert_eq!(before, "8,0");
    assert!(warnings.concat().contains("when their import states that they were known"), "{warnings:?}");
    assert_eq!(labelled(&scene, DAY, "2026-06-11T00:00:00Z", NOW).await.0, "8,8");
    let ages = |day| words(day, "age,labelled", None);
    let (of_stated, warnings, source) = told(&scene, Dataset::Maturity, ages(DAY), NOW).await;
    assert_eq!(of_stated, "1h,0 6h,0 1d,0 3d,0 7d,0 14d,8 latest,8");
    assert!(warnings.concat().contains("states") && source == Some(Source::Events), "{warnings:?}");
    let (of_seen, ..) = told(&scene, Dataset::Maturity, ages(SEEN), NOW).await;
    assert_eq!(of_seen, "1h,0 6h,0 1d,0 3d,8 7d,8 14d,8 latest,8");
    let events = words(DAY, "appended_at", Some(NOW));
    let (appended, ..) = told(&scene, Dataset::Events(Kind::Outcomes), events, NOW).await;
    assert_eq!(appended, ["2026-06-11T00:00:00Z"; 8].join(" "));
    assert_told(&scene).await;
    scene.assert_verified().await;
    // Before the events expire, the vintages are made of all stated events.
    scene.world.catalog.set_retention(scene.id(), Some(10), at(NOW)).await.unwrap();
    let later = "2026-07-10T00:00:00Z";
    scene.expire(at("2026-07-09T00:00:00Z")).await;
    assert_eq!(scene.expire(at(later)).await.days, 2);
    for (day, as_of, expected) in [
        (DAY, "2026-06-10T23:59:59Z", "8,0"),
        (DAY, "2026-06-20T00:00:00Z", "8,8"),
        (SEEN, "2026-06-04T12:00:00Z", "8,0"),
        (SEEN, "2026-06-06T12:00:00Z", "8,8"),
    ] {
        assert_eq!(labelled(&scene, day, as_of, later).await.0, expected, "{day} as of {as_of}");
        let rollups = words(day, "predictions,outcomes", Some(as_of));
        assert_eq!(told(&scene, Dataset::Rollups, rollups, later).await.0.split(' ').next(), Some(expected));
    }
    scene.assert_verified().await;
}

/// Checks that the audit log names the principal and the stated time.
async fn assert_told(scene: &Scene) {
    let words =
        AuditParams { from: DAY.parse().ok(), to: "2026-06-28".parse().ok(), ..AuditParams::default() };
    let request = AuditRequest::parse(&words, at(NOW)).unwrap();
    let audit_log = AuditLog::Workspace(scene.id().clone());
    let told = csv(scene.query(at(NOW)).audit(&audit_log, &request).await.unwrap().0);
    let of_outcomes = |line: &&str| line.contains("append.outcomes") && line.contains(DAY);
    let lines: Vec<&str> = told.lines().filter(of_outcomes).collect();
    assert!(!lines.is_empty(), "{told}");
    for line in lines {
        let is_told = line.starts_with("2026-06-28T12:00:00Z,user:ann,");
        assert!(is_told && line.contains("known_at=2026-06-11T00:00:00Z"), "{line}");
    }
}

async fn what_is_stated_never_overtakes_what_was_seen(world: World) {
    let scene = Scene::new(world).await;
    let seen = "2026-06-05T00:00:00Z";
    scene.append(Kind::Outcomes, outcomes(DAY), seen).await.unwrap();
    state(&scene, Kind::Predictions, predictions(DAY), "2026-06-01T02:00:00Z").await.unwrap();
    let corrected: Value =
        serde_json::from_str(&outcomes(DAY).to_string().replace("\"1\"", "\"0\"")).unwrap();
    let receipt = state(&scene, Kind::Outcomes, corrected, "2026-06-02T00:00:00Z").await.unwrap();
    assert_eq!(receipt.known_later, Some(at(seen)));
    let positives = words(DAY, "positives", Some(seen));
    assert_eq!(told(&scene, Dataset::Evaluations, positives, NOW).await.0, "0", "the later one counts");
    assert_eq!(labelled(&scene, DAY, "2026-06-04T00:00:00Z", NOW).await.0, "8,0");
}

async fn a_read_version_outlives_what_is_stated_later(world: World) {
    let scene = Scene::new(world).await;
    state(&scene, Kind::Predictions, predictions(DAY), "2026-06-01T02:00:00Z").await.unwrap();
    let as_of = words(DAY, "predictions,labelled", Some("2026-06-15T00:00:00Z"));
    let query = scene.query(at(NOW));
    let run = async |words: &Params<'_>| {
        let request = Request::parse(Dataset::Evaluations, words).unwrap();
        query.run(scene.id(), &request).await.unwrap()
    };
    let first = run(&as_of).await;
    let read_version = first.read_version.clone().unwrap().to_string();
    state(&scene, Kind::Outcomes, outcomes(DAY), "2026-06-11T00:00:00Z").await.unwrap();
    let again = Params { as_of: None, read_version: Some(&read_version), ..as_of };
    assert_eq!(csv(run(&again).await), csv(first));
    assert!(csv(run(&as_of).await).contains("8,8"), "the instant itself knows what was stated since");
}

async fn what_cannot_have_been_known_is_refused(world: World) {
    let scene = Scene::new(world).await;
    let waiting = json!([{ "key": "k1", "observed_at": "2026-06-02T00:00:00Z", "label": "1" }]);
    let release = json!([{ "release": "v1", "model": "m", "action": "promote", "environment": "prod", "released_at": "2026-06-01T00:00:00Z" }]);
    for (kind, events, known_at, why) in [
        (Kind::Predictions, predictions(DAY), "2026-06-28T12:00:01Z", "later than now"),
        (
            Kind::Predictions,
            predictions(DAY),
            "2026-06-01T00:59:59Z",
            "`predicted_at` is 2026-06-01T01:00:00Z, which is later",
        ),
        (Kind::Outcomes, waiting, "2026-06-03T00:00:00Z", "give predicted_at or predicted_on"),
        (Kind::Releases, release, "2026-06-03T00:00:00Z", "no known_at can be stated"),
    ] {
        let error = state(&scene, kind, events, known_at).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(scene.logs().await.is_empty());
}
