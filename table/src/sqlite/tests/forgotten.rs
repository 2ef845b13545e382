//! What was deleted is gone from the file.

use super::*;

/// Long values stand in pages of their own, short ones beside others.
#[tokio::test]
async fn nothing_is_left_of_what_was_deleted_or_written_over_once_it_is_forgotten() {
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
    forgotten.unwrap();
    written.unwrap();
    assert!(read.unwrap().is_some());
    table.forget_deleted().await.unwrap();
    assert_eq!(found(&bytes()), 0);
    drop(table);
    assert_eq!(found(&bytes()), 0);
}
