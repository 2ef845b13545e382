//! Deleted data are gone from the file.

use tokio::time::timeout;

use super::*;

/// Long values stand in pages of their own, short ones beside others.
#[tokio::test]
async fn forgetting_erases_all_bytes_of_old_values() {
    let place = Place::new();
    let table = place.open();
    let secret = |n: usize| format!("secret-{n:04}");
    let bytes = || {
        let files = fs::read_dir(place.folder.path()).unwrap();
        files.flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect::<Vec<u8>>()
    };
    let found = |bytes: &[u8]| bytes.windows(7).filter(|window| window == b"secret-").count();
    for n in 0..40 {
        let text = secret(n).repeat(if n % 2 == 0 { 1 } else { 5_000 });
        table
            .put(
                item(format!("{n}")).with("text", text.as_str()).with("data", text.into_bytes()),
                Condition::Absent,
            )
            .await
            .unwrap();
    }
    assert!(found(&bytes()) > 40);
    for n in 0..40 {
        match n % 4 {
            0 | 1 => table.delete(&item(format!("{n}")).key, Condition::None).await.unwrap(),
            _ => table.put(item(format!("{n}")).with("text", "short"), Condition::Exists).await.unwrap(),
        }
    }
    // Others write and read meanwhile.
    let second = item("2").key;
    let (forgotten, written, read) =
        tokio::join!(table.forget_deleted(), table.put(item("other"), Condition::None), table.get(&second),);
    // The read may block it.
    assert!(forgotten.is_ok() || forgotten.is_err_and(|error| error.kind() == ErrorKind::Unavailable));
    written.unwrap();
    assert!(read.unwrap().is_some());
    table.forget_deleted().await.unwrap();
    assert_eq!(found(&bytes()), 0);
    drop(table);
    assert_eq!(found(&bytes()), 0);
}

/// Exports and backups read one state of the file for long.
#[tokio::test]
async fn open_reader_delays_forgetting_but_not_writes() {
    let place = Place::new();
    // A write that waited for the reader would wait for longer than this test does.
    let table = SqliteTable::open_with(&place.path(), place.clock(), Create::Missing, 360 * LONG).unwrap();
    table.put(item("a"), Condition::None).await.unwrap();
    let reader = scan::connection(&place.path()).unwrap();
    table.delete(&item("a").key, Condition::None).await.unwrap();
    let refused = timeout(LONG, table.forget_deleted()).await.expect("it does not wait for the reader");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    let written = timeout(LONG, table.put(item("b"), Condition::None)).await.expect("nor does a write");
    written.unwrap();
    drop(reader);
    table.forget_deleted().await.unwrap();
}

#[test]
fn emptying_the_wal_keeps_the_busy_timeout() {
    let place = Place::new();
    let connection = open::writer(&place.path(), Create::Missing, LONG).unwrap();
    let waits = || connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0)).unwrap();
    let usual = waits();
    assert_eq!(u128::from(usual), LONG.as_millis());
    open::empty_wal(&connection).unwrap();
    assert_eq!(waits(), usual);
    let reader = scan::connection(&place.path()).unwrap();
    connection.pragma_update(None, "user_version", schema::VERSION).unwrap();
    open::empty_wal(&connection).unwrap_err();
    assert_eq!(waits(), usual);
    drop(reader);
}
