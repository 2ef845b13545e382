//! Round trips of values, and refusals of those that cannot be stored.

use event::{ErrorKind, Result};
use table::{
    Condition, Item, Key,
    check::{MAX_DEPTH, MAX_PK_BYTES, MAX_SK_BYTES},
    item::{MAX_ITEM_BYTES, Number, Value},
    query_all,
};

use super::{Subject, map, refused};

/// Writes an item and requires it back, by key and by query.
async fn round_trip(subject: &Subject, item: Item) -> Result<()> {
    subject.table.put(item.clone(), Condition::None).await?;
    assert_eq!(subject.table.get(&item.key).await?.as_ref(), Some(&item));
    let found = query_all(&*subject.table, subject.partition("p")).await?;
    assert!(found.contains(&item), "{:?}", item.key);
    Ok(())
}

/// Every type, empty and nested.
pub async fn every_type_comes_back_as_it_was(subject: &Subject) -> Result<()> {
    let nested = (1..MAX_DEPTH).fold(Value::from(1), |value, depth| match depth % 2 {
        0 => Value::L(vec![value, Value::Null]),
        _ => map([("in", value), ("beside", Value::Bool(true))]),
    });
    let item = subject
        .item("p", "s")
        .with("text", "x")
        .with("empty text", "")
        .with("number", -12)
        .with("bytes", vec![0, 1, 255])
        .with("empty bytes", Vec::<u8>::new())
        .with("true", Value::Bool(true))
        .with("false", Value::Bool(false))
        .with("null", Value::Null)
        .with("empty list", Vec::<Value>::new())
        .with("empty map", map([]))
        .with("list", vec![Value::from("a"), Value::from(1), Value::B(vec![7]), Value::L(Vec::new())])
        .with("texts", Value::Ss(["a", "ü", ""].map(str::to_owned).into()))
        .with("numbers", Value::Ns([Number::from(7), Number::parse("-0.5")?].into()))
        .with("map", map([("a.b", Value::from(1)), ("#c", map([("ü", Value::Null)]))]))
        .with("nested", nested);
    round_trip(subject, item).await?;
    round_trip(subject, subject.item("p", "nothing but the key")).await
}

/// Whole numbers exactly, others to the last bit of a double.
pub async fn numbers_come_back_as_they_were(subject: &Subject) -> Result<()> {
    let texts = [
        "0",
        "-1",
        "0.1",
        "0.30000000000000004",
        "-2.5",
        "9.9e125",
        "-9.9e125",
        "1e-130",
        "4.35",
        "1e21",
        "9223372036854775807",
        "-9223372036854775808",
        "9007199254740993",
        "123456789.12345679",
    ];
    let mut item = subject.item("p", "s");
    for text in texts {
        item = item.with(text, Value::N(Number::parse(text)?));
    }
    round_trip(subject, item).await?;
    for text in ["1e126", "-1e200", "1e-131"] {
        let item = subject.item("p", "s").with("n", Value::N(Number::parse(text)?));
        refused(subject.table.put(item, Condition::None).await, ErrorKind::Invalid);
    }
    Ok(())
}

/// Any character, in keys, names and values.
pub async fn text_comes_back_as_it_was(subject: &Subject) -> Result<()> {
    for (at, text) in [
        "\0",
        "a\0b",
        "\"\\/",
        "\n\r\t",
        "'; DROP TABLE item; --",
        "é",
        "e\u{301}",
        "😀",
        "\u{feff}x",
        "%_?1",
    ]
    .into_iter()
    .enumerate()
    {
        let item = subject.item("p", &format!("{at}{text}")).with("text", text).with(&format!("x{text}"), 1);
        round_trip(subject, item).await?;
    }
    // Different encodings of a character are different.
    let (one, two) = (subject.key("p", "5é"), subject.key("p", "5e\u{301}"));
    assert!(subject.table.get(&one).await?.is_some() && subject.table.get(&two).await?.is_none());
    Ok(())
}

/// `data` as any type, and bytes under any name.
pub async fn bytes_come_back_wherever_they_are(subject: &Subject) -> Result<()> {
    let all: Vec<u8> = (0..=255).collect();
    round_trip(subject, subject.item("p", "a").with("data", all.clone())).await?;
    round_trip(subject, subject.item("p", "b").with("data", Vec::<u8>::new())).await?;
    round_trip(subject, subject.item("p", "c").with("data", "text")).await?;
    round_trip(subject, subject.item("p", "d").with("other", all.clone()).with("data", 3)).await?;
    let inside = map([("data", Value::B(all))]);
    round_trip(subject, subject.item("p", "e").with("data", inside)).await
}

/// 400 KiB and not a byte more, counted with names and keys.
pub async fn items_up_to_the_limit_are_taken(subject: &Subject) -> Result<()> {
    let room = MAX_ITEM_BYTES - subject.item("p", "a").size();
    let data = |bytes: usize| subject.item("p", "a").with("data", vec![5; bytes - 4]);
    let text = |bytes: usize| subject.item("p", "b").with("text", "é".repeat(bytes / 2 - 2));
    assert_eq!(data(room).size(), MAX_ITEM_BYTES);
    round_trip(subject, data(room)).await?;
    round_trip(subject, text(room)).await?;
    for item in [data(room + 1), text(room + 2)] {
        let (key, size) = (item.key.to_string(), item.size().to_string());
        let error = refused(subject.table.put(item, Condition::None).await, ErrorKind::Invalid);
        assert!(error.contains(&key) && error.contains(&size), "{error}");
    }
    assert_eq!(
        subject.table.get(&subject.key("p", "a")).await?,
        Some(data(room)),
        "a refusal changes nothing"
    );
    Ok(())
}

/// Keys are neither empty nor longer than the limit.
pub async fn keys_up_to_the_limit_are_taken(subject: &Subject) -> Result<()> {
    let pk = |bytes: usize| format!("{:p<bytes$}", subject.pk("p"));
    let sk = |bytes: usize| "s".repeat(bytes);
    let longest = Item::new(Key::new(pk(MAX_PK_BYTES), sk(MAX_SK_BYTES)));
    subject.table.put(longest.clone(), Condition::Absent).await?;
    assert_eq!(subject.table.get(&longest.key).await?, Some(longest));
    for key in [
        Key::new(pk(MAX_PK_BYTES + 1), "s"),
        Key::new(pk(30), sk(MAX_SK_BYTES + 1)),
        Key::new("", "s"),
        Key::new(pk(30), ""),
    ] {
        refused(subject.table.put(Item::new(key.clone()), Condition::None).await, ErrorKind::Invalid);
        refused(subject.table.delete(&key, Condition::None).await, ErrorKind::Invalid);
        refused(subject.table.get(&key).await, ErrorKind::Invalid);
    }
    Ok(())
}

/// Attributes with a meaning for the table have its type.
pub async fn what_an_index_cannot_hold_is_refused(subject: &Subject) -> Result<()> {
    let item = subject.item("p", "s");
    for wrong in [
        item.clone().with("GSI1PK", ""),
        item.clone().with("GSI1SK", 1),
        item.clone().with("GSI1SK", "s".repeat(MAX_SK_BYTES + 1)),
        item.clone().with("board", Value::Null),
        item.clone().with("score", "1"),
        item.clone().with("expires_at", "soon"),
        item.clone().with("PK", "p"),
        item.clone().with("", 1),
        item.clone().with("deep", (0..=MAX_DEPTH).fold(Value::Null, |value, _| Value::L(vec![value]))),
    ] {
        let error = refused(subject.table.put(wrong, Condition::None).await, ErrorKind::Invalid);
        assert!(error.contains(&item.key.to_string()), "the key is named: {error}");
    }
    assert_eq!(subject.table.get(&item.key).await?, None);
    Ok(())
}
