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
//! let points = points.map(|(day, value)| Point::new(day.start(), Some(value), (None, None))).collect();
//! let lines = vec![Line { name: "v1".into(), points }];
//! let chart = Chart { title: "auc".into(), lines, ..Chart::default() };
//! assert!(chart.terminal(60, 10, false).contains("2013-06-02"));
//! assert!(chart.svg().starts_with("<svg"));
//! ```

mod axis;
mod svg;
mod terminal;

use event::{Timestamp, Window};

use axis::Axis;

pub use svg::{escaped, stacked};

/// Maximum number of lines of a chart: the number of colours that stay distinct to people with limited colour vision.
pub const MAX_LINES: usize = 7;

/// Text of a chart without numbers.
pub const NO_NUMBERS: &str = "no numbers in this window";

/// Size from which on a number counts as infinite.
const INFINITE: f64 = 1e300;

/// Lines over time under a title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// The lines, of which the first [`MAX_LINES`] are drawn.
    pub lines: Vec<Line>,
    /// Events within its time, such as promotions, in a word or two; only an image shows them.
    pub marks: Vec<(Timestamp, String)>,
    /// The requested days, shown by a chart without any point.
    pub days: Option<Window>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Name in the legend; empty for a line alone that needs none.
    pub name: String,
    /// Its points, in the order of time.
    pub points: Vec<Point>,
}

/// A number at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Time of the number.
    pub at: Timestamp,
    /// The number; `None` for a gap in the line.
    pub value: Option<f64>,
    interval: Option<(f64, f64)>,
}

impl Line {
    /// Returns true if any of its points has a number.
    pub fn has_numbers(&self) -> bool {
        self.points.iter().any(|point| point.value.is_some())
    }
}

impl Point {
    /// Builds a point, with the ends of the interval that probably holds the true number. A number that is not finite is none.
    pub fn new(at: Timestamp, value: Option<f64>, (low, high): (Option<f64>, Option<f64>)) -> Self {
        let finite = |number: Option<f64>| number.filter(|number| number.abs() < INFINITE);
        Self { at, value: finite(value), interval: finite(low).zip(finite(high)) }
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

    /// Returns true if a line has a name to tell.
    fn has_legend(&self) -> bool {
        self.drawn().iter().any(|line| !line.name.is_empty())
    }

    /// Returns the axis of the numbers, and that of time with at most so many ticks. Time begins with the first point, even a
    /// gap. Without a point it has the requested days, or no ticks.
    fn axes(&self, numbers: usize, times: usize) -> (Axis, Axis) {
        let instants = || self.points().map(|point| point.at);
        let asked = || self.days.map(|days| (days.from().start(), days.to().start()));
        let ends = instants().min().zip(instants().max()).or_else(asked);
        (Axis::of_numbers(self.points().flat_map(Point::numbers), numbers), Axis::of_time(ends, times))
    }

    /// Draws the chart as lines of text, `width` characters wide and `height` lines high with axes and legend. With `colour` each
    /// line has its own colour, by escape sequences of ANSI terminals; without, each of several lines has its own letter.
    pub fn terminal(&self, width: usize, height: usize, colour: bool) -> String {
        terminal::draw(self, width, height, colour)
    }

    /// Draws the chart as a self-contained SVG image: no script, no font, no reference. It is light or dark, as set on the
    /// reader's device.
    pub fn svg(&self) -> String {
        stacked(std::slice::from_ref(self))
    }
}

#[cfg(test)]
mod tests {
    use event::Day;
    use proptest::prelude::*;

    use super::*;

    fn line(name: &str, from: &str, values: &[Option<f64>]) -> Line {
        let first: Day = from.parse().unwrap();
        let days = std::iter::successors(Some(first), |day| day.next());
        let points =
            days.zip(values).map(|(day, value)| Point::new(day.start(), *value, (None, None))).collect();
        Line { name: name.to_owned(), points }
    }

    fn two() -> Chart {
        let wave =
            |phase: f64| (0..30).map(|day| Some(0.8 + 0.1 * (f64::from(day) / 4.0 + phase).sin())).collect();
        let (mut first, second): (Vec<_>, Vec<_>) = (wave(0.0), wave(1.5));
        first[12] = None;
        let mut lines = vec![line("v1", "2013-06-01", &first), line("v2", "2013-06-01", &second)];
        for point in &mut lines[1].points {
            let end = |by: f64| point.value.map(|value| value + by);
            *point = Point::new(point.at, point.value, (end(-0.02), end(0.03)));
        }
        Chart { title: "auc, flights/nyc".into(), lines, ..Chart::default() }
    }

    /// Builds a chart of lines with these names and a point each.
    fn called(names: &[&str]) -> Chart {
        let lines = names.iter().map(|name| line(name, "2013-06-01", &[Some(0.5)])).collect();
        Chart { title: "auc".into(), lines, ..Chart::default() }
    }

    #[test]
    fn a_line_is_drawn_in_dots() {
        let mut chart = two();
        chart.lines.truncate(1);
        insta::assert_snapshot!(chart.terminal(72, 14, false));
    }

    #[test]
    fn lines_without_colour_have_distinct_marks() {
        insta::assert_snapshot!(two().terminal(72, 16, false));
    }

    #[test]
    fn several_lines_have_colours() {
        let text = two().terminal(60, 10, true);
        assert!(text.contains("\u{1b}[34m") && text.contains("\u{1b}[33m"), "{text}");
        assert_eq!(text.matches("\u{1b}[0m").count(), text.matches("\u{1b}[3").count());
    }

    #[test]
    fn chart_names_cannot_control_the_terminal() {
        let mut chart = two();
        chart.title = "auc\n\u{1b}[2J".into();
        chart.lines[0].name = "no\u{202e}rth\u{1b}]0;x\u{7}".into();
        let text = chart.terminal(72, 10, false);
        assert!(text.starts_with("auc\\n\\u{1b}[2J\n"), "{text}");
        assert!(text.contains(r"o no\u{202e}rth\u{1b}]0;x\u{7}"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
    }

    #[test]
    fn an_image_is_made() {
        insta::assert_snapshot!(two().svg());
    }

    #[test]
    fn what_happened_within_its_time_is_marked() {
        let at = |day: &str| day.parse::<Day>().unwrap().start();
        let marks = [("2013-06-10", "v2 live"), ("2013-06-28", "late"), ("2014-01-01", "after it")];
        let marks = marks.map(|(day, text)| (at(day), text.to_owned())).to_vec();
        let svg = Chart { marks, ..two() }.svg();
        assert_eq!(svg.matches("class=\"mark\"").count(), 2, "{svg}");
        assert!(svg.contains(">v2 live</text>") && !svg.contains("after it"), "{svg}");
        // The text is on the side of the line with room for it.
        assert!(svg.contains("class=\"end\" x=\"782.03\" y=\"90\">late</text>"), "{svg}");
    }

    #[test]
    fn the_days_at_both_ends_are_written_whole() {
        let svg = Chart { lines: vec![line("v1", "2013-06-01", &[Some(0.5); 8])], ..two() }.svg();
        // Half of a day is at most 38 wide, as there is on both sides.
        assert!(svg.contains("<text class=\"mid\" x=\"72.00\" y=\"400\">2013-06-01</text>"), "{svg}");
        assert!(svg.contains("<text class=\"mid\" x=\"840.00\" y=\"400\">2013-06-08</text>"), "{svg}");
    }

    #[test]
    fn charts_stand_one_below_the_other() {
        let svg = stacked(&[two(), Chart { title: "second".into(), ..two() }]);
        assert!(svg.contains("viewBox=\"0 0 880 840\"") && svg.contains("translate(0 420)"), "{svg}");
        assert_eq!((svg.matches("<style>").count(), svg.matches("<svg").count()), (1, 1));
        assert!(svg.contains("<title>auc, flights/nyc; second</title>"));
    }

    #[test]
    fn names_are_text_in_an_image() {
        let chart = Chart {
            title: "</title><script>alert(1)</script>".into(),
            lines: vec![line("a\"&\u{7}", "2013-06-01", &[Some(1.0)]), line("b", "2013-06-01", &[])],
            marks: vec![("2013-06-01".parse::<Day>().unwrap().start(), "</text><b>".into())],
            ..Chart::default()
        };
        let svg = chart.svg();
        let is_text =
            !svg.contains("<script") && !svg.contains("<b>") && svg.contains("a&quot;&amp;\u{fffd}");
        assert!(is_text, "{svg}");
    }

    #[test]
    fn a_chart_without_numbers_says_so() {
        let lines = vec![line("v1", "2013-06-01", &[None, Some(f64::NAN), Some(f64::INFINITY)])];
        let chart = Chart { title: "auc".into(), lines, ..Chart::default() };
        assert!(chart.is_empty() && chart.svg().contains("no numbers"));
        assert!(chart.terminal(40, 8, false).contains("2013-06-01"));
        assert!(Chart::default().svg().contains("no numbers"));
        Chart::default().terminal(0, 0, true);
    }

    #[test]
    fn chart_without_points_shows_the_requested_days() {
        let days = Window::new("2013-06-01".parse().unwrap(), "2013-06-08".parse().unwrap()).unwrap();
        let svg = Chart { days: Some(days), ..Chart::default() }.svg();
        assert!(
            svg.contains(">2013-06-07</text>") && svg.contains(">no numbers in this window</text>"),
            "{svg}"
        );
        // An axis without numbers shows none, and one without days shows no days.
        assert!(!svg.contains(">0.5</text>") && !Chart::default().svg().contains("1970-01-01"), "{svg}");
    }

    #[test]
    fn long_numbers_have_room_at_the_left() {
        let chart = |values: &[f64]| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            Chart { lines: vec![line("v1", "2013-06-01", &values)], ..Chart::default() }.svg()
        };
        assert!(chart(&[0.5, 0.75]).contains("d=\"M72 "));
        let long = chart(&[-1_234_567.25, -1_234_567.0]);
        assert!(!long.contains("d=\"M72 ") && long.contains(">-1234567.25</text>"), "{long}");
    }

    #[test]
    fn bands_are_beneath_all_lines() {
        let svg = two().svg();
        let at = |what: &str| svg.find(what).unwrap();
        assert!(at("class=\"band c1\"") < at("class=\"line c0\""), "{svg}");
    }

    #[test]
    fn a_point_alone_has_its_interval() {
        let mut chart = called(&["v1"]);
        let point = &mut chart.lines[0].points[0];
        *point = Point::new(point.at, point.value, (Some(0.25), Some(0.75)));
        let svg = chart.svg();
        assert!(svg.contains("class=\"alone c0\"") && !svg.contains("class=\"band"), "{svg}");
    }

    #[test]
    fn legend_grows_to_fit_its_names() {
        let names =
            ["v1 (others) precision", "v1 (others) recall", "v1 (late) precision", "v1 (late) recall"];
        let svg = called(&names).svg();
        assert!(names.iter().all(|name| svg.contains(&format!(">{name}</text>"))), "{svg}");
        // A second row makes the image higher, and the drawing begins lower.
        assert!(
            svg.contains("viewBox=\"0 0 880 440\"") && svg.contains("y=\"420\">2013-06-01</text>"),
            "{svg}"
        );
        let text = called(&names).terminal(60, 12, false);
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
    }

    #[test]
    fn long_names_and_titles_fit_keeping_their_ends() {
        let long = |end: &str| format!("{} {end}", "release-".repeat(40));
        let (auc, brier) = (long("auc"), long("brier"));
        let mut chart = called(&[auc.as_str(), brier.as_str()]);
        chart.title = format!("auc, brier of {}", long("flights/nyc"));
        let svg = chart.svg();
        for end in [" auc</text>", " brier</text>", " flights/nyc</text>"] {
            assert!(svg.contains(end), "{end}: {svg}");
        }
        let is_whole = svg.contains(&format!("<title>{}</title>", chart.title));
        assert!(svg.matches('…').count() == 3 && is_whole, "{svg}");
    }

    proptest! {
        #[test]
        fn any_chart_is_drawn(
            lines in prop::collection::vec(prop::collection::vec(prop::option::of(any::<f64>()), 0..20), 0..10),
            width in 0usize..200,
            height in 0usize..60,
            marks in prop::collection::vec(1_700_000_000_000_000i64..1_720_000_000_000_000, 0..12),
            colour: bool,
        ) {
            let lines = lines.iter().map(|values| line("release", "2024-02-20", values)).collect();
            let marks = marks.iter().map(|at| (Timestamp::from_micros(*at).unwrap(), "m".to_owned())).collect();
            let chart = Chart { title: "any".into(), lines, marks, ..Chart::default() };
            let text = chart.terminal(width, height, colour);
            prop_assert!(colour || text.lines().all(|line| line.chars().count() <= width.max(48)), "{}", text);
            let svg = chart.svg();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            let count = |what: &str| svg.matches(what).count();
            prop_assert_eq!(count("<g "), count("</g>"));
        }
    }
}
