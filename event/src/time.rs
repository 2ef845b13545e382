//! UTC days, date windows, instants, and the clock at the rim.

use std::{fmt, str::FromStr, sync::Arc};

use chrono::{DateTime, Datelike, Days, NaiveDate, SecondsFormat};

use crate::{Error, Result};

/// Microseconds in a day.
pub const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Maximum number of days of a requested window.
pub const MAX_WINDOW_DAYS: i32 = 3_660;

/// Years that sort as text.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;

/// An instant in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the instant `micros` microseconds after 1970-01-01T00:00:00Z. `None` outside of the years 1 to 9999.
    pub fn from_micros(micros: i64) -> Option<Self> {
        let time = DateTime::from_timestamp_micros(micros)?;
        YEARS.contains(&time.year()).then_some(Self(micros))
    }

    /// Reads RFC 3339, such as `2013-06-01T04:30:00Z` or `2013-06-01T00:30:00.25-04:00`. Digits beyond microseconds
    /// are cut off.
    ///
    /// # Errors
    /// `Invalid` if it is not such a text, has no offset, or is outside of the years 1 to 9999.
    pub fn parse(text: &str) -> Result<Self> {
        let time = DateTime::parse_from_rfc3339(text).map_err(|error| {
            Error::invalid(format!("`{text}` is not a time such as 2013-06-01T04:30:00Z ({error})"))
        })?;
        Self::from_micros(time.timestamp_micros())
            .ok_or_else(|| Error::invalid(format!("`{text}` is outside of the years 1 to 9999")))
    }

    /// Returns the microseconds since 1970-01-01T00:00:00Z.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Returns the UTC day of this instant.
    pub fn day(self) -> Day {
        Day((self.0.div_euclid(DAY_MICROS)) as i32)
    }

    /// Reads RFC 3339, or a day such as `2013-06-01`, which means its beginning in UTC.
    ///
    /// # Errors
    /// See [`Timestamp::parse`].
    pub fn parse_or_day(text: &str) -> Result<Self> {
        text.parse::<Day>().map(Day::start).or_else(|_| Self::parse(text))
    }

    /// Returns this instant moved by `seconds`, or itself if that is outside of the years 1 to 9999.
    pub fn plus_seconds(self, seconds: i64) -> Self {
        let moved = self.0.saturating_add(seconds.saturating_mul(1_000_000));
        Self::from_micros(moved).unwrap_or(self)
    }
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 in UTC with as many digits as the instant needs (none, three or six).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = DateTime::from_timestamp_micros(self.0).ok_or(fmt::Error)?;
        f.write_str(&time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

/// A UTC day, counted from 1970-01-01. Written `YYYY-MM-DD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i32);

impl Day {
    /// First possible day: 0001-01-01.
    pub const FIRST: Self = Self(-719_162);

    /// Returns the instant at which the day begins.
    pub fn start(self) -> Timestamp {
        Timestamp(i64::from(self.0) * DAY_MICROS)
    }

    /// Returns the days since 1970-01-01.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Returns the day after. `None` after 9999-12-31.
    pub fn next(self) -> Option<Self> {
        let next = self.date().checked_add_days(Days::new(1))?;
        YEARS.contains(&next.year()).then_some(Self(self.0 + 1))
    }

    /// Returns the day before. `None` before [`Day::FIRST`].
    pub fn before(self) -> Option<Self> {
        (self > Self::FIRST).then_some(Self(self.0 - 1))
    }

    /// Returns the month, as `YYYY-MM`.
    pub fn month(self) -> String {
        self.to_string()[..7].to_owned()
    }

    pub(crate) fn date(self) -> NaiveDate {
        NaiveDate::from_epoch_days(self.0).expect("a Day is made from a date")
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = self.date();
        write!(f, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
    }
}

impl FromStr for Day {
    type Err = Error;

    /// # Errors
    /// `Invalid` if the text is not a day of the calendar written `YYYY-MM-DD`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("`{text}` is not a day of the calendar, written YYYY-MM-DD"));
        let shape = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        let date = if shape { NaiveDate::parse_from_str(text, "%Y-%m-%d").ok() } else { None };
        let date = date.filter(|date| YEARS.contains(&date.year())).ok_or_else(wrong)?;
        Ok(Self(date.to_epoch_days()))
    }
}

/// Days from `from` to `to`, both included; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: Day,
    to: Day,
}

impl Window {
    /// Creates the window from `from` to `to`, both included.
    ///
    /// # Errors
    /// `Invalid` if `from` is after `to`.
    pub fn new(from: Day, to: Day) -> Result<Self> {
        if from > to {
            return Err(Error::invalid(format!("the window is empty: from {from} is after to {to}")));
        }
        Ok(Self { from, to })
    }

    /// Checks that it has at most [`MAX_WINDOW_DAYS`].
    ///
    /// # Errors
    /// `Invalid` if it has more.
    pub fn bounded(self) -> Result<Self> {
        match self.to.number() - self.from.number() >= MAX_WINDOW_DAYS {
            true => {
                Err(Error::invalid(format!("the window is longer than {MAX_WINDOW_DAYS} days; ask for less")))
            }
            false => Ok(self),
        }
    }

    /// Returns the first day.
    pub fn from(self) -> Day {
        self.from
    }

    /// Returns the last day, which belongs to the window.
    pub fn to(self) -> Day {
        self.to
    }

    /// Creates the window of one day.
    pub fn of(day: Day) -> Self {
        Self { from: day, to: day }
    }

    /// Extends the window to `day`, if that is later.
    #[must_use]
    pub fn until(self, day: Day) -> Self {
        Self { to: self.to.max(day), ..self }
    }

    /// Iterates over its days, in order.
    pub fn days(self) -> impl Iterator<Item = Day> {
        std::iter::successors(Some(self.from), |day| day.next()).take_while(move |day| *day <= self.to)
    }

    /// Returns whether `day` is inside.
    pub fn contains(self, day: Day) -> bool {
        self.from <= day && day <= self.to
    }
}

/// Writes `FROM..TO`, or the day if there is only one.
impl fmt::Display for Window {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from == self.to {
            true => write!(out, "{}", self.from),
            false => write!(out, "{}..{}", self.from, self.to),
        }
    }
}

impl FromStr for Window {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        Self::new(from.parse()?, to.parse()?)
    }
}

/// Source of the current time. Only the rim holds one; everything below takes `now` as an argument.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns the clock of this machine.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn system() -> Self {
        Self(Arc::new(|| Timestamp(chrono::Utc::now().timestamp_micros())))
    }

    /// Creates a clock that calls `tell`, for tests and for replays of history.
    pub fn from_fn(tell: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_are_strict() {
        for wrong in [
            "2013-02-30",
            "2013-6-01",
            "2013-06-1",
            "13-06-01",
            "2013-06-01 ",
            "",
            "+013-06-01",
            "0000-01-01",
        ] {
            assert!(wrong.parse::<Day>().is_err(), "{wrong}");
        }
        assert_eq!("2012-02-29".parse::<Day>().unwrap().to_string(), "2012-02-29");
        assert_eq!("2013-12-31".parse::<Day>().unwrap().month(), "2013-12");
        assert!("9999-12-31".parse::<Day>().unwrap().next().is_none());
    }

    #[test]
    fn requested_window_has_a_maximum_of_days() {
        let window = |text: &str| text.parse::<Window>().unwrap().bounded();
        let ten_years = window("2016-01-01..2026-01-07").unwrap();
        assert_eq!(ten_years.days().count(), MAX_WINDOW_DAYS as usize);
        for long in ["2016-01-01..2026-01-08", "0001-01-01..9999-12-31"] {
            assert!(window(long).unwrap_err().to_string().contains("longer than 3660 days"), "{long}");
        }
    }

    #[test]
    fn times_before_1970_belong_to_their_own_day() {
        let time = Timestamp::parse("1969-12-31T23:59:59.999999Z").unwrap();
        assert_eq!(time.day().to_string(), "1969-12-31");
        assert_eq!(
            Timestamp::parse("2013-06-01T00:30:00-04:00").unwrap().to_string(),
            "2013-06-01T04:30:00Z"
        );
        assert!(Timestamp::parse("2013-06-01T00:30:00").is_err(), "no offset");
    }

    proptest! {
        #[test]
        fn days_round_trip_and_sort_like_text(a in -719_162i32..=2_932_896, b in -719_162i32..=2_932_896) {
            let (a, b) = (Day(a), Day(b));
            prop_assert_eq!(a.to_string().parse::<Day>().unwrap(), a);
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(a.start().day(), a);
        }
    }
}
