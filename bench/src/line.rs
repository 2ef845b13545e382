//! A line of the report: one piece of work, with the figures of Almanac and the peer.

use crate::{goals, rounds::Found, samples::Samples};

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Line {
    /// Id that goals refer to.
    pub id: &'static str,
    /// Description of the work.
    pub work: String,
    /// Unit of the figures, such as `rows/s`.
    pub unit: &'static str,
    /// Name of the peer.
    pub peer: Option<String>,
    /// Figures, or the reason why there are none.
    pub figures: Result<Figures, String>,
}

/// Figures of a line.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Samples of Almanac.
    pub almanac: Samples,
    /// Samples of the peer.
    pub peer: Option<Samples>,
}

impl Figures {
    /// Returns Almanac's median divided by the peer's.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.almanac.median() / self.peer.as_ref()?.median())
    }
}

impl Line {
    /// Creates a line of two sides measured in turn: the reading `name` of each.
    pub fn of(
        id: &'static str,
        work: impl Into<String>,
        (unit, name): (&'static str, &str),
        almanac: &Found,
        (peer, found): (&str, &Found),
    ) -> Self {
        let figures = almanac.samples(name).and_then(|almanac| {
            let peer = Some(found.samples(name)?);
            Ok(Figures { almanac, peer })
        });
        Self { id, work: work.into(), unit, peer: Some(peer.to_owned()), figures }
    }

    /// Creates a line of Almanac alone.
    pub fn alone(
        id: &'static str,
        work: impl Into<String>,
        unit: &'static str,
        almanac: Result<Samples, String>,
    ) -> Self {
        let figures = almanac.map(|almanac| Figures { almanac, peer: None });
        Self { id, work: work.into(), unit, peer: None, figures }
    }

    /// Returns the goals of the line, each with whether it is met within `tolerance`; `None` if the line was not
    /// measured.
    pub fn goals(&self, tolerance: f64) -> Vec<(String, Option<bool>)> {
        let goals = goals::of(self.id);
        let holds = |goal: &goals::Goal| {
            let figures = self.figures.as_ref().ok()?;
            Some(goal.bound.holds(figures.almanac.median(), figures.ratio(), tolerance))
        };
        goals.map(|goal| (goal.bound.told(self.unit), holds(goal))).collect()
    }
}

/// Formats a ratio for people.
pub fn ratio_text(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("{ratio:.0}x"),
        ratio if ratio >= 10.0 => format!("{ratio:.1}x"),
        ratio if ratio >= 0.1 => format!("{ratio:.2}x"),
        ratio => format!("{ratio:.4}x"),
    }
}

/// Formats a figure for people: three digits or so, with separated thousands.
pub fn figure(value: f64, unit: &str) -> String {
    let number = match value.abs() {
        size if size >= 1_000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    format!("{number} {unit}")
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_with_three_digits() {
        let told = [1_234_567.8, 999.6, 12.34, 0.5].map(|value| figure(value, "ms"));
        assert_eq!(told, ["1,234,568 ms", "1000 ms", "12.3 ms", "0.50 ms"]);
        assert_eq!([1.0 / 30.0, 0.5, 312.4].map(ratio_text), ["0.0333x", "0.50x", "312x"]);
    }

    #[test]
    fn a_line_without_figures_reaches_no_goal() {
        let line = Line::alone("memory", "memory", "MB", Err("not run".into()));
        assert_eq!(line.goals(0.1), [("≤400 MB".to_owned(), None)]);
        let line = Line::alone("memory", "memory", "MB", Ok(Samples::new(vec![430.0])));
        assert_eq!(line.goals(0.1)[0].1, Some(true));
        assert_eq!(line.goals(0.0)[0].1, Some(false));
    }
}
