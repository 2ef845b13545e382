//! Reading ranges: order, limits, pages.

use event::{ErrorKind, Result};
use table::{Condition, Item, MAX_PAGE_BYTES, Query, query_all};

use super::{Subject, refused, sort_keys};

async fn fill<'a>(subject: &Subject, pk: &str, keys: impl IntoIterator<Item = &'a str>) -> Result<()> {
    for sk in keys {
        subject.table.put(subject.item(pk, sk), Condition::Absent).await?;
    }
    Ok(())
}

/// By UTF-8 bytes, not by UTF-16 units (which would put the emoji before the ligature), not by
/// locale, not by length.
pub async fn sort_keys_are_compared_by_utf8_bytes(subject: &Subject) -> Result<()> {
    let sorted = [
        "\u{1}",
        " ",
        "!",
        "0",
        "10",
        "9",
        "A",
        "Z",
        "a",
        "aa",
        "b",
        "~",
        "é",
        "ß",
        "\u{fb00}",
        "😀",
        "\u{10ffff}",
    ];
    let mut expected = sorted.to_vec();
    expected.sort_unstable_by_key(|key| key.as_bytes());
    fill(subject, "p", sorted.into_iter().rev()).await?;
    let found = query_all(&*subject.table, subject.partition("p")).await?;
    assert_eq!(sort_keys(&found), expected);
    expected.reverse();
    let found = query_all(&*subject.table, subject.partition("p").backward()).await?;
    assert_eq!(sort_keys(&found), expected);
    Ok(())
}

/// From and to belong to the range; a range that ends before it begins is empty.
pub async fn ranges_include_both_ends(subject: &Subject) -> Result<()> {
    fill(subject, "p", ["a", "b", "b1", "c", "d"]).await?;
    let cases: [(&str, &str, &[&str]); 7] = [
        ("b", "c", &["b", "b1", "c"]),
        ("b", "b", &["b"]),
        ("aa", "b~", &["b", "b1"]),
        ("e", "z", &[]),
        ("", "a", &["a"]),
        ("c", "b", &[]),
        ("", "~", &["a", "b", "b1", "c", "d"]),
    ];
    for (from, to, expected) in cases {
        let range = subject.range("p", from, to);
        assert_eq!(sort_keys(&query_all(&*subject.table, range.clone()).await?), expected, "{from}..{to}");
        let mut found = query_all(&*subject.table, range.backward()).await?;
        found.reverse();
        assert_eq!(sort_keys(&found), expected, "{from}..{to} backward");
    }
    Ok(())
}

/// A page has at most so many items, and the pages together have them all.
pub async fn limits_bound_a_page(subject: &Subject) -> Result<()> {
    let keys: Vec<String> = (0..25).map(|at| format!("{at:02}")).collect();
    fill(subject, "p", keys.iter().map(String::as_str)).await?;
    for limit in [1, 10, 25, 26, 1_000] {
        for query in [subject.partition("p"), subject.partition("p").backward()] {
            let pages = pages(subject, query.clone().limit(limit)).await?;
            assert!(pages.iter().all(|page| page.len() <= limit));
            let together: Vec<_> = pages.concat();
            assert_eq!(together, query_all(&*subject.table, query).await?, "limit {limit}");
            assert_eq!(together.len(), 25);
        }
    }
    refused(subject.table.query(&subject.partition("p").limit(0)).await, ErrorKind::Invalid);
    let nothing = subject.table.query(&subject.partition("nobody")).await?;
    assert!(nothing.items.is_empty() && nothing.next.is_none());
    Ok(())
}

/// Long items fill a page before its limit does.
pub async fn pages_end_at_a_megabyte(subject: &Subject) -> Result<()> {
    let long = |at: usize| subject.item("p", &format!("{at:02}")).with("data", vec![at as u8; 150_000 + at]);
    let expected: Vec<Item> = (0..20).map(long).collect();
    for item in &expected {
        subject.table.put(item.clone(), Condition::Absent).await?;
    }
    for backward in [false, true] {
        let query = subject.partition("p");
        let query = if backward { query.backward() } else { query };
        let pages = pages(subject, query).await?;
        assert!(pages.len() > 2);
        for page in &pages {
            assert!(page.iter().map(Item::size).sum::<usize>() <= MAX_PAGE_BYTES);
        }
        let mut together = pages.concat();
        if backward {
            together.reverse();
        }
        assert_eq!(together, expected);
    }
    Ok(())
}

/// A partition whose name begins like another one's is another one.
pub async fn partitions_are_apart(subject: &Subject) -> Result<()> {
    for pk in ["p", "p/", "p/x", "q"] {
        fill(subject, pk, [pk]).await?;
    }
    for pk in ["p", "p/", "p/x", "q"] {
        assert_eq!(sort_keys(&query_all(&*subject.table, subject.partition(pk)).await?), [pk]);
    }
    Ok(())
}

/// Keys always come along; an attribute that an item has not got is left out.
pub async fn only_the_attributes_asked_for_are_read(subject: &Subject) -> Result<()> {
    let bare = subject.item("p", "s");
    let item = bare.clone().with("a", 1).with("b", "x").with("data", vec![9; 1_000]).with("GSI1PK", "g");
    subject.table.put(item.clone(), Condition::None).await?;
    let cases: [(&[&str], Item); 5] = [
        (&["b", "absent"], bare.clone().with("b", "x")),
        (&["data"], bare.clone().with("data", vec![9; 1_000])),
        (&["GSI1PK", "a"], bare.clone().with("a", 1).with("GSI1PK", "g")),
        (&["absent"], bare.clone()),
        (&["a", "b", "data", "GSI1PK"], item.clone()),
    ];
    for (only, expected) in cases {
        let found = query_all(&*subject.table, subject.partition("p").only(only)).await?;
        assert_eq!(found, [expected], "{only:?}");
    }
    Ok(())
}

/// A cursor stays good when the item it stands on is deleted and others come and go.
pub async fn writes_between_pages_do_no_harm(subject: &Subject) -> Result<()> {
    fill(subject, "p", ["a", "b", "c", "d", "e"]).await?;
    let mut query = subject.partition("p").limit(2);
    let first = subject.table.query(&query).await?;
    assert_eq!(sort_keys(&first.items), ["a", "b"]);
    subject.table.delete(&subject.key("p", "b"), Condition::Exists).await?;
    subject.table.delete(&subject.key("p", "d"), Condition::Exists).await?;
    fill(subject, "p", ["aa", "cc"]).await?;
    query.after = first.next;
    assert_eq!(sort_keys(&query_all(&*subject.table, query).await?), ["c", "cc", "e"]);
    Ok(())
}

async fn pages(subject: &Subject, mut query: Query) -> Result<Vec<Vec<Item>>> {
    let mut pages = Vec::new();
    loop {
        let page = subject.table.query(&query).await?;
        pages.push(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(pages),
        }
    }
}
