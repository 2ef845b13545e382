//! Clocks that disagree.

use super::*;

/// The clock of the table, moved.
fn off(world: &World, seconds: i64) -> Clock {
    let clock = world.clock.clone();
    Clock::from_fn(move || clock.now().plus_seconds(seconds))
}

#[tokio::test]
async fn clock_beyond_skew_limit_is_refused_with_times() {
    let world = World::new();
    for (seconds, said) in [(11, "2026-06-10T00:00:11Z"), (-11, "2026-06-09T23:59:49Z")] {
        let appender = Appender::new(Arc::clone(&world.table) as _, off(&world, seconds));
        for (key, lanes) in [(None, 1), (Some("key"), 1), (Some("other"), 4)] {
            let batch = world.batch(0, 3);
            let appended = appender.append(&world.workspace, lanes, batch, key, Remember::Week).await;
            let error = appended.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let error = error.to_string();
            assert!(error.contains(said) && error.contains("2026-06-10T00:00:00Z"), "{error}");
        }
        assert_eq!(world.stored().await.len(), 0);
    }
    for seconds in [10, -10] {
        let appender = Appender::new(Arc::clone(&world.table) as _, off(&world, seconds));
        let batch = world.batch(10 + seconds as usize % 7, 1);
        assert!(world.append(&appender, batch, None).await.unwrap());
    }
    // The times of a history are not compared with those of today.
    let appender = Appender::replaying(Arc::clone(&world.table) as _, off(&world, -400 * 24 * 3600));
    assert!(world.append(&appender, world.batch_of(0, 1, "2025-05-01", 0.5), None).await.unwrap());
}

#[tokio::test]
async fn the_times_of_a_log_never_fall() {
    let world = World::new();
    let ahead = Appender::new(Arc::clone(&world.table) as _, off(&world, 8));
    let behind = Appender::new(Arc::clone(&world.table) as _, off(&world, -8));
    for row in 0..20 {
        let appender = if row % 2 == 0 { &ahead } else { &behind };
        assert!(world.append(appender, world.batch(row, 1), None).await.unwrap());
        // One that knows nothing of the log.
        let new = Appender::new(Arc::clone(&world.table) as _, off(&world, -8));
        assert!(world.append(&new, world.batch(100 + row, 1), None).await.unwrap());
        world.wait(1);
    }
    let head = scan::heads(&*world.table, &world.workspace).await.unwrap().remove(0);
    let segments = scan::segments(&*world.table, &head.log, 1, head.seq).await.unwrap();
    assert_eq!(segments.len(), 40);
    assert!(segments.is_sorted_by_key(|segment| segment.appended_at));
}
