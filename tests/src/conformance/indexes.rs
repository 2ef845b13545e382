//! The two indexes, which may lag behind the table.

use std::collections::BTreeSet;

use event::Result;
use table::{
    Condition, Index, Item, KeyRange, Query,
    item::{Number, Value},
    query_all,
};

use super::{Subject, eventually, sort_keys};

async fn found(subject: &Subject, query: Query) -> Result<Vec<String>> {
    let items = query_all(&*subject.table, query).await?;
    Ok(sort_keys(&items).into_iter().map(str::to_owned).collect())
}

async fn expect(subject: &Subject, query: &Query, expected: &[&str]) -> Result<()> {
    let expected: Vec<String> = expected.iter().map(|&key| key.to_owned()).collect();
    eventually(expected, || found(subject, query.clone())).await
}

fn in_gsi1(subject: &Subject, sk: &str, pk: &str, sort: &str) -> Item {
    subject.item("p", sk).with("GSI1PK", subject.pk(pk)).with("GSI1SK", sort)
}

fn on_leaderboard(subject: &Subject, sk: &str, leaderboard: &str, score: &str) -> Result<Item> {
    let score = Value::N(Number::parse(score)?);
    Ok(subject.item("p", sk).with("board", subject.pk(leaderboard)).with("score", score))
}

/// An index follows the item that stands in it, and gives it whole.
pub async fn an_item_appears_moves_and_disappears(subject: &Subject) -> Result<()> {
    let (a, b) = (Query::index(Index::Gsi1, subject.pk("a")), Query::index(Index::Gsi1, subject.pk("b")));
    let leaderboard = Query::index(Index::Board, subject.pk("a"));
    let item = on_leaderboard(subject, "x", "a", "1")?.with("data", vec![1; 500]);
    let item = item.with("GSI1PK", subject.pk("a")).with("GSI1SK", "1");
    subject.table.put(item.clone(), Condition::None).await?;
    for query in [&a, &leaderboard] {
        eventually(vec![item.clone()], || query_all(&*subject.table, query.clone())).await?;
    }
    let only = a.clone().only(&["score"]);
    let bare = subject.item("p", "x").with("score", 1);
    eventually(vec![bare], || query_all(&*subject.table, only.clone())).await?;

    subject.table.put(in_gsi1(subject, "x", "b", "1"), Condition::None).await?;
    expect(subject, &b, &["x"]).await?;
    expect(subject, &a, &[]).await?;
    expect(subject, &leaderboard, &[]).await?;

    subject.table.put(subject.item("p", "x"), Condition::None).await?;
    expect(subject, &b, &[]).await?;
    subject.table.put(in_gsi1(subject, "x", "b", "1"), Condition::None).await?;
    expect(subject, &b, &["x"]).await?;
    subject.table.delete(&subject.key("p", "x"), Condition::None).await?;
    expect(subject, &b, &[]).await
}

/// Both attributes, or the item does not stand there.
pub async fn half_a_key_is_not_in_the_index(subject: &Subject) -> Result<()> {
    let (gsi1, leaderboard) =
        (Query::index(Index::Gsi1, subject.pk("i")), Query::index(Index::Board, subject.pk("i")));
    let halves = [
        subject.item("p", "a").with("GSI1PK", subject.pk("i")).with("score", 1),
        subject.item("p", "b").with("GSI1SK", "1").with("board", subject.pk("i")),
        in_gsi1(subject, "c", "i", "1"),
        on_leaderboard(subject, "d", "i", "1")?,
    ];
    for item in halves {
        subject.table.put(item.clone(), Condition::None).await?;
        assert_eq!(subject.table.get(&item.key).await?, Some(item));
    }
    expect(subject, &gsi1, &["c"]).await?;
    expect(subject, &leaderboard, &["d"]).await
}

/// A range of an index is one of its own sort key.
pub async fn index_reads_by_range_in_both_directions(subject: &Subject) -> Result<()> {
    for (sk, sort) in [("1", "d"), ("2", "c"), ("3", "b"), ("4", "a")] {
        subject.table.put(in_gsi1(subject, sk, "i", sort), Condition::None).await?;
    }
    let all = Query::index(Index::Gsi1, subject.pk("i"));
    expect(subject, &all, &["4", "3", "2", "1"]).await?;
    expect(subject, &all.clone().backward(), &["1", "2", "3", "4"]).await?;
    let range = KeyRange { pk: subject.pk("i"), from: "b".into(), to: "c".into() };
    let middle = Query { range, ..all };
    expect(subject, &middle, &["3", "2"]).await?;
    expect(subject, &middle.clone().backward(), &["2", "3"]).await?;
    let first = subject.table.query(&middle.clone().backward().limit(1)).await?;
    assert_eq!(sort_keys(&first.items), ["2"]);
    Ok(())
}

/// By value, not by text, and to the last bit.
pub async fn scores_are_ordered_as_numbers(subject: &Subject) -> Result<()> {
    let scores =
        ["-1e100", "-10", "-9", "-0.5", "0", "1e-100", "0.3", "0.30000000000000004", "9", "10", "1e100"];
    for (at, score) in scores.iter().enumerate().rev() {
        subject.table.put(on_leaderboard(subject, &format!("{at:02}"), "i", score)?, Condition::None).await?;
    }
    let sorted: Vec<String> = (0..scores.len()).map(|at| format!("{at:02}")).collect();
    let mut sorted: Vec<&str> = sorted.iter().map(String::as_str).collect();
    let all = Query::index(Index::Board, subject.pk("i"));
    expect(subject, &all, &sorted).await?;
    expect(subject, &all.clone().limit(1), &sorted).await?;
    sorted.reverse();
    expect(subject, &all.clone().backward(), &sorted).await?;
    expect(subject, &all.backward().limit(2), &sorted).await
}

/// Whatever the size of the page, each entry comes once, also among equal ones.
pub async fn pages_of_an_index_miss_nothing(subject: &Subject) -> Result<()> {
    let mut expected = BTreeSet::new();
    for at in 0..30 {
        let item =
            on_leaderboard(subject, &format!("{at:02}"), "i", ["0.1", "7", "0.30000000000000004"][at % 3])?;
        let item = item.with("GSI1PK", subject.pk("i")).with("GSI1SK", format!("{}", at / 10));
        expected.insert(item.key.sk.clone());
        subject.table.put(item, Condition::None).await?;
    }
    for index in [Index::Gsi1, Index::Board] {
        let all = Query::index(index, subject.pk("i"));
        eventually(30, || async { Ok(found(subject, all.clone()).await?.len()) }).await?;
        for limit in [1, 4, 30] {
            for query in [all.clone().limit(limit), all.clone().limit(limit).backward()] {
                let keys = found(subject, query).await?;
                assert_eq!(keys.len(), 30, "each once");
                assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
    }
    Ok(())
}
