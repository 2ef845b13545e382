//! The history of a metric of a run: all values that were measured, out of the log.

use event::{Day, Error, Kind, Result, Timestamp, Window};
use log::{
    active, key,
    key::LogId,
    scan,
    segment_item::Segment,
    skipped::{self, BY_ROLLUP},
};
use table::{Query, query_all};

use super::{Run, check_run_name, latest::LatestValue, span::Span};
use crate::Catalog;

/// The most points of a page.
pub const MAX_POINTS: usize = 100_000;

/// For how long after its end metrics of a run may come that the projector has not seen, in seconds.
const OPEN_SECONDS: i64 = 60;

/// A value of a metric of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// At which step.
    pub step: Option<i64>,
    /// When.
    pub at: Timestamp,
    /// The value; it may be NaN or infinite.
    pub value: f64,
}

/// Some values of a metric, in the order in which they were appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryPage {
    /// The values.
    pub points: Vec<Point>,
    /// Where to go on; `None` after the last.
    pub next: Option<String>,
}

/// Where a page ends: the segment of its last value, and how many of the segment's values are in it.
#[derive(Clone, Debug)]
struct After {
    day: Day,
    lane: u8,
    seq: u64,
    taken: usize,
}

impl After {
    fn to_text(&self) -> String {
        format!("{}.{}.{}.{}", self.day, self.lane, self.seq, self.taken)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split('.');
        let mut parsed = || {
            let after = Self {
                day: parts.next()?.parse().ok()?,
                lane: parts.next()?.parse().ok()?,
                seq: parts.next()?.parse().ok()?,
                taken: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(after)
        };
        parsed().ok_or_else(|| Error::invalid("the cursor is not one that was given out"))
    }
}

impl Catalog {
    /// The values of a metric of a run: a read of the latest values, which say in which segments the metric stands, and one
    /// range of the log for each day. What has expired is left out; a metric that the run does not have has no values.
    ///
    /// # Errors
    /// `Invalid`, when the limit, the cursor or the name of the metric cannot be one.
    pub async fn metric_history(
        &self,
        run: &Run,
        metric: &str,
        (limit, after): (usize, Option<&str>),
        now: Timestamp,
    ) -> Result<HistoryPage> {
        if limit == 0 || limit > MAX_POINTS {
            return Err(Error::invalid(format!("`limit` should be 1 to {MAX_POINTS}")));
        }
        check_run_name("name of the metric", metric)?;
        let after = after.map(After::parse).transpose()?;
        let mut metrics = self.latest_metrics(&run.workspace, &run.id).await?.metrics;
        let Some(latest) = metrics.remove(metric) else { return Ok(HistoryPage::default()) };
        let spans = self.spans(run, metric, latest, now).await?;
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
            return Ok(HistoryPage::default());
        };
        let window = Window::new(first.days().0, last.days().1.max(first.days().0))?;
        let kept = self.kept(&run.workspace, window, now).await?;
        let version = active::load(&*self.table, &run.workspace).await?.version;
        let days = (window.from(), window.to());
        let skipped =
            skipped::between(&*self.table, &run.workspace, version, days, |by| by == BY_ROLLUP).await?;
        let mut page = HistoryPage::default();
        for span in spans {
            let query = Query::table(span.range(&run.workspace));
            for item in query_all(&*self.table, query).await? {
                let log = key::parse_segment(&item.key);
                let Some((log, seq)) = log.filter(|(log, _)| log.kind == Kind::Metrics) else { continue };
                let is_before = after
                    .as_ref()
                    .is_some_and(|after| (log.day, log.lane, seq) < (after.day, after.lane, after.seq));
                if is_before || !kept.keeps(log.day) || skipped.contains(&(log.clone(), seq)) {
                    continue;
                }
                let points = points(&Segment::from_item(item)?, run.id.as_str(), metric)?;
                let again = after
                    .as_ref()
                    .filter(|after| (log.day, log.lane, seq) == (after.day, after.lane, after.seq));
                let from = again.map_or(0, |after| after.taken);
                let room = limit - page.points.len();
                page.points.extend(points.iter().skip(from).take(room));
                if points.len().saturating_sub(from) > room || page.points.len() == limit {
                    let taken = points.len().min(from + room);
                    page.next = Some(After { day: log.day, lane: log.lane, seq, taken }.to_text());
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    /// Where the metric stands. What was appended a moment ago is found by reading on to the end of the log, while the
    /// run goes on.
    async fn spans(&self, run: &Run, metric: &str, latest: LatestValue, now: Timestamp) -> Result<Vec<Span>> {
        let mut spans = latest.spans;
        let is_open = run.ended_at.is_none_or(|ended_at| now < ended_at.plus_seconds(OPEN_SECONDS));
        if !is_open && !spans.is_empty() {
            return Ok(spans);
        }
        let day = latest.at.day();
        match spans.iter().position(|span| span.last.0 == day) {
            Some(at) => {
                let last = spans.remove(at);
                spans.insert(at, last.open());
            }
            None => {
                let first = LogId { workspace: run.workspace.clone(), day, kind: Kind::Metrics, lane: 0 };
                let lanes = scan::first_of(&*self.table, &first).await?.and_then(|segment| segment.lanes);
                let lane = event::lane::lane_of(metric, lanes.unwrap_or(1));
                let at = (day, lane, 1);
                let place = spans.partition_point(|span| span.first < at);
                spans.insert(place, Span { first: at, last: at }.open());
            }
        }
        Ok(spans)
    }
}

/// The values of a metric of a run in a segment.
fn points(segment: &Segment, run: &str, metric: &str) -> Result<Vec<Point>> {
    let wanted = ["run", "name", "measured_at", "value", "step"];
    let columns = segment.unpack(|name| wanted.contains(&name))?;
    let column = |name: &str| columns.column(name);
    let (Some(runs), Some(names), Some(times), Some(values)) =
        (column("run"), column("name"), column("measured_at"), column("value"))
    else {
        return Ok(Vec::new());
    };
    let steps = column("step");
    let point = |row: usize| {
        Some(Point {
            step: steps.and_then(|steps| steps.float(row)).map(|step| step as i64),
            at: Timestamp::from_micros(times.time(row)?)?,
            value: values.float(row)?,
        })
    };
    let rows =
        (0..columns.rows).filter(|row| runs.text(*row) == Some(run) && names.text(*row) == Some(metric));
    Ok(rows.filter_map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_given() {
        let after = After { day: "2026-06-01".parse().unwrap(), lane: 3, seq: 42, taken: 7 };
        let again = After::parse(&after.to_text()).unwrap();
        assert_eq!((again.day, again.lane, again.seq, again.taken), (after.day, 3, 42, 7));
        for text in ["", "2026-06-01", "2026-06-01.3.42.7.1", "x.3.42.7", "2026-06-01.3.-1.7"] {
            assert!(After::parse(text).is_err(), "{text}");
        }
    }
}
