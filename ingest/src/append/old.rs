//! Files that were imported before chunks had markers: each part of one was claimed for good by the digest of the
//! rows that were good then.

use std::collections::{BTreeMap, BTreeSet};

use event::{Id, Kind, Result, Timestamp, Values};
use log::{content, key};
use table::Query;

use super::{Appender, ChunkRows, Job, Remember, claim::Claims, off_thread, place::as_claimed};
use crate::batch::Batch;

impl Appender {
    /// Whether any batch of a kind was claimed by its digest before chunks had markers.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn has_old_files(&self, workspace: &Id, kind: Kind) -> Result<bool> {
        let mut query = Query::table(key::old_batches_by_digest(workspace, kind)).limit(1).only(&["v"]);
        loop {
            let page = self.table.query(&query).await?;
            match page.next {
                _ if !page.items.is_empty() => return Ok(true),
                Some(next) => query.after = Some(next),
                None => return Ok(false),
            }
        }
    }

    /// The indexes of the rows of a chunk that were stored before chunks had markers, and how many of them
    /// this call stored, where an import had been broken off.
    ///
    /// Which rows were good then is not known: it may have been those that are good now, all of them (days
    /// have expired since), or those whose releases were `registered` by some time.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn old_rows(
        &self,
        workspace: &Id,
        chunk: &ChunkRows<'_>,
        registered: &BTreeMap<String, Timestamp>,
    ) -> Result<(BTreeSet<u32>, usize)> {
        let kind = chunk.batch.kind;
        let good: BTreeSet<u64> = chunk.good.iter().map(|row| chunk.batch.numbers[*row]).collect();
        let (mut old, mut appended) = (BTreeSet::new(), 0);
        for part in as_before(chunk.batch, &chunk.origin.before).by_days() {
            for rows in candidates(&part, &good, registered) {
                let batch = if rows.len() == part.rows() { part.clone() } else { part.take(&rows) };
                let numbers = batch.numbers.clone();
                let (digest, parts) =
                    off_thread(rows.len(), move || (batch.digest(), batch.into_parts())).await?;
                let name = content::key(&digest);
                let claims = Claims { table: &*self.table, workspace, kind, name: &name };
                let Some(claim) = claims.read_old().await? else { continue };
                let (remember, now) = (Remember::Forever, self.times.now());
                let job = Job { workspace, kind, lanes: 1, digest, remember, now, arrival: now.day() };
                let dealt = as_claimed(&claim, parts)?;
                appended += self.fulfil(&claims, claim, &job, dealt).await?.rows;
                old.extend(numbers.iter().map(|number| chunk.origin.index(*number)));
                break;
            }
        }
        Ok((old, appended))
    }
}

/// The batch as it was made of a file before labels were made plain.
fn as_before(batch: &Batch, before: &BTreeMap<u64, Option<String>>) -> Batch {
    // What names no day was bad then.
    let was_taken =
        |row: &usize| !batch.is_waiting(*row) && !matches!(before.get(&batch.numbers[*row]), Some(None));
    let taken: Vec<usize> = (0..batch.rows()).filter(was_taken).collect();
    let mut batch = if taken.len() == batch.rows() { batch.clone() } else { batch.take(&taken) };
    if before.is_empty() {
        return batch;
    }
    let numbers = &batch.numbers;
    for column in batch.columns.columns.iter_mut().filter(|column| column.name == "label") {
        let texts = (0..numbers.len()).map(|row| match before.get(&numbers[row]) {
            Some(Some(text)) => text,
            _ => column.text(row).unwrap_or_default(),
        });
        column.values = Values::Text(texts.collect());
    }
    batch
}

/// Which rows of a part of a file may have been good when it was imported, likely ones first.
fn candidates(
    part: &Batch,
    good: &BTreeSet<u64>,
    registered: &BTreeMap<String, Timestamp>,
) -> Vec<Vec<usize>> {
    let release = part.columns.column("release");
    let since = |row: usize| registered.get(release?.text(row)?).copied();
    let all: Vec<usize> = (0..part.rows()).collect();
    let now: Vec<usize> = all.iter().copied().filter(|row| good.contains(&part.numbers[*row])).collect();
    let mut candidates = vec![now, all];
    let times: BTreeSet<Timestamp> = (0..part.rows()).filter_map(since).collect();
    for time in times.into_iter().rev() {
        for of in 0..2 {
            let before = |row: &usize| since(*row).is_some_and(|since| since < time);
            candidates.push(candidates[of].iter().copied().filter(before).collect());
        }
    }
    let mut seen = BTreeSet::new();
    candidates.retain(|rows| !rows.is_empty() && seen.insert(rows.clone()));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read_ndjson;

    #[test]
    fn what_was_good_before_is_guessed_by_what_can_have_changed() {
        let at = |hour: i64| Timestamp::parse("2026-06-10T00:00:00Z").unwrap().plus_seconds(hour * 3600);
        let row = |release| {
            format!(
                r#"{{"key":"k","predicted_at":"2026-06-01T04:30:00Z","release":"{release}","score":0.5}}"#
            )
        };
        let body = ["v1", "v2", "v1", "v3"].map(row).join("\n");
        let batch = read_ndjson(Kind::Predictions, body.as_bytes(), at(0)).unwrap();
        let registered = BTreeMap::from([("v1".to_owned(), at(1)), ("v2".to_owned(), at(2))]);
        let all = candidates(&batch, &BTreeSet::from([1, 2, 3]), &registered);
        assert_eq!(all, [vec![0, 1, 2], vec![0, 1, 2, 3], vec![0, 2]]);
    }
}
