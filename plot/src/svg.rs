//! A chart as an SVG image.

use std::fmt::Write;

use crate::{Chart, Line, Mark, Point, scale::Scale};

/// The image, in its own units.
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 420.0;
/// What is left free around the drawing: above for title and legend, at the left for numbers, below for time.
const TOP: f64 = 64.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 40.0;
const LEFT: f64 = 72.0;
/// Up to where texts may reach at the right.
const EDGE: f64 = WIDTH - 4.0;
const NUMBER_TICKS: usize = 6;
const TIME_TICKS: usize = 8;
/// How wide a letter of a name or of a day is at most, about.
const LETTER: f64 = 7.5;
/// Up to how many points of a chart each has a dot that says its number when pointed at.
const MOST_DOTS: usize = 800;
/// How many marks a chart shows, and with how many letters each.
const MAX_MARKS: usize = 8;
const MARK_LETTERS: usize = 40;

/// The colours of lines on light and on dark ground. Those on light ground are of Okabe and Ito, "Color Universal Design" (2008), which
/// people with any colour vision tell apart; yellow, too faint on white, is left out.
const COLOURS: [(&str, &str); crate::MAX_LINES] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff9a57"),
    ("#009e73", "#34d3a6"),
    ("#cc79a7", "#e8a6cb"),
    ("#56b4e9", "#a8dcff"),
    ("#e69f00", "#ffc54d"),
    ("#5f6670", "#c4cad2"),
];

/// The drawing and its scales.
struct Plane {
    time: Scale,
    numbers: Scale,
}

impl Plane {
    fn x(&self, at: f64) -> f64 {
        LEFT + self.time.share(at) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, number: f64) -> f64 {
        HEIGHT - BOTTOM - self.numbers.share(number) * (HEIGHT - BOTTOM - TOP)
    }

    fn place(&self, point: &Point, number: f64) -> (f64, f64) {
        (self.x(point.at.micros() as f64), self.y(number))
    }
}

/// Draws charts one below the other.
pub(crate) fn stacked(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let title = escaped(&titles.join("; "));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{}",
        style()
    );
    svg += "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n";
    for (index, chart) in charts.iter().enumerate() {
        if charts.len() > 1 {
            put(&mut svg, format_args!("<g transform=\"translate(0 {})\">", HEIGHT * index as f64));
        }
        draw(&mut svg, chart);
        if charts.len() > 1 {
            svg += "</g>\n";
        }
    }
    svg + "</svg>\n"
}

/// Draws a chart at the top of an image.
fn draw(svg: &mut String, chart: &Chart) {
    let (numbers, number_ticks) = chart.numbers(NUMBER_TICKS);
    let (time, time_ticks) = chart.time(TIME_TICKS);
    let plane = Plane { time, numbers };
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let title = escaped(&chart.title);
    put(svg, format_args!("<text class=\"title\" x=\"{LEFT}\" y=\"26\">{title}</text>"));
    for tick in &number_ticks {
        let y = plane.y(tick.at);
        put(svg, format_args!("<path class=\"grid\" d=\"M{LEFT} {y:.2}H{right}\"/>"));
        let (x, y) = (LEFT - 8.0, y + 4.0);
        put(svg, format_args!("<text class=\"end\" x=\"{x}\" y=\"{y:.2}\">{}</text>", tick.text));
    }
    for tick in &time_ticks {
        let (x, y) = (plane.x(tick.at), bottom + 20.0);
        put(svg, format_args!("<path class=\"grid\" d=\"M{x:.2} {bottom}v6\"/>"));
        let (class, at) = under(x, &tick.text);
        put(svg, format_args!("<text class=\"{class}\" x=\"{at:.2}\" y=\"{y}\">{}</text>", tick.text));
    }
    draw_marks(svg, &chart.marks, &plane);
    let dots = chart.points().filter(|point| point.value.is_some()).count() <= MOST_DOTS;
    let mut legend = LEFT;
    let room = (right - LEFT) / chart.drawn().len().max(1) as f64 - 40.0;
    for (index, line) in chart.drawn().iter().enumerate() {
        put(svg, format_args!("<g class=\"line c{index}\">"));
        draw_line(svg, line, &plane, dots);
        if chart.lines.len() > 1 {
            let (end, text) = (legend + 18.0, legend + 24.0);
            put(svg, format_args!("<path class=\"stroke\" d=\"M{legend:.1} 46H{end:.1}\"/>"));
            let name = shortened(&line.name, (room / LETTER) as usize);
            put(svg, format_args!("<text x=\"{text:.1}\" y=\"50\">{}</text>", escaped(&name)));
            legend = text + name.chars().count() as f64 * LETTER + 16.0;
        }
        *svg += "</g>\n";
    }
    if chart.is_empty() {
        let (x, y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        put(svg, format_args!("<text class=\"mid\" x=\"{x}\" y=\"{y}\">no numbers</text>"));
    }
}

/// Where the text of a tick of time stands and how it is aligned: in the middle under it, or up to the edge of the image where half of the
/// text has no room beside the tick. At the left there is always room for half of a day.
fn under(x: f64, text: &str) -> (&'static str, f64) {
    let half = text.chars().count() as f64 * LETTER / 2.0;
    if x + half > EDGE { ("end", EDGE) } else { ("mid", x) }
}

/// Draws what happened within the time of a chart: a line from top to bottom, with its text at the side where there is room.
fn draw_marks(svg: &mut String, marks: &[Mark], plane: &Plane) {
    let within = |mark: &&Mark| (0.0..=1.0).contains(&plane.time.share(mark.at.micros() as f64));
    for (row, mark) in marks.iter().filter(within).take(MAX_MARKS).enumerate() {
        let x = plane.x(mark.at.micros() as f64);
        let (class, beside) = if x > WIDTH * 0.7 { ("end", x - 5.0) } else { ("", x + 5.0) };
        let (y, text) = (TOP + 10.0 + 16.0 * row as f64, escaped(&shortened(&mark.text, MARK_LETTERS)));
        put(svg, format_args!("<path class=\"mark\" d=\"M{x:.2} {TOP}V{}\"/>", HEIGHT - BOTTOM));
        put(svg, format_args!("<text class=\"{class}\" x=\"{beside:.2}\" y=\"{y}\">{text}</text>"));
    }
}

/// Adds a line of text.
fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a text never fails.
    let _ = writeln!(svg, "{line}");
}

/// How everything looks, on light and on dark ground.
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
         .band{{fill:currentColor;fill-opacity:.15}}circle{{fill:currentColor}}{}\
         @media (prefers-color-scheme:dark){{text{{fill:#e6edf3}}.ground{{fill:#0d1117}}.grid{{stroke:#30363d}}.mark{{stroke:#8b949e}}{}}}\
         </style>\n",
        colours(|pair| pair.0),
        colours(|pair| pair.1),
    )
}

/// Draws a line with its band, and a dot for each point that stands alone or, if there are not too many, for all.
fn draw_line(svg: &mut String, line: &Line, plane: &Plane, dots: bool) {
    let banded = line.points.chunk_by(|one, next| one.interval.is_some() == next.interval.is_some());
    for run in banded.filter(|run| run.len() > 1 && run[0].interval.is_some()) {
        let ends = |pick: fn((f64, f64)) -> f64| {
            run.iter().filter_map(move |point| Some(plane.place(point, pick(point.interval?))))
        };
        let around = ends(|(_, high)| high).chain(ends(|(low, _)| low).rev());
        put(svg, format_args!("<path class=\"band\" d=\"{}Z\"/>", path(around)));
    }
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

/// What a dot says when it is pointed at.
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

/// A name of at most `letters`, with an ellipsis for what is left out.
fn shortened(name: &str, letters: usize) -> String {
    match name.chars().count() > letters {
        true => name.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// A text that says the same inside XML and HTML, also as an attribute in double quotes. What XML cannot say is a replacement character.
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
