//! Charts as an SVG image.

use std::fmt::Write;

use event::Timestamp;

use crate::{Chart, Line, NO_NUMBERS, Point, axis::Axis};

/// Size of the drawing with its margins: above for title and the first row of the legend, below for time.
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 316.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 40.0;
/// Margins for numbers, at least, and for half of the last day.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 40.0;
/// The legend: height of its rows, width of the sign before a name and the space behind it.
const ROW: f64 = 20.0;
const SIGN: f64 = 24.0;
const AROUND: f64 = SIGN + 16.0;
/// Minimum number of ticks of numbers, and maximum of time.
const NUMBER_TICKS: usize = 4;
const TIME_TICKS: usize = 8;
/// Maximum letters of a title, of a name in the legend and of a mark.
const TITLE_LETTERS: usize = 76;
const NAME_LETTERS: usize = 84;
const MARK_LETTERS: usize = 40;
/// Maximum number of points of a chart that all have a dot with a tooltip, and of marks.
const MOST_DOTS: usize = 800;
const MAX_MARKS: usize = 8;

/// The style of all elements, on light and on dark ground. The colours on light ground are of Okabe and Ito, "Color Universal
/// Design" (2008), which people with any colour vision can distinguish; yellow, too faint on white, is left out.
const STYLE: &str = "<style>\
text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}.end{text-anchor:end}\
.mid{text-anchor:middle}.ground{fill:#fff}.grid{stroke:#d8dee4;fill:none}.mark{stroke:#57606a;stroke-dasharray:4 3;fill:none}\
.stroke{stroke:currentColor;stroke-width:2;fill:none;stroke-linejoin:round;stroke-linecap:round}\
.band{fill:currentColor;fill-opacity:.15}.alone{stroke:currentColor;stroke-opacity:.35;stroke-width:6}circle{fill:currentColor}\
.c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#cc79a7}.c4{color:#56b4e9}.c5{color:#e69f00}.c6{color:#5f6670}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}.grid{stroke:#30363d}.mark{stroke:#8b949e}\
.c0{color:#56b4e9}.c1{color:#ff9a57}.c2{color:#34d3a6}.c3{color:#e8a6cb}.c4{color:#a8dcff}.c5{color:#ffc54d}.c6{color:#c4cad2}}\
</style>";

/// The drawing area and its axes.
struct Plane {
    time: Axis,
    numbers: Axis,
    top: f64,
    left: f64,
}

impl Plane {
    fn x(&self, at: Timestamp) -> f64 {
        self.across(self.time.share(at.micros() as f64))
    }

    fn across(&self, share: f64) -> f64 {
        self.left + share * (WIDTH - self.left - RIGHT)
    }

    fn y(&self, number: f64) -> f64 {
        self.top + (1.0 - self.numbers.share(number)) * HEIGHT
    }

    /// Returns a path through numbers at instants.
    fn path(&self, places: impl Iterator<Item = (Timestamp, f64)>) -> String {
        let step = |(index, (at, number))| {
            let letter = if index == 0 { 'M' } else { 'L' };
            format!("{letter}{:.2} {:.2}", self.x(at), self.y(number))
        };
        places.enumerate().map(step).collect()
    }
}

/// Draws charts one below the other, as one image like [`Chart::svg`].
pub fn stacked(charts: &[Chart]) -> String {
    let (mut drawn, mut height) = (String::new(), 0.0);
    for chart in charts {
        put(&mut drawn, format_args!("<g transform=\"translate(0 {height})\">"));
        height += draw(&mut drawn, chart);
        drawn += "</g>\n";
    }
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let title = escaped(&titles.join("; "));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{STYLE}\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{drawn}</svg>\n"
    )
}

/// Draws a chart at the top of an image, and returns its height.
fn draw(svg: &mut String, chart: &Chart) -> f64 {
    let title = escaped(&shortened(&chart.title, TITLE_LETTERS));
    put(svg, format_args!("<text class=\"title\" x=\"{LEFT}\" y=\"26\">{title}</text>"));
    let names: Vec<String> = chart.drawn().iter().map(|line| shortened(&line.name, NAME_LETTERS)).collect();
    let widest = names.iter().map(|name| width(name)).fold(1.0, f64::max) + AROUND;
    let columns = ((WIDTH - LEFT) / widest).max(1.0) as usize;
    let rows = if chart.has_legend() { names.len().div_ceil(columns) } else { 0 };
    let (numbers, time) = chart.axes(NUMBER_TICKS, TIME_TICKS);
    let room = numbers.ticks.iter().map(|(_, text)| width(text)).fold(0.0, f64::max).ceil() + 16.0;
    let plane = Plane { time, numbers, top: TOP + ROW * rows.saturating_sub(1) as f64, left: LEFT.max(room) };
    draw_axes(svg, &plane, chart.is_empty());
    draw_marks(svg, &chart.marks, &plane);
    // Drawn beneath all lines, so that no band tints another line.
    for (index, line) in chart.drawn().iter().enumerate() {
        draw_intervals(svg, line, index, &plane);
    }
    let has_dots = chart.points().filter(|point| point.value.is_some()).count() <= MOST_DOTS;
    for (index, (line, name)) in chart.drawn().iter().zip(&names).enumerate() {
        put(svg, format_args!("<g class=\"line c{index}\">"));
        draw_line(svg, line, &plane, has_dots);
        if rows > 0 {
            let (x, y) = (LEFT + (index % columns) as f64 * widest, 46.0 + ROW * (index / columns) as f64);
            let (text, below) = (x + SIGN, y + 4.0);
            put(svg, format_args!("<path class=\"stroke\" d=\"M{x:.1} {y}h18\"/>"));
            put(svg, format_args!("<text x=\"{text:.1}\" y=\"{below}\">{}</text>", escaped(name)));
        }
        *svg += "</g>\n";
    }
    plane.top + HEIGHT + BOTTOM
}

/// Draws the grid lines of round numbers with their numbers at the left, and the ticks of time below.
fn draw_axes(svg: &mut String, plane: &Plane, is_empty: bool) {
    let (left, right, bottom) = (plane.left, WIDTH - RIGHT, plane.top + HEIGHT);
    put(svg, format_args!("<path class=\"grid\" d=\"M{left} {bottom}H{right}\"/>"));
    for (at, text) in plane.numbers.ticks.iter().filter(|_| !is_empty) {
        let (x, y) = (left - 8.0, plane.y(*at));
        put(svg, format_args!("<path class=\"grid\" d=\"M{left} {y:.2}H{right}\"/>"));
        put(svg, format_args!("<text class=\"end\" x=\"{x}\" y=\"{:.2}\">{text}</text>", y + 4.0));
    }
    for (at, text) in &plane.time.ticks {
        let (x, y) = (plane.across(plane.time.share(*at)), bottom + 20.0);
        put(svg, format_args!("<path class=\"grid\" d=\"M{x:.2} {bottom}v6\"/>"));
        put(svg, format_args!("<text class=\"mid\" x=\"{x:.2}\" y=\"{y}\">{text}</text>"));
    }
    if is_empty {
        let (x, y) = ((left + right) / 2.0, plane.top + HEIGHT / 2.0);
        put(svg, format_args!("<text class=\"mid\" x=\"{x}\" y=\"{y}\">{NO_NUMBERS}</text>"));
    }
}

/// Draws the marks within the time of a chart: a line from top to bottom, with its text at the side with room.
fn draw_marks(svg: &mut String, marks: &[(Timestamp, String)], plane: &Plane) {
    let within = |(at, _): &&(Timestamp, String)| (0.0..=1.0).contains(&plane.time.share(at.micros() as f64));
    for (row, (at, text)) in marks.iter().filter(within).take(MAX_MARKS).enumerate() {
        let (x, top) = (plane.x(*at), plane.top);
        let (class, beside) = if x > WIDTH * 0.7 { ("end", x - 5.0) } else { ("", x + 5.0) };
        let (y, text) = (top + 10.0 + 16.0 * row as f64, escaped(&shortened(text, MARK_LETTERS)));
        put(svg, format_args!("<path class=\"mark\" d=\"M{x:.2} {top}v{HEIGHT}\"/>"));
        put(svg, format_args!("<text class=\"{class}\" x=\"{beside:.2}\" y=\"{y}\">{text}</text>"));
    }
}

/// Draws the intervals of the points of a line: as a band, or as a bar through a single point.
fn draw_intervals(svg: &mut String, line: &Line, index: usize, plane: &Plane) {
    let runs = line.points.chunk_by(|one, next| one.interval.is_some() == next.interval.is_some());
    for run in runs {
        let ends = |pick: fn((f64, f64)) -> f64| {
            run.iter().filter_map(move |point| Some((point.at, pick(point.interval?))))
        };
        let (low, high) = (ends(|(low, _)| low), ends(|(_, high)| high));
        let path = plane.path(high.chain(low.rev()));
        match run {
            [Point { interval: None, .. }, ..] => {}
            [_] => put(svg, format_args!("<path class=\"alone c{index}\" d=\"{path}\"/>")),
            _ => put(svg, format_args!("<path class=\"band c{index}\" d=\"{path}Z\"/>")),
        }
    }
}

/// Draws a line, and a dot for each single point or, if there are not too many, for all points.
fn draw_line(svg: &mut String, line: &Line, plane: &Plane, has_dots: bool) {
    let runs = line.points.chunk_by(|one, next| one.value.is_some() == next.value.is_some());
    for run in runs {
        let places = run.iter().filter_map(|point| Some((point, point.value?)));
        if run.len() > 1 && run[0].value.is_some() {
            let path = plane.path(places.clone().map(|(point, value)| (point.at, value)));
            put(svg, format_args!("<path class=\"stroke\" d=\"{path}\"/>"));
        }
        for (point, value) in places.filter(|_| has_dots || run.len() == 1) {
            let (x, y, day) = (plane.x(point.at), plane.y(value), point.at.day());
            let at = if point.at == day.start() { day.to_string() } else { point.at.to_string() };
            let interval =
                point.interval.map_or_else(String::new, |(low, high)| format!(" ({low} to {high})"));
            let says = escaped(&format!("{at} {}: {value}{interval}", line.name));
            put(
                svg,
                format_args!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"2.5\"><title>{says}</title></circle>"),
            );
        }
    }
}

/// Adds a line of text.
fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a `String` never fails.
    _ = writeln!(svg, "{line}");
}

/// Returns the approximate maximum width of a text. Fonts differ; this is about the width of DejaVu Sans, which is a wide one.
fn width(text: &str) -> f64 {
    text.chars().map(|letter| if letter.is_ascii() { 8.4 } else { 13.0 }).sum()
}

/// Returns a text of at most so many letters: a longer one has an ellipsis instead of its middle.
fn shortened(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

/// Escapes a text for XML and HTML, including attributes in double quotes. Characters that XML cannot express become a
/// replacement character.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}')
            }
            letter => out.push(letter),
        }
    }
    out
}
