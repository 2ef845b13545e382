//! Windows, given by their ends or by their length.

use event::{Day, Error, MAX_WINDOW_DAYS, Result, Timestamp, Window, Zone};

use crate::request::Dataset;

/// The days that a request reads and, for events and joined rows, the instants between which they happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) days: Window,
    /// Only events at this instant or later.
    pub(crate) since: Option<Timestamp>,
    /// Only events before this instant.
    pub(crate) before: Option<Timestamp>,
}

impl Span {
    /// Parses the first and the last day, or the instants given instead.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub(crate) fn parse(what: Dataset, from: &str, to: &str) -> Result<Self> {
        let instant = |name: &str, text: &str| match text.contains('T') {
            false => Ok(None),
            true if what.rows_of().is_none() => Err(Error::invalid(format!(
                "{name}: {} are of whole days; name a day instead of an instant",
                what.name()
            ))),
            true => {
                Timestamp::parse(text).map(Some).map_err(|error| Error::invalid(format!("{name}: {error}")))
            }
        };
        let (since, before) = (instant("from", from)?, instant("to", to)?);
        if since.zip(before).is_some_and(|(since, before)| since >= before) {
            return Err(Error::invalid(format!("the window is empty: from {from} is not before to {to}")));
        }
        let first = since.map_or(from.to_owned(), |since| since.day().to_string());
        // The instant itself does not belong to the window.
        let last = before.and_then(|before| Timestamp::from_micros(before.micros() - 1));
        let last = last.map_or(to.to_owned(), |last| last.day().to_string());
        Ok(Self { days: days_between(&first, &last)?, since, before })
    }
}

/// Length of a window that ends now, and the current time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Last<'a> {
    /// A number of days, hours or weeks: `7d`, `6h`, `2w`.
    pub word: &'a str,
    /// The time of the answering service.
    pub now: Timestamp,
}

impl Last<'_> {
    /// Returns the first and the last day, or instant, in the form of `from` and `to`: days end with the current one, hours with
    /// the current second.
    ///
    /// # Errors
    /// `Invalid`, if it is no such number, or hours are requested of data of whole days.
    pub(crate) fn ends(&self, what: Dataset, zone: Option<Zone>) -> Result<[String; 2]> {
        let word = self.word;
        let wrong = || {
            Error::invalid(format!(
                "last: `{word}` is not a number of hours, days or weeks, such as 6h, 7d or 2w"
            ))
        };
        let unit = word.chars().next_back().ok_or_else(wrong)?;
        let number = word[..word.len() - unit.len_utf8()].parse::<u32>().ok().filter(|number| *number > 0);
        let number = i64::from(number.ok_or_else(wrong)?);
        let days = match unit {
            'd' => number,
            'w' => number * 7,
            'h' => (number + 23) / 24,
            _ => return Err(wrong()),
        };
        if days > i64::from(MAX_WINDOW_DAYS) {
            return Err(Error::invalid(format!(
                "last: {word} is longer than {MAX_WINDOW_DAYS} days; ask for less"
            )));
        }
        if unit != 'h' {
            let today = zone.map_or(self.now.day(), |zone| zone.day(self.now));
            let first = today.start().plus_seconds(-(days - 1) * 86_400).day();
            return Ok([first.to_string(), today.to_string()]);
        }
        if what.rows_of().is_none() {
            return Err(Error::invalid(format!(
                "last: {} are of whole days; ask for days, such as 7d",
                what.name()
            )));
        }
        // The current second is not over.
        let end = Timestamp::from_micros((self.now.micros().div_euclid(1_000_000) + 1) * 1_000_000);
        let end = end.ok_or_else(wrong)?;
        Ok([end.plus_seconds(-number * 3_600).to_string(), end.to_string()])
    }
}

/// Parses the days from one to another, both included.
///
/// # Errors
/// `Invalid`, naming the wrong parameter.
pub(crate) fn days_between(from: &str, to: &str) -> Result<Window> {
    let named = |name: &str, error: Error| Error::invalid(format!("{name}: {error}"));
    let from: Day = from.parse().map_err(|error| named("from", error))?;
    let to: Day = to.parse().map_err(|error| named("to", error))?;
    Window::new(from, to)?.bounded()
}

/// Default number of days of a window before its last one.
const DAYS_BEFORE: i64 = 6;

/// Returns the window between two days, each optional: by default the week that ends with `to`, or with today.
///
/// # Errors
/// `Invalid`, if the days are not in their order, or too many.
pub(crate) fn week_until(from: Option<Day>, to: Option<Day>, now: Timestamp) -> Result<Window> {
    days_until(from, to, DAYS_BEFORE, now)
}

/// Returns the days from one to another: by default up to today, and from `before` days before the last one.
///
/// # Errors
/// As [`week_until`].
pub(crate) fn days_until(from: Option<Day>, to: Option<Day>, before: i64, now: Timestamp) -> Result<Window> {
    let to = to.unwrap_or_else(|| now.day());
    let from = from.unwrap_or_else(|| to.start().plus_seconds(-before * 24 * 60 * 60).day());
    Window::new(from, to)?.bounded()
}

/// Describes days in their order: the only one, or their number from the first to the last.
pub(crate) fn in_words(days: &[Day]) -> String {
    match days {
        [] => "no days".into(),
        [day] => day.to_string(),
        [first, .., last] => format!("{} days from {first} to {last}", days.len()),
    }
}

#[cfg(test)]
mod tests {
    use event::Kind;

    use super::*;

    const EVENTS: Dataset = Dataset::Events(Kind::Predictions);

    #[test]
    fn trailing_window_is_parsed_from_its_length() {
        let now = Timestamp::parse("2026-06-30T22:30:00.25Z").unwrap();
        let ends = |word| Last { word, now }.ends(EVENTS, None);
        assert_eq!(ends("7d").unwrap(), ["2026-06-24", "2026-06-30"]);
        assert_eq!(ends("1d").unwrap(), ["2026-06-30", "2026-06-30"]);
        assert_eq!(ends("2w").unwrap(), ["2026-06-17", "2026-06-30"]);
        assert_eq!(ends("36h").unwrap(), ["2026-06-29T10:30:01Z", "2026-06-30T22:30:01Z"]);
        for word in ["", "d", "0d", "-1d", "+", "7", "7y", "99999h", "3661d", "7\u{e4}", "\u{e4}d"] {
            assert!(ends(word).unwrap_err().to_string().starts_with("last: "), "{word}");
        }
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let last = |word| Last { word, now }.ends(Dataset::Evaluations, Some(berlin));
        assert_eq!(last("2d").unwrap(), ["2026-06-30", "2026-07-01"], "it is tomorrow there");
        assert!(last("2h").unwrap_err().to_string().contains("whole days"));
    }

    #[test]
    fn instants_narrow_a_window_of_days() {
        let span = |from, to| Span::parse(EVENTS, from, to);
        let hours = span("2026-06-29T20:00:00+02:00", "2026-07-01T00:00:00Z").unwrap();
        let days = (hours.days.from().to_string(), hours.days.to().to_string());
        assert_eq!(days, ("2026-06-29".into(), "2026-06-30".into()));
        assert_eq!(hours.since.unwrap().to_string(), "2026-06-29T18:00:00Z");
        assert_eq!(hours.before.unwrap().to_string(), "2026-07-01T00:00:00Z");
        let mixed = span("2026-06-29", "2026-06-29T06:00:00Z").unwrap();
        assert_eq!((mixed.since, mixed.days.to()), (None, mixed.days.from()));
        for (from, to) in [
            ("2026-06-29T18:00:00Z", "2026-06-29T18:00:00Z"),
            ("2026-06-29T18:00:00Z", "2026-06-29T17:00:00Z"),
            ("2026-06-29", "2026-06-29T00:00:00Z"),
        ] {
            assert!(
                span(from, to).unwrap_err().to_string().starts_with("the window is empty"),
                "{from} {to}"
            );
        }
        assert!(span("2026-06-29Tnoon", "2026-07-01").unwrap_err().to_string().starts_with("from: "));
        assert_eq!(
            Span::parse(Dataset::Joined, "2026-06-01", "2026-06-02T00:00:00Z").unwrap().days.to().to_string(),
            "2026-06-01"
        );
        let refused = Span::parse(Dataset::Evaluations, "2026-06-01", "2026-06-02T00:00:00Z").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "to: evaluations are of whole days; name a day instead of an instant"
        );
    }
}
