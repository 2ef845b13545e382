//! Several writes that happen together or not at all.

use std::sync::Arc;

use event::{ErrorKind, Result};
use table::{
    Condition, Index, MAX_TRANSACTION_WRITES, Query, Update, Write,
    item::{Number, Value},
    query_all,
};

use super::{Subject, eventually, joined, refused};

/// One condition that does not hold stops all writes, wherever it stands among them.
pub async fn all_or_nothing(subject: &Subject) -> Result<()> {
    let table = &subject.table;
    table.put(subject.item("p", "taken"), Condition::None).await?;
    let fresh = |sk: &str| Write::Put(subject.item("p", sk), Condition::Absent);
    for at in 0..3 {
        let mut writes = vec![fresh("a"), Write::Add(subject.key("p", "taken"), "n".into(), 1)];
        writes.insert(at, Write::Check(subject.key("p", "nobody"), Condition::Exists));
        let error = refused(table.transact(writes).await, ErrorKind::Conflict);
        assert!(error.contains(&subject.key("p", "nobody").to_string()), "the key is named: {error}");
    }
    refused(table.transact(vec![fresh("a"), fresh("b"), fresh("taken")]).await, ErrorKind::Conflict);
    let found = query_all(&**table, subject.partition("p")).await?;
    assert_eq!(found, [subject.item("p", "taken")]);
    Ok(())
}

/// Put, delete, check and add in one, as when an entity is created.
pub async fn every_kind_of_write_together(subject: &Subject) -> Result<()> {
    let table = &subject.table;
    table.put(subject.item("p", "counter").with("n", 1).with("name", "x"), Condition::None).await?;
    table.put(subject.item("p", "old"), Condition::None).await?;
    table.put(subject.item("p", "parent").with("state", "open"), Condition::None).await?;
    let writes = vec![
        Write::Put(subject.item("p", "new").with("data", vec![1, 2]), Condition::Absent),
        Write::Delete(subject.key("p", "old"), Condition::Exists),
        Write::Check(subject.key("p", "parent"), Condition::Equals("state", Value::from("open"))),
        Write::Add(subject.key("p", "counter"), "n".into(), 41),
    ];
    table.transact(writes.clone()).await?;
    let expected = [
        subject.item("p", "counter").with("n", 42).with("name", "x"),
        subject.item("p", "new").with("data", vec![1, 2]),
        subject.item("p", "parent").with("state", "open"),
    ];
    assert_eq!(query_all(&**table, subject.partition("p")).await?, expected);
    refused(table.transact(writes).await, ErrorKind::Conflict);
    assert_eq!(query_all(&**table, subject.partition("p")).await?, expected);
    Ok(())
}

/// Some attributes change, under a condition, and the rest stays.
pub async fn updates_change_what_they_name(subject: &Subject) -> Result<()> {
    let table = &subject.table;
    let item = subject.item("p", "s").with("a", 1).with("b", "x").with("n", 3).with("data", vec![7; 500]);
    let update = |condition| {
        let update =
            Update::new(item.key.clone(), condition).set("a", 2).set("c", "new").remove("b").remove("none");
        vec![Write::Update(update.add("n", -5).add("m", 1))]
    };
    refused(table.transact(update(Condition::None)).await, ErrorKind::Conflict);
    assert_eq!(table.get(&item.key).await?, None, "an update creates nothing");
    table.put(item.clone(), Condition::None).await?;
    for wrong in [
        Condition::Without("b"),
        Condition::Absent,
        Condition::All(vec![Condition::Without("c"), Condition::Equals("a", 2.into())]),
    ] {
        refused(table.transact(update(wrong)).await, ErrorKind::Conflict);
    }
    assert_eq!(table.get(&item.key).await?, Some(item.clone()));
    let right = vec![Condition::Without("c"), Condition::Equals("a", 1.into()), Condition::Exists];
    table.transact(update(Condition::All(right))).await?;
    let mut expected = item.clone().with("a", 2).with("c", "new").with("n", -2).with("m", 1);
    expected.attributes.remove("b");
    assert_eq!(table.get(&item.key).await?, Some(expected));
    let twice = Update::new(item.key.clone(), Condition::None).set("a", 1).remove("a");
    refused(table.transact(vec![Write::Update(twice)]).await, ErrorKind::Invalid);
    let text = Update::new(item.key.clone(), Condition::None).add("c", 1);
    refused(table.transact(vec![Write::Update(text)]).await, ErrorKind::Invalid);
    // An index follows.
    let place = |pk: &str| {
        Update::new(item.key.clone(), Condition::None).set("GSI1PK", subject.pk(pk)).set("GSI1SK", "i")
    };
    table.transact(vec![Write::Update(place("one"))]).await?;
    table.transact(vec![Write::Update(place("two"))]).await?;
    let in_index = async |pk: &str| {
        query_all(&**table, Query::index(Index::Gsi1, subject.pk(pk))).await.map(|items| items.len())
    };
    eventually((0, 1), || async { Ok((in_index("one").await?, in_index("two").await?)) }).await?;
    Ok(())
}

/// An attribute that is not there counts as 0.
pub async fn add_counts_from_nothing(subject: &Subject) -> Result<()> {
    let item = subject.item("p", "s").with("data", vec![3; 1_000]);
    subject.table.put(item.clone(), Condition::None).await?;
    let add = |amount| subject.table.transact(vec![Write::Add(item.key.clone(), "n".into(), amount)]);
    add(5).await?;
    add(-7).await?;
    assert_eq!(subject.table.get(&item.key).await?, Some(item.clone().with("n", -2)));
    Ok(())
}

/// There is nothing to add to without an item, and no sum with what is no whole number.
pub async fn add_needs_a_whole_number_in_an_item(subject: &Subject) -> Result<()> {
    let item = subject
        .item("p", "s")
        .with("text", "1")
        .with("half", Value::N(Number::parse("0.5")?))
        .with("most", i64::MAX);
    let add = |name: &str| subject.table.transact(vec![Write::Add(item.key.clone(), name.to_owned(), 1)]);
    refused(add("n").await, ErrorKind::Conflict);
    assert_eq!(subject.table.get(&item.key).await?, None, "add creates nothing");
    subject.table.put(item.clone(), Condition::None).await?;
    for name in ["text", "half", "most"] {
        refused(add(name).await, ErrorKind::Invalid);
    }
    assert_eq!(subject.table.get(&item.key).await?, Some(item));
    Ok(())
}

/// The bounds of a transaction.
pub async fn no_item_twice_and_not_too_many(subject: &Subject) -> Result<()> {
    let table = &subject.table;
    let put = |at: usize| Write::Put(subject.item("p", &format!("{at:03}")), Condition::Absent);
    let twice = vec![put(1), Write::Delete(subject.key("p", "001"), Condition::None)];
    refused(table.transact(twice).await, ErrorKind::Invalid);
    refused(table.transact((0..=MAX_TRANSACTION_WRITES).map(put).collect()).await, ErrorKind::Invalid);
    let long = |at: usize| {
        Write::Put(subject.item("p", &format!("{at}")).with("data", vec![0; 390_000]), Condition::None)
    };
    refused(table.transact((0..11).map(long).collect()).await, ErrorKind::Invalid);
    assert!(query_all(&**table, subject.partition("p")).await?.is_empty());
    table.transact((0..MAX_TRANSACTION_WRITES).map(put).collect()).await?;
    assert_eq!(query_all(&**table, subject.partition("p")).await?.len(), MAX_TRANSACTION_WRITES);
    table.transact(Vec::new()).await
}

/// Transactions that meet each other wait or conflict, but count once each.
pub async fn concurrent_adds_are_never_lost(subject: &Subject) -> Result<()> {
    let counter = subject.item("p", "counter");
    subject.table.put(counter.clone(), Condition::Absent).await?;
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let (table, key) = (Arc::clone(&subject.table), counter.key.clone());
            let items: Vec<_> = (0..10).map(|at| subject.item("made", &format!("{worker}-{at}"))).collect();
            tokio::spawn(async move {
                for item in items {
                    let add = Write::Add(key.clone(), "n".into(), 1);
                    let writes = vec![Write::Put(item, Condition::Absent), add];
                    while let Err(error) = table.transact(writes.clone()).await {
                        // An engine may refuse transactions that meet; they are then made again.
                        assert!(
                            matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Throttled),
                            "{error}"
                        );
                    }
                }
                Ok(())
            })
        })
        .collect();
    for worker in workers {
        joined(worker.await)?;
    }
    assert_eq!(subject.table.get(&counter.key).await?, Some(counter.with("n", 80)));
    assert_eq!(query_all(&*subject.table, subject.partition("made")).await?.len(), 80);
    Ok(())
}
