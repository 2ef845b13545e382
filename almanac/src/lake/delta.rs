//! A Delta table: its columns, its log, and new commits. [The protocol](https://github.com/delta-io/delta/blob/master/PROTOCOL.md)
//! of reader 1 and writer 2 needs nothing but lines of JSON: a commit is a file with the next number, put only if there is none.

use std::collections::{BTreeMap, HashSet};

use event::{Day, Error, Id, Result, Timestamp};
use futures::{StreamExt, stream};
use polars::prelude::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Known, READS};
use crate::blob_store::{BlobStore, hex};

/// Protocol that is written, and the newest that is read.
const READER: u64 = 1;
const WRITER: u64 = 2;

/// Key of Almanac's data in a commit: the identity of a day, or the erasures that all days include.
const NOTE: &str = "almanac";

/// Version of Almanac's own data in commits and metadata.
const VERSION: u64 = 1;

/// Keys in the configuration of a table: its workspace, and the name of its rows.
const WORKSPACE: &str = "almanac.workspace";
const TABLE: &str = "almanac.table";

/// Key in the metadata of a field: the name of its column in answers.
const COLUMN: &str = "almanac.column";

/// Column that partitions tables.
const DAY: &str = "day";

/// Maximum columns of a table, over all its days.
const MAX_COLUMNS: usize = 4_096;

/// Writer of commits.
const ENGINE: &str = concat!("almanac/", env!("CARGO_PKG_VERSION"));

/// State of a table after the last commit of its log.
#[derive(Debug, PartialEq)]
pub(super) struct Delta {
    name: &'static str,
    workspace: Id,
    /// Number of the next commit.
    next: u64,
    metadata: Option<Value>,
    pub(super) schema: Schema,
    /// Files of the table, with their days; a file of another program may have no day.
    files: BTreeMap<String, Option<String>>,
    /// Exported days.
    pub(super) days: BTreeMap<Day, Known>,
    /// Erasures that all days include.
    pub(super) erasures: String,
}

/// Exported day.
#[derive(Debug)]
pub(super) struct Exported {
    pub(super) day: Day,
    pub(super) known: Known,
    pub(super) schema: Schema,
    /// File of the day; `None`, for a day without rows.
    pub(super) file: Option<DataFile>,
}

/// File of data.
#[derive(Debug)]
pub(super) struct DataFile {
    /// Path in the folder of the table.
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) rows: u64,
}

impl Delta {
    /// Reads the log of a table.
    ///
    /// # Errors
    /// `Invalid`, when it is the table of another workspace or another program, or its log was cut off; `Corrupt`, when a commit
    /// cannot be read; errors of the store.
    pub(super) async fn load(store: &BlobStore, name: &'static str, workspace: &Id) -> Result<Self> {
        let mut delta = Self {
            name,
            workspace: workspace.clone(),
            next: 0,
            metadata: None,
            schema: Schema::new(),
            files: BTreeMap::new(),
            days: BTreeMap::new(),
            erasures: String::new(),
        };
        let folder = format!("{name}/_delta_log");
        let number_of = |(name, _): &(String, u64)| {
            name.strip_suffix(".json").filter(|digits| digits.len() == 20)?.parse::<u64>().ok()
        };
        let mut numbers: Vec<u64> = store.list(&folder).await?.iter().filter_map(number_of).collect();
        numbers.sort_unstable();
        // Only as many texts are in memory.
        let texts = numbers.into_iter().map(|number| {
            let path = format!("{folder}/{number:020}.json");
            async move { (number, store.get(&path).await, path) }
        });
        let mut texts = stream::iter(texts).buffered(READS);
        while let Some((number, text, path)) = texts.next().await {
            if number != delta.next {
                return Err(Error::invalid(format!(
                    "{folder} lacks commit {}, so nobody knows which days were exported; sync to a new folder",
                    delta.next
                )));
            }
            delta.apply(&text?, &path)?;
        }
        if delta.next > 0 {
            delta.check()?;
        }
        Ok(delta)
    }

    /// Checks that it is a table of Almanac and of this workspace.
    fn check(&self) -> Result<()> {
        let said = |name: &str| self.metadata.as_ref().and_then(|of| of["configuration"][name].as_str());
        let what = match (said(WORKSPACE), said(TABLE)) {
            (Some(workspace), Some(table)) if table == self.name && workspace == self.workspace.as_str() => {
                return Ok(());
            }
            (Some(workspace), Some(_)) => format!("is of the workspace {workspace}"),
            _ => "was not made by Almanac".into(),
        };
        Err(Error::invalid(format!("the table `{}` {what}; sync to a new folder", self.name)))
    }

    /// Applies the text of the next commit.
    fn apply(&mut self, text: &[u8], path: &str) -> Result<()> {
        let wrong = |why: &dyn std::fmt::Display| Error::corrupt(format!("{path} is no commit: {why}"));
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            let action: Value = serde_json::from_slice(line).map_err(|error| wrong(&error))?;
            let needs = |name: &str, known| action["protocol"][name].as_u64() > Some(known);
            if needs("minReaderVersion", READER) || needs("minWriterVersion", WRITER) {
                return Err(Error::invalid(format!(
                    "{path}: it needs a newer protocol of Delta than reader {READER} and writer {WRITER}, which another program has \
                     set; sync to a new folder"
                )));
            }
            let metadata = &action["metaData"];
            if let Some(schema) = metadata["schemaString"].as_str() {
                self.schema = serde_json::from_str(schema).map_err(|error| wrong(&error))?;
                self.metadata = Some(metadata.clone());
            }
            if let Some(path) = action["add"]["path"].as_str() {
                let day = action["add"]["partitionValues"][DAY].as_str().map(str::to_owned);
                self.files.insert(path.to_owned(), day);
            }
            if let Some(path) = action["remove"]["path"].as_str() {
                self.files.remove(path);
            }
            let note = &action["commitInfo"][NOTE];
            if note.is_null() {
                continue;
            }
            if note["v"] != VERSION {
                let message = "a newer Almanac has written it; sync with that one, or to a new folder";
                return Err(Error::invalid(format!("{path}: {message}")));
            }
            if let Some(erasures) = note["erasures"].as_str() {
                self.erasures = erasures.to_owned();
                continue;
            }
            let day = note[DAY].as_str().unwrap_or_default();
            let day: Day = day.parse().map_err(|error| wrong(&error))?;
            self.days.insert(day, Known::deserialize(note).map_err(|error| wrong(&error))?);
        }
        self.next += 1;
        Ok(())
    }

    /// Number of the last commit; `None` if there is no table yet.
    pub(super) fn version(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Path of the file of a day, with this SHA-256 of its bytes. No two files have one name: a file in the table is of an
    /// earlier commit, and a file left by a killed exporter has the same bytes.
    pub(super) fn path(&self, day: Day, digest: &str) -> String {
        format!("{DAY}={day}/{:05}-{}.parquet", self.next + 1, &digest[..16])
    }

    /// Notes in a commit without files the erasures that all days include. Nothing is noted if there is no table yet, or if
    /// another commit has the number.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn note_erasures(
        &mut self,
        store: &BlobStore,
        erasures: &str,
        now: Timestamp,
    ) -> Result<()> {
        if self.next == 0 {
            return Ok(());
        }
        let info = json!({
            "timestamp": millis(now),
            "operation": "SET TRANSACTION",
            "engineInfo": ENGINE,
            NOTE: { "v": VERSION, "erasures": erasures },
        });
        self.add(store, &[json!({ "commitInfo": info })]).await.map(drop)
    }

    /// Adds a commit: all files of the day leave the table, and its new file joins. Returns whether it was added; if not, another
    /// commit has the number, and the log must be read again.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn commit(&mut self, store: &BlobStore, of: &Exported, now: Timestamp) -> Result<bool> {
        let actions = self.actions(of, millis(now));
        self.add(store, &actions).await
    }

    /// Adds a commit of these actions; returns true if it was added.
    async fn add(&mut self, store: &BlobStore, actions: &[Value]) -> Result<bool> {
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        let path = format!("{}/_delta_log/{:020}.json", self.name, self.next);
        Ok(store.put_new(&path, &lines).await? && self.apply(lines.as_bytes(), &path).map(|()| true)?)
    }

    fn actions(&self, of: &Exported, millis: i64) -> Vec<Value> {
        let day = of.day.to_string();
        let old: Vec<&String> =
            self.files.iter().filter(|(_, of)| of.as_ref() == Some(&day)).map(|(path, _)| path).collect();
        let mut note = json!(of.known);
        note["v"] = VERSION.into();
        note[DAY] = day.as_str().into();
        let mut actions = vec![json!({ "commitInfo": {
            "timestamp": millis,
            "operation": "WRITE",
            "operationParameters": {
                "mode": if old.is_empty() { "Append" } else { "Overwrite" },
                "partitionBy": json!([DAY]).to_string(),
            },
            "isBlindAppend": old.is_empty(),
            "engineInfo": ENGINE,
            NOTE: note,
        } })];
        if self.metadata.is_none() {
            actions.push(json!({ "protocol": { "minReaderVersion": READER, "minWriterVersion": WRITER } }));
        }
        if self.metadata.is_none() || of.schema != self.schema {
            actions.push(json!({ "metaData": self.metadata_with(&of.schema, millis) }));
        }
        actions
            .push(json!({ "txn": { "appId": self.app(), "version": self.next + 1, "lastUpdated": millis } }));
        actions.extend(old.into_iter().map(
            |path| json!({ "remove": { "path": path, "deletionTimestamp": millis, "dataChange": true } }),
        ));
        actions.extend(of.file.iter().map(|file| {
            json!({ "add": {
                "path": file.path,
                "partitionValues": { DAY: day },
                "size": file.bytes,
                "modificationTime": millis,
                "dataChange": true,
                "stats": json!({ "numRecords": file.rows }).to_string(),
            } })
        }));
        actions
    }

    /// Name under which the exporter counts commits.
    fn app(&self) -> String {
        format!("almanac/{}/{}", self.workspace.as_str(), self.name)
    }

    /// Metadata of the table; values set by others stay.
    fn metadata_with(&self, schema: &Schema, millis: i64) -> Value {
        let new = || {
            json!({
                "id": uuid(&format!("{} {millis}", self.app())),
                "name": self.name,
                "format": { "provider": "parquet", "options": {} },
                "partitionColumns": [DAY],
                "configuration": {
                    // The state of the export is read from the log, so the log stays.
                    "delta.enableExpiredLogCleanup": "false",
                    WORKSPACE: self.workspace.as_str(),
                    TABLE: self.name,
                },
                "createdTime": millis,
            })
        };
        let mut metadata = self.metadata.clone().unwrap_or_else(new);
        metadata["schemaString"] = json!(schema).to_string().into();
        metadata
    }
}

fn millis(at: Timestamp) -> i64 {
    at.micros().div_euclid(1_000)
}

/// Identifier in the form of UUIDs, derived from a text.
fn uuid(text: &str) -> String {
    let hex = hex(&Sha256::digest(text));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]].join("-")
}

/// Columns of a table: those of answers, with names that every reader can distinguish. Names of events contain only characters
/// that Delta allows in names of columns: letters, digits, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "struct")]
pub(super) struct Schema {
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Field {
    name: String,
    r#type: Value,
    nullable: bool,
    metadata: BTreeMap<String, Value>,
}

impl Field {
    fn new(name: String, column: &str, kind: &str) -> Self {
        let metadata = BTreeMap::from([(COLUMN.to_owned(), column.into())]);
        Self { name, r#type: kind.into(), nullable: true, metadata }
    }
}

impl Schema {
    /// Makes the schema of a table without rows.
    fn new() -> Self {
        Self { fields: vec![Field::new(DAY.into(), DAY, "date")] }
    }

    /// Returns the names in the table of the columns of an answer. New columns are added to the table.
    ///
    /// # Errors
    /// `Invalid`, when a column has another type than in the table, or when there are too many.
    pub(super) fn names(&mut self, columns: &[(String, DataType)]) -> Result<Vec<String>> {
        columns.iter().map(|(column, kind)| self.name(column, delta_type(column, kind)?)).collect()
    }

    fn name(&mut self, column: &str, kind: &str) -> Result<String> {
        let is_of = |field: &&Field| field.metadata.get(COLUMN).is_some_and(|of| of == column);
        if let Some(found) = self.fields.iter().find(is_of) {
            return match found.r#type == kind {
                true => Ok(found.name.clone()),
                false => Err(Error::invalid(format!(
                    "the column `{column}` is a {kind} now and a {} in the table; sync to a new folder",
                    found.r#type
                ))),
            };
        }
        if self.fields.len() == MAX_COLUMNS {
            let message = format!("with `{column}` the table would have more than {MAX_COLUMNS} columns");
            return Err(Error::invalid(message));
        }
        // Engines do not distinguish names that differ only by the case of letters: all but one of them get a number.
        let taken: HashSet<String> = self.fields.iter().map(|field| field.name.to_lowercase()).collect();
        let numbered = (2..).map(|number| format!("{column}~{number}"));
        let mut names = std::iter::once(column.to_owned()).chain(numbered);
        let name = names.find(|name| !taken.contains(&name.to_lowercase())).unwrap_or_default();
        self.fields.push(Field::new(name.clone(), column, kind));
        Ok(name)
    }
}

/// Delta type for the values of a column.
fn delta_type(column: &str, kind: &DataType) -> Result<&'static str> {
    match kind {
        DataType::String => Ok("string"),
        DataType::Float64 => Ok("double"),
        DataType::Int64 => Ok("long"),
        DataType::Date => Ok("date"),
        DataType::Datetime(TimeUnit::Microseconds, Some(_)) => Ok("timestamp"),
        other => {
            Err(Error::corrupt(format!("the column `{column}` has the type {other}, which no table has")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Kind, Window};
    use log::{key::LogId, read_version::ReadVersion};
    use object_store::{memory::InMemory, path::Path};

    use super::*;
    use crate::blob_store::Address;

    fn in_memory() -> BlobStore {
        let address = Address::S3 { bucket: "mine".into(), prefix: Path::default() };
        BlobStore::of(Arc::new(InMemory::new()), &address)
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

    /// Read version of `seq` segments of a day.
    fn read_version(of: &str, seq: u64) -> String {
        let log = LogId { workspace: workspace(), day: day(of), kind: Kind::Predictions, lane: 0 };
        let read_version = ReadVersion {
            workspace: workspace(),
            window: Window::of(day(of)),
            kinds: [Kind::Predictions].into(),
            as_of: now(),
            heads: [(log, seq)].into(),
            left_out: Default::default(),
        };
        read_version.to_string()
    }

    fn exported(delta: &Delta, of: &str, seq: u64, columns: &[&str]) -> Exported {
        let mut schema = delta.schema.clone();
        let columns: Vec<_> = columns.iter().map(|name| (name.to_string(), DataType::String)).collect();
        schema.names(&columns).unwrap();
        let file = DataFile {
            path: delta.path(day(of), &format!("{seq:02x}").repeat(32)),
            bytes: 1_000,
            rows: 10 * seq,
        };
        let pseudonyms = if seq == 1 { String::new() } else { "0123456789abcdef".repeat(2) };
        let known = Known { covered: read_version(of, seq), history: format!("{seq:032x}"), pseudonyms };
        Exported { day: day(of), known, schema, file: Some(file) }
    }

    /// A table with two days, the first exported twice.
    async fn filled() -> (BlobStore, Delta) {
        let store = in_memory();
        let mut delta = Delta::load(&store, "predictions", &workspace()).await.unwrap();
        assert_eq!(delta.version(), None);
        for (of, seq, columns) in [
            ("2026-06-01", 1, &["key"][..]),
            ("2026-06-02", 1, &["key"]),
            ("2026-06-01", 2, &["key", "tag.a"]),
        ] {
            let exported = exported(&delta, of, seq, columns);
            assert!(delta.commit(&store, &exported, now()).await.unwrap());
        }
        (store, delta)
    }

    /// Tables stay, and we and others read them for ever.
    #[tokio::test]
    async fn golden_text() {
        let (store, delta) = filled().await;
        let mut commits = Vec::new();
        for number in 0..3 {
            let commit = store.get(&format!("predictions/_delta_log/{number:020}.json")).await.unwrap();
            commits.push(String::from_utf8(commit).unwrap());
        }
        let text =
            commits.join("\n").replace(concat!("almanac/", env!("CARGO_PKG_VERSION")), "almanac/VERSION");
        insta::assert_snapshot!(text);
        assert_eq!(Delta::load(&store, "predictions", &workspace()).await.unwrap(), delta);
        assert_eq!(delta.version(), Some(2));
        assert_eq!(delta.days[&day("2026-06-01")].covered, read_version("2026-06-01", 2));
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
        let before = delta.days.clone();
        assert!(!delta.commit(&store, &late, now()).await.unwrap());
        assert_eq!(delta.days, before);
        let mut delta = Delta::load(&store, "predictions", &workspace()).await.unwrap();
        assert_eq!(delta.days, before, "what others do to files says nothing of days");
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
        async fn refused(first: u64, change: impl Fn(String) -> String) -> String {
            let (store, _) = filled().await;
            let other = in_memory();
            for number in first..3 {
                let path = format!("predictions/_delta_log/{number:020}.json");
                let text = String::from_utf8(store.get(&path).await.unwrap()).unwrap();
                other.put_new(&path, &change(text)).await.unwrap();
            }
            Delta::load(&other, "predictions", &workspace()).await.unwrap_err().to_string()
        }
        let replaced = |from: &'static str, to: &'static str| move |text: String| text.replace(from, to);
        let found = [
            refused(1, |text| text).await,
            refused(0, |text| text[..100].to_owned()).await,
            refused(0, replaced("almanac.workspace\":\"2NB", "almanac.workspace\":\"3NB")).await,
            refused(0, replaced("almanac.workspace", "someone.workspace")).await,
            refused(0, replaced("\"minReaderVersion\":1", "\"minReaderVersion\":3")).await,
            refused(0, replaced("\"v\":1", "\"v\":2")).await,
        ];
        insta::assert_snapshot!(found.join("\n"));
    }

    fn column(name: &str, kind: DataType) -> (String, DataType) {
        (name.to_owned(), kind)
    }

    #[test]
    fn column_names_stay_stable_and_unique_ignoring_case() {
        let mut schema = Schema::new();
        let columns = ["key", "score.late", "score.Late", "score.LATE", "tag.day", "DAY"];
        let columns = columns.map(|name| column(name, DataType::String));
        let names = schema.names(&columns).unwrap();
        let expected = ["key", "score.late", "score.Late~2", "score.LATE~3", "tag.day", "DAY~2"];
        assert_eq!(names, expected);
        let mut again: Schema = serde_json::from_value(json!(schema)).unwrap();
        assert_eq!(again.names(&columns).unwrap(), names);
        assert_eq!(again, schema, "nothing was added");
        let other = again.names(&[column("key", DataType::Float64)]).unwrap_err().to_string();
        assert!(other.contains("`key` is a double now"), "{other}");
        assert!(again.names(&[column("x", DataType::UInt8)]).is_err());
        assert!(serde_json::from_str::<Schema>("{}").is_err());
    }

    #[test]
    fn columns_are_bounded() {
        let columns: Vec<_> = (0..MAX_COLUMNS).map(|n| column(&n.to_string(), DataType::Int64)).collect();
        let mut schema = Schema::new();
        assert!(schema.names(&columns[1..]).is_ok());
        assert!(schema.names(&columns).unwrap_err().to_string().contains("more than 4096 columns"));
    }
}
