//! History of a metric of a run: all its measured values, read from the log.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, Kind, Result, Timestamp, Window};
use log::{
    active, key,
    key::LogId,
    scan,
    segment_item::Segment,
    skipped::{self, BY_ROLLUP},
};
use table::{Pages, Query};

use super::{
    Latest, Run, check_run_name,
    latest::LatestValue,
    span::{At, Span},
};
use crate::Catalog;

/// Maximum points of a page.
pub const MAX_POINTS: usize = 100_000;

/// Time after the end of a run in which metrics may come that the projector has not seen, in seconds.
const OPEN_SECONDS: i64 = 60;

/// A value of a metric of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Step of the measurement.
    pub step: Option<i64>,
    /// Time of the measurement.
    pub at: Timestamp,
    /// The value; it may be NaN or infinite.
    pub value: f64,
}

/// Searched values of a run, by day and metric, each by its identity.
pub type WantedPoints<'a, K> = BTreeMap<Day, BTreeMap<&'a str, BTreeSet<K>>>;

/// Page of values of a metric, in the order in which they were appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryPage {
    /// The values.
    pub points: Vec<Point>,
    /// Cursor of the next page; `None` after the last.
    pub next: Option<String>,
}

/// End of a page: the segment of its last value, and the number of the segment's values in the page.
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
    /// Reads the values of a metric of a run: a read of the latest values, which hold the segments of the metric, and one range
    /// of the log for each day. Expired values are left out; a metric that the run does not have has no values.
    ///
    /// # Errors
    /// `Invalid`, when the limit, the cursor or the name of the metric is not valid.
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
            let mut pages = Pages::of(&*self.table, Query::table(span.range(&run.workspace)));
            while let Some(items) = pages.next().await? {
                for item in items {
                    let log = key::parse_segment(&item.key);
                    let Some((log, seq)) = log.filter(|(log, _)| log.kind == Kind::Metrics) else { continue };
                    let is_before = after
                        .as_ref()
                        .is_some_and(|after| (log.day, log.lane, seq) < (after.day, after.lane, after.seq));
                    if is_before || !kept.keeps(log.day) || skipped.contains(&(log.clone(), seq)) {
                        continue;
                    }
                    let mut points = Vec::new();
                    each_point(&Segment::from_item(item)?, run.id.as_str(), |name, point| {
                        if name == metric {
                            points.push(point);
                        }
                    })?;
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
        }
        Ok(page)
    }

    /// Spans of the metric. While the run goes on, they are extended to the end of the log, to find recently appended values.
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
                let lane = event::lane::lane_of(metric, self.lanes_of_metrics(run, day).await?);
                let at = (day, lane, 1);
                let place = spans.partition_point(|span| span.first < at);
                spans.insert(place, Span { first: at, last: at }.open());
            }
        }
        Ok(spans)
    }

    /// Number of lanes of the metrics of a day, in the workspace of a run.
    async fn lanes_of_metrics(&self, run: &Run, day: Day) -> Result<u8> {
        let first = LogId { workspace: run.workspace.clone(), day, kind: Kind::Metrics, lane: 0 };
        let lanes = scan::first_of(&*self.table, &first).await?.and_then(|segment| segment.lanes);
        Ok(lanes.unwrap_or(1))
    }

    /// Returns those of the wanted values of a run that are not in the logs of their days. It reads to the end of each log,
    /// beyond the spans of the latest values, as these may lack values that no projector has seen yet. Each log is read once and
    /// page by page, from the first segment that `latest` has of these metrics until all wanted values are found. `identity`
    /// distinguishes values. Skipped segments are left out.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn not_in_logs<'a, K: Ord>(
        &self,
        run: &Run,
        latest: &Latest,
        mut wanted: WantedPoints<'a, K>,
        identity: fn(&Point) -> K,
    ) -> Result<WantedPoints<'a, K>> {
        let ends = wanted.keys().next().copied().zip(wanted.keys().next_back().copied());
        let Some(within) = ends else { return Ok(wanted) };
        let version = active::load(&*self.table, &run.workspace).await?.version;
        let skipped =
            skipped::between(&*self.table, &run.workspace, version, within, |by| by == BY_ROLLUP).await?;
        for (day, wanted) in &mut wanted {
            let lanes = self.lanes_of_metrics(run, *day).await?;
            for (lane, (from, metrics)) in logs(latest, *day, lanes, wanted.keys().copied()) {
                let at: At = (*day, lane, from);
                let range = Span { first: at, last: at }.open().range(&run.workspace);
                let mut pages = Pages::of(&*self.table, Query::table(range));
                while metrics.iter().any(|metric| wanted.contains_key(metric))
                    && let Some(items) = pages.next().await?
                {
                    for item in items {
                        if key::parse_segment(&item.key).is_none_or(|place| skipped.contains(&place)) {
                            continue;
                        }
                        each_point(&Segment::from_item(item)?, run.id.as_str(), |name, point| {
                            if let Some(values) = wanted.get_mut(name) {
                                values.remove(&identity(&point));
                                if values.is_empty() {
                                    wanted.remove(name);
                                }
                            }
                        })?;
                    }
                }
            }
        }
        Ok(wanted)
    }
}

/// Lanes of a day to read for some metrics, with the first segment to read and the metrics searched in it.
fn logs<'a>(
    latest: &Latest,
    day: Day,
    lanes: u8,
    metrics: impl Iterator<Item = &'a str>,
) -> BTreeMap<u8, (u64, BTreeSet<&'a str>)> {
    let mut logs = BTreeMap::<u8, (u64, BTreeSet<&str>)>::new();
    for metric in metrics {
        let lane = event::lane::lane_of(metric, lanes);
        let spans: &[Span] = latest.metrics.get(metric).map_or(&[], |latest| latest.spans.as_slice());
        let of_log = spans
            .iter()
            .filter(|span| span.first <= (day, lane, key::MAX_SEQ) && (day, lane, 0) <= span.last)
            .map(|span| if (span.first.0, span.first.1) == (day, lane) { span.first.2 } else { 1 });
        let from = of_log.min().unwrap_or(1);
        let (first, names) = logs.entry(lane).or_insert((from, BTreeSet::new()));
        *first = from.min(*first);
        names.insert(metric);
    }
    logs
}

/// Passes the values of all metrics of a run in a segment to `take`, with the name of each.
fn each_point(segment: &Segment, run: &str, mut take: impl FnMut(&str, Point)) -> Result<()> {
    let wanted = ["run", "name", "measured_at", "value", "step"];
    let columns = segment.unpack(|name| wanted.contains(&name))?;
    let column = |name: &str| columns.column(name);
    let (Some(runs), Some(names), Some(times), Some(values)) =
        (column("run"), column("name"), column("measured_at"), column("value"))
    else {
        return Ok(());
    };
    let steps = column("step");
    let point = |row: usize| {
        let name = names.text(row)?;
        let step = steps.and_then(|steps| steps.float(row)).map(|step| step as i64);
        Some((name, Point { step, at: Timestamp::from_micros(times.time(row)?)?, value: values.float(row)? }))
    };
    let rows = (0..columns.rows).filter(|row| runs.text(*row) == Some(run));
    rows.filter_map(point).for_each(|(name, point)| take(name, point));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_read_from_first_segment_of_metrics() {
        let value = |spans: &[&str]| LatestValue::noted(spans.iter().map(|text| Span::parse(text).unwrap()));
        let latest = |metrics: &[(&str, &[&str])]| Latest {
            metrics: metrics.iter().map(|(name, spans)| ((*name).to_owned(), value(spans))).collect(),
        };
        let day: Day = "2026-06-02".parse().unwrap();
        let from = |metrics: &[(&str, &[&str])]| {
            let logs = logs(&latest(metrics), day, 1, ["a", "b"].into_iter());
            assert_eq!(logs.len(), 1);
            let (from, names) = &logs[&0];
            assert_eq!(names.len(), 2);
            *from
        };
        let (early, late) = (["2026-06-02/00/4>2026-06-02/00/9"], ["2026-06-01/00/2", "2026-06-02/00/7"]);
        assert_eq!(from(&[("a", &early[..]), ("b", &late[..])]), 4);
        // Values that no projector has placed may stand anywhere, and so may the values of a joined span.
        assert_eq!(from(&[("a", &early[..]), ("b", &[][..])]), 1);
        assert_eq!(from(&[("a", &early[..])]), 1);
        assert_eq!(from(&[("a", &early[..]), ("b", &["2026-05-01/00/3>2026-06-03/00/2"][..])]), 1);
    }

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
