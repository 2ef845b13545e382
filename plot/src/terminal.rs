//! A chart as lines of text. Lines are drawn in dots of braille, two by four in a character.

use event::plain::on_one_line;

use crate::{Chart, Line, legend, scale::Scale, ticks::Tick};

/// Colours of lines, as numbers of ANSI escape sequences, distinct on dark and on light ground.
const COLOURS: [u8; crate::MAX_LINES] = [34, 33, 32, 35, 36, 31, 90];
/// Marks of several lines without colours.
const MARKS: [char; crate::MAX_LINES] = ['o', 'x', '+', '*', '#', '%', '@'];
/// The bit of each dot in a character of braille, by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
const BRAILLE: u32 = 0x2800;

/// Minimum size of a useful chart.
const LEAST_WIDTH: usize = 30;
const LEAST_ROWS: usize = 3;
/// Distance between ticks, in characters and lines.
const TICK_WIDTH: usize = 14;
const TICK_ROWS: usize = 3;

/// A character of the drawing: its dots or its mark, and the line last drawn there.
#[derive(Clone, Copy, Default)]
struct Cell {
    dots: u8,
    mark: Option<char>,
    line: usize,
}

/// The drawing between the axes.
struct Canvas {
    width: usize,
    rows: usize,
    cells: Vec<Cell>,
}

/// Draws a chart.
pub(crate) fn draw(chart: &Chart, width: usize, height: usize, colour: bool) -> String {
    let lines = chart.drawn();
    let has_legend = lines.len() > 1;
    let around = 3 + usize::from(has_legend);
    let rows = height.saturating_sub(around).max(LEAST_ROWS);
    let (numbers, number_ticks) = chart.numbers_within((rows / TICK_ROWS).max(2));
    let label = number_ticks.iter().map(|tick| tick.text.chars().count()).max().unwrap_or(0);
    let width = width.max(LEAST_WIDTH).saturating_sub(label + 3).max(LEAST_WIDTH / 2);
    let (time, time_ticks) = chart.time((width / TICK_WIDTH).max(1));

    let mut canvas = Canvas { width, rows, cells: vec![Cell::default(); width * rows] };
    for (index, line) in lines.iter().enumerate() {
        let mark = (has_legend && !colour).then_some(MARKS[index]);
        canvas.line(index, line, (time, numbers), mark);
    }
    let mut text = format!("{}\n", on_one_line(&chart.title));
    for row in 0..rows {
        let tick = number_ticks.iter().find(|tick| place(numbers, tick.at, rows) == rows - 1 - row);
        let (name, edge) = tick.map_or(("", '│'), |tick| (tick.text.as_str(), '┤'));
        let drawn = canvas.row(row, colour);
        text += format!("{name:>label$} {edge}{drawn}").trim_end();
        text.push('\n');
    }
    text += &axis_of_time(&time_ticks, time, width, label + 1);
    if has_legend {
        text += &legend(lines, width, label + 2, colour);
    }
    text
}

/// Returns the names of the lines, in as many lines of text as they need.
fn legend(lines: &[Line], width: usize, indent: usize, colour: bool) -> String {
    let mut text = String::new();
    let mut used = 0;
    let sign_width = if colour { 2 } else { 1 };
    let plain = |line: &Line| Line { name: on_one_line(&line.name).into_owned(), points: Vec::new() };
    let lines: Vec<Line> = lines.iter().map(plain).collect();
    let names = legend::names(&lines, |name| sign_width + 1 + name.chars().count() <= width);
    for (index, name) in names.iter().enumerate() {
        let sign = if colour { "━━".to_owned() } else { MARKS[index].to_string() };
        let length = sign_width + 1 + name.chars().count();
        let fits = used > 0 && used + 3 + length <= width;
        let blanks = if fits { " ".repeat(3) } else { " ".repeat(indent) };
        if used > 0 && !fits {
            text.push('\n');
        }
        used = if fits { used + 3 + length } else { length };
        let sign = if colour { coloured(&sign, index) } else { sign };
        text += &format!("{blanks}{sign} {name}");
    }
    text + "\n"
}

/// Returns the cell of a number, of `cells` in a row.
fn place(scale: Scale, number: f64, cells: usize) -> usize {
    (scale.share(number) * (cells - 1) as f64).round().clamp(0.0, (cells - 1) as f64) as usize
}

fn coloured(text: &str, line: usize) -> String {
    format!("\u{1b}[{}m{text}\u{1b}[0m", COLOURS[line])
}

/// Returns the axis of time and the texts below it. A text that would touch the one before is left out.
fn axis_of_time(ticks: &[Tick], time: Scale, width: usize, indent: usize) -> String {
    let mut axis = vec!['─'; width];
    let mut names = String::new();
    for tick in ticks {
        let at = place(time, tick.at, width);
        let length = tick.text.chars().count();
        let start = at.saturating_sub(length / 2).min(width.saturating_sub(length));
        let end = names.chars().count();
        if end > 0 && start < end + 2 {
            continue;
        }
        axis[at] = '┬';
        names += &" ".repeat(start - end);
        names += &tick.text;
    }
    let indent = " ".repeat(indent);
    format!("{indent}└{}\n{indent} {}\n", axis.into_iter().collect::<String>(), names.trim_end())
}

impl Canvas {
    /// Draws a line, with dots or with a mark at each point. Gaps stay empty.
    fn line(&mut self, index: usize, line: &Line, (time, numbers): (Scale, Scale), mark: Option<char>) {
        let mut before = None;
        for point in &line.points {
            let Some(value) = point.value else {
                before = None;
                continue;
            };
            let (across, up) = (point.at.micros() as f64, value);
            if let Some(mark) = mark {
                let (column, row) =
                    (place(time, across, self.width), self.rows - 1 - place(numbers, up, self.rows));
                let cell = &mut self.cells[row * self.width + column];
                *cell = Cell { mark: Some(mark), line: index, ..*cell };
                continue;
            }
            let (dots_across, dots_up) = (self.width * 2, self.rows * 4);
            let here = (place(time, across, dots_across), dots_up - 1 - place(numbers, up, dots_up));
            self.stroke(index, before.unwrap_or(here), here);
            before = Some(here);
        }
    }

    /// Sets the dots from one to another.
    fn stroke(&mut self, line: usize, from: (usize, usize), to: (usize, usize)) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let between = |from: usize, to: usize, step: usize| {
            let share = step as f64 / steps as f64;
            (from as f64 + (to as f64 - from as f64) * share).round() as usize
        };
        for step in 0..=steps {
            let (x, y) = (between(from.0, to.0, step), between(from.1, to.1, step));
            let cell = &mut self.cells[y / 4 * self.width + x / 2];
            cell.dots |= DOTS[y % 4][x % 2];
            cell.line = line;
        }
    }

    /// Returns a row as text, without blanks at its end.
    fn row(&self, row: usize, colour: bool) -> String {
        let cells = &self.cells[row * self.width..(row + 1) * self.width];
        let used = cells.iter().rposition(|cell| cell.dots > 0 || cell.mark.is_some()).map_or(0, |at| at + 1);
        let letter = |cell: &Cell| match (cell.mark, cell.dots) {
            (Some(mark), _) => mark,
            (None, 0) => ' ',
            (None, dots) => char::from_u32(BRAILLE + u32::from(dots)).unwrap_or(' '),
        };
        let runs =
            cells[..used].chunk_by(|one, next| one.line == next.line && (one.dots > 0) == (next.dots > 0));
        let runs = runs.map(|run| {
            let text: String = run.iter().map(letter).collect();
            if colour && run[0].dots > 0 { coloured(&text, run[0].line) } else { text }
        });
        runs.collect()
    }
}
