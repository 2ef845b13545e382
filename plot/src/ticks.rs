//! The ticks of axes: round numbers, and beginnings of hours, days, months and years.

use event::{Day, Timestamp, Window, time::DAY_MICROS};

use crate::scale::Scale;

const HOUR_MICROS: i64 = DAY_MICROS / 24;

/// A position on an axis with its text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) text: String,
}

/// Distance between ticks of time.
#[derive(Clone, Copy)]
enum Every {
    Hours(i64),
    Days(i32),
    Months(u32),
    Years(u32),
}

/// Distances of ticks, from the smallest to the greatest.
const EVERY: [Every; 14] = [
    Every::Hours(1),
    Every::Hours(3),
    Every::Hours(6),
    Every::Hours(12),
    Every::Days(1),
    Every::Days(2),
    Every::Days(7),
    Every::Days(14),
    Every::Months(1),
    Every::Months(3),
    Every::Months(6),
    Every::Years(1),
    Every::Years(5),
    Every::Years(50),
];

/// Returns round numbers, about as many as requested, and the range from the first to the last, which holds `scale`.
pub(crate) fn of_numbers(scale: Scale, ticks: usize) -> (Scale, Vec<Tick>) {
    let ticks = ticks.max(2);
    let length = scale.to / ticks as f64 - scale.from / ticks as f64;
    let power = 10f64.powi(length.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0, 10.0].map(|round| round * power).into_iter().find(|step| *step >= length);
    let step = step.filter(|step| step.is_finite() && *step > 0.0);
    let around = step.map(|step| (step, (scale.from / step).floor(), (scale.to / step).ceil()));
    let finite = around.filter(|(step, first, last)| (first * step).is_finite() && (last * step).is_finite());
    let Some((step, first, last)) = finite else {
        // At the limits of doubles there are no round numbers.
        return (scale, [scale.from, scale.to].map(|at| Tick { at, text: format!("{at:.1e}") }).to_vec());
    };
    let text = text_of(step, first.abs().max(last.abs()) * step);
    let count = (last - first).clamp(1.0, 100.0) as usize;
    let ats = (0..=count).map(|index| (first + index as f64) * step);
    let ticks: Vec<Tick> = ats.map(|at| Tick { at, text: text(at) }).collect();
    (Scale::new(first * step, last * step), ticks)
}

/// Returns the format of the numbers of an axis, the greatest of which is `most`: uniform, with enough digits to distinguish
/// them.
fn text_of(step: f64, most: f64) -> impl Fn(f64) -> String {
    let power = |number: f64| (number.log10() + 1e-9).floor();
    let decimals = (-power(step)).clamp(0.0, 300.0) as usize;
    let digits = (power(most.max(step)) - power(step)).clamp(2.0, 17.0) as usize;
    // Many digits are plainer without a power of ten, unless most of them were zeros.
    let with_power = match (most >= 1e7, step < 1e-6) {
        (true, _) => digits <= 3 || most >= 1e15,
        (false, true) => digits <= 3 || most < 1e-6,
        (false, false) => false,
    };
    move |at| if with_power { format!("{at:.digits$e}") } else { format!("{at:.decimals$}") }
}

/// Returns the beginnings of hours, days, months or years from `from` to `to`, at most as many as requested; the day of `from` if
/// there are none.
pub(crate) fn of_time(from: Timestamp, to: Timestamp, ticks: usize) -> Vec<Tick> {
    let few = |every: &Every| {
        let found = every.ticks(from, to, ticks);
        (!found.is_empty() && found.len() <= ticks).then_some(found)
    };
    let found = EVERY.iter().filter(|every| every.suits(from, to)).find_map(few);
    found.unwrap_or_else(|| vec![Tick { at: from.micros() as f64, text: from.day().to_string() }])
}

impl Every {
    /// Returns true if ticks at this distance make sense: days are given by day, not by hour.
    fn suits(self, from: Timestamp, to: Timestamp) -> bool {
        let whole_days = [from, to].iter().all(|at| at.micros() % DAY_MICROS == 0);
        !(matches!(self, Self::Hours(_)) && (whole_days || to.micros() - from.micros() > 8 * DAY_MICROS))
    }

    /// Returns the ticks of a window, or one more than requested if there are more.
    fn ticks(self, from: Timestamp, to: Timestamp, most: usize) -> Vec<Tick> {
        if let Self::Hours(hours) = self {
            let step = hours * HOUR_MICROS;
            let first = from.micros().div_euclid(step) + i64::from(from.micros().rem_euclid(step) > 0);
            let ats = (first..).map(|number| number * step).take_while(|at| *at <= to.micros());
            let ats = ats.filter_map(Timestamp::from_micros).take(most + 1);
            return ats.map(|at| Tick { at: at.micros() as f64, text: of_hour(at) }).collect();
        }
        let Ok(window) = Window::new(from.day(), to.day()) else { return Vec::new() };
        let days = window.days().filter(|day| day.start() >= from && self.begins(*day));
        let tick = |day: Day| Tick { at: day.start().micros() as f64, text: self.of_day(day) };
        days.map(tick).take(most + 1).collect()
    }

    /// Returns true if a tick stands at the beginning of this day.
    fn begins(self, day: Day) -> bool {
        let text = day.to_string();
        let number = |part: std::ops::Range<usize>| text[part].parse().unwrap_or(0u32);
        match self {
            Self::Hours(_) => false,
            // Day 4 of the count was a Monday.
            Self::Days(days) if days % 7 == 0 => (day.number() - 4).rem_euclid(days) == 0,
            Self::Days(days) => day.number().rem_euclid(days) == 0,
            Self::Months(months) => text.ends_with("-01") && (number(5..7) - 1) % months == 0,
            Self::Years(years) => text.ends_with("-01-01") && number(0..4) % years == 0,
        }
    }

    fn of_day(self, day: Day) -> String {
        match self {
            Self::Months(_) => day.month(),
            Self::Years(_) => day.to_string()[..4].to_owned(),
            Self::Hours(_) | Self::Days(_) => day.to_string(),
        }
    }
}

/// Returns the text of an hour at an axis: the day at midnight, the hour else.
fn of_hour(at: Timestamp) -> String {
    match at.micros() % DAY_MICROS {
        0 => at.day().to_string(),
        _ => at.to_string().chars().skip(11).take(5).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    fn time(from: &str, to: &str) -> Vec<String> {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let ticks = of_time(at(from), at(to), 6);
        texts(&ticks).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn numbers_have_round_ticks_around_them() {
        let (scale, ticks) = of_numbers(Scale::new(0.4812, 0.9301), 5);
        assert_eq!(texts(&ticks), ["0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]);
        assert_eq!((scale.from, scale.to), (ticks[0].at, ticks[6].at));
        assert_eq!(texts(&of_numbers(Scale::new(-120.0, 900.0), 4).1), ["-500", "0", "500", "1000"]);
        assert_eq!(texts(&of_numbers(Scale::new(0.0, 3e8), 3).1), ["0.00e0", "1.00e8", "2.00e8", "3.00e8"]);
        assert_eq!(of_numbers(Scale::new(f64::MIN, f64::MAX), 3).1.len(), 2);
    }

    #[test]
    fn axis_numbers_share_one_format_and_stay_distinct() {
        let written = |from: f64, to: f64| {
            let ticks = of_numbers(Scale::new(from, to), 3).1;
            texts(&ticks).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(written(0.0, 1.4e7), ["0.00e0", "5.00e6", "1.00e7", "1.50e7"]);
        assert_eq!(written(12_345_000.0, 12_345_003.0), ["12345000", "12345001", "12345002", "12345003"]);
        assert_eq!(written(-1.9e-8, 0.9e-8), ["-2.00e-8", "-1.00e-8", "0.00e0", "1.00e-8"]);
        for (from, to) in [(1.0, 1.0 + 3e-7), (1e20, 1.0001e20), (-3.00002e-9, -3e-9), (9.99e6, 1.001e7)] {
            let texts = written(from, to);
            assert!(texts.windows(2).all(|two| two[0] != two[1]), "{texts:?}");
        }
    }

    #[test]
    fn time_ticks_fall_on_calendar_boundaries() {
        assert_eq!(time("2013-06-01T00:00:00Z", "2013-06-04T00:00:00Z").len(), 4);
        assert_eq!(
            time("2013-06-01T05:00:00Z", "2013-06-02T03:00:00Z"),
            ["06:00", "12:00", "18:00", "2013-06-02"]
        );
        assert_eq!(
            time("2013-06-01T00:00:00Z", "2013-06-30T00:00:00Z"),
            ["2013-06-03", "2013-06-10", "2013-06-17", "2013-06-24"]
        );
        assert_eq!(
            time("2013-04-01T00:00:00Z", "2013-08-31T00:00:00Z"),
            ["2013-04", "2013-05", "2013-06", "2013-07", "2013-08"]
        );
        assert_eq!(time("2009-04-01T00:00:00Z", "2013-08-31T00:00:00Z"), ["2010", "2011", "2012", "2013"]);
        assert_eq!(time("2013-06-01T05:00:00Z", "2013-06-01T05:00:00Z"), ["05:00"]);
        assert_eq!(time("2013-06-01T05:10:00Z", "2013-06-01T05:10:00Z"), ["2013-06-01"]);
    }
}
