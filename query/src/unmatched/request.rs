//! The request for a page of unmatched outcomes.

use std::{fmt, str::FromStr};

use event::{Day, Error, Id, Kind, Result, Timestamp, Window};
use log::{
    key::{LogId, UnmatchedSegment},
    unmatched::WAITS_DAYS,
};

use crate::window::days_until;

/// Number of outcomes listed on a page if the request has no limit.
pub(crate) const DEFAULT_ROWS: usize = 100;

/// Maximum number of outcomes listed on a page.
pub(crate) const MAX_ROWS: usize = 1_000;

/// Default number of days of a window, which includes the arrival of everything that waits.
pub(crate) const DAYS: i64 = WAITS_DAYS + 10;

/// State of an unmatched outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnmatchedState {
    /// Its prediction is not found yet.
    Waiting,
    /// Its predictions are decided, and it is to be appended.
    Decided,
    /// It is appended as an outcome like any other.
    Appended,
    /// It has waited for too long, and labels nothing.
    Expired,
    /// It would label too many predictions, and labels none.
    Refused,
}

impl UnmatchedState {
    /// All of them, in the order in which an outcome goes through them.
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Decided, Self::Appended, Self::Expired, Self::Refused];

    /// Returns its name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Decided => "decided",
            Self::Appended => "appended",
            Self::Expired => "expired",
            Self::Refused => "refused",
        }
    }
}

/// Place of an unmatched outcome among all of a workspace, in the order of the days on which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnmatchedPlace {
    /// The day on which it came.
    pub day: Day,
    /// Its lane.
    pub lane: u8,
    /// The number of its segment.
    pub seq: u64,
    /// Its row in the segment.
    pub row: u32,
}

impl UnmatchedPlace {
    /// Returns the place before all outcomes that came on a day.
    pub(super) fn before(day: Day) -> Self {
        Self { day, lane: 0, seq: 0, row: 0 }
    }

    /// Returns the segment of a workspace in which it is.
    pub fn segment(&self, workspace: &Id) -> UnmatchedSegment {
        let Self { day, lane, seq, .. } = *self;
        UnmatchedSegment {
            log: LogId { workspace: workspace.clone(), day, kind: Kind::Unmatched, lane },
            seq,
        }
    }

    /// Returns the place of a row of a segment.
    pub(super) fn of(segment: &UnmatchedSegment, row: u32) -> Self {
        Self { day: segment.log.day, lane: segment.log.lane, seq: segment.seq, row }
    }
}

/// Pattern of the text of a [`UnmatchedPlace`].
pub(crate) const PLACE_PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}\\.[0-9]{2}\\.[0-9]{10}\\.[0-9]{5}$";

impl fmt::Display for UnmatchedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}.{:010}.{:05}", self.day, self.lane, self.seq, self.row)
    }
}

impl FromStr for UnmatchedPlace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split('.').collect();
        let place = match words[..] {
            [day, lane, seq, row] if (lane.len(), seq.len(), row.len()) == (2, 10, 5) => (|| {
                Some(Self {
                    day: day.parse().ok()?,
                    lane: lane.parse().ok()?,
                    seq: seq.parse().ok()?,
                    row: row.parse().ok()?,
                })
            })(),
            _ => None,
        };
        place.ok_or_else(|| Error::invalid("`after` is not what an earlier page ended with"))
    }
}

/// The parameters of a request, as text from the command line or a URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmatchedParams<'a> {
    /// Only outcomes of this key.
    pub key: Option<&'a str>,
    /// Lists only outcomes in this state.
    pub state: Option<&'a str>,
    /// The first day on which they came.
    pub from: Option<&'a str>,
    /// The last day on which they came.
    pub to: Option<&'a str>,
    /// Maximum number of outcomes listed; 0 to count them only.
    pub limit: Option<&'a str>,
    /// The end of an earlier page, after which this page begins.
    pub after: Option<&'a str>,
}

/// A request for a page of unmatched outcomes.
#[derive(Clone, Debug)]
pub struct UnmatchedRequest {
    pub(super) window: Window,
    pub(super) key: Option<String>,
    pub(super) state: Option<UnmatchedState>,
    pub(super) limit: usize,
    pub(super) after: Option<UnmatchedPlace>,
}

impl UnmatchedRequest {
    /// Parses the parameters of a request received at `now`.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(words: &UnmatchedParams<'_>, now: Timestamp) -> Result<Self> {
        let limit = words.limit.map_or(Ok(DEFAULT_ROWS), |text| {
            let limit = text.parse().ok().filter(|limit| *limit <= MAX_ROWS);
            limit.ok_or_else(|| Error::invalid(format!("limit is 0 to {MAX_ROWS}, not `{text}`")))
        })?;
        let state = words.state.map(|name| {
            let state = UnmatchedState::ALL.into_iter().find(|state| state.name() == name);
            let names = UnmatchedState::ALL.map(UnmatchedState::name).join(", ");
            state.ok_or_else(|| Error::invalid(format!("state is one of {names}, not `{name}`")))
        });
        if words.key == Some("") {
            return Err(Error::invalid("key is empty; leave it out"));
        }
        Ok(Self {
            window: days_until(words.from, words.to, DAYS - 1, now)?,
            key: words.key.map(str::to_owned),
            state: state.transpose()?,
            limit,
            after: words.after.map(str::parse).transpose()?,
        })
    }

    /// Continues behind the end of an earlier page, with a new limit.
    #[must_use]
    pub fn after(self, place: UnmatchedPlace, limit: usize) -> Self {
        Self { after: Some(place), limit: limit.min(MAX_ROWS), ..self }
    }

    /// Returns the maximum number of outcomes listed.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns true if outcomes in a state are listed.
    pub(super) fn lists(&self, state: UnmatchedState) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_refused() {
        let now = Timestamp::parse("2026-06-10T12:00:00Z").unwrap();
        let parse = |words: UnmatchedParams<'_>| UnmatchedRequest::parse(&words, now);
        let plain = parse(UnmatchedParams::default()).unwrap();
        assert_eq!(
            (plain.window.from().to_string(), plain.window.to().to_string(), plain.limit),
            ("2026-03-03".into(), "2026-06-10".into(), DEFAULT_ROWS)
        );
        assert!(UnmatchedState::ALL.into_iter().all(|state| plain.lists(state)));
        let place = UnmatchedPlace { day: "2026-06-01".parse().unwrap(), lane: 3, seq: 42, row: 7 };
        let text = place.to_string();
        assert_eq!(text, "2026-06-01.03.0000000042.00007");
        let words = UnmatchedParams {
            state: Some("expired"),
            after: Some(&text),
            limit: Some("0"),
            ..UnmatchedParams::default()
        };
        let asked = parse(words).unwrap();
        assert_eq!((asked.after, asked.limit), (Some(place), 0));
        assert!(asked.lists(UnmatchedState::Expired) && !asked.lists(UnmatchedState::Waiting));
        for wrong in [
            UnmatchedParams { from: Some("yesterday"), ..UnmatchedParams::default() },
            UnmatchedParams { to: Some("yesterday"), ..UnmatchedParams::default() },
            UnmatchedParams { from: Some("2026-06-11"), ..UnmatchedParams::default() },
            UnmatchedParams { limit: Some("1001"), ..UnmatchedParams::default() },
            UnmatchedParams { state: Some("lost"), ..UnmatchedParams::default() },
            UnmatchedParams { after: Some("2026-06-01.3.42.7"), ..UnmatchedParams::default() },
            UnmatchedParams { key: Some(""), ..UnmatchedParams::default() },
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
