//! Erased keys: kept and deleted data, refusals, and interrupted processes. Each on a SQLite file and on DynamoDB Local.

use std::{sync::Arc, time::Duration};

use catalog::{Erasure, ErasurePhase};
use event::{Clock, ErrorKind, Kind, NewDefinition, pseudonym::is_pseudonym};
use ingest::{Refused, Remember, SubmitError, json::read_json_array};
use log::{active, key::AuditLog, scan, segment_item::Segment};
use projector::{
    erase::{Pace, carry_out},
    key_filters,
    verify::verify,
};
use query::{AuditParams, AuditRequest, Dataset, Params, Request};
use serde_json::{Value, json};
use table::{Index, Query, Table, query_all};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    erased_key_vanishes_and_unsegmented_metrics_stay_identical,
    erasure_recomputes_tag_and_feature_metrics,
    erased_key_is_refused_and_repeat_stores_nothing,
    audit_audit_log_records_erasure_without_its_keys,
    erased_key_without_events_is_refused_too,
);

pub(crate) const DAYS: [&str; 3] = ["2026-06-01", "2026-06-02", "2026-06-03"];
pub(crate) const SENT: &str = "2026-06-04T12:00:00Z";
/// Key of a person, and texts that occur only with that person.
pub(crate) const KEY: &str = "person-0017-smith";
const TAG: &str = "tag-of-smith";
const FEATURE: &str = "feature.income";

fn pace() -> Pace {
    Pace { wait: Duration::ZERO, ..Pace::new(Clock::from_fn(|| at(NOW))) }
}

pub(crate) async fn begin(scene: &Scene, keys: &[&str]) -> event::Result<Erasure> {
    begin_of(scene, keys, false).await
}

/// Begins an erasure, with values or without.
pub(crate) async fn begin_of(scene: &Scene, keys: &[&str], with_values: bool) -> event::Result<Erasure> {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let of = (&keys[..], with_values);
    scene.world.catalog.begin_erasure(scene.id(), of, "asked for by letter 9", at(NOW)).await
}

pub(crate) async fn carry(table: &Arc<dyn Table>, erasure: &Erasure) -> event::Result<Erasure> {
    carry_out(table, (&erasure.workspace, &erasure.id), &pace(), &|_| ()).await
}

pub(crate) async fn erase(scene: &Scene, keys: &[&str]) -> Erasure {
    let begun = begin(scene, keys).await.unwrap();
    assert!(scene.world.fresh.file_bytes().is_empty() || keys.iter().all(|key| is_in_file(scene, key)));
    carry(&scene.table, &begun).await.unwrap()
}

/// Predictions of twelve keys by two releases on three days over four lanes, one key being a person's, with tags and features;
/// their outcomes; a metric that names one of the keys.
pub(crate) async fn filled(scene: &Scene) {
    scene.world.set_lanes(scene.id(), 4).await;
    let new = NewDefinition {
        dimensions: Some(vec!["tag.branch".into()]),
        custom_metrics: Some(
            [("north".to_owned(), Some("avg(case when tag.branch = 'north' then 1 else 0 end)".to_owned()))]
                .into(),
        ),
        from: Some(DAYS[0].parse().unwrap()),
        ..NewDefinition::default()
    };
    scene.ingest(at("2026-06-01T00:00:00Z")).define_model(&scene.workspace, "m", &new).await.unwrap();
    let key = |n: usize| if n == 7 { KEY.to_owned() } else { format!("person-{n:04}") };
    for (number, day) in DAYS.into_iter().enumerate() {
        for release in ["v1", "v2"] {
            let prediction = |n: usize| {
                let branch = if n == 7 { TAG } else { ["north", "south"][n % 2] };
                json!({
                    "key": key(n), "predicted_at": format!("{day}T01:{n:02}:00Z"), "release": release,
                    "score": ((n * 7 + number * 3 + release.len()) % 10) as f64 / 10.0,
                    "tags": { "branch": branch }, "features": { "income": if n == 7 { 987_654.25 } else { n as f64 } },
                })
            };
            scene.append(Kind::Predictions, (0..12).map(prediction).collect(), SENT).await.unwrap();
        }
        let outcome = |n: usize| {
            let label = if (n + number).is_multiple_of(3) { "1" } else { "0" };
            json!({ "key": key(n), "predicted_on": day, "observed_at": format!("{day}T20:00:00Z"), "label": label })
        };
        scene.append(Kind::Outcomes, (0..12).map(outcome).collect(), SENT).await.unwrap();
    }
    let retracted = json!([{ "key": KEY, "predicted_at": format!("{}T01:07:00Z", DAYS[2]), "release": "v2",
        "retracted": "true", "reason": "smith asked for it" }]);
    scene.append(Kind::Predictions, retracted, SENT).await.unwrap();
    let metric = json!([{ "name": "satisfaction", "measured_at": format!("{}T09:00:00Z", DAYS[0]), "value": 4.5,
        "key": KEY, "predicted_on": DAYS[0], "tags": { "asked_by": TAG } }]);
    scene.append(Kind::Metrics, metric, SENT).await.unwrap();
    scene.project().await;
}

pub(crate) async fn rows(scene: &Scene, what: Dataset, words: Params<'_>) -> String {
    let request = Request::parse(what, &Params { from: DAYS[0], to: DAYS[2], ..words }).unwrap();
    csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap())
}

/// Stored metrics that no tag dimensions, which must equal those of the events.
pub(crate) async fn unsegmented(scene: &Scene) -> Vec<String> {
    let columns = Some(
        "day,release,predictions,repeated,labelled,positives,orphaned,accuracy,auc,brier,log_loss,precision,recall,f1,mcc",
    );
    let mut all = Vec::new();
    for as_of in [None, Some(NOW)] {
        all.push(rows(scene, Dataset::Evaluations, Params { columns, as_of, ..Params::default() }).await);
    }
    assert_eq!(all[0], all[1], "stored, and computed of the events as of now");
    all.push(unmarked(&rows(scene, Dataset::Rollups, Params::default()).await));
    all.push(unmarked(
        &rows(scene, Dataset::Rollups, Params { by: Some("release"), ..Params::default() }).await,
    ));
    all.push(rows(scene, Dataset::Rollups, Params { by: Some("metric"), ..Params::default() }).await);
    all.push(
        rows(
            scene,
            Dataset::HeadToHead,
            Params {
                release: Some("v1"),
                against: Some("v2"),
                columns: Some("day,n,wins,losses,ties"),
                ..Params::default()
            },
        )
        .await,
    );
    all
}

/// Rollups without the column of erased events.
fn unmarked(csv: &str) -> String {
    let mark = csv.lines().next().and_then(|header| header.split(',').position(|name| name == "erased"));
    let mark = mark.expect("a column of marks");
    let cells = |line: &str| {
        let cells = line.split(',').enumerate().filter(|(at, _)| *at != mark);
        cells.map(|(_, cell)| cell).collect::<Vec<_>>().join(",")
    };
    csv.lines().map(cells).collect::<Vec<_>>().join("\n")
}

/// Erased events of each day, and erased predictions of each release, from the marks.
async fn marks(scene: &Scene) -> [Vec<String>; 2] {
    let of = async |what| {
        let words = Params { columns: Some("day,release,erased"), ..Params::default() };
        let text = rows(scene, what, words).await;
        let lines = text.lines().skip(1).filter(|line| !line.ends_with(','));
        lines.map(|line| line.trim_start_matches("2026-06-").to_owned()).collect()
    };
    [of(Dataset::Rollups).await, of(Dataset::Evaluations).await]
}

/// All items of a workspace and of the server in the table, as text.
pub(crate) async fn everything(scene: &Scene) -> String {
    let id = scene.id();
    let mut text = String::new();
    let version = active::load(&*scene.table, id).await.unwrap().version;
    let reviewers = ["user:ann", "user:bob"].map(|who| format!("w#{id}/reviewer/{who}"));
    let mut partitions: Vec<String> = [
        "",
        "/day",
        "/erased",
        "/unmatched",
        "/vintage",
        "/rollup-vintage",
        "/review",
        "/audit",
        "/proj",
        "/expired",
        "/feed",
        "/latest",
        "/count",
        "/alert",
        "/def",
        "/run",
    ]
    .iter()
    .map(|part| format!("w#{id}{part}"))
    .chain(reviewers)
    .collect();
    for version in 1..=version {
        let parts = ["rollup", "feature", "keys", "dlq"].map(|part| format!("w#{id}/{part}/v{version}"));
        partitions.extend(parts);
    }
    for review in scene.world.catalog.reviews(id).await.unwrap() {
        partitions.push(format!("w#{id}/review/{}", review.id));
    }
    for partition in partitions {
        for item in query_all(&*scene.table, Query::index(Index::Table, partition)).await.unwrap() {
            // The bytes of segments may be compressed: their events stand for them.
            if let Ok(segment) = Segment::from_item(item.clone())
                && let Ok(columns) = segment.unpack(|_| true)
            {
                text.push_str(&format!("{columns:?}\n"));
            }
            text.push_str(&format!("{item:?}\n"));
        }
    }
    text
}

/// Checks that nothing in the table is about the person, and that all of it is consistent.
pub(crate) async fn assert_gone(scene: &Scene) {
    scene.assert_verified().await;
    let all = everything(scene).await;
    for secret in [KEY, TAG, "987654.25", "smith"] {
        assert!(!all.contains(secret), "{secret} is in {:?}", all.lines().find(|line| line.contains(secret)));
        assert!(!is_in_file(scene, secret), "{secret} is in the file");
    }
}

/// Returns whether the file of the table, or one beside it, contains a text; a table of DynamoDB has none.
fn is_in_file(scene: &Scene, text: &str) -> bool {
    scene.world.fresh.file_bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

async fn erased_key_vanishes_and_unsegmented_metrics_stay_identical(scene: Scene) {
    filled(&scene).await;
    assert!(everything(&scene).await.contains(KEY));
    let before = unsegmented(&scene).await;
    assert_eq!(marks(&scene).await[0], ["01,,0", "02,,0", "03,,0"]);
    let heads = scan::heads(&*scene.table, scene.id()).await.unwrap();
    let done = erase(&scene, &[KEY]).await;
    assert_eq!(done.phase, ErasurePhase::Done);
    // The marks are of each day, and of each release whose prediction counts.
    let of_releases = ["01,v1,1", "01,v2,1", "02,v1,1", "02,v2,1", "03,v1,1", "03,v2,0"];
    assert_eq!(marks(&scene).await, [vec!["01,,4", "02,,3", "03,,4"], of_releases.to_vec()]);
    // Two releases and an outcome a day, a retraction and a metric.
    assert_eq!((done.rows, done.days, done.count, done.unreadable.len()), (11, 3, 1, 0));
    assert!(done.pseudonyms.len() == 1 && is_pseudonym(&done.pseudonyms[0]));
    assert_gone(&scene).await;
    assert_eq!(unsegmented(&scene).await, before);
    // No segment was added or removed, and events have the key by which they are found.
    assert_eq!(scan::heads(&*scene.table, scene.id()).await.unwrap(), heads);
    let pseudonym = done.pseudonyms[0].as_str();
    let joined = rows(
        &scene,
        Dataset::Joined,
        Params { columns: Some("key,release,score,outcome_label"), ..Params::default() },
    )
    .await;
    assert_eq!(joined.lines().filter(|line| line.starts_with(pseudonym)).count(), 5, "{joined}");
    let of = async |what, columns| {
        rows(&scene, what, Params { key: Some(pseudonym), columns: Some(columns), ..Params::default() }).await
    };
    let predictions = of(Dataset::Events(Kind::Predictions), "key,tag.branch,reason,retracted").await;
    assert!(
        predictions.lines().skip(1).all(|line| line.starts_with(&format!("{pseudonym},,,"))),
        "{predictions}"
    );
    // A second erasure of the key does nothing.
    let again = erase(&scene, &[KEY]).await;
    assert_eq!((again.rows, again.version), (0, None));
}

async fn erasure_recomputes_tag_and_feature_metrics(scene: Scene) {
    filled(&scene).await;
    let by = async |what, by| rows(&scene, what, Params { by: Some(by), ..Params::default() }).await;
    assert!(by(Dataset::Evaluations, "tag.branch").await.contains(TAG));
    assert!(by(Dataset::Rollups, "tag.branch").await.contains(TAG));
    let features = by(Dataset::Rollups, FEATURE).await;
    key_filters::make(&*scene.table, scene.id(), (None, &[].into()), at(NOW)).await.unwrap();
    erase(&scene, &[KEY]).await;
    for what in [Dataset::Evaluations, Dataset::Rollups] {
        let now = by(what, "tag.branch").await;
        assert!(!now.contains(TAG) && now.contains("north"), "{now}");
    }
    assert_ne!(by(Dataset::Rollups, FEATURE).await, features);
    let report = verify(&scene.table, scene.id(), |_, _| ()).await.unwrap();
    assert_eq!((report.erased, report.behind, report.filters), (11, 0, 6));
    assert_gone(&scene).await;
}

async fn submit(scene: &Scene, events: &Value, key: Option<&str>) -> Result<ingest::Receipt, SubmitError> {
    let batch = read_json_array(Kind::Predictions, events.to_string().as_bytes(), at(SENT))?;
    scene.ingest(at(SENT)).submit(&scene.workspace, batch, key, Remember::Forever).await
}

async fn erased_key_is_refused_and_repeat_stores_nothing(scene: Scene) {
    let row = |key: &str| json!({ "key": key, "predicted_at": format!("{}T01:00:00Z", DAYS[0]), "release": "v1", "score": 0.5 });
    let events = json!([row("person-0001"), row(KEY)]);
    assert_eq!(submit(&scene, &events, Some("first")).await.unwrap().appended, 2);
    // A service without news of the erasure accepts the next batch a moment before.
    let unnamed = json!([row("person-0004"), row(KEY), row("person-0005")]);
    assert_eq!(submit(&scene, &unnamed, None).await.unwrap().appended, 3);
    let undated = json!([{ "key": KEY, "observed_at": SENT, "label": "1" }]).to_string();
    let wait = async || {
        let batch = read_json_array(Kind::Outcomes, undated.as_bytes(), at(SENT)).unwrap();
        scene.ingest(at(SENT)).submit(&scene.workspace, batch, None, Remember::Forever).await.unwrap()
    };
    assert_eq!(wait().await.appended, 1);
    let late = scene.ingest(at(SENT));
    let batch =
        |events: &Value| read_json_array(Kind::Predictions, events.to_string().as_bytes(), at(SENT)).unwrap();
    late.submit(&scene.workspace, batch(&json!([row("person-0002")])), None, Remember::Week).await.unwrap();
    let done = erase(&scene, &[KEY]).await;
    assert_eq!(done.rows, 3);
    // With a key, without one, and an unmatched outcome.
    for (events, key) in [(&events, Some("first")), (&unnamed, None)] {
        let again = submit(&scene, events, key).await.unwrap();
        assert!(again.replayed && again.appended == 0, "{again:?}");
    }
    let again = wait().await;
    assert!(again.replayed && again.appended == 0, "{again:?}");
    // New events of the key are refused by row, for every kind, and so are keys in the form of a pseudonym.
    for (key, says) in
        [(KEY, "was erased in this workspace"), (done.pseudonyms[0].as_str(), "stands for erased keys")]
    {
        let refused =
            submit(&scene, &json!([row("person-0003"), row(key)]), Some("second")).await.unwrap_err();
        let SubmitError::Refused(Refused::Rows { errors, error_count: 1 }) = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!((errors[0].row, errors[0].field.as_deref()), (2, Some("key")), "{errors:?}");
        assert!(errors[0].message.contains(says), "{errors:?}");
    }
    let judged = json!([{ "key": KEY, "predicted_on": DAYS[0], "observed_at": SENT, "label": "1" }]);
    let refused = scene.append(Kind::Outcomes, judged, SENT).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Refused(Refused::Rows { .. })), "{refused:?}");
    let measured =
        json!([{ "name": "x", "measured_at": SENT, "value": 1.0, "key": KEY, "predicted_on": DAYS[0] }]);
    let refused = scene.append(Kind::Metrics, measured, SENT).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Refused(Refused::Rows { .. })), "{refused:?}");
    // The other rows are accepted without it.
    assert_eq!(submit(&scene, &json!([row("person-0003")]), Some("third")).await.unwrap().appended, 1);
    scene.project().await;
    assert_gone(&scene).await;
}

async fn audit_audit_log_records_erasure_without_its_keys(scene: Scene) {
    filled(&scene).await;
    let done = erase(&scene, &[KEY]).await;
    let [from, to] = ["2026-06-01", "2035-01-01"].map(|day| day.parse().ok());
    let words = AuditParams { from, to, ..AuditParams::default() };
    let request = AuditRequest::parse(&words, at("2035-01-01T00:00:00Z")).unwrap();
    let audit_log = AuditLog::Workspace(scene.id().clone());
    let told = async || csv(scene.query(at(NOW)).audit(&audit_log, &request).await.unwrap().0);
    let text = told().await;
    let of = |action: &str| text.lines().filter(|line| line.contains(action)).collect::<Vec<_>>();
    assert_eq!((of("erasure.begin").len(), of("erasure.end").len()), (1, 1), "{text}");
    assert!(of("erasure.begin")[0].contains("asked for by letter 9"), "{text}");
    assert!(of("erasure.end")[0].contains(&done.pseudonyms[0]), "{text}");
    // The rebuild ends once, and not again when the version before is deleted.
    assert_eq!((of("rebuild.begin").len(), of("rebuild.end").len()), (1, 1), "{text}");
    assert!(!of("erasure.begin")[0].contains("values"), "{text}");
    assert!(!text.contains(KEY) && !text.contains("smith"), "{text}");
    let latest = scene.world.catalog.erasures(scene.id()).await.unwrap();
    // A heartbeat may come after the end.
    let latest: Vec<_> = latest.into_iter().map(|latest| Erasure { beats: done.beats, ..latest }).collect();
    assert_eq!(latest, [done]);
    let begun = begin_of(&scene, &["nobody"], true).await.unwrap();
    carry(&scene.table, &begun).await.unwrap();
    let text = told().await;
    let with_values = |line: &&str| line.contains("erasure.begin") && line.contains("values");
    assert_eq!(text.lines().filter(with_values).count(), 1, "{text}");
}

async fn erased_key_without_events_is_refused_too(scene: Scene) {
    filled(&scene).await;
    let done = erase(&scene, &["person-9999", "person-9998"]).await;
    assert_eq!((done.rows, done.count, done.version, done.phase), (0, 2, None, ErasurePhase::Done));
    let events = json!([{ "key": "person-9998", "predicted_at": SENT, "release": "v1", "score": 0.5 }]);
    assert!(submit(&scene, &events, None).await.is_err());
    // One at a time.
    let first = begin(&scene, &[KEY]).await.unwrap();
    assert_eq!(begin(&scene, &[KEY]).await.unwrap().id, first.id);
    let other = begin(&scene, &["person-0001"]).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict, "{other}");
    assert!(begin(&scene, &["person-0001", KEY]).await.is_err());
    for (keys, reason) in
        [(&[][..], "why"), (&[KEY], ""), (&[KEY], "of person-0017-smith"), (&["erased~x"], "why")]
    {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let refused =
            scene.world.catalog.begin_erasure(scene.id(), (&keys, false), reason, at(NOW)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
}
