//! A Delta table: its log, and new commits. [The protocol](https://github.com/delta-io/delta/blob/master/PROTOCOL.md) of reader 1
//! and writer 2 needs nothing but lines of JSON: a commit is a file with the next number, put only if there is none.

use std::collections::BTreeMap;

use event::{Day, Error, ErrorKind, Id, Result, Timestamp};
use futures::{StreamExt, stream};
use log::cut::Cut;
use query::Covered;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    READS,
    history::{Erased, Erasures},
    schema::{DAY, Schema},
    store::Store,
};
use crate::moved::hex;

/// Protocol that is written, and the newest that is read.
const READER: u64 = 1;
const WRITER: u64 = 2;

/// Version of Almanac's own data in commits and metadata.
const VERSION: u64 = 1;

/// Keys in the configuration of a table: its workspace, and the name of its rows.
const WORKSPACE: &str = "almanac.workspace";
const TABLE: &str = "almanac.table";

/// Writer of commits.
const ENGINE: &str = concat!("almanac/", env!("CARGO_PKG_VERSION"));

/// Key of Almanac's data in a commit.
const SAID: &str = "almanac";

/// Placeholder in the name of a transaction for an erasure without a name.
const UNNAMED: &str = "none";

/// State of a table after the last commit of its log.
#[derive(Debug, PartialEq)]
pub(super) struct Delta {
    name: &'static str,
    workspace: Id,
    /// Number of the next commit.
    next: u64,
    metadata: Option<Value>,
    schema: Schema,
    /// Files of the table, with their days; a file of another program may have no day.
    files: BTreeMap<String, Option<String>>,
    /// Number of commits by Almanac.
    commits: u64,
    /// Exported days.
    days: BTreeMap<Day, Known>,
    /// Erasures that all days include.
    erasures: Erasures,
}

/// Identity of the rows of a day.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) covered: Covered,
    /// History of the logs that the events were read from; `None` for evaluations.
    pub(super) history: Option<String>,
    /// Erased keys in the rows.
    pub(super) erased: Erased,
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

/// Folder of the log of a table.
fn log_folder(name: &str) -> String {
    format!("{name}/_delta_log")
}

/// Number of a commit, from the name of its file.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

impl Delta {
    fn new(name: &'static str, workspace: &Id) -> Self {
        Self {
            name,
            workspace: workspace.clone(),
            next: 0,
            metadata: None,
            schema: Schema::new(),
            files: BTreeMap::new(),
            commits: 0,
            days: BTreeMap::new(),
            erasures: Erasures::default(),
        }
    }

    /// Reads the log of a table.
    ///
    /// # Errors
    /// `Invalid`, when it is the table of another workspace or another program, or its log was cut off; `Corrupt`, when a commit
    /// cannot be read; errors of the store.
    pub(super) async fn load(store: &dyn Store, name: &'static str, workspace: &Id) -> Result<Self> {
        let mut delta = Self::new(name, workspace);
        let folder = log_folder(name);
        let mut numbers: Vec<u64> =
            store.list(&folder).await?.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        // Only as many texts are in memory.
        let texts = numbers.into_iter().map(|number| {
            let path = format!("{folder}/{number:020}.json");
            async move { (number, store.read(&path).await, path) }
        });
        let mut texts = stream::iter(texts).buffered(READS);
        while let Some((number, text, path)) = texts.next().await {
            if number != delta.next {
                return Err(Error::invalid(format!(
                    "{folder} lacks commit {}, so nobody knows which days were exported; sync to a new folder",
                    delta.next
                )));
            }
            let wrong = |why: &str| Error::corrupt(format!("{path} is no commit: {why}"));
            for line in text?.lines().filter(|line| !line.trim().is_empty()) {
                let action = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
                delta.apply(&action).map_err(|error| match error.kind() {
                    ErrorKind::Invalid => Error::invalid(format!("{path}: {error}")),
                    _ => wrong(&error.to_string()),
                })?;
            }
            delta.next += 1;
        }
        if delta.next > 0 {
            delta.check()?;
        }
        Ok(delta)
    }

    /// Checks that it is a table of Almanac and of this workspace.
    fn check(&self) -> Result<()> {
        let said = |name: &str| self.metadata.as_ref().and_then(|of| of["configuration"][name].as_str());
        let wrong = |what: String| {
            Err(Error::invalid(format!("the table `{}` {what}; sync to a new folder", self.name)))
        };
        match (said(WORKSPACE), said(TABLE)) {
            (Some(workspace), Some(table)) if table == self.name && workspace == self.workspace.as_str() => {
                Ok(())
            }
            (Some(workspace), Some(_)) => wrong(format!("is of the workspace {workspace}")),
            _ => wrong("was not made by Almanac".into()),
        }
    }

    /// Applies an action of a commit.
    fn apply(&mut self, action: &Value) -> Result<()> {
        let text = |value: &Value| {
            value.as_str().map(str::to_owned).ok_or_else(|| Error::corrupt("an action lacks a text"))
        };
        if let Some(protocol) = action.get("protocol") {
            let needs = |name: &str, most| protocol[name].as_u64().is_none_or(|needed| needed > most);
            if needs("minReaderVersion", READER) || needs("minWriterVersion", WRITER) {
                return Err(Error::invalid(format!(
                    "it needs a newer protocol of Delta than reader {READER} and writer {WRITER}, which another program has set; \
                     sync to a new folder"
                )));
            }
        }
        if let Some(metadata) = action.get("metaData") {
            self.schema = Schema::parse(&text(&metadata["schemaString"])?)?;
            self.metadata = Some(metadata.clone());
        }
        if let Some(add) = action.get("add") {
            let day = add["partitionValues"][DAY].as_str().map(str::to_owned);
            self.files.insert(text(&add["path"])?, day);
        }
        if let Some(remove) = action.get("remove") {
            self.files.remove(&text(&remove["path"])?);
        }
        if let Some(txn) = action.get("txn").filter(|txn| txn["appId"] == self.app()) {
            self.commits = txn["version"].as_u64().unwrap_or_default();
        }
        if let Some(txn) = action.get("txn")
            && let Some(last) = txn["appId"].as_str().and_then(|id| id.strip_prefix(&self.of_erasures()))
        {
            self.erasures =
                Erasures { turns: txn["version"].as_i64().unwrap_or_default(), last: Id::parse(last).ok() };
        }
        if let Some(said) = action.get("commitInfo").and_then(|info| info.get(SAID)) {
            if said["v"] != VERSION {
                return Err(Error::invalid(
                    "a newer Almanac has written it; sync with that one, or to a new folder",
                ));
            }
            let day: Day = text(&said[DAY])?.parse()?;
            let covered = match said["cut"].as_str() {
                Some(cut) => Covered::Cut(Box::new(cut.parse::<Cut>()?)),
                None => Covered::Digest(text(&said["digest"])?),
            };
            let optional = |name: &str| said[name].as_str().map(str::to_owned);
            let erased = Erased {
                events: said["erased"].as_u64().unwrap_or_default(),
                surrogates: optional("surrogates").unwrap_or_default(),
            };
            self.days.insert(day, Known { covered, history: optional("history"), erased });
        }
        Ok(())
    }

    /// Name under which the exporter counts its commits.
    fn app(&self) -> String {
        format!("almanac/{}/{}", self.workspace.as_str(), self.name)
    }

    /// Prefix of the name under which the exporter notes erasures; the last erasure follows.
    fn of_erasures(&self) -> String {
        format!("{}/erasures/", self.app())
    }

    /// Columns of the table.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Number of the last commit; `None` if there is no table yet.
    pub(super) fn version(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Exported days.
    pub(super) fn days(&self) -> &BTreeMap<Day, Known> {
        &self.days
    }

    /// Erasures that all days of the table include.
    pub(super) fn erasures(&self) -> &Erasures {
        &self.erasures
    }

    /// Notes in a commit without files the erasures that all days include. Nothing is noted if there is no table yet, or if
    /// another commit has the number.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn note_erasures(
        &mut self,
        store: &dyn Store,
        erasures: &Erasures,
        now: Timestamp,
    ) -> Result<()> {
        if self.next == 0 {
            return Ok(());
        }
        let millis = now.micros().div_euclid(1_000);
        let app = self.of_erasures() + erasures.last.as_ref().map_or(UNNAMED, Id::as_str);
        let txn = json!({ "appId": app, "version": erasures.turns, "lastUpdated": millis });
        let info = json!({ "timestamp": millis, "operation": "SET TRANSACTION", "engineInfo": ENGINE });
        self.add(store, &[json!({ "commitInfo": info }), json!({ "txn": txn })]).await.map(drop)
    }

    /// Path of the file of a day, with this SHA-256 of its bytes. No two files have one name: a file in the table is of an
    /// earlier commit, and a file left by a killed exporter has the same bytes.
    pub(super) fn path(&self, day: Day, digest: &str) -> String {
        format!("{DAY}={day}/{:05}-{}.parquet", self.commits + 1, &digest[..16])
    }

    /// Adds a commit: all files of the day leave the table, and its new file joins. Returns whether it was added; if not, another
    /// commit has the number, and the log must be read again.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn commit(&mut self, store: &dyn Store, of: &Exported, now: Timestamp) -> Result<bool> {
        let actions = self.actions(of, now);
        self.add(store, &actions).await
    }

    /// Adds a commit of these actions; returns true if it was added.
    async fn add(&mut self, store: &dyn Store, actions: &[Value]) -> Result<bool> {
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        let path = format!("{}/{:020}.json", log_folder(self.name), self.next);
        if !store.put_new(&path, &lines).await? {
            return Ok(false);
        }
        actions.iter().try_for_each(|action| self.apply(action))?;
        self.next += 1;
        Ok(true)
    }

    fn actions(&self, of: &Exported, now: Timestamp) -> Vec<Value> {
        let (day, millis) = (of.day.to_string(), now.micros().div_euclid(1_000));
        let old = self.files.iter().filter(|(_, of)| of.as_ref() == Some(&day));
        let removed = old.map(|(path, _)| {
            json!({ "remove": { "path": path, "deletionTimestamp": millis, "dataChange": true } })
        });
        let removed: Vec<Value> = removed.collect();
        let Known { covered, history, erased } = &of.known;
        let (what, covered) = match covered {
            Covered::Cut(cut) => ("cut", cut.to_string()),
            Covered::Digest(digest) => ("digest", digest.clone()),
        };
        let mut said = json!({ "v": VERSION, DAY: day, what: covered });
        if let Some(history) = history {
            said["history"] = history.as_str().into();
        }
        if *erased != Erased::default() {
            said["erased"] = erased.events.into();
            said["surrogates"] = erased.surrogates.as_str().into();
        }
        let mode = if removed.is_empty() { "Append" } else { "Overwrite" };
        let mut actions = vec![json!({ "commitInfo": {
            "timestamp": millis,
            "operation": "WRITE",
            "operationParameters": { "mode": mode, "partitionBy": json!([DAY]).to_string() },
            "isBlindAppend": removed.is_empty(),
            "engineInfo": ENGINE,
            SAID: said,
        } })];
        if self.metadata.is_none() {
            actions.push(json!({ "protocol": { "minReaderVersion": READER, "minWriterVersion": WRITER } }));
        }
        if self.metadata.is_none() || of.schema != self.schema {
            actions.push(json!({ "metaData": self.metadata_with(&of.schema, millis) }));
        }
        actions.push(
            json!({ "txn": { "appId": self.app(), "version": self.commits + 1, "lastUpdated": millis } }),
        );
        actions.extend(removed);
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
        metadata["schemaString"] = schema.text().into();
        metadata
    }
}

/// Identifier in the form of UUIDs (RFC 9562, version 8), derived from a text.
fn uuid(text: &str) -> String {
    let mut bytes: [u8; 32] = Sha256::digest(text).into();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]].join("-")
}

#[cfg(test)]
mod tests;
