//! Axes: a range of numbers or of time, and its ticks: round numbers, and beginnings of hours, days, months and years.

use event::{Day, Period, Timestamp, Window, time::DAY_MICROS};

const HOUR_MICROS: i64 = DAY_MICROS / 24;

/// Hours between ticks.
const HOURS: [i64; 5] = [1, 3, 6, 12, 24];

/// Longest time whose ticks are hours.
const MAX_HOURLY_MICROS: i64 = 8 * DAY_MICROS;

/// A range that is spread over a length, and its ticks with their texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Builds the least range between two numbers that has a length: around them if they are equal, or nearly.
    fn between(from: f64, to: f64) -> Self {
        let size = from.abs().max(to.abs());
        let room = if size < 1e-290 { 0.5 } else { size * 0.05 };
        let (from, to) = if to - from > room * 1e-10 { (from, to) } else { (from - room, to + room) };
        Self { from, to, ticks: Vec::new() }
    }

    /// Builds the axis of all numbers, from 0 to 1 if there is none. It has at least so many ticks.
    pub(crate) fn of_numbers(numbers: impl Iterator<Item = f64>, ticks: usize) -> Self {
        let wider = |(from, to): (f64, f64), number: f64| (from.min(number), to.max(number));
        let axis = match numbers.fold((f64::INFINITY, f64::NEG_INFINITY), wider) {
            (from, to) if from <= to => Self::between(from, to),
            _ => Self::between(0.0, 1.0),
        };
        let most = (axis.to - axis.from) / ticks as f64;
        let power = |number: f64| (number.log10() + 1e-9).floor() as i32;
        let unit = 10f64.powi(power(most));
        let step =
            [5.0, 2.0].map(|round| round * unit).into_iter().find(|step| *step <= most).unwrap_or(unit);
        let size = axis.from.abs().max(axis.to.abs());
        let digits = usize::try_from(power(size) - power(step)).unwrap_or(0).clamp(1, 17);
        let decimals = usize::try_from(-power(step)).unwrap_or(0);
        let text = |at: f64| match size < 1e7 && step >= 1e-6 {
            true => format!("{at:.decimals$}"),
            false => format!("{at:.digits$e}"),
        };
        let steps = (axis.from / step).ceil() as i64..=(axis.to / step).floor() as i64;
        let ticks = steps.map(|number| number as f64 * step).map(|at| (at, text(at))).collect();
        Self { ticks, ..axis }
    }

    /// Builds the axis from one instant to another, without ticks if there are none.
    pub(crate) fn of_time(ends: Option<(Timestamp, Timestamp)>, most: usize) -> Self {
        let Some((from, to)) = ends else { return Self::between(0.0, 1.0) };
        let ticks = ticks_of_time(from, to, most);
        let thinned = ticks.len().div_ceil(most).max(1);
        let ticks = ticks.into_iter().step_by(thinned).map(|(at, text)| (at.micros() as f64, text)).collect();
        Self { ticks, ..Self::between(from.micros() as f64, to.micros() as f64) }
    }

    /// Returns the position of a number in the range: 0 at its beginning, 1 at its end.
    pub(crate) fn share(&self, number: f64) -> f64 {
        (number - self.from) / (self.to - self.from)
    }
}

/// Returns the beginnings of hours, days, weeks, months, quarters or years from `from` to `to`, of which about `most` are wanted;
/// the day of `from` if there are none.
fn ticks_of_time(from: Timestamp, to: Timestamp, most: usize) -> Vec<(Timestamp, String)> {
    let length = to.micros() - from.micros();
    let is_of_days = [from, to].iter().all(|at| at.micros() % DAY_MICROS == 0);
    let ticks = match Window::new(from.day(), to.day()) {
        Ok(window) if is_of_days || length > MAX_HOURLY_MICROS => days(window, from, most),
        _ => {
            let few = |step: &i64| length / step < most as i64;
            let step = HOURS.map(|hours| hours * HOUR_MICROS).into_iter().find(few).unwrap_or(DAY_MICROS);
            let first = from.micros() + (-from.micros()).rem_euclid(step);
            let ats = (first..=to.micros()).step_by(step as usize);
            ats.filter_map(Timestamp::from_micros).map(|at| (at, hour(at))).collect()
        }
    };
    if ticks.is_empty() { vec![(from, from.day().to_string())] } else { ticks }
}

fn days(window: Window, from: Timestamp, most: usize) -> Vec<(Timestamp, String)> {
    let firsts = |period: Period| -> Vec<Day> {
        let parts = period.parts(window).into_iter().map(|part| part.from());
        parts.filter(|day| day.start() >= from && period.first_day(*day) == *day).collect()
    };
    let periods = [Period::Day, Period::Week, Period::Month, Period::Quarter].into_iter();
    let found = periods.map(|period| (period, firsts(period))).find(|(_, days)| days.len() <= 2 * most);
    let years = || firsts(Period::Quarter).into_iter().filter(|day| day.month().ends_with("-01")).collect();
    let (period, days) = found.unwrap_or_else(|| (Period::All, years()));
    let text = |day: Day| match period {
        Period::Month | Period::Quarter => day.month(),
        Period::All => day.to_string()[..4].to_owned(),
        _ => day.to_string(),
    };
    days.into_iter().map(|day| (day.start(), text(day))).collect()
}

/// Returns the text of an hour: the day at midnight, the hour else.
fn hour(at: Timestamp) -> String {
    match at.micros() % DAY_MICROS {
        0 => at.day().to_string(),
        _ => at.to_string().chars().skip(11).take(5).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    fn numbers(from: f64, to: f64, ticks: usize) -> Vec<String> {
        let axis = Axis::of_numbers([from, to].into_iter(), ticks);
        texts(&axis).into_iter().map(str::to_owned).collect()
    }

    fn time(from: &str, to: &str) -> Vec<String> {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let axis = Axis::of_time(Some((at(from), at(to))), 6);
        texts(&axis).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn axis_has_positive_length_for_any_numbers() {
        let most = crate::INFINITE;
        for of in [
            &[][..],
            &[0.0],
            &[-3.0, -3.0],
            &[most, -most],
            &[most],
            &[1e-310],
            &[5e-324],
            &[0.1, 0.1 + 1e-17],
        ] {
            let axis = Axis::of_numbers(of.iter().copied(), 3);
            assert!(axis.from < axis.to && axis.ticks.len() > 2, "{of:?}: {axis:?}");
            for number in of.iter().chain(axis.ticks.iter().map(|(at, _)| at)) {
                assert!((-1e-9..=1.0 + 1e-9).contains(&axis.share(*number)), "{of:?}: {axis:?}");
            }
        }
    }

    #[test]
    fn numbers_have_round_ticks_between_them() {
        assert_eq!(numbers(0.4812, 0.9301, 4), ["0.5", "0.6", "0.7", "0.8", "0.9"]);
        assert_eq!(numbers(-120.0, 900.0, 4), ["0", "200", "400", "600", "800"]);
        assert_eq!(numbers(0.0, 3e8, 3), ["0.0e0", "1.0e8", "2.0e8", "3.0e8"]);
    }

    #[test]
    fn axis_numbers_share_one_format_and_stay_distinct() {
        for (from, to) in [
            (0.0, 1.4e7),
            (12_345_000.0, 12_345_003.0),
            (-1.9e-8, 0.9e-8),
            (1.0, 1.0 + 3e-7),
            (1e20, 1.0001e20),
            (-3.00002e-9, -3e-9),
            (9.99e6, 1.001e7),
        ] {
            let texts = numbers(from, to, 3);
            assert!(texts.len() > 2 && texts.windows(2).all(|two| two[0] != two[1]), "{texts:?}");
            assert!(texts.iter().all(|text| text.contains('e') == texts[0].contains('e')), "{texts:?}");
        }
    }

    #[test]
    fn time_ticks_fall_on_calendar_boundaries() {
        assert_eq!(time("2013-06-01T00:00:00Z", "2013-06-04T00:00:00Z").len(), 4);
        let hours = ["06:00", "12:00", "18:00", "2013-06-02"];
        assert_eq!(time("2013-06-01T05:00:00Z", "2013-06-02T03:00:00Z"), hours);
        let weeks = ["2013-06-03", "2013-06-10", "2013-06-17", "2013-06-24"];
        assert_eq!(time("2013-06-01T00:00:00Z", "2013-06-30T00:00:00Z"), weeks);
        let months = ["2013-04", "2013-05", "2013-06", "2013-07", "2013-08"];
        assert_eq!(time("2013-03-10T00:00:00Z", "2013-08-31T00:00:00Z"), months);
        assert_eq!(time("2009-04-01T00:00:00Z", "2013-08-31T00:00:00Z"), ["2010", "2011", "2012", "2013"]);
        assert_eq!(time("2013-06-01T05:00:00Z", "2013-06-01T05:00:00Z"), ["05:00"]);
        assert_eq!(time("2013-06-01T05:10:00Z", "2013-06-01T05:10:00Z"), ["2013-06-01"]);
    }
}
