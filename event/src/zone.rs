//! Time zones: beginnings and ends of days and hours in a place.

use std::fmt;

use chrono::{DateTime, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike};
use chrono_tz::Tz;

use crate::{Day, Error, Result, Timestamp, Window};

/// Resolution of offsets: today's offsets and their changes are multiples of 15 minutes.
const STEP_MINUTES: i64 = 15;

/// A time zone of the IANA database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Zone(Tz);

impl Zone {
    /// Default zone of all days.
    pub const UTC: Self = Self(Tz::UTC);

    /// Reads a name, such as `Europe/Berlin`.
    ///
    /// # Errors
    /// `Invalid` if there is no such time zone.
    pub fn parse(name: &str) -> Result<Self> {
        let zone = name.parse().map_err(|_| {
            Error::invalid(format!("`{name}` is no time zone; they are called as `Europe/Berlin` is"))
        })?;
        Ok(Self(zone))
    }

    /// Returns whether it is UTC.
    pub fn is_utc(self) -> bool {
        self.0 == Tz::UTC
    }

    /// Returns the instant at which local clocks show a time, in microseconds: the first one if they show it twice,
    /// and the next one after it if clocks are put forward over it.
    fn instant(self, shown: NaiveDateTime) -> i64 {
        let steps = (0..).map(|step| shown + TimeDelta::minutes(step * STEP_MINUTES));
        // No place has ever skipped two days.
        let mut steps = steps.take(2 * 24 * 60 / STEP_MINUTES as usize);
        let first = steps.find_map(|local| self.0.from_local_datetime(&local).earliest());
        first.map_or_else(|| shown.and_utc().timestamp_micros(), |time| time.timestamp_micros())
    }

    /// Returns the instant at which local clocks show a time of a day, in seconds after midnight: the first one if
    /// they show it twice, and the next one after it if clocks are put forward over it.
    pub fn at(self, day: Day, seconds: i64) -> Timestamp {
        let shown = day.date().and_time(NaiveTime::MIN) + TimeDelta::seconds(seconds);
        Timestamp::from_micros(self.instant(shown)).unwrap_or_else(|| day.start())
    }

    /// Returns the span of these local days in microseconds, from the first instant, inclusive, to the second,
    /// exclusive.
    pub fn span(self, days: Window) -> (i64, i64) {
        let midnight = |day: Day| day.date().and_time(NaiveTime::MIN);
        let end = midnight(days.to()) + TimeDelta::days(1);
        (self.instant(midnight(days.from())), self.instant(end))
    }

    /// Returns the instants at which the hours of a local day begin, and the end of the last one; in microseconds. A
    /// day with a change of clocks has 23 or 25 hours.
    pub fn hours(self, day: Day) -> Vec<i64> {
        let (start, end) = self.span(Window::of(day));
        let local = |micros| {
            let time = DateTime::from_timestamp_micros(micros)?.with_timezone(&self.0);
            Some((time.hour(), time.minute()))
        };
        let step = STEP_MINUTES * 60 * 1_000_000;
        // If clocks are put forward by half an hour, an hour begins at its half.
        let begins = |micros: &i64| match (local(micros - step), local(*micros)) {
            (Some((before, _)), Some((hour, minute))) => minute == 0 || hour != before,
            _ => false,
        };
        let later = (start..end).step_by(step as usize).skip(1).filter(begins);
        std::iter::once(start).chain(later).chain([end]).collect()
    }

    /// Returns the local day at an instant.
    pub fn day(self, at: Timestamp) -> Day {
        let there = DateTime::from_timestamp_micros(at.micros());
        let local = there.map(|time| time.with_timezone(&self.0).naive_local().and_utc().timestamp_micros());
        local.and_then(Timestamp::from_micros).unwrap_or(at).day()
    }

    /// Returns the UTC days that contain these local days.
    pub fn utc_days(self, days: Window) -> Window {
        let (start, end) = self.span(days);
        let day = |micros, or: Day| Timestamp::from_micros(micros).map_or(or, Timestamp::day);
        let from = day(start, days.from());
        Window::of(from).until(day(end - 1, days.to()))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    fn times(zone: &str, of: &str) -> Vec<String> {
        let hours = Zone::parse(zone).unwrap().hours(day(of));
        hours.into_iter().map(|micros| Timestamp::from_micros(micros).unwrap().to_string()).collect()
    }

    #[test]
    fn days_of_a_place_have_its_hours() {
        let spring = times("Europe/Berlin", "2026-03-29");
        assert_eq!(spring.len(), 23 + 1);
        assert_eq!((&*spring[0], &*spring[2]), ("2026-03-28T23:00:00Z", "2026-03-29T01:00:00Z"));
        assert_eq!(spring[23], "2026-03-29T22:00:00Z");
        let autumn = times("Europe/Berlin", "2026-10-25");
        assert_eq!(autumn.len(), 25 + 1);
        assert_eq!((&*autumn[0], &*autumn[25]), ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"));
        assert_eq!(times("UTC", "2026-06-01").len(), 24 + 1);
        let kolkata = times("Asia/Kolkata", "2026-06-01");
        assert_eq!((kolkata.len(), &*kolkata[0]), (25, "2026-05-31T18:30:00Z"));
        // Clocks move from two to half past two: the hour that begins then is half as long.
        let lord_howe = times("Australia/Lord_Howe", "2026-10-04");
        let expected =
            ["2026-10-03T13:30:00Z", "2026-10-03T14:30:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"];
        assert_eq!(lord_howe[..4], expected);
    }

    #[test]
    fn zone_days_may_lack_midnight_or_be_empty() {
        let span = |zone: &str, of: &str| {
            let (from, to) = Zone::parse(zone).unwrap().span(Window::of(day(of)));
            [from, to].map(|micros| Timestamp::from_micros(micros).unwrap().to_string())
        };
        assert_eq!(span("America/Sao_Paulo", "2018-11-04"), ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"]);
        assert_eq!(span("Pacific/Apia", "2011-12-30"), ["2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"]);
        let error = Zone::parse("Berlin").unwrap_err().to_string();
        assert_eq!(error, "`Berlin` is no time zone; they are called as `Europe/Berlin` is");
    }

    #[test]
    fn time_of_day_follows_local_clock() {
        let at = |zone: &str, of: &str, minutes: i64| {
            Zone::parse(zone).unwrap().at(day(of), minutes * 60).to_string()
        };
        assert_eq!(at("UTC", "2026-06-01", 7 * 60), "2026-06-01T07:00:00Z");
        assert_eq!(at("Europe/Berlin", "2026-06-01", 7 * 60), "2026-06-01T05:00:00Z");
        assert_eq!(at("Europe/Berlin", "2026-01-01", 7 * 60), "2026-01-01T06:00:00Z");
        assert_eq!(at("Pacific/Auckland", "2026-06-01", 7 * 60), "2026-05-31T19:00:00Z");
        assert_eq!(
            at("Europe/Berlin", "2026-03-29", 150),
            "2026-03-29T01:00:00Z",
            "half past two is left out"
        );
        assert_eq!(at("Europe/Berlin", "2026-10-25", 150), "2026-10-25T00:30:00Z", "and comes twice");
    }

    #[test]
    fn days_of_a_place_lie_in_utc_days() {
        let utc = |zone: &str| {
            let window = Window::new(day("2026-06-01"), day("2026-06-02")).unwrap();
            let days = Zone::parse(zone).unwrap().utc_days(window);
            format!("{}..{}", days.from(), days.to())
        };
        assert_eq!(utc("Europe/Berlin"), "2026-05-31..2026-06-02");
        assert_eq!(utc("America/New_York"), "2026-06-01..2026-06-03");
        assert_eq!(utc("UTC"), "2026-06-01..2026-06-02");
        let last = Window::of(day("9999-12-31"));
        assert_eq!(Zone::parse("America/New_York").unwrap().utc_days(last).to(), day("9999-12-31"));
        let first = Window::of(day("0001-01-01"));
        assert_eq!(Zone::parse("Asia/Tokyo").unwrap().utc_days(first).from(), day("0001-01-01"));
    }
}
