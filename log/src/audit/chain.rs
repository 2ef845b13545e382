//! Reading an audit log, and checking that no record of it was changed, removed or inserted.

use event::{Result, Timestamp};
use table::{Pages, Query, Table};

use super::{Record, record::Digest};
use crate::key::{self, AuditLog};

/// Number of records read at a time.
const PAGE: usize = 500;

/// Head of an audit log: its last record, which the next one follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the record; 0 when there is none.
    pub seq: u64,
    /// Time of the record.
    pub at: Timestamp,
    /// Digest of the record. Its keeper can prove later that nothing up to it was changed.
    pub digest: Digest,
}

/// Reads the last record of an audit log.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn head(table: &dyn Table, audit_log: &AuditLog) -> Result<Head> {
    let query = Query::table(key::audit_records(audit_log, 0)).backward().limit(1);
    Ok(match table.query(&query).await?.items.first().map(Record::from_item).transpose()? {
        Some((record, digest)) => Head { seq: record.seq, at: record.at, digest },
        None => Head { seq: 0, at: Timestamp::default(), digest: [0; 32] },
    })
}

/// Reads the records of an audit log from the number `first` on, at most `limit`.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn records(
    table: &dyn Table,
    audit_log: &AuditLog,
    first: u64,
    limit: usize,
) -> Result<Vec<Record>> {
    let mut query = Query::table(key::audit_records(audit_log, first)).limit(limit);
    let mut records = Vec::new();
    while records.len() < limit {
        let page = table.query(&query).await?;
        for item in page.items.iter().take(limit - records.len()) {
            records.push(Record::from_item(item)?.0);
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Ok(records)
}

/// Finds the number of the first record at or after an instant; the number after the last one, when there is none. It reads a
/// logarithmic number of records, since their times never fall.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn first_since(table: &dyn Table, audit_log: &AuditLog, from: Timestamp) -> Result<u64> {
    let head = head(table, audit_log).await?;
    let (mut low, mut high) = (1, head.seq + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = records(table, audit_log, middle, 1).await?;
        match found.first().is_some_and(|record| record.at < from) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

/// Result of a check of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Number of unchanged records.
    pub records: u64,
    /// Digest of the last of them.
    pub digest: Digest,
    /// Number of the first changed record, and its fault.
    pub broken: Option<(u64, String)>,
}

/// Number and digest of a record that was there at an earlier check.
pub type KnownRecord = (u64, Digest);

/// Reads a whole audit log and checks that each record is as it was written, and names the one before it. An audit log that was cut off at
/// its end, or rewritten as a whole, is detected only by a record known from an earlier check.
///
/// # Errors
/// Errors of the table.
pub async fn verify(table: &dyn Table, audit_log: &AuditLog, known: Option<KnownRecord>) -> Result<Checked> {
    let mut found = Checked { records: 0, digest: [0; 32], broken: None };
    let mut at = Timestamp::default();
    let query = Query::table(key::audit_records(audit_log, 0)).limit(PAGE);
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        for item in &items {
            let expected = found.records + 1;
            let wrong = match Record::from_item(item) {
                Err(error) => Some(error.to_string()),
                Ok((record, _)) if record.seq != expected => {
                    Some(format!("record {expected} is missing, {} follows", record.seq))
                }
                Ok((record, _)) if record.previous != found.digest => {
                    Some("it does not name the record before it, one of the two was changed".to_owned())
                }
                Ok((record, digest)) if record.digest() != digest => Some("it was changed".to_owned()),
                Ok((_, digest)) if known.is_some_and(|(seq, known)| seq == expected && known != digest) => {
                    Some("it is not the one that was there at the known check".to_owned())
                }
                Ok((record, _)) if record.at < at => Some("it is older than the record before it".to_owned()),
                Ok((record, digest)) => {
                    found.digest = digest;
                    at = record.at;
                    None
                }
            };
            if let Some(wrong) = wrong {
                found.broken = Some((expected, wrong));
                return Ok(found);
            }
            found.records = expected;
        }
    }
    if let Some((seq, _)) = known.filter(|(seq, _)| *seq > found.records) {
        let wrong = format!("it is missing, as are all up to {seq}, which were there at the known check");
        found.broken = Some((found.records + 1, wrong));
    }
    Ok(found)
}
