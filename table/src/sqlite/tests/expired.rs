//! Expired items are removed from the file, by a date that the clock has had for long.

use super::*;

#[tokio::test]
async fn expired_items_leave_in_batches_with_feed_entries() {
    let place = Place::new();
    let table = place.open();
    let expires_at = place.seconds.load(Ordering::SeqCst) + 10;
    for chunk in 0..12 {
        let put = |at| {
            Write::Put(item(format!("{chunk:02}-{at:03}")).with("expires_at", expires_at), Condition::None)
        };
        table.transact((0..100).map(put).collect()).await.unwrap();
    }
    place.forward(100);
    let stored = || {
        let count = "SELECT count(*) FROM item WHERE expires_at IS NOT NULL";
        Connection::open(place.path()).unwrap().query_row(count, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    // A clock that is ahead by weeks removes nothing for good.
    place.forward(25 * 24 * 60 * 60);
    table.put(item("tick"), Condition::None).await.unwrap();
    assert_eq!(stored(), 1_200);
    // Nor does a clock that has had its date for a short time only.
    place.forward(5 * 24 * 60 * 60);
    table.put(item("tick"), Condition::None).await.unwrap();
    assert_eq!(stored(), 1_200);
    let table = place.open();
    let start = table.changes(feed::SHARD, &Position::Latest, Duration::ZERO).await.unwrap();
    table.put(item("tick"), Condition::None).await.unwrap();
    assert_eq!(stored(), 1_200, "nor that of a process that has just begun");
    let mut connection = open::writer(&place.path(), Create::Never, LONG).unwrap();
    let (mut upkeep, begun) = (upkeep::Upkeep::default(), tokio::time::Instant::now());
    let mut left = Vec::new();
    for minutes in [0, 59, 60, 61, 62, 63] {
        let transaction = connection.transaction().unwrap();
        let at = begun + Duration::from_secs(minutes * 60);
        upkeep.run(&transaction, place.clock().now(), at).unwrap();
        transaction.commit().unwrap();
        left.push(stored());
    }
    assert_eq!(left, [1_200, 1_200, 700, 200, 0, 0]);
    let mut told = 0;
    let mut position = after(&start).clone();
    while told < 1_201 {
        let changes = table.changes(feed::SHARD, &position, Duration::ZERO).await.unwrap();
        assert!(!changes.keys.is_empty());
        told += changes.keys.len();
        position = after(&changes).clone();
    }
}
