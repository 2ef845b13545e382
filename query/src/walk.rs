//! The segments of a day and kind, log by log, as far as a reading goes.

use std::collections::VecDeque;

use event::{Day, Error, Kind, Result, Timestamp};
use log::key::{self, LogId};
use table::{Item, KeyRange, Query};

use crate::{
    meters,
    read::{Reading, Until},
};

/// A segment that belongs to the answer, as it is stored.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) log: LogId,
    pub(crate) seq: u64,
    pub(crate) item: Item,
}

/// Goes through the logs, page by page.
pub(crate) struct Walk<'a> {
    reading: &'a Reading,
    queries: VecDeque<(Query, Option<(LogId, u64)>)>,
    at: Option<At>,
}

/// The log that is being read.
struct At {
    log: LogId,
    /// The number of the segment that should come next.
    next: u64,
    /// Whether what comes is not part of the prefix any more.
    has_ended: bool,
}

impl<'a> Walk<'a> {
    /// Of a day and kind.
    ///
    /// # Errors
    /// `NotFound`, when a cut is read of which events have expired.
    pub(crate) fn new(reading: &'a Reading, day: Day, kind: Kind) -> Result<Self> {
        reading.reads(kind);
        let is_kept = kind == Kind::Releases || reading.kept.keeps(day);
        let queries = match &reading.until {
            Until::Cut(cut) => {
                let logs = cut.logs(day, kind).map(|(log, last)| {
                    let query = Query::table(key::segments_between(log, 1, last));
                    (query, Some((log.clone(), last)))
                });
                let logs: VecDeque<_> = logs.collect();
                if !is_kept && !logs.is_empty() {
                    return Err(Error::not_found(format!(
                        "the events of {day} have expired since this cut was given out; ask for other days"
                    )));
                }
                logs
            }
            _ if !is_kept => VecDeque::new(),
            _ => [(Query::table(key::segments_of_kind(&reading.workspace, day, kind)), None)].into(),
        };
        Ok(Self { reading, queries, at: None })
    }

    /// What a page holds of the prefixes; `None` after the last. Only `attributes` are read, when they are named.
    pub(crate) async fn next(&mut self, attributes: Option<&[&str]>) -> Result<Option<Vec<Admitted>>> {
        let Some((query, until)) = self.queries.pop_front() else { return Ok(None) };
        let asked = match attributes {
            Some(names) => query.clone().only(names),
            None => query.clone(),
        };
        let page = self.reading.table.query(&asked).await?;
        let mut admitted = Vec::with_capacity(page.items.len());
        for item in page.items {
            admitted.extend(self.admit(item));
        }
        let ended = self.at.as_ref().filter(|at| at.has_ended).map(|at| at.log.clone());
        match (page.next, &until, ended) {
            (None, None, _) => {}
            (None, Some((log, last)), _) => self.check_whole(log, *last)?,
            // The rest of the log need not be read.
            (Some(_), None, Some(log)) => {
                let range = KeyRange { to: query.range.to.clone(), ..key::segments_after(&log) };
                self.queries.push_front((Query::table(range), None));
            }
            (Some(after), ..) => self.queries.push_front((Query { after: Some(after), ..query }, until)),
        }
        Ok(Some(admitted))
    }

    /// The segment, if it is of the prefix and nobody left it out.
    fn admit(&mut self, item: Item) -> Option<Admitted> {
        let Some((log, seq)) = key::parse_segment(&item.key) else {
            self.reading.warn(format!("the item {} is left out: it is no segment", item.key));
            return None;
        };
        if self.at.as_ref().is_none_or(|at| at.log != log) {
            self.at = Some(At { log: log.clone(), next: 1, has_ended: false });
        }
        let at = self.at.as_mut()?;
        if at.has_ended {
            return None;
        }
        if seq != at.next {
            at.has_ended = true;
            let name = format!("{}/{}", log.day, log.name());
            self.reading
                .warn(format!("segment {name}/{} is missing, and what follows it is left out", at.next));
            return None;
        }
        // Of a segment that cannot be read nobody knows when it was appended; it does not end the prefix.
        let appended_at = item.int("appended_at").ok().and_then(Timestamp::from_micros);
        if let (Until::AsOf(as_of), Some(appended_at)) = (&self.reading.until, appended_at)
            && appended_at > *as_of
        {
            at.has_ended = true;
            return None;
        }
        at.next += 1;
        self.reading.read_until(&log, seq);
        let place = (log, seq);
        if let Until::Cut(cut) = &self.reading.until {
            if cut.left_out.contains(&place) {
                self.reading.leave_out(&place.0, seq, meters::UNREADABLE, "so the cut says");
                return None;
            }
        } else if self.reading.skipped.contains(&place) {
            self.reading.leave_out(&place.0, seq, meters::SKIPPED, "an operator skipped it");
            return None;
        }
        Some(Admitted { log: place.0, seq, item })
    }

    /// Whether all of a log that a cut names was there.
    fn check_whole(&self, log: &LogId, last: u64) -> Result<()> {
        let read = self.at.as_ref().filter(|at| at.log == *log).map_or(0, |at| at.next - 1);
        if read == last {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "of the log {}/{} the cut names {last} segments, and {read} are there; its events have expired, or are lost",
            log.day,
            log.name()
        )))
    }
}
