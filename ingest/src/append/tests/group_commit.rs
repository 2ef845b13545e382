//! Writers of one log that are appended together.

use super::*;

/// Appends the row 0, and starts appends of the rows from 1 to `rows` while that is written; returns their results.
async fn while_one_is_written(world: &World, appender: &Appender, rows: usize) -> Vec<Result<bool>> {
    let gate = world.table.gate.write().await;
    let append = |row| world.append(appender, world.batch(row, 1), None);
    let following = async {
        while world.table.writes.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        futures::future::join_all((1..rows).map(append)).await
    };
    let release = async {
        while appender.waiting() < rows - 1 {
            tokio::task::yield_now().await;
        }
        drop(gate);
    };
    let (first, following, ()) = tokio::join!(append(0), following, release);
    std::iter::once(first).chain(following).collect()
}

/// Batches that wait for one log are appended together, and fail together.
#[tokio::test]
async fn group_commit_failure_reaches_all_waiters_with_cause() {
    let world = World::new();
    let appender = world.appender();
    world.die_after(1);
    let mut outcomes = while_one_is_written(&world, &appender, 4).await.into_iter();
    assert!(outcomes.next().unwrap().unwrap(), "the first one is written");
    let mut causes = std::collections::BTreeSet::new();
    for error in outcomes.map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), "the process is dead: no power");
        causes.insert(std::ptr::from_ref(error.cause().unwrap()).cast::<()>());
    }
    assert_eq!(causes.len(), 1, "a group has one cause");
}

/// Three segments, the second of which finds the table held by another process.
#[tokio::test]
async fn partial_append_continues_after_transient_failure() {
    let world = World::new();
    world.table.stumbles.store(1, Ordering::Relaxed);
    assert!(world.append(&world.appender(), world.batch(0, 30_000), None).await.unwrap());
    assert!(world.table.stumbles.load(Ordering::Relaxed) < 0, "one has failed");
    assert_eq!(world.rows().await, 30_000);
    // Without any progress the caller has to try again.
    world.table.stumbles.store(0, Ordering::Relaxed);
    let refused = world.append(&world.appender(), world.batch(30_000, 1), None).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
}

/// One of three segments gets in, and then nothing any more: the append ends with an error, is not tried without end, and the
/// same batch sent again is stored once.
#[tokio::test]
async fn partial_append_ends_with_error_when_table_fails() {
    let world = World::new();
    let appender = world.appender();
    world.die_after(1);
    let refused = world.append(&appender, world.batch(0, 30_000), None).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!((world.writes(), world.rows().await), (1, 10_000));
    world.live();
    assert!(world.append(&appender, world.batch(0, 30_000), None).await.unwrap());
    assert_eq!(world.rows().await, 30_000);
    assert!(!world.append(&appender, world.batch(0, 30_000), None).await.unwrap(), "all of it is there");
}

#[tokio::test]
async fn concurrent_appends_share_segments_and_one_write() {
    let world = World::new();
    let appender = world.appender();
    world.append(&appender, world.batch(1_000, 1), None).await.unwrap();
    world.writes();
    let appended = while_one_is_written(&world, &appender, 64).await;
    assert!(appended.into_iter().all(|appended| appended.unwrap()));
    assert_eq!(world.writes(), 2);
    // All of them again, twice at one time, and by two processes.
    let other = world.appender();
    let appends = (0..128).map(|row| {
        world.append(if row % 2 == 0 { &other } else { &appender }, world.batch(row / 2, 1), None)
    });
    assert!(!futures::future::try_join_all(appends).await.unwrap().contains(&true));
    assert_eq!(world.rows().await, 65);
    // One new row appended several times at once is stored by one of them.
    let appends = (0..8).map(|_| world.append(&appender, world.batch(77, 1), None));
    let appended = futures::future::try_join_all(appends).await.unwrap();
    assert_eq!(appended.iter().filter(|appended| **appended).count(), 1);
    assert_eq!(world.rows().await, 66);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_append_to_one_log_without_holes() {
    let world = Arc::new(World::new());
    let mut tasks = tokio::task::JoinSet::new();
    for process in 0..4 {
        let world = Arc::clone(&world);
        tasks.spawn(async move {
            let appender = world.appender();
            for round in 0..20 {
                let first = (process * 20 + round) * 10_000;
                let small = (0..5).map(|row| world.append(&appender, world.batch(first + row, 1), None));
                futures::future::try_join_all(small).await.unwrap();
                let rows = 1 + 577 * (round % 5);
                world.append(&appender, world.batch(first + 10, rows), None).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let stored = world.stored().await;
    assert_eq!(stored.len(), 1);
    let mut keys: Vec<String> = stored.into_values().flatten().collect();
    let expected: usize = 4 * (20 * 5 + 4 * (0..5).map(|round| 1 + 577 * round).sum::<usize>());
    assert_eq!(keys.len(), expected);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), expected, "some events are there twice");
}

/// Segments of a day.
async fn segments(world: &World) -> Vec<Segment> {
    let mut found = Vec::new();
    for head in scan::heads(&*world.table, &world.workspace).await.unwrap() {
        found.extend(scan::segments(&*world.table, &head.log, 1, head.seq).await.unwrap());
    }
    found
}

#[tokio::test]
async fn only_requests_of_equal_columns_share_a_segment() {
    let world = World::new();
    let appender = world.appender();
    let row = |row: usize| {
        let feature = ["a", "b"][row % 2];
        let body = format!(
            r#"{{"key":"k{row}","predicted_at":"2026-06-01T04:30:00Z","release":"v1","value":1,"features":{{"{feature}":{row}}}}}"#
        );
        read_ndjson(Kind::Predictions, body.as_bytes(), world.clock.now()).unwrap()
    };
    // From then on the lanes of the day are known, so no waiting writer is sent elsewhere.
    world.append(&appender, row(0), None).await.unwrap();
    world.writes();
    let gate = world.table.gate.write().await;
    let following = async {
        while world.table.writes.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        futures::future::try_join_all((1..9).map(|at| world.append(&appender, row(at), None))).await
    };
    let release = async {
        while appender.waiting() < 8 {
            tokio::task::yield_now().await;
        }
        drop(gate);
    };
    let (first, following, ()) = tokio::join!(world.append(&appender, row(9), None), following, release);
    assert!(first.unwrap() && following.unwrap().into_iter().all(|stored| stored));
    let segments = segments(&world).await;
    assert_eq!(segments.iter().map(|segment| segment.rows).sum::<usize>(), 10);
    assert_eq!(segments.len(), 4, "the first two, and one of each set of columns");
    for segment in segments {
        let columns = segment.unpack(|name| name.starts_with("feature.")).unwrap();
        assert_eq!(columns.columns.len(), 1);
        assert_eq!(columns.columns[0].nulls(), 0);
    }
}

#[tokio::test]
async fn wide_rows_are_split_into_segments_by_bytes() {
    let world = World::new();
    let appender = world.appender();
    let row = |row: usize| {
        let number = |at: usize| 1.0 / (row * 256 + at + 1) as f64;
        let features: Vec<String> = (0..256).map(|at| format!(r#""f{at}":{:?}"#, number(at))).collect();
        format!(
            r#"{{"key":"k{row}","predicted_at":"2026-06-01T04:30:00Z","release":"v1","value":1,"features":{{{}}}}}"#,
            features.join(",")
        )
    };
    let body = (0..500).map(row).collect::<Vec<_>>().join("\n");
    let batch = read_ndjson(Kind::Predictions, body.as_bytes(), world.clock.now()).unwrap();
    let columns = batch.columns.clone();
    assert!(world.append(&appender, batch, None).await.unwrap());
    let segments = segments(&world).await;
    assert!(segments.iter().all(|segment| segment.item_bytes() <= table::item::MAX_ITEM_BYTES));
    let stored: Vec<_> = segments.iter().map(|segment| segment.unpack(|_| true).unwrap()).collect();
    assert_eq!(event::Columns::concat(&stored.iter().collect::<Vec<_>>()), columns, "bit for bit");
    assert!((4..20).contains(&segments.len()), "{} segments", segments.len());
}
