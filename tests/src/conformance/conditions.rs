//! Single writes and their conditions.

use std::{sync::Arc, time::Duration};

use event::{ErrorKind, Result};
use table::{Condition, item::Value, query_all};

use super::{PATIENCE, Subject, joined, refused};

/// `Absent` admits the first writer and no other.
pub async fn an_absent_key_can_be_claimed_once(subject: &Subject) -> Result<()> {
    let (table, item) = (&subject.table, subject.item("p", "s"));
    table.put(item.clone().with("n", 1), Condition::Absent).await?;
    let error = refused(table.put(item.clone().with("n", 2), Condition::Absent).await, ErrorKind::Conflict);
    assert!(error.contains(&item.key.to_string()), "the key is named: {error}");
    assert_eq!(table.get(&item.key).await?, Some(item.with("n", 1)));
    // An equal sort key in another partition is another item.
    table.put(subject.item("q", "s"), Condition::Absent).await
}

/// `Exists` admits no writer if there is no item.
pub async fn an_item_must_exist(subject: &Subject) -> Result<()> {
    let (table, item) = (&subject.table, subject.item("p", "s"));
    refused(table.put(item.clone(), Condition::Exists).await, ErrorKind::Conflict);
    assert_eq!(table.get(&item.key).await?, None);
    table.put(item.clone(), Condition::None).await?;
    table.put(item.with("n", 2), Condition::Exists).await
}

/// `Equals` compares type and value of one attribute of an existing item.
pub async fn an_attribute_must_be_equal(subject: &Subject) -> Result<()> {
    let (table, key) = (&subject.table, subject.key("p", "s"));
    let item = subject
        .item("p", "s")
        .with("ver", 7)
        .with("name", "x")
        .with("empty", "")
        .with("data", vec![1, 2])
        .with("list", vec![Value::from(1)]);
    let demand = |name, value| table.put(item.clone(), Condition::Equals(name, value));
    refused(demand("ver", Value::from(7)).await, ErrorKind::Conflict);
    table.put(item.clone(), Condition::None).await?;
    for (name, value) in [
        ("ver", Value::from(8)),
        ("ver", Value::from("7")),
        ("absent", Value::from(7)),
        ("absent", Value::Null),
        ("empty", Value::Null),
        ("data", Value::B(vec![1, 3])),
        ("list", Value::L(Vec::new())),
    ] {
        refused(demand(name, value).await, ErrorKind::Conflict);
    }
    for (name, value) in &item.attributes {
        let name = ["ver", "name", "empty", "data", "list"].into_iter().find(|known| known == name);
        demand(name.unwrap_or_default(), value.clone()).await?;
    }
    assert_eq!(table.get(&key).await?, Some(item));
    Ok(())
}

/// A delete has the conditions of a put; without one it may find nothing to delete.
pub async fn deletes_have_conditions_too(subject: &Subject) -> Result<()> {
    let (table, item) = (&subject.table, subject.item("p", "s").with("ver", 1));
    table.delete(&item.key, Condition::None).await?;
    table.delete(&item.key, Condition::Absent).await?;
    refused(table.delete(&item.key, Condition::Exists).await, ErrorKind::Conflict);
    table.put(item.clone(), Condition::None).await?;
    refused(table.delete(&item.key, Condition::Absent).await, ErrorKind::Conflict);
    refused(table.delete(&item.key, Condition::Equals("ver", Value::from(2))).await, ErrorKind::Conflict);
    assert!(table.get(&item.key).await?.is_some());
    table.delete(&item.key, Condition::Equals("ver", Value::from(1))).await?;
    assert_eq!(table.get(&item.key).await?, None);
    Ok(())
}

/// Attributes of the previous item are not kept.
pub async fn a_put_replaces_the_whole_item(subject: &Subject) -> Result<()> {
    let (table, item) = (&subject.table, subject.item("p", "s"));
    table.put(item.clone().with("a", 1).with("data", vec![1]), Condition::None).await?;
    table.put(item.clone().with("b", 2), Condition::None).await?;
    assert_eq!(table.get(&item.key).await?, Some(item.with("b", 2)));
    Ok(())
}

/// Conditions are evaluated together with the write.
pub async fn of_many_writers_of_one_key_one_wins(subject: &Subject) -> Result<()> {
    for round in 0..5 {
        let racers: Vec<_> = (0..16)
            .map(|racer| {
                let table = Arc::clone(&subject.table);
                let item = subject.item("p", &format!("{round}")).with("racer", racer);
                tokio::spawn(async move { Ok(table.put(item, Condition::Absent).await.map(|()| racer)) })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            match joined(racer.await)? {
                Ok(winner) => winners.push(winner),
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
        let item = subject.table.get(&subject.key("p", &format!("{round}"))).await?;
        assert_eq!(
            winners,
            [item.map_or(-1, |item| item.int("racer").unwrap_or(-1))],
            "one wins, and is stored"
        );
    }
    Ok(())
}

/// Read, decide, write under the condition that nothing has changed, as the projector does.
pub async fn increments_under_a_condition_are_never_lost(subject: &Subject) -> Result<()> {
    let item = subject.item("p", "s");
    subject.table.put(item.clone().with("ver", 0), Condition::Absent).await?;
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (table, item) = (Arc::clone(&subject.table), item.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while done < 10 {
                    let seen = table.get(&item.key).await?.map_or(Ok(0), |item| item.int("ver"))?;
                    let condition = Condition::Equals("ver", Value::from(seen));
                    match table.put(item.clone().with("ver", seen + 1), condition).await {
                        Ok(()) => done += 1,
                        Err(error) if error.is_conflict() => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            })
        })
        .collect();
    for worker in workers {
        joined(worker.await)?;
    }
    assert_eq!(subject.table.get(&item.key).await?, Some(item.with("ver", 80)));
    Ok(())
}

/// A get and a query of the table itself see every write that has returned.
pub async fn what_was_written_is_read_at_once(subject: &Subject) -> Result<()> {
    for at in 0..50 {
        let item = subject.item("p", "s").with("at", at);
        subject.table.put(item.clone(), Condition::None).await?;
        assert_eq!(subject.table.get(&item.key).await?.as_ref(), Some(&item));
        assert_eq!(query_all(&*subject.table, subject.partition("p")).await?, [item]);
    }
    Ok(())
}

/// `put_new` writes in order, never over an existing item, and returns the number written.
pub async fn new_items_are_written_until_first_existing_one(subject: &Subject) -> Result<()> {
    let table = &subject.table;
    let item = |sk: &str, n: i64| subject.item("p", sk).with("n", n);
    let items: Vec<_> = ["a", "b", "c"].into_iter().zip(1..).map(|(sk, n)| item(sk, n)).collect();
    let (written, result) = table.put_new(items.clone(), PATIENCE).await;
    assert_eq!(written, 3);
    result?;
    assert_eq!(query_all(&**table, subject.partition("p")).await?, items);
    // An engine may write several together, and then none of them.
    let more = ["d", "b", "e"].map(|sk| item(sk, 9));
    let (written, result) = table.put_new(more.clone().into(), PATIENCE).await;
    refused(result, ErrorKind::Conflict);
    let found = query_all(&**table, subject.partition("p")).await?;
    let expected = items.iter().chain(&more[..written.min(1)]);
    assert_eq!(found.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{written} written");
    assert!(written <= 1);
    let (written, result) = table.put_new(Vec::new(), PATIENCE).await;
    assert_eq!(written, 0);
    result
}

/// A condition that holds only for a while is not written later.
pub async fn new_items_are_not_begun_after_timeout(subject: &Subject) -> Result<()> {
    let items: Vec<_> = ["a", "b"].into_iter().map(|sk| subject.item("p", sk)).collect();
    let (written, result) = subject.table.put_new(items.clone(), Duration::ZERO).await;
    assert_eq!(written, 0);
    match result.map_err(|error| error.kind()) {
        Err(ErrorKind::Throttled) => assert_eq!(subject.table.get(&items[0].key).await?, None),
        // It was begun, and its answer was not awaited.
        Err(ErrorKind::Unavailable) => {}
        other => panic!("should be too late, but gives {other:?}"),
    }
    assert_eq!(subject.table.get(&items[1].key).await?, None);
    Ok(())
}
