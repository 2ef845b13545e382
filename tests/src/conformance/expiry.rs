//! Items with an expiry. The engine may remove them much later, so they are hidden by the clock.

use event::{ErrorKind, Result};
use table::{Condition, Index, Item, Query, Write, item::Value, query_all};

use super::{Subject, eventually, refused, sort_keys};

fn ending(subject: &Subject, sk: &str, seconds: i64) -> Item {
    subject.item("p", sk).with("expires_at", subject.clock.seconds() + seconds)
}

/// Not by key, not by query, not by index; from the second of their expiry on.
pub async fn what_has_expired_is_not_found(subject: &Subject) -> Result<()> {
    let indexed = ending(subject, "x", 10).with("GSI1PK", subject.pk("i")).with("GSI1SK", "1");
    let indexed = indexed.with("board", subject.pk("i")).with("score", 1);
    subject.table.put(indexed.clone(), Condition::None).await?;
    subject.table.put(subject.item("p", "y"), Condition::None).await?;
    let indexes = [Index::Gsi1, Index::Board].map(|index| Query::index(index, subject.pk("i")));
    subject.clock.forward(9);
    assert_eq!(subject.table.get(&indexed.key).await?.as_ref(), Some(&indexed));
    for query in &indexes {
        eventually(vec![indexed.clone()], || query_all(&*subject.table, query.clone())).await?;
    }
    subject.clock.forward(1);
    assert_eq!(subject.table.get(&indexed.key).await?, None);
    assert_eq!(sort_keys(&query_all(&*subject.table, subject.partition("p")).await?), ["y"]);
    for query in indexes {
        assert_eq!(query_all(&*subject.table, query).await?, []);
    }
    Ok(())
}

/// For every condition, in single writes and in transactions.
pub async fn what_has_expired_counts_as_absent(subject: &Subject) -> Result<()> {
    let table = &subject.table;
    for sk in ["a", "b", "c"] {
        table.put(ending(subject, sk, 10).with("ver", 1), Condition::None).await?;
    }
    let (a, b, c) = (subject.key("p", "a"), subject.key("p", "b"), subject.key("p", "c"));
    refused(table.put(subject.item("p", "a"), Condition::Absent).await, ErrorKind::Conflict);
    subject.clock.forward(10);
    refused(table.put(subject.item("p", "a"), Condition::Exists).await, ErrorKind::Conflict);
    let same = Condition::Equals("ver", Value::from(1));
    refused(table.delete(&a, same.clone()).await, ErrorKind::Conflict);
    refused(table.transact(vec![Write::Add(a.clone(), "ver".into(), 1)]).await, ErrorKind::Conflict);
    refused(table.transact(vec![Write::Check(a.clone(), same)]).await, ErrorKind::Conflict);
    table.put(subject.item("p", "a"), Condition::Absent).await?;
    table.delete(&b, Condition::Absent).await?;
    let writes = vec![Write::Check(b, Condition::Absent), Write::Put(Item::new(c), Condition::Absent)];
    table.transact(writes).await?;
    assert_eq!(sort_keys(&query_all(&**table, subject.partition("p")).await?), ["a", "c"]);
    Ok(())
}

/// All live items are found, however many expired ones are between them.
pub async fn expired_items_take_no_place_in_pages(subject: &Subject) -> Result<()> {
    for at in 0..30 {
        let sk = format!("{at:02}");
        let item = if at % 5 == 4 { subject.item("p", &sk) } else { ending(subject, &sk, 10) };
        subject.table.put(item, Condition::None).await?;
    }
    subject.clock.forward(100);
    let alive = ["04", "09", "14", "19", "24", "29"];
    for limit in [1, 2, 6, 7] {
        let found = query_all(&*subject.table, subject.partition("p").limit(limit)).await?;
        assert_eq!(sort_keys(&found), alive);
    }
    Ok(())
}

/// Nothing of the expired item is kept, and its expiry is not inherited.
pub async fn new_item_replaces_an_expired_one(subject: &Subject) -> Result<()> {
    subject.table.put(ending(subject, "a", 10).with("old", 1), Condition::None).await?;
    subject.clock.forward(20);
    let item = subject.item("p", "a").with("new", 1);
    subject.table.put(item.clone(), Condition::Absent).await?;
    subject.clock.forward(1_000);
    assert_eq!(subject.table.get(&item.key).await?, Some(item));
    Ok(())
}
