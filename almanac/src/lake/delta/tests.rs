use std::{collections::BTreeMap as Map, fs::File, sync::Mutex};

use async_trait::async_trait;
use event::{Kind, Window};
use log::key::LogId;
use polars::prelude::DataType;

use super::*;

/// Store in memory.
#[derive(Default)]
struct Memory(Mutex<Map<String, String>>);

#[async_trait]
impl Store for Memory {
    async fn list(&self, folder: &str) -> Result<Vec<String>> {
        let files = self.0.lock().unwrap();
        let names = files.keys().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        Ok(names.map(str::to_owned).collect())
    }

    async fn read(&self, path: &str) -> Result<String> {
        Ok(self.0.lock().unwrap()[path].clone())
    }

    async fn put_new(&self, path: &str, text: &str) -> Result<bool> {
        let mut files = self.0.lock().unwrap();
        let is_new = !files.contains_key(path);
        files.entry(path.to_owned()).or_insert_with(|| text.to_owned());
        Ok(is_new)
    }

    fn draft(&self) -> Result<File> {
        unreachable!("no file of data is made")
    }

    async fn put_draft(&self, _: &str, _: &File) -> Result<()> {
        unreachable!("no file of data is made")
    }
}

fn workspace() -> Id {
    Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()
}

fn day(text: &str) -> Day {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    Timestamp::parse("2026-06-03T04:30:00Z").unwrap()
}

/// Cut of `seq` segments of a day.
fn cut(of: &str, seq: u64) -> Covered {
    let log = LogId { workspace: workspace(), day: day(of), kind: Kind::Predictions, lane: 0 };
    Covered::Cut(Box::new(Cut {
        workspace: workspace(),
        window: Window::of(day(of)),
        kinds: [Kind::Predictions].into(),
        as_of: now(),
        heads: [(log, seq)].into(),
        left_out: Default::default(),
    }))
}

fn exported(delta: &Delta, of: &str, seq: u64, columns: &[&str]) -> Exported {
    let mut schema = delta.schema().clone();
    let columns: Vec<_> = columns.iter().map(|name| (name.to_string(), DataType::String)).collect();
    schema.names(&columns).unwrap();
    let file = DataFile { path: delta.path(day(of), &hex(&[seq as u8; 32])), bytes: 1_000, rows: 10 * seq };
    let erased = match seq {
        1 => Erased::default(),
        _ => Erased { events: 3, surrogates: "0123456789abcdef0123456789abcdef".into() },
    };
    let known = Known { covered: cut(of, seq), history: Some(format!("{seq:032x}")), erased };
    Exported { day: day(of), known, schema, file: Some(file) }
}

/// A table with two days, the first exported twice.
async fn filled() -> (Memory, Delta) {
    let store = Memory::default();
    let mut delta = Delta::load(&store, "predictions", &workspace()).await.unwrap();
    assert_eq!(delta.version(), None);
    for (of, seq, columns) in
        [("2026-06-01", 1, &["key"][..]), ("2026-06-02", 1, &["key"]), ("2026-06-01", 2, &["key", "tag.a"])]
    {
        let exported = exported(&delta, of, seq, columns);
        assert!(delta.commit(&store, &exported, now()).await.unwrap());
    }
    (store, delta)
}

/// Tables stay, and we and others read them for ever.
#[tokio::test]
async fn golden_text() {
    let (store, delta) = filled().await;
    let commits: Vec<String> = store.0.lock().unwrap().values().cloned().collect();
    let text = commits.join("\n").replace(concat!("almanac/", env!("CARGO_PKG_VERSION")), "almanac/VERSION");
    insta::assert_snapshot!(text);
    assert_eq!(Delta::load(&store, "predictions", &workspace()).await.unwrap(), delta);
    assert_eq!(delta.version(), Some(2));
    assert_eq!(delta.days()[&day("2026-06-01")].covered, cut("2026-06-01", 2));
    let files: Vec<&String> = delta.files.keys().collect();
    assert_eq!(files.len(), 2, "{files:?}");
}

#[tokio::test]
async fn concurrent_delta_commit_is_not_overwritten() {
    let (store, mut delta) = filled().await;
    let other = "{\"commitInfo\":{\"operation\":\"OPTIMIZE\"}}\n\
        {\"remove\":{\"path\":\"day=2026-06-02/x.parquet\",\"dataChange\":false}}\n";
    assert!(store.put_new("predictions/_delta_log/00000000000000000003.json", other).await.unwrap());
    let late = exported(&delta, "2026-06-02", 2, &["key"]);
    let before = delta.days().clone();
    assert!(!delta.commit(&store, &late, now()).await.unwrap());
    assert_eq!(*delta.days(), before);
    let mut delta = Delta::load(&store, "predictions", &workspace()).await.unwrap();
    assert_eq!(*delta.days(), before, "what others do to files says nothing of days");
    assert!(delta.commit(&store, &late, now()).await.unwrap());
    assert_eq!(delta.version(), Some(4));
}

/// A file that another program made of a day leaves the table with it.
#[tokio::test]
async fn files_of_others_leave_with_their_day() {
    let (store, delta) = filled().await;
    let ours = delta.files.iter().find(|(_, of)| of.as_deref() == Some("2026-06-02")).unwrap().0;
    let compacted = json!({ "add": { "path": "day=2026-06-02/compacted.parquet", "partitionValues": { "day": "2026-06-02" },
        "size": 1, "modificationTime": 1, "dataChange": false } });
    let remove = json!({ "remove": { "path": ours, "dataChange": false } });
    let text = format!("{remove}\n{compacted}\n");
    store.put_new("predictions/_delta_log/00000000000000000003.json", &text).await.unwrap();
    let mut delta = Delta::load(&store, "predictions", &workspace()).await.unwrap();
    let late = exported(&delta, "2026-06-02", 2, &["key"]);
    assert!(delta.commit(&store, &late, now()).await.unwrap());
    let files = delta.files.iter().filter(|(_, of)| of.as_deref() == Some("2026-06-02"));
    let of_day: Vec<&String> = files.map(|(path, _)| path).collect();
    assert_eq!(of_day, [&late.file.unwrap().path]);
}

/// Other programs may add rows without a day: Delta states this by a null.
#[tokio::test]
async fn delta_file_without_day_is_kept() {
    let (store, _) = filled().await;
    let no_day = "day=__HIVE_DEFAULT_PARTITION__/other.parquet";
    let add = json!({ "add": { "path": no_day, "partitionValues": { "day": null }, "size": 1, "modificationTime": 1,
        "dataChange": true } });
    store.put_new("predictions/_delta_log/00000000000000000003.json", &format!("{add}\n")).await.unwrap();
    let mut delta = Delta::load(&store, "predictions", &workspace()).await.unwrap();
    let late = exported(&delta, "2026-06-02", 2, &["key"]);
    assert!(delta.commit(&store, &late, now()).await.unwrap());
    assert_eq!(delta.files[no_day], None);
    assert_eq!(delta.files.len(), 3, "{:?}", delta.files);
}

#[tokio::test]
async fn foreign_delta_table_is_refused() {
    async fn refused(change: impl FnOnce(&mut Map<String, String>)) -> String {
        let (store, _) = filled().await;
        change(&mut store.0.lock().unwrap());
        Delta::load(&store, "predictions", &workspace()).await.unwrap_err().to_string()
    }
    let first = "predictions/_delta_log/00000000000000000000.json";
    let replaced = |from: &str, to: &str| {
        let (from, to) = (from.to_owned(), to.to_owned());
        move |files: &mut Map<String, String>| {
            for text in files.values_mut() {
                *text = text.replace(&from, &to);
            }
        }
    };
    let found = [
        refused(|files| _ = files.remove(first)).await,
        refused(|files| files.get_mut(first).unwrap().truncate(100)).await,
        refused(replaced("almanac.workspace\":\"2NB", "almanac.workspace\":\"3NB")).await,
        refused(replaced("almanac.workspace", "someone.workspace")).await,
        refused(replaced("\"minReaderVersion\":1", "\"minReaderVersion\":3")).await,
        refused(replaced("\"v\":1", "\"v\":2")).await,
    ];
    insta::assert_snapshot!(found.join("\n"));
}
