//! Charts of numbers over time, for the terminal and as SVG.
//!
//! A [`Chart`] has lines, and a line has points: an instant, a number or a gap, and how sure the number is. Nothing is read and
//! nothing is written here, so the same chart gives the same text.
//!
//! ```
//! use almanac_plot::{Chart, Line, Point};
//! use event::Day;
//!
//! let days: [Day; 3] = ["2013-06-01", "2013-06-02", "2013-06-03"].map(|day| day.parse().unwrap());
//! let points = days.iter().zip([0.81, 0.84, 0.79]);
//! let points = points.map(|(day, value)| Point::new(day.start(), Some(value))).collect();
//! let lines = vec![Line { name: "v1".into(), points }];
//! let chart = Chart { title: "auc".into(), lines, ..Chart::default() };
//! assert!(chart.terminal(60, 10, false).contains("2013-06-02"));
//! assert!(chart.svg().starts_with("<svg"));
//! ```

mod legend;
mod scale;
mod svg;
mod terminal;
mod ticks;

use event::{Timestamp, Window};
use scale::Scale;
use ticks::Tick;

pub use svg::escaped;

/// How many lines a chart shows: as many as there are colours that stay distinct to people who see few of them.
pub const MAX_LINES: usize = 7;

/// What a chart without numbers says.
pub const NO_NUMBERS: &str = "no numbers in this window";

/// Lines over time under a title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What is drawn.
    pub title: String,
    /// The lines, of which the first [`MAX_LINES`] are drawn.
    pub lines: Vec<Line>,
    /// What happened at instants of its time; an image alone shows it.
    pub marks: Vec<Mark>,
    /// The days that were asked for, which a chart without any point shows.
    pub days: Option<Window>,
}

/// Something that happened, such as a promotion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// What, in a word or two.
    pub text: String,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Its points, in the order of time.
    pub points: Vec<Point>,
}

/// A number at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    at: Timestamp,
    value: Option<f64>,
    interval: Option<(f64, f64)>,
}

impl Line {
    /// Whether any of its points has a number.
    pub fn has_numbers(&self) -> bool {
        self.points.iter().any(|point| point.value.is_some())
    }
}

impl Point {
    /// A point, or a gap in the line where there is no number. What is not finite is a gap too.
    pub fn new(at: Timestamp, value: Option<f64>) -> Self {
        Self { at, value: value.filter(|value| value.is_finite()), interval: None }
    }

    /// The same point with the interval in which the true number probably is. What is not finite says nothing.
    #[must_use]
    pub fn within(self, low: Option<f64>, high: Option<f64>) -> Self {
        let finite = |end: Option<f64>| end.filter(|end| end.is_finite());
        Self { interval: finite(low).zip(finite(high)), ..self }
    }

    /// The numbers of this point, of which a chart must have room for all.
    fn numbers(&self) -> impl Iterator<Item = f64> {
        self.value.into_iter().chain(self.interval.into_iter().flat_map(|(low, high)| [low, high]))
    }
}

impl Chart {
    /// The lines that are drawn.
    fn drawn(&self) -> &[Line] {
        &self.lines[..self.lines.len().min(MAX_LINES)]
    }

    /// The points that are drawn, of all lines.
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.drawn().iter().flat_map(|line| &line.points)
    }

    /// Whether there is no number to draw.
    pub fn is_empty(&self) -> bool {
        !self.drawn().iter().any(Line::has_numbers)
    }

    /// The range of all numbers.
    fn range(&self) -> Scale {
        Scale::around(self.points().flat_map(Point::numbers))
    }

    /// The axis of the numbers, with about `ticks` ticks.
    fn numbers(&self, ticks: usize) -> (Scale, Vec<Tick>) {
        ticks::of_numbers(self.range(), ticks)
    }

    /// The axis of the numbers where there is little room: it ends with the numbers themselves, so ticks stand inside. It is the roomy
    /// one where fewer than two would.
    fn numbers_within(&self, ticks: usize) -> (Scale, Vec<Tick>) {
        let scale = self.range();
        let (roomy, around) = ticks::of_numbers(scale, ticks);
        let inside = around.iter().filter(|tick| (0.0..=1.0).contains(&scale.share(tick.at)));
        match inside.clone().count() {
            0 | 1 => (roomy, around),
            _ => (scale, inside.cloned().collect()),
        }
    }

    /// The axis of time, with at most `ticks` ticks. It begins with the first point, also where that is a gap. Without a point it has the
    /// days that were asked for, or no ticks.
    fn time(&self, ticks: usize) -> (Scale, Vec<Tick>) {
        let instants = || self.points().map(|point| point.at);
        let asked = || self.days.map(|days| (days.from().start(), days.to().start()));
        match instants().min().zip(instants().max()).or_else(asked) {
            Some((from, to)) => {
                (Scale::new(from.micros() as f64, to.micros() as f64), ticks::of_time(from, to, ticks))
            }
            None => (Scale::new(0.0, 1.0), Vec::new()),
        }
    }

    /// The chart as lines of text, `width` characters wide and `height` lines high with axes and legend. With `colour` each
    /// line has its own colour, by escape sequences of ANSI terminals; without, each of several lines has its own letter.
    pub fn terminal(&self, width: usize, height: usize, colour: bool) -> String {
        terminal::draw(self, width, height, colour)
    }

    /// The chart as an SVG image, which stands by itself: no script, no font, no reference. It is light or dark as the reader's
    /// device is.
    pub fn svg(&self) -> String {
        svg::stacked(std::slice::from_ref(self))
    }
}

/// Charts one below the other, as one image like [`Chart::svg`].
pub fn stacked(charts: &[Chart]) -> String {
    svg::stacked(charts)
}

#[cfg(test)]
mod tests;
