//! Times in requests and files: the usual form of RFC 3339 is parsed by hand, everything else through the calendar of `chrono`.

use std::ops::RangeInclusive;

use chrono::{LocalResult, NaiveDate, NaiveDateTime, TimeZone};
use chrono_tz::Tz;
use event::{Timestamp, time::DAY_MICROS};

/// Microseconds of the years 1 to 9999.
pub(super) const TIMES: RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

/// `YYYY-MM-DDTHH:MM:SS`
const PLAIN_BYTES: usize = 19;
const DATE_BYTES: usize = 10;
/// `YYYY-MM-DDTHH:MM`
const MINUTES_BYTES: usize = 16;

/// Form of times.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// RFC 3339; the offset may be missing if there is a time zone.
    Rfc3339,
    /// Units since 1970, each of this many microseconds.
    Unix(i64),
    /// Format of `chrono::format::strftime`.
    Strftime(String),
}

/// Meaning of a local time that a zone has twice, as clocks are set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ambiguous {
    /// The first of the two instants.
    Earliest,
    /// The second of the two instants.
    Latest,
    /// Neither: the row is bad.
    #[default]
    Refuse,
}

/// Reader of times of one form. It remembers the date of the last one: the next often has the same.
#[derive(Clone, Debug)]
pub(crate) struct TimeReader {
    zone: Option<Tz>,
    ambiguous: Ambiguous,
    form: Form,
    date: [u8; DATE_BYTES],
    /// Microseconds at which that date begins.
    date_micros: i64,
}

impl Default for TimeReader {
    fn default() -> Self {
        let (zone, ambiguous) = (None, Ambiguous::Refuse);
        Self { zone, ambiguous, form: Form::Rfc3339, date: *b"1970-01-01", date_micros: 0 }
    }
}

impl TimeReader {
    /// Creates a reader of times in `zone` if they have no offset, and by `format` if it is given: `unix`, `unix_ms`, `unix_us`,
    /// or a format of `strftime`.
    ///
    /// # Errors
    /// Fails when the format is not valid.
    pub(crate) fn new(zone: Option<Tz>, format: Option<&str>) -> Result<Self, String> {
        use chrono::format::{Item, StrftimeItems};
        let form = match format {
            None => Form::Rfc3339,
            Some("unix") => Form::Unix(1_000_000),
            Some("unix_ms") => Form::Unix(1_000),
            Some("unix_us") => Form::Unix(1),
            Some(text) if StrftimeItems::new(text).any(|item| matches!(item, Item::Error)) => {
                return Err(format!(
                    "`{text}` is no format of a time (unix, unix_ms, unix_us, or such as %Y-%m-%d %H:%M:%S)"
                ));
            }
            Some(text) => Form::Strftime(text.to_owned()),
        };
        Ok(Self { zone, form, ..Self::default() })
    }

    /// Reads local times that are there twice as `ambiguous` says.
    #[must_use]
    pub(crate) fn reading_ambiguous(self, ambiguous: Ambiguous) -> Self {
        Self { ambiguous, ..self }
    }

    /// Parses a text as microseconds since 1970.
    ///
    /// # Errors
    /// The fault, as a sentence.
    #[inline]
    pub(crate) fn text(&mut self, text: &str) -> Result<i64, String> {
        match &self.form {
            Form::Rfc3339 => match self.usual(text.as_bytes()) {
                Some(micros) => Ok(micros),
                None => self.unusual(text),
            },
            Form::Unix(unit) => match text.trim().parse::<i64>() {
                Ok(number) => number.checked_mul(*unit).ok_or_else(|| outside(text)),
                Err(_) => match text.trim().parse::<f64>() {
                    Ok(number) => self.number(number),
                    Err(_) => Err(format!("`{text}` is not a number of units since 1970")),
                },
            },
            Form::Strftime(format) => self.strftime(text, format),
        }
    }

    /// Converts a whole number; `None` when times are not numbers here.
    pub(crate) fn int(&self, number: i64) -> Option<Result<i64, String>> {
        let Form::Unix(unit) = self.form else { return None };
        Some(number.checked_mul(unit).ok_or_else(|| outside(&number.to_string())))
    }

    /// Converts a number with a fraction; `None` when times are not numbers here.
    pub(crate) fn float(&self, number: f64) -> Option<Result<i64, String>> {
        matches!(self.form, Form::Unix(_)).then(|| self.number(number))
    }

    fn number(&self, number: f64) -> Result<i64, String> {
        let Form::Unix(unit) = self.form else { return Err("is not a time".into()) };
        let micros = (number * unit as f64).floor();
        // Beyond this a double does not hold whole microseconds; year 9999 is far below.
        match micros.abs() < 9e17 {
            true => Ok(micros as i64),
            false => Err(outside(&number.to_string())),
        }
    }

    /// Converts a local time in microseconds to an instant, by the zone of this reader.
    ///
    /// # Errors
    /// Fails when there is no zone, or the time does not exist or exists twice there.
    pub(crate) fn local(&self, micros: i64) -> Result<i64, String> {
        let zone = self.zone.ok_or("has no offset and no time zone is given")?;
        let time = chrono::DateTime::from_timestamp_micros(micros).ok_or_else(|| outside("the time"))?;
        self.in_zone(time.naive_utc(), zone)
    }

    /// Returns whether local times can be read.
    pub(crate) fn has_zone(&self) -> bool {
        self.zone.is_some()
    }

    /// Parses `YYYY-MM-DDTHH:MM:SS[.fff](Z|+hh:mm)`, when the text has exactly this form and a place in the calendar.
    fn usual(&mut self, text: &[u8]) -> Option<i64> {
        let (plain, rest) = text.split_first_chunk::<PLAIN_BYTES>()?;
        let separators = [plain[4], plain[7], plain[10], plain[13], plain[16]];
        if separators != *b"--T::" {
            return None;
        }
        let date = plain.first_chunk::<DATE_BYTES>()?;
        let day = if *date == self.date { self.date_micros } else { self.day(*date)? };
        let (hour, minute, second) =
            (two(plain[11], plain[12])?, two(plain[14], plain[15])?, two(plain[17], plain[18])?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                if digits == 0 || digits > 9 {
                    return None;
                }
                let digit = |at: usize| if at < digits { i64::from(rest[at] - b'0') } else { 0 };
                ((0..6).fold(0, |sum, at| sum * 10 + digit(at)), &rest[digits..])
            }
            _ => (0, rest),
        };
        let offset = match rest {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
                let (hours, minutes) = (two(*a, *b)?, two(*c, *d)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                let seconds = hours * 3600 + minutes * 60;
                if *sign == b'+' { seconds } else { -seconds }
            }
            _ => return None,
        };
        let micros = day + (hour * 3600 + minute * 60 + second - offset) * 1_000_000 + fraction;
        TIMES.contains(&micros).then_some(micros)
    }

    /// Returns the microseconds at which a date begins; remembered.
    fn day(&mut self, date: [u8; DATE_BYTES]) -> Option<i64> {
        let year = two(date[0], date[1])? * 100 + two(date[2], date[3])?;
        let (month, day) = (two(date[5], date[6])?, two(date[8], date[9])?);
        let date_of = NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32)?;
        self.date_micros = i64::from(date_of.to_epoch_days()) * DAY_MICROS;
        self.date = date;
        Some(self.date_micros)
    }

    fn unusual(&self, text: &str) -> Result<i64, String> {
        let parsed = Timestamp::parse(text);
        let parsed = parsed
            .or_else(|error| respelled(text).and_then(|usual| Timestamp::parse(&usual).ok()).ok_or(error));
        match (parsed, self.zone) {
            (Ok(time), _) => Ok(time.micros()),
            (Err(error), None) => Err(error.to_string()),
            (Err(error), Some(zone)) => {
                let forms =
                    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
                let local = forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
                match local.or_else(|| midnight(text, "%Y-%m-%d")) {
                    Some(local) => self.in_zone(local, zone),
                    None => Err(error.to_string()),
                }
            }
        }
    }

    fn strftime(&self, text: &str, format: &str) -> Result<i64, String> {
        if let Ok(time) = chrono::DateTime::parse_from_str(text, format) {
            return Ok(time.timestamp_micros());
        }
        let local = NaiveDateTime::parse_from_str(text, format).ok().or_else(|| midnight(text, format));
        match (local, self.zone) {
            (Some(local), Some(zone)) => self.in_zone(local, zone),
            (Some(_), None) => Err(format!("`{text}` has no offset and no time zone is given")),
            (None, _) => Err(format!("`{text}` is not a time of the form {format}")),
        }
    }

    fn in_zone(&self, local: NaiveDateTime, zone: Tz) -> Result<i64, String> {
        match (zone.from_local_datetime(&local), self.ambiguous) {
            (LocalResult::Single(time), _)
            | (LocalResult::Ambiguous(time, _), Ambiguous::Earliest)
            | (LocalResult::Ambiguous(_, time), Ambiguous::Latest) => Ok(time.timestamp_micros()),
            (LocalResult::Ambiguous(..), Ambiguous::Refuse) => Err(format!(
                "`{local}` is there twice in {zone}, as clocks were set back; give it an offset, or import with --ambiguous"
            )),
            (LocalResult::None, _) => {
                Err(format!("`{local}` does not exist in {zone}, as clocks were set forward"))
            }
        }
    }
}

/// Respells a time with an offset as RFC 3339: `+0000` and `+00` are written by polars and DuckDB, ` UTC` by BigQuery, and no
/// seconds by Java. `None` if it has no offset.
fn respelled(text: &str) -> Option<String> {
    let text = text.trim();
    let in_utc = ["UTC", "GMT", "Z"].iter().find_map(|name| text.strip_suffix(name));
    let (local, offset) = match in_utc {
        Some(local) => (local, "Z".to_owned()),
        None => {
            let (local, offset) =
                text.split_at_checked(text.rfind(['+', '-']).filter(|at| *at > DATE_BYTES)?)?;
            let digits: String = offset[1..].chars().filter(|letter| *letter != ':').collect();
            let (hours, minutes) = match digits.len() {
                2 => (digits.as_str(), "00"),
                4 => digits.split_at_checked(2)?,
                _ => return None,
            };
            (local, format!("{}{hours}:{minutes}", &offset[..1]))
        }
    };
    let local = local.trim_end();
    let seconds = if local.len() == MINUTES_BYTES { ":00" } else { "" };
    Some(format!("{local}{seconds}{offset}"))
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens * 10 + ones))
}

fn outside(what: &str) -> String {
    format!("`{what}` is outside of the years 1 to 9999")
}

fn midnight(text: &str, format: &str) -> Option<NaiveDateTime> {
    NaiveDate::parse_from_str(text, format).ok().and_then(|date| date.and_hms_opt(0, 0, 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both(text: &str) {
        let expected = Timestamp::parse(text).map(Timestamp::micros).map_err(|error| error.to_string());
        assert_eq!(TimeReader::default().text(text), expected, "{text}");
    }

    #[test]
    fn odd_times_are_those_of_the_calendar() {
        for text in [
            "2013-06-01T04:30:00Z",
            "2013-06-01T04:30:60Z",
            "2013-06-01T24:00:00Z",
            "2013-02-29T00:00:00Z",
            "2012-02-29T00:00:00+23:59",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59.9999999Z",
            "9999-12-31T23:59:59-00:01",
            "0000-01-01T00:00:00Z",
            "2013-06-01t04:30:00z",
            "2013-06-01 04:30:00Z",
            "2013-06-01T04:30:00.Z",
            "2013-06-01T04:30:00.1234567891234Z",
            "1969-12-31T23:59:59.9999999Z",
            "2013-06-01T04:30:00+24:00",
            "2013-06-01T04:30:00",
            "2013-06-01T04:30:00é",
            "",
        ] {
            both(text);
        }
    }

    proptest! {
        #[test]
        fn times_read_by_hand_are_those_of_chrono(
            text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,11})?(Z|[+-][0-9]{2}:[0-9]{2}|)",
        ) {
            both(&text);
        }
    }

    #[test]
    fn offsets_are_read_as_others_spell_them() {
        let usual = |text| Ok(Timestamp::parse(text).unwrap().micros());
        let mut reader = TimeReader::default();
        for (text, expected) in [
            ("2026-11-08T01:00:00.250000+0000", "2026-11-08T01:00:00.25Z"),
            ("2026-11-08 01:00:00+00", "2026-11-08T01:00:00Z"),
            ("2026-11-08 01:00:00.5-03", "2026-11-08T04:00:00.5Z"),
            ("2026-11-08T01:00:00+0530", "2026-11-07T19:30:00Z"),
            ("2026-11-08 01:00:00 +05:30", "2026-11-07T19:30:00Z"),
            ("2026-11-08T01:00Z", "2026-11-08T01:00:00Z"),
            ("2026-11-08T01:00+01:00", "2026-11-08T00:00:00Z"),
            ("2026-11-08 01:00:00 UTC", "2026-11-08T01:00:00Z"),
            ("2026-11-08 01:00:00.123456 UTC", "2026-11-08T01:00:00.123456Z"),
            ("2026-11-08 01:00:00Z ", "2026-11-08T01:00:00Z"),
        ] {
            assert_eq!(reader.text(text), usual(expected), "{text}");
        }
        for wrong in [
            "2026-11-08T01:00:00",
            "2026-11-08T01:00",
            "2026-11-08",
            "2026-11-08+00",
            "2026-11-08T01Z",
            "2026-11-08T01:00:00+000",
            "2026-11-08T01:00:00+2500",
            "2026-11-08T01:00:00é00",
            "UTC",
            "+00",
            "2026-11-08T01:00:00 CET",
        ] {
            let error = reader.text(wrong).unwrap_err();
            assert!(error.starts_with(&format!("`{wrong}` is not a time")), "{wrong}: {error}");
        }
        let mut tokyo = TimeReader::new(Some(chrono_tz::Asia::Tokyo), None).unwrap();
        assert_eq!(tokyo.text("2026-11-08T10:00"), usual("2026-11-08T01:00:00Z"));
        assert_eq!(tokyo.text("2026-11-08T01:00+00"), usual("2026-11-08T01:00:00Z"));
    }

    #[test]
    fn local_times_are_read_if_unambiguous_in_zone() {
        let mut new_york = TimeReader::new(Some(chrono_tz::America::New_York), None).unwrap();
        let utc = |text| Ok(Timestamp::parse(text).unwrap().micros());
        assert_eq!(new_york.text("2013-06-01 00:30:00.5"), utc("2013-06-01T04:30:00.5Z"));
        assert_eq!(new_york.text("2013-06-01T00:30:00Z"), utc("2013-06-01T00:30:00Z"));
        assert!(new_york.text("2013-11-03T01:30:00").unwrap_err().contains("twice"));
        assert!(new_york.text("2013-03-10T02:30:00").unwrap_err().contains("does not exist"));
        for (ambiguous, expected) in
            [(Ambiguous::Earliest, "2013-11-03T05:30:00Z"), (Ambiguous::Latest, "2013-11-03T06:30:00Z")]
        {
            let mut reader = new_york.clone().reading_ambiguous(ambiguous);
            assert_eq!(reader.text("2013-11-03T01:30:00"), utc(expected));
            assert!(reader.text("2013-03-10T02:30:00").unwrap_err().contains("does not exist"));
        }
        let mut by_form = TimeReader::new(Some(chrono_tz::UTC), Some("%d.%m.%Y %H:%M")).unwrap();
        assert_eq!(by_form.text("01.06.2013 04:30"), utc("2013-06-01T04:30:00Z"));
        let mut unix = TimeReader::new(None, Some("unix_ms")).unwrap();
        assert_eq!(unix.text("1370061000123"), utc("2013-06-01T04:30:00.123Z"));
        assert_eq!(unix.int(1_370_061_000_123), Some(utc("2013-06-01T04:30:00.123Z")));
        assert!(unix.text("9223372036854775807").is_err());
        assert!(TimeReader::new(None, Some("%Q")).is_err());
    }
}
