//! A chart as an SVG image.

use std::fmt::Write;

use crate::{Chart, Line, Mark, NO_NUMBERS, Point, legend, scale::Scale, ticks::Tick};

/// Size of the image, in its own units; it is higher if its legend has several rows.
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 420.0;
/// Margins of the drawing: above for title and a row of the legend, at the left for numbers (more if they are long), below for
/// time.
const TOP: f64 = 64.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 40.0;
const LEFT: f64 = 72.0;
/// Distance of the numbers from the drawing.
const BESIDE: f64 = 8.0;
/// Right edge for texts.
const EDGE: f64 = WIDTH - 4.0;
const NUMBER_TICKS: usize = 6;
const TIME_TICKS: usize = 8;
/// Approximate maximum width of a letter of a day.
const LETTER: f64 = 7.5;
/// Factor of the width of letters in titles.
const OF_TITLE: f64 = 1.25;
/// The legend: height of its rows, width of the sign before a name, and space behind a name.
const ROW: f64 = 20.0;
const SIGN: f64 = 24.0;
const BETWEEN: f64 = 16.0;
/// Maximum number of points of a chart that all have a dot with a tooltip.
const MOST_DOTS: usize = 800;
/// Maximum number of marks of a chart, and maximum letters of each.
const MAX_MARKS: usize = 8;
const MARK_LETTERS: usize = 40;

/// The colours of lines on light and on dark ground. Those on light ground are of Okabe and Ito, "Color Universal Design" (2008),
/// which people with any colour vision can distinguish; yellow, too faint on white, is left out.
const COLOURS: [(&str, &str); crate::MAX_LINES] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff9a57"),
    ("#009e73", "#34d3a6"),
    ("#cc79a7", "#e8a6cb"),
    ("#56b4e9", "#a8dcff"),
    ("#e69f00", "#ffc54d"),
    ("#5f6670", "#c4cad2"),
];

/// The drawing area and its scales.
struct Plane {
    time: Scale,
    numbers: Scale,
    top: f64,
    left: f64,
}

impl Plane {
    fn x(&self, at: f64) -> f64 {
        self.left + self.time.share(at) * (WIDTH - self.left - RIGHT)
    }

    fn y(&self, number: f64) -> f64 {
        self.bottom() - self.numbers.share(number) * (HEIGHT - BOTTOM - TOP)
    }

    fn bottom(&self) -> f64 {
        self.top + HEIGHT - BOTTOM - TOP
    }

    fn place(&self, point: &Point, number: f64) -> (f64, f64) {
        (self.x(point.at.micros() as f64), self.y(number))
    }
}

/// Draws charts one below the other.
pub(crate) fn stacked(charts: &[Chart]) -> String {
    let legends: Vec<Vec<Entry>> = charts.iter().map(|chart| placed(chart.drawn())).collect();
    let height = legends.iter().fold(0.0f64, |height, legend| height + HEIGHT + lower(legend));
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let title = escaped(&titles.join("; "));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{}",
        style()
    );
    svg += "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n";
    let mut above = 0.0;
    for (chart, legend) in charts.iter().zip(&legends) {
        if charts.len() > 1 {
            put(&mut svg, format_args!("<g transform=\"translate(0 {above})\">"));
        }
        draw(&mut svg, chart, legend);
        if charts.len() > 1 {
            svg += "</g>\n";
        }
        above += HEIGHT + lower(legend);
    }
    svg + "</svg>\n"
}

/// The name of a line in the legend: its row, and the position of its sign there.
struct Entry {
    row: usize,
    x: f64,
    name: String,
}

/// Places the legend of several lines, in as many rows as it needs.
fn placed(lines: &[Line]) -> Vec<Entry> {
    if lines.len() < 2 {
        return Vec::new();
    }
    let end = WIDTH - RIGHT;
    let names = legend::names(lines, |name| LEFT + SIGN + width(name) <= end);
    let (mut row, mut x) = (0, LEFT);
    let place = |name: String| {
        let length = SIGN + width(&name);
        if x > LEFT && x + length > end {
            (row, x) = (row + 1, LEFT);
        }
        let entry = Entry { row, x, name };
        x += length + BETWEEN;
        entry
    };
    names.into_iter().map(place).collect()
}

/// Returns the extra height of an image, and offset of its drawing, over those with a legend of one row.
fn lower(legend: &[Entry]) -> f64 {
    ROW * legend.last().map_or(0, |last| last.row) as f64
}

/// Returns the approximate maximum width of a text. Fonts differ; these are the widths of DejaVu Sans, which is a wide one.
fn width(text: &str) -> f64 {
    let letter = |letter: char| match letter {
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | 'I' | 'J' | ' ' | '.' | ',' | ':' | '-' | '/' | '(' | ')' => 5.5,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '\u{80}'.. => 13.0,
        'A'..='Z' => 10.3,
        _ => 8.4,
    };
    text.chars().map(letter).sum()
}

/// Draws a chart at the top of an image.
fn draw(svg: &mut String, chart: &Chart, legend: &[Entry]) {
    let (numbers, number_ticks) = chart.numbers(NUMBER_TICKS);
    let (time, time_ticks) = chart.time(TIME_TICKS);
    let widest = number_ticks.iter().map(|tick| width(&tick.text)).fold(0.0, f64::max);
    let plane =
        Plane { time, numbers, top: TOP + lower(legend), left: LEFT.max((widest + 2.0 * BESIDE).ceil()) };
    let title = legend::shortened(&chart.title, |title| LEFT + width(title) * OF_TITLE <= EDGE);
    put(svg, format_args!("<text class=\"title\" x=\"{LEFT}\" y=\"26\">{}</text>", escaped(&title)));
    if !chart.is_empty() {
        draw_axis_of_numbers(svg, &number_ticks, &plane);
    }
    let bottom = plane.bottom();
    for tick in &time_ticks {
        let (x, y) = (plane.x(tick.at), bottom + 20.0);
        put(svg, format_args!("<path class=\"grid\" d=\"M{x:.2} {bottom}v6\"/>"));
        let (class, at) = under(x, &tick.text);
        put(svg, format_args!("<text class=\"{class}\" x=\"{at:.2}\" y=\"{y}\">{}</text>", tick.text));
    }
    draw_marks(svg, &chart.marks, &plane);
    let dots = chart.points().filter(|point| point.value.is_some()).count() <= MOST_DOTS;
    // Drawn beneath all lines, so that no band tints another line.
    let has_interval = |line: &Line| line.points.iter().any(|point| point.interval.is_some());
    for (index, line) in chart.drawn().iter().enumerate().filter(|(_, line)| has_interval(line)) {
        put(svg, format_args!("<g class=\"c{index}\">"));
        draw_intervals(svg, line, &plane);
        *svg += "</g>\n";
    }
    for (index, line) in chart.drawn().iter().enumerate() {
        put(svg, format_args!("<g class=\"line c{index}\">"));
        draw_line(svg, line, &plane, dots);
        if let Some(Entry { row, x, name }) = legend.get(index) {
            let (sign, text, down) = (x + SIGN - 6.0, x + SIGN, ROW * *row as f64);
            put(svg, format_args!("<path class=\"stroke\" d=\"M{x:.1} {}H{sign:.1}\"/>", 46.0 + down));
            put(svg, format_args!("<text x=\"{text:.1}\" y=\"{}\">{}</text>", 50.0 + down, escaped(name)));
        }
        *svg += "</g>\n";
    }
    if chart.is_empty() {
        let (x, y) = ((plane.left + WIDTH - RIGHT) / 2.0, (plane.top + bottom) / 2.0);
        put(svg, format_args!("<path class=\"grid\" d=\"M{} {bottom}H{}\"/>", plane.left, WIDTH - RIGHT));
        put(svg, format_args!("<text class=\"mid\" x=\"{x}\" y=\"{y}\">{NO_NUMBERS}</text>"));
    }
}

/// Draws the grid lines of round numbers, with their numbers at the left.
fn draw_axis_of_numbers(svg: &mut String, ticks: &[Tick], plane: &Plane) {
    let right = WIDTH - RIGHT;
    for tick in ticks {
        let y = plane.y(tick.at);
        put(svg, format_args!("<path class=\"grid\" d=\"M{} {y:.2}H{right}\"/>", plane.left));
        let (x, y) = (plane.left - BESIDE, y + 4.0);
        put(svg, format_args!("<text class=\"end\" x=\"{x}\" y=\"{y:.2}\">{}</text>", tick.text));
    }
}

/// Returns the alignment and the position of the text of a tick of time: centred under it, or up to the edge of the image if half
/// of the text has no room beside the tick. At the left there is always room for half of a day.
fn under(x: f64, text: &str) -> (&'static str, f64) {
    let half = text.chars().count() as f64 * LETTER / 2.0;
    if x + half > EDGE { ("end", EDGE) } else { ("mid", x) }
}

/// Draws the marks within the time of a chart: a line from top to bottom, with its text at the side with room.
fn draw_marks(svg: &mut String, marks: &[Mark], plane: &Plane) {
    let within = |mark: &&Mark| (0.0..=1.0).contains(&plane.time.share(mark.at.micros() as f64));
    for (row, mark) in marks.iter().filter(within).take(MAX_MARKS).enumerate() {
        let x = plane.x(mark.at.micros() as f64);
        let (class, beside) = if x > WIDTH * 0.7 { ("end", x - 5.0) } else { ("", x + 5.0) };
        let text = legend::shortened(&mark.text, |text| text.chars().count() <= MARK_LETTERS);
        let (y, text) = (plane.top + 10.0 + 16.0 * row as f64, escaped(&text));
        put(svg, format_args!("<path class=\"mark\" d=\"M{x:.2} {}V{}\"/>", plane.top, plane.bottom()));
        put(svg, format_args!("<text class=\"{class}\" x=\"{beside:.2}\" y=\"{y}\">{text}</text>"));
    }
}

/// Adds a line of text.
fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a `String` never fails.
    let _ = writeln!(svg, "{line}");
}

/// Returns the style of all elements, on light and on dark ground.
fn style() -> String {
    let colours = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let one = |(index, pair)| format!(".c{index}{{color:{}}}", pick(pair));
        COLOURS.iter().enumerate().map(one).collect::<String>()
    };
    format!(
        "<style>text{{font:13px system-ui,sans-serif;fill:#24292f}}.title{{font-weight:600;font-size:15px}}\
         .end{{text-anchor:end}}.mid{{text-anchor:middle}}.ground{{fill:#fff}}.grid{{stroke:#d8dee4;fill:none}}\
         .stroke{{stroke:currentColor;stroke-width:2;fill:none;stroke-linejoin:round;stroke-linecap:round}}\
         .mark{{stroke:#57606a;stroke-dasharray:4 3;fill:none}}\
         .band{{fill:currentColor;fill-opacity:.15}}.alone{{stroke:currentColor;stroke-opacity:.35;stroke-width:6}}circle{{fill:currentColor}}{}\
         @media (prefers-color-scheme:dark){{text{{fill:#e6edf3}}.ground{{fill:#0d1117}}.grid{{stroke:#30363d}}.mark{{stroke:#8b949e}}{}}}\
         </style>\n",
        colours(|pair| pair.0),
        colours(|pair| pair.1),
    )
}

/// Draws the intervals of the points of a line: as a band, or as a bar through a single point.
fn draw_intervals(svg: &mut String, line: &Line, plane: &Plane) {
    let banded = line.points.chunk_by(|one, next| one.interval.is_some() == next.interval.is_some());
    for run in banded.filter(|run| run[0].interval.is_some()) {
        if let ([point], Some((low, high))) = (run, run[0].interval) {
            let (x, from) = plane.place(point, low);
            let to = plane.y(high);
            put(svg, format_args!("<path class=\"alone\" d=\"M{x:.2} {from:.2}V{to:.2}\"/>"));
            continue;
        }
        let ends = |pick: fn((f64, f64)) -> f64| {
            run.iter().filter_map(move |point| Some(plane.place(point, pick(point.interval?))))
        };
        let around = ends(|(_, high)| high).chain(ends(|(low, _)| low).rev());
        put(svg, format_args!("<path class=\"band\" d=\"{}Z\"/>", path(around)));
    }
}

/// Draws a line, and a dot for each single point or, if there are not too many, for all points.
fn draw_line(svg: &mut String, line: &Line, plane: &Plane, dots: bool) {
    let drawn = line.points.chunk_by(|one, next| one.value.is_some() == next.value.is_some());
    for run in drawn.filter(|run| run[0].value.is_some()) {
        let places = run.iter().filter_map(|point| Some(plane.place(point, point.value?)));
        if run.len() > 1 {
            put(svg, format_args!("<path class=\"stroke\" d=\"{}\"/>", path(places.clone())));
        }
        for (point, (x, y)) in run.iter().zip(places).filter(|_| dots || run.len() == 1) {
            let says = says(line, point);
            put(
                svg,
                format_args!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"2.5\"><title>{says}</title></circle>"),
            );
        }
    }
}

/// Returns the tooltip of a dot.
fn says(line: &Line, point: &Point) -> String {
    let day = point.at.day();
    let at = if point.at == day.start() { day.to_string() } else { point.at.to_string() };
    let number = point.value.unwrap_or_default();
    let interval = point.interval.map_or_else(String::new, |(low, high)| format!(" ({low} to {high})"));
    escaped(&format!("{at} {}: {number}{interval}", line.name))
}

fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let steps = places.enumerate().map(|(index, (x, y))| {
        let step = if index == 0 { 'M' } else { 'L' };
        format!("{step}{x:.2} {y:.2}")
    });
    steps.collect()
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
