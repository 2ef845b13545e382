//! Segments of the log in which a metric of a run stands.

use event::{Day, Id, Kind};
use log::key::{self, LogId};
use table::KeyRange;

/// Maximum spans of a metric of a run: one a day. A metric that goes on for longer has its oldest spans joined, so that reading
/// them reads the segments between them as well.
pub(super) const MAX_SPANS: usize = 64;

/// Place of a segment of metrics: its day, lane and number.
pub(super) type At = (Day, u8, u64);

/// Segments of the log from one to another: both have the metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: At,
    pub(super) last: At,
}

impl Span {
    /// Text of the span: `2026-06-01/00/12>2026-06-01/00/40`.
    pub(super) fn to_text(&self) -> String {
        let place = |(day, lane, seq): &At| format!("{day}/{lane:02}/{seq}");
        match self.first == self.last {
            true => place(&self.first),
            false => format!("{}>{}", place(&self.first), place(&self.last)),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let place = |text: &str| {
            let mut parts = text.split('/');
            let at = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            parts.next().is_none().then_some(at)
        };
        let (first, last) = text.split_once('>').unwrap_or((text, text));
        Some(Self { first: place(first)?, last: place(last)? })
    }

    /// First and last day of the span.
    pub(super) fn days(&self) -> (Day, Day) {
        (self.first.0, self.last.0)
    }

    /// Range of the segments of all logs that lie between its ends.
    pub(super) fn range(&self, workspace: &Id) -> KeyRange {
        let log = |(day, lane, _): &At| LogId {
            workspace: workspace.clone(),
            day: *day,
            kind: Kind::Metrics,
            lane: *lane,
        };
        key::segments_from_to((&log(&self.first), self.first.2), (&log(&self.last), self.last.2))
    }

    /// Extends the span to the end of its last log.
    pub(super) fn open(mut self) -> Self {
        self.last.2 = key::MAX_SEQ;
        self
    }
}

/// Adds a segment to spans, which are in the order of the log. Returns whether they changed.
pub(super) fn add(spans: &mut Vec<Span>, at: At) -> bool {
    if spans.iter().any(|span| span.first <= at && at <= span.last) {
        return false;
    }
    let is_of_log = |(day, lane, _): &At| (*day, *lane) == (at.0, at.1);
    let at_first = spans.iter().position(|span| at < span.first && is_of_log(&span.first));
    let at_last = spans.iter().position(|span| span.last < at && is_of_log(&span.last));
    match (at_last, at_first) {
        (Some(span), _) => spans[span].last = at,
        (None, Some(span)) => spans[span].first = at,
        (None, None) => {
            let place = spans.partition_point(|span| span.first < at);
            spans.insert(place, Span { first: at, last: at });
        }
    }
    while spans.len() > MAX_SPANS {
        let second = spans.remove(1);
        spans[0].last = spans[0].last.max(second.last);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: u32) -> Day {
        format!("2026-06-{number:02}").parse().unwrap()
    }

    #[test]
    fn span_of_log_segments_ignores_their_order() {
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let all = [(day(1), 0, 3), (day(1), 0, 7), (day(1), 0, 5), (day(2), 1, 1)];
        for at in all {
            add(&mut forward, at);
        }
        for at in all.into_iter().rev() {
            add(&mut backward, at);
        }
        assert_eq!(forward, backward);
        let texts: Vec<String> = forward.iter().map(Span::to_text).collect();
        assert_eq!(texts, ["2026-06-01/00/3>2026-06-01/00/7", "2026-06-02/01/1"]);
        assert!(texts.iter().zip(&forward).all(|(text, span)| Span::parse(text).as_ref() == Some(span)));
        assert!(!add(&mut forward, (day(1), 0, 4)), "it is known");
        for text in ["", "2026-06-01", "2026-06-01/0/1/2", "2026-06-01/00/1>", "x/00/1"] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }

    #[test]
    fn oldest_spans_are_merged_without_loss() {
        let mut spans = Vec::new();
        let start: Day = "2026-01-01".parse().unwrap();
        let days: Vec<Day> = std::iter::successors(Some(start), |day| day.next()).take(200).collect();
        for day in &days {
            add(&mut spans, (*day, 0, 1));
            assert!(spans.len() <= MAX_SPANS);
        }
        for day in days {
            assert!(spans.iter().any(|span| span.first <= (day, 0, 1) && (day, 0, 1) <= span.last), "{day}");
        }
    }
}
