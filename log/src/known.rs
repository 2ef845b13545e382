//! Known heads of the logs of a kind, for pollers. Polling a log that has not grown reads the missing key after its
//! head: one unit of DynamoDB for segments of any size.

use std::collections::BTreeMap;

use event::{Day, Id, Kind, Result, lane::MAX_LANES};
use futures::{StreamExt, TryStreamExt, stream};
use table::{Query, Table};

use crate::{
    key::{self, LogId},
    scan,
    walk::{Heads, heads_of},
};

/// Number of days looked at side by side.
const DAYS_AT_ONCE: usize = 8;

/// Known heads of the logs of a kind in a workspace.
#[derive(Clone, Debug)]
pub struct Known {
    workspace: Id,
    kind: Kind,
    heads: Heads,
    /// Number of lanes of days, which never changes.
    lanes: BTreeMap<Day, u8>,
}

/// Heads found by polling a day.
struct Found {
    day: Day,
    lanes: Option<u8>,
    heads: Vec<(LogId, u64)>,
}

impl Known {
    /// Creates it from heads that are known to exist.
    pub fn new(workspace: &Id, kind: Kind, heads: Heads) -> Self {
        Self { workspace: workspace.clone(), kind, heads, lanes: BTreeMap::new() }
    }

    /// The heads.
    pub fn heads(&self) -> &Heads {
        &self.heads
    }

    /// The last day that has a log.
    pub fn last_day(&self) -> Option<Day> {
        self.heads.last_key_value().map(|(log, _)| log.day)
    }

    /// Records a head; returns true if it is new.
    pub fn note(&mut self, log: LogId, seq: u64) -> bool {
        let known = self.heads.entry(log).or_default();
        let is_news = seq > *known;
        *known = seq.max(*known);
        is_news
    }

    /// Forgets an expired day.
    pub fn forget(&mut self, day: Day) {
        self.heads.retain(|log, _| log.day != day);
    }

    /// Polls some days, and those after the last known day. Returns the days that have grown.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn look_at(&mut self, table: &dyn Table, days: Vec<Day>) -> Result<Vec<Day>> {
        let last = self.last_day();
        let mut grown = self.look_at_days(table, days).await?;
        grown.extend(self.look_between(table, last, None).await?);
        Ok(grown)
    }

    /// Polls all days. Returns those that have grown.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn look(&mut self, table: &dyn Table) -> Result<Vec<Day>> {
        let mut days: Vec<Day> = self.heads.keys().map(|log| log.day).collect();
        days.dedup();
        let mut after = None;
        let mut grown = Vec::new();
        for before in days.iter().copied().map(Some).chain([None]) {
            let is_next = |after: Day| after.next().is_some() && after.next() == before;
            if !after.is_some_and(is_next) {
                grown.extend(self.look_between(table, after, before).await?);
            }
            after = before;
        }
        grown.extend(self.look_at_days(table, days).await?);
        Ok(grown)
    }

    async fn look_at_days(&mut self, table: &dyn Table, days: Vec<Day>) -> Result<Vec<Day>> {
        let looks: Vec<_> = days.into_iter().map(|day| self.found(table, day)).collect();
        let found: Vec<Found> = stream::iter(looks).buffered(DAYS_AT_ONCE).try_collect().await?;
        Ok(found.into_iter().filter_map(|found| self.take(found)).collect())
    }

    /// Searches for days between two known ones, or before or after all of them.
    async fn look_between(
        &mut self,
        table: &dyn Table,
        after: Option<Day>,
        before: Option<Day>,
    ) -> Result<Vec<Day>> {
        let mut grown = Vec::new();
        let mut rest = key::segments_of_kind_between(&self.workspace, self.kind, after, before);
        while rest.from <= rest.to
            && let Some((log, _)) = scan::first_within(table, rest.clone()).await?
        {
            if log.kind == self.kind {
                let found = self.found(table, log.day).await?;
                grown.extend(self.take(found));
            }
            let begin = match (log.kind.letter() < self.kind.letter(), log.day.next()) {
                (true, _) => key::segments_of_kind(&self.workspace, log.day, self.kind),
                (false, Some(next)) => key::segments_since(&self.workspace, next),
                (false, None) => break,
            };
            rest.from = begin.from;
        }
        Ok(grown)
    }

    fn take(&mut self, found: Found) -> Option<Day> {
        if let Some(lanes) = found.lanes {
            self.lanes.insert(found.day, lanes);
        }
        let mut has_grown = false;
        for (log, seq) in found.heads {
            has_grown |= self.note(log, seq);
        }
        has_grown.then_some(found.day)
    }

    /// Polls a day.
    fn found<'a>(
        &self,
        table: &'a dyn Table,
        day: Day,
    ) -> impl Future<Output = Result<Found>> + Send + use<'a> {
        let (workspace, kind) = (self.workspace.clone(), self.kind);
        let known: Heads =
            heads_of(&self.heads, &workspace, day, kind).map(|(log, seq)| (log.clone(), *seq)).collect();
        let lanes = self.lanes.get(&day).copied();
        async move {
            let log = |lane| LogId { workspace: workspace.clone(), day, kind, lane };
            let said = match lanes {
                Some(lanes) => Some(lanes),
                None => scan::first_of(table, &log(0)).await?.map(|first| first.lanes.unwrap_or(1)),
            };
            let is_new = known.is_empty() && said.is_none();
            if is_new
                && scan::first_within(table, key::segments_of_kind(&workspace, day, kind)).await?.is_none()
            {
                return Ok(Found { day, lanes: None, heads: Vec::new() });
            }
            let lanes = said.unwrap_or(MAX_LANES);
            let mut heads = Vec::new();
            for log in (0..lanes).map(log).chain(known.keys().filter(|log| log.lane >= lanes).cloned()) {
                let head = known.get(&log).copied().unwrap_or_default();
                let rest = Query::table(key::segments_from(&log, head + 1)).backward();
                heads.extend(scan::first(table, rest).await?);
            }
            Ok(Found { day, lanes: said, heads })
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{Clock, Columns, Timestamp};
    use table::{Condition, sqlite::SqliteTable};

    use super::*;
    use crate::segment_item::Segment;

    fn workspace() -> Id {
        Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()
    }

    async fn put(table: &dyn Table, day: &str, kind: Kind, lane: u8, seq: u64) {
        let log = LogId { workspace: workspace(), day: day.parse().unwrap(), kind, lane };
        let segment = match (lane, seq) {
            (0, 1) => Segment::opening(log, 3, Timestamp::default()),
            _ => Segment::pack(log, seq, Timestamp::default(), Vec::new(), &Columns::default()),
        };
        table.put(segment.unwrap().to_item(), Condition::Absent).await.unwrap();
    }

    fn heads(known: &Known) -> Vec<String> {
        known.heads().iter().map(|(log, seq)| format!("{log}/{seq}")).collect()
    }

    /// Any way of looking finds the same heads as reading all of them.
    #[tokio::test]
    async fn what_has_grown_is_found_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        let kind = Kind::Outcomes;
        let mut known = Known::new(&workspace(), kind, Heads::new());
        assert!(known.look(&table).await.unwrap().is_empty());
        let days = ["2013-06-03", "2013-06-01", "2013-06-04", "2013-05-01", "2013-06-02", "2014-01-01"];
        let mut seqs = BTreeMap::<(&str, u8), u64>::new();
        for (step, day) in days.iter().cycle().take(18).enumerate() {
            let lane = if seqs.contains_key(&(day, 0)) { (step % 3) as u8 } else { 0 };
            let seq = seqs.entry((day, lane)).or_default();
            *seq += 1;
            put(&table, day, kind, lane, *seq).await;
            // Others stand in between.
            for other in [Kind::Predictions, Kind::Metrics] {
                put(&table, &format!("2013-06-{:02}", step + 1), other, 0, 1).await;
            }
            assert_eq!(known.look(&table).await.unwrap(), [day.parse().unwrap()], "step {step}");
            let all = scan::heads(&table, &workspace()).await.unwrap();
            let all = all.into_iter().filter(|head| head.log.kind == kind);
            let all: Vec<String> = all.map(|head| format!("{}/{}", head.log, head.seq)).collect();
            assert_eq!(heads(&known), all);
        }
        assert!(known.look(&table).await.unwrap().is_empty());

        // A look at some days finds what is new there and behind the last day, and nothing else.
        put(&table, "2013-06-02", kind, 2, seqs.get(&("2013-06-02", 2)).map_or(1, |seq| seq + 1)).await;
        put(&table, "2013-04-01", kind, 0, 1).await;
        put(&table, "2015-01-01", kind, 0, 1).await;
        let days = |days: &[&str]| days.iter().map(|day| day.parse().unwrap()).collect::<Vec<Day>>();
        let grown = known.look_at(&table, days(&["2013-06-02", "2013-06-03"])).await.unwrap();
        assert_eq!(grown, days(&["2013-06-02", "2015-01-01"]));
        assert_eq!(known.look(&table).await.unwrap(), days(&["2013-04-01"]));
        known.forget("2013-04-01".parse().unwrap());
        assert!(heads(&known)[0].contains("2013-05-01"), "{:?}", heads(&known));
    }
}
