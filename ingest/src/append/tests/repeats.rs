//! Batches that are sent again: by key, by content, in another process, after a crash.

use super::*;

#[tokio::test]
async fn repeated_batch_is_recognized_in_every_process() {
    let world = World::new();
    let (one, two) = (world.appender(), world.appender());
    for (rows, key) in [(1, None), (1, Some("a")), (300, None), (300, Some("b")), (25_000, Some("c"))] {
        let batch = world.batch(rows, rows);
        let before = world.rows().await;
        assert!(world.append(&one, batch.clone(), key).await.unwrap());
        for appender in [&one, &two, &world.appender()] {
            assert!(!world.append(appender, batch.clone(), key).await.unwrap(), "{rows} rows, {key:?}");
        }
        assert_eq!(world.rows().await, before + rows);
    }
    // Days later, after a thousand others, a key is still known.
    world.wait(6 * 24 * 3600);
    for other in 0..1_100 {
        world.append(&one, world.batch(100_000 + other, 1), None).await.unwrap();
    }
    let before = world.rows().await;
    assert!(!world.append(&world.appender(), world.batch(1, 1), Some("a")).await.unwrap());
    assert_eq!(world.rows().await, before);
}

/// Checks that a sequence of single predictions of one key, without idempotency keys, ends with the last one.
async fn ends_with_the_last(scores: &[f64], rows: usize, apart: i64) {
    let world = World::new();
    let appender = world.appender();
    for score in scores {
        let batch = world.batch_of(0, rows, "2026-06-01", *score);
        assert!(world.append(&appender, batch.clone(), None).await.unwrap(), "{score}: {rows} rows");
        assert!(!world.append(&appender, batch.clone(), None).await.unwrap(), "a repeat at once");
        assert!(!world.append(&world.appender(), batch, None).await.unwrap(), "and by another process");
        world.wait(apart);
    }
    assert_eq!(world.rows().await, rows * scores.len());
}

#[tokio::test]
async fn unkeyed_repeat_after_ten_minutes_is_stored() {
    for rows in [1, 500, 12_000] {
        ends_with_the_last(&[0.9, 0.1, 0.9], rows, REPEAT_SECONDS / 2).await;
        ends_with_the_last(&[0.25, 0.25], rows, REPEAT_SECONDS).await;
    }
}

#[tokio::test]
async fn repeat_is_reported_and_stored_only_on_request() {
    let world = World::new();
    let appender = world.appender();
    let append = async |key, remember| {
        let lanes = 1;
        appender.append(&world.workspace, lanes, world.batch(0, 3), key, remember).await.unwrap()
    };
    let first = append(None, Remember::Week).await;
    assert_eq!((first.appended, first.replayed), (3, false));
    let again = append(None, Remember::Week).await;
    assert_eq!((again.appended, again.replayed, &again.batch), (0, true, &first.batch));
    for (key, remember) in
        [(None, Remember::Never), (Some("a"), Remember::Week), (Some("b"), Remember::Never)]
    {
        assert_eq!(append(key, remember).await.appended, 3, "{key:?}, {remember:?}");
    }
    assert_eq!(append(Some("b"), Remember::Never).await.appended, 0, "a key names a batch in any case");
    assert_eq!(append(None, Remember::Never).await.appended, 3);
    assert_eq!(world.rows().await, 15);
}

/// A service that forgets a log, or starts again, reads back as far as repeats are recognized, however much was appended since.
#[tokio::test]
async fn forgotten_log_is_reread_without_duplicates() {
    let world = World::new();
    let appender = Appender { most_logs: 1, ..world.appender() };
    world.append(&appender, world.batch(0, 1), None).await.unwrap();
    let busy = world.appender();
    for other in 1..=1_100 {
        world.append(&busy, world.batch(other, 1), None).await.unwrap();
    }
    for day in ["2026-06-02", "2026-06-03"] {
        world.append(&appender, world.batch_of(0, 1, day, 0.5), None).await.unwrap();
    }
    assert_eq!(appender.logs.lock().unwrap().known.len(), 1, "all other logs were forgotten");
    assert!(!world.append(&appender, world.batch(0, 1), None).await.unwrap());
    assert!(!world.append(&appender, world.batch_of(0, 1, "2026-06-02", 0.5), None).await.unwrap());
    world.append(&appender, world.batch(2_000, 100_000), Some("large")).await.unwrap();
    assert!(!world.append(&world.appender(), world.batch(1, 1), None).await.unwrap());
    assert_eq!(world.rows().await, 101_103);
}

/// More batches than may be remembered: batches with a key are stored, one without is refused rather than stored twice.
#[tokio::test]
async fn incomparable_unkeyed_batch_is_refused_until_comparable() {
    let world = World::new();
    let appender = Appender { budget: Budget::of(50), ..world.appender() };
    world.append(&appender, world.batch(0, 1), None).await.unwrap();
    for other in 1..100 {
        world.append(&appender, world.batch(other, 1), Some(&format!("k{other}"))).await.unwrap();
    }
    let error = world.append(&appender, world.batch(0, 1), None).await.unwrap_err();
    assert_eq!(error.kind(), event::ErrorKind::Throttled);
    assert!(error.to_string().contains("send it with an Idempotency-Key, or later"), "{error}");
    assert!(world.append(&appender, world.batch(100, 1), Some("k100")).await.unwrap());
    world.wait(REPEAT_SECONDS);
    assert!(world.append(&appender, world.batch(101, 1), Some("k101")).await.unwrap());
    assert!(world.append(&appender, world.batch(0, 1), None).await.unwrap(), "that is another one by now");
}

/// Bug 4: a key is used again; the rows of its earlier batch are no rows of the new one.
#[tokio::test]
async fn interrupted_reuse_of_expired_key_is_stored_whole() {
    let world = World::new();
    let batch = world.batch(0, 30_000);
    assert!(world.append(&world.appender(), batch.clone(), Some("nightly")).await.unwrap());
    world.wait(crate::limits::IDEMPOTENCY_SECONDS + 1);
    for segments in 1..3 {
        // The marker, if it is not there yet, and a segment.
        world.die_after(if segments == 1 { 2 } else { 1 });
        world.append(&world.appender(), batch.clone(), Some("nightly")).await.unwrap_err();
        world.live();
        assert_eq!(world.rows().await, 30_000 + 10_000 * segments);
    }
    let appender = world.appender();
    assert!(world.append(&appender, batch.clone(), Some("nightly")).await.unwrap());
    assert_eq!(world.rows().await, 60_000);
    assert!(!world.append(&appender, batch, Some("nightly")).await.unwrap());
}

#[tokio::test]
async fn different_events_under_one_key_are_refused() {
    let world = World::new();
    let appender = world.appender();
    world.append(&appender, world.batch(0, 2), Some("k")).await.unwrap();
    let mut said = String::new();
    for batch in [
        world.batch(0, 3),
        world.batch_of(0, 2, "2026-06-02", 0.5),
        world.batch_of(0, 2, "2026-06-01", 0.25),
        world.batch(7, 2),
    ] {
        let error = world.append(&appender, batch, Some("k")).await.unwrap_err();
        assert!(error.is_conflict());
        said += &format!("{error}\n");
    }
    insta::assert_snapshot!(said);
    assert_eq!(world.rows().await, 2);
}

#[tokio::test]
async fn abandoned_claim_is_fulfilled_by_another_process() {
    let world = World::new();
    let batch = world.batch(0, 5);
    let (digest, parts) = (batch.digest(), batch.clone().into_parts());
    let log = LogId {
        workspace: world.workspace.clone(),
        day: parts.keys().next().unwrap().unwrap(),
        kind: Kind::Predictions,
        lane: 0,
    };
    let (workspace, kind) = (&world.workspace, Kind::Predictions);
    let records = IdempotencyRecords { table: &*world.table, workspace, kind, name: "nightly" };
    let mut record = IdempotencyRecord::new(&digest, 5, Remember::Week, world.clock.now());
    record.after.insert(log, 0);
    records.open(record).await.unwrap();
    world.append(&world.appender(), world.batch(10, 1), None).await.unwrap();
    assert!(world.append(&world.appender(), batch.clone(), Some("nightly")).await.unwrap());
    assert!(!world.append(&world.appender(), batch, Some("nightly")).await.unwrap());
    assert_eq!(world.rows().await, 6);
}
