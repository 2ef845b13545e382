//! Reading a trail, and checking that nothing of it was changed, left out or put in.

use event::{Result, Timestamp};
use table::{Pages, Query, Table};

use super::{Record, record::Digest};
use crate::key::{self, Trail};

/// How many records are read at a time.
const PAGE: usize = 500;

/// The last record of a trail: where the next one goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number; 0 when there is none.
    pub seq: u64,
    /// Its time.
    pub at: Timestamp,
    /// Its digest. Who keeps it can tell later that nothing up to it was changed.
    pub digest: Digest,
}

/// The last record of a trail.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn head(table: &dyn Table, trail: &Trail) -> Result<Head> {
    let query = Query::table(key::audit_records(trail, 0)).backward().limit(1);
    Ok(match table.query(&query).await?.items.first().map(Record::from_item).transpose()? {
        Some((record, digest)) => Head { seq: record.seq, at: record.at, digest },
        None => Head { seq: 0, at: Timestamp::default(), digest: [0; 32] },
    })
}

/// The records of a trail from the number `first` on, at most `limit`.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn records(table: &dyn Table, trail: &Trail, first: u64, limit: usize) -> Result<Vec<Record>> {
    let mut query = Query::table(key::audit_records(trail, first)).limit(limit);
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

/// The number of the first record at or after an instant; that after the last one, when there is none. It reads
/// as many records as the trail has halves, since their times never fall.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn first_since(table: &dyn Table, trail: &Trail, from: Timestamp) -> Result<u64> {
    let head = head(table, trail).await?;
    let (mut low, mut high) = (1, head.seq + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = records(table, trail, middle, 1).await?;
        match found.first().is_some_and(|record| record.at < from) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

/// What a check of a trail found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// How many records are as they were written.
    pub records: u64,
    /// The digest of the last of them.
    pub digest: Digest,
    /// The number of the first record that is not, and what is wrong with it.
    pub broken: Option<(u64, String)>,
}

/// The number and the digest of a record that was there at an earlier check.
pub type KnownRecord = (u64, Digest);

/// Reads a whole trail and checks that each record is as it was written, and names the one before it. What was cut off
/// at its end, or rewritten as a whole, is seen only by a record that is known from an earlier check.
///
/// # Errors
/// Errors of the table.
pub async fn verify(table: &dyn Table, trail: &Trail, known: Option<KnownRecord>) -> Result<Checked> {
    let mut found = Checked { records: 0, digest: [0; 32], broken: None };
    let mut at = Timestamp::default();
    let query = Query::table(key::audit_records(trail, 0)).limit(PAGE);
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
