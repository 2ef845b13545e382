//! Charts of numbers over time, for the terminal and as SVG.
//!
//! A [`Chart`] has lines, and a line has points: an instant, a number or a gap, and the interval of the number. Nothing is read
//! or written here, so equal charts give equal text.
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

/// Maximum number of lines of a chart: the number of colours that stay distinct to people with limited colour vision.
pub const MAX_LINES: usize = 7;

/// Text of a chart without numbers.
pub const NO_NUMBERS: &str = "no numbers in this window";

/// Lines over time under a title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// The lines, of which the first [`MAX_LINES`] are drawn.
    pub lines: Vec<Line>,
    /// Events within its time; only an image shows them.
    pub marks: Vec<Mark>,
    /// The requested days, shown by a chart without any point.
    pub days: Option<Window>,
}

/// An event, such as a promotion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// Time of the event.
    pub at: Timestamp,
    /// Text in a word or two.
    pub text: String,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Name in the legend.
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
    /// Returns true if any of its points has a number.
    pub fn has_numbers(&self) -> bool {
        self.points.iter().any(|point| point.value.is_some())
    }
}

impl Point {
    /// Builds a point, or a gap in the line if there is no finite number.
    pub fn new(at: Timestamp, value: Option<f64>) -> Self {
        Self { at, value: value.filter(|value| value.is_finite()), interval: None }
    }

    /// Sets the interval that probably holds the true number. An end that is not finite means no interval.
    #[must_use]
    pub fn within(self, low: Option<f64>, high: Option<f64>) -> Self {
        let finite = |end: Option<f64>| end.filter(|end| end.is_finite());
        Self { interval: finite(low).zip(finite(high)), ..self }
    }

    /// Returns the numbers of this point, for all of which a chart must have room.
    fn numbers(&self) -> impl Iterator<Item = f64> {
        self.value.into_iter().chain(self.interval.into_iter().flat_map(|(low, high)| [low, high]))
    }
}

impl Chart {
    /// Returns the lines that are drawn.
    fn drawn(&self) -> &[Line] {
        &self.lines[..self.lines.len().min(MAX_LINES)]
    }

    /// Returns the points that are drawn, of all lines.
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.drawn().iter().flat_map(|line| &line.points)
    }

    /// Returns true if there is no number to draw.
    pub fn is_empty(&self) -> bool {
        !self.drawn().iter().any(Line::has_numbers)
    }

    /// Returns the range of all numbers.
    fn range(&self) -> Scale {
        Scale::around(self.points().flat_map(Point::numbers))
    }

    /// Returns the axis of the numbers, with about `ticks` ticks.
    fn numbers(&self, ticks: usize) -> (Scale, Vec<Tick>) {
        ticks::of_numbers(self.range(), ticks)
    }

    /// Returns the axis of the numbers for little room: it ends at the extreme numbers, so ticks stand inside. If fewer than two
    /// would, it is the roomy one.
    fn numbers_within(&self, ticks: usize) -> (Scale, Vec<Tick>) {
        let scale = self.range();
        let (roomy, around) = ticks::of_numbers(scale, ticks);
        let inside = around.iter().filter(|tick| (0.0..=1.0).contains(&scale.share(tick.at)));
        match inside.clone().count() {
            0 | 1 => (roomy, around),
            _ => (scale, inside.cloned().collect()),
        }
    }

    /// Returns the axis of time, with at most `ticks` ticks. It begins with the first point, even a gap. Without a point it has
    /// the requested days, or no ticks.
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

    /// Draws the chart as lines of text, `width` characters wide and `height` lines high with axes and legend. With `colour` each
    /// line has its own colour, by escape sequences of ANSI terminals; without, each of several lines has its own letter.
    pub fn terminal(&self, width: usize, height: usize, colour: bool) -> String {
        terminal::draw(self, width, height, colour)
    }

    /// Draws the chart as a self-contained SVG image: no script, no font, no reference. It is light or dark, as set on the
    /// reader's device.
    pub fn svg(&self) -> String {
        svg::stacked(std::slice::from_ref(self))
    }
}

/// Draws charts one below the other, as one image like [`Chart::svg`].
pub fn stacked(charts: &[Chart]) -> String {
    svg::stacked(charts)
}

#[cfg(test)]
mod tests;
