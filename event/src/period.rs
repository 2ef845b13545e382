//! Periods of days: splitting a window into weeks, months or quarters.

use chrono::Datelike;

use crate::{Day, Error, Result, Window};

/// Length of the parts that a window is split into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// Single hours.
    Hour,
    /// Single days.
    #[default]
    Day,
    /// Monday to Sunday, as in ISO 8601.
    Week,
    /// Calendar month.
    Month,
    /// January to March, April to June, and so on.
    Quarter,
    /// The whole window.
    All,
}

impl Period {
    /// All periods by name.
    pub const NAMED: [(&'static str, Self); 6] = [
        ("hour", Self::Hour),
        ("day", Self::Day),
        ("week", Self::Week),
        ("month", Self::Month),
        ("quarter", Self::Quarter),
        ("all", Self::All),
    ];

    /// Reads a name.
    ///
    /// # Errors
    /// `Invalid`, with the valid names.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::NAMED.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, period)| period).ok_or_else(|| {
            let names = Self::NAMED.map(|(name, _)| name).join(", ");
            Error::invalid(format!("`{name}` is none of {names}"))
        })
    }

    /// Returns the parts of a window, in order: the days of each belong to one period, or the hours of each to one
    /// day. The first and the last may be shorter than a period.
    pub fn parts(self, window: Window) -> Vec<Window> {
        let mut parts: Vec<Window> = Vec::new();
        for day in window.days() {
            match parts.last_mut() {
                Some(last) if self.number(last.to()) == self.number(day) => *last = last.until(day),
                _ => parts.push(Window::of(day)),
            }
        }
        parts
    }

    /// Returns the first day of the period of a day; for the whole window, the day itself.
    pub fn first_day(self, day: Day) -> Day {
        let is_same = |other: &Day| self != Self::All && self.number(*other) == self.number(day);
        std::iter::successors(Some(day), |day| day.before().filter(is_same)).last().unwrap_or(day)
    }

    /// Returns a number that only the days of one period share.
    fn number(self, day: Day) -> i32 {
        let months = || day.date().year() * 12 + day.date().month0() as i32;
        match self {
            Self::Hour | Self::Day => day.number(),
            // 1970-01-01 was a Thursday.
            Self::Week => (day.number() + 3).div_euclid(7),
            Self::Month => months(),
            Self::Quarter => months().div_euclid(3),
            Self::All => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: &str, to: &str) -> Window {
        Window::new(from.parse().unwrap(), to.parse().unwrap()).unwrap()
    }

    fn parts(name: &str, from: &str, to: &str) -> Vec<String> {
        let parts = Period::parse(name).unwrap().parts(window(from, to));
        parts.iter().map(|part| format!("{}..{}", part.from(), part.to())).collect()
    }

    #[test]
    fn window_is_split_at_period_borders() {
        assert_eq!(parts("day", "2024-02-28", "2024-03-01").len(), 3);
        // 2026-06-01 is a Monday.
        let weeks = ["2026-05-30..2026-05-31", "2026-06-01..2026-06-07", "2026-06-08..2026-06-08"];
        assert_eq!(parts("week", "2026-05-30", "2026-06-08"), weeks);
        assert_eq!(
            parts("week", "1969-12-29", "1970-01-05"),
            ["1969-12-29..1970-01-04", "1970-01-05..1970-01-05"]
        );
        let months = [
            "2023-12-31..2023-12-31",
            "2024-01-01..2024-01-31",
            "2024-02-01..2024-02-29",
            "2024-03-01..2024-03-01",
        ];
        assert_eq!(parts("month", "2023-12-31", "2024-03-01"), months);
        let quarters = ["2026-03-31..2026-03-31", "2026-04-01..2026-06-30", "2026-07-01..2026-07-02"];
        assert_eq!(parts("quarter", "2026-03-31", "2026-07-02"), quarters);
        assert_eq!(parts("all", "2023-12-31", "2026-03-01"), ["2023-12-31..2026-03-01"]);
        let error = Period::parse("year").unwrap_err().to_string();
        assert_eq!(error, "`year` is none of hour, day, week, month, quarter, all");
    }

    #[test]
    fn a_period_has_a_first_day() {
        let first =
            |name: &str, day: &str| Period::parse(name).unwrap().first_day(day.parse().unwrap()).to_string();
        assert_eq!(first("day", "2026-06-03"), "2026-06-03");
        assert_eq!(first("week", "2026-06-03"), "2026-06-01");
        assert_eq!(first("month", "2024-02-29"), "2024-02-01");
        assert_eq!(first("quarter", "2026-06-30"), "2026-04-01");
        assert_eq!(first("all", "2026-06-30"), "2026-06-30");
    }

    #[test]
    fn parts_have_each_day_once() {
        let window = window("2019-11-20", "2021-02-03");
        for (name, period) in Period::NAMED {
            let days: Vec<Day> = period.parts(window).into_iter().flat_map(Window::days).collect();
            assert_eq!(days, window.days().collect::<Vec<_>>(), "{name}");
        }
    }
}
