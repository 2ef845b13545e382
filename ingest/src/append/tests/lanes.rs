//! Lanes: one order of the events of a key.

use super::*;

/// Bug 13: with a lane by the batch, a second change of lanes within an hour made a repeat look in the
/// wrong place.
#[tokio::test]
async fn lanes_changed_twice_within_an_hour_double_nothing() {
    let world = World::new();
    let catalog = Catalog::new(Arc::clone(&world.table) as _);
    let appender = world.appender();
    let append = async |appender: &Appender, row, day: &str, key: Option<&str>| {
        let lanes = catalog.settings(&world.workspace).await.unwrap().lanes();
        let batch = world.batch_of(row, 3, day, 0.5);
        appender.append(&world.workspace, lanes, batch, key, Remember::Week).await.unwrap().replayed
    };
    for (count, day) in [(1, "2026-06-01"), (4, "2026-06-02"), (2, "2026-06-03")] {
        catalog.change_settings(&world.workspace, |settings| settings.lanes = Some(count)).await.unwrap();
        for row in 0..20 {
            assert!(!append(&appender, 10 * row, day, None).await);
            assert!(!append(&appender, 1_000 + 10 * row, day, Some(&format!("{day}-{row}"))).await);
        }
    }
    world.wait(REPEAT_SECONDS / 2);
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        for row in 0..20 {
            assert!(append(&appender, 10 * row, day, None).await, "{day}: a repeat");
            assert!(append(&world.appender(), 10 * row, day, None).await, "{day}: a repeat elsewhere");
            let key = format!("{day}-{row}");
            assert!(append(&world.appender(), 1_000 + 10 * row, day, Some(&key)).await, "{day}: with a key");
        }
    }
    let stored = world.stored().await;
    let lanes = |day: &str| stored.keys().filter(|log| log.contains(day)).count();
    assert_eq!(["2026-06-01", "2026-06-02", "2026-06-03"].map(lanes), [1, 4, 2]);
    assert_eq!(stored.values().map(Vec::len).sum::<usize>(), 3 * 2 * 60);
}

/// The scores that stand in the order of places, for one key.
async fn last_scores(world: &World) -> BTreeMap<String, f64> {
    let mut segments = Vec::new();
    for head in scan::heads(&*world.table, &world.workspace).await.unwrap() {
        segments.extend(scan::segments(&*world.table, &head.log, 1, head.seq).await.unwrap());
    }
    segments.sort_by_key(Segment::place);
    let mut last = BTreeMap::new();
    for segment in segments {
        let columns = segment.unpack(|_| true).unwrap();
        for row in 0..columns.rows {
            let key = columns.column("key").unwrap().text(row).unwrap().to_owned();
            last.insert(key, columns.column("score").unwrap().float(row).unwrap());
        }
    }
    last
}

/// Bug 5: with a lane by the batch, 79 of 200 corrected predictions kept the old score.
#[tokio::test]
async fn a_corrected_prediction_counts_with_four_lanes() {
    let world = World::new();
    let lanes = 4;
    for score in [0.9, 0.1, 0.7] {
        for row in 0..200 {
            let batch = world.batch_of(row, 1, "2026-06-01", score);
            // Each by a process of its own.
            let receipt = world.appender().append(&world.workspace, lanes, batch, None, Remember::Week).await;
            assert_eq!(receipt.unwrap().appended, 1);
        }
    }
    assert_eq!(world.stored().await.len(), 4);
    let last = last_scores(&world).await;
    assert_eq!(last.values().filter(|score| **score != 0.7).count(), 0, "of {}", last.len());
    assert_eq!(last.len(), 200);
}

/// The first writer of a day sets how many lanes it has; the second one deals its events again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_with_different_lane_counts_agree_on_day() {
    let world = Arc::new(World::new());
    let mut found = BTreeMap::<usize, usize>::new();
    for day in 1..=28 {
        let mut tasks = tokio::task::JoinSet::new();
        for (process, lanes) in [1, 4, 1].into_iter().enumerate() {
            let world = Arc::clone(&world);
            tasks.spawn(async move {
                let day = format!("2026-05-{day:02}");
                let appender = world.appender();
                for (row, key) in [(0, None), (10, Some("a")), (20, None), (30, Some("b"))] {
                    let key = key.map(|key| format!("{day}-{process}-{key}"));
                    let batch = world.batch_of(row + 100 * process, 10, &day, 0.5);
                    let append = async |batch| {
                        let remember = Remember::Week;
                        appender.append(&world.workspace, lanes, batch, key.as_deref(), remember).await
                    };
                    assert_eq!(append(batch.clone()).await.unwrap().appended, 10);
                    assert_eq!(append(batch).await.unwrap().appended, 0);
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let name = format!("2026-05-{day:02}");
        let stored = world.stored().await;
        let logs: Vec<_> = stored.iter().filter(|(log, _)| log.contains(&name)).collect();
        assert_eq!(logs.iter().map(|(_, keys)| keys.len()).sum::<usize>(), 120, "{name}");
        for (log, keys) in &logs {
            let lane: u8 = log.rsplit_once('/').unwrap().1.parse().unwrap();
            assert!(keys.iter().all(|key| lane_of(key, logs.len() as u8) == lane), "{log}: {keys:?}");
        }
        *found.entry(logs.len()).or_default() += 1;
    }
    assert!(found.keys().all(|lanes| [1, 4].contains(lanes)), "{found:?}");
}

#[tokio::test]
async fn release_events_stay_in_one_lane() {
    let world = World::new();
    let lanes = 16;
    let row = |row: usize| {
        format!(
            r#"{{"release":"v{row}","released_at":"2026-06-01T00:00:00Z","model":"m","action":"register"}}"#
        )
    };
    let body = (0..20).map(row).collect::<Vec<_>>().join("\n");
    let batch = read_ndjson(Kind::Releases, body.as_bytes(), world.clock.now()).unwrap();
    world.appender().append(&world.workspace, lanes, batch, None, Remember::Week).await.unwrap();
    let heads = scan::heads(&*world.table, &world.workspace).await.unwrap();
    assert_eq!(heads.iter().map(|head| (head.log.lane, head.seq)).collect::<Vec<_>>(), [(0, 1)]);
}
