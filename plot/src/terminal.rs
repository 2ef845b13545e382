//! A chart as lines of text. A line is drawn in dots of braille, two by four in a character.

use event::plain::on_one_line;

use crate::{Chart, axis::Axis};

/// Colours of lines, as numbers of ANSI escape sequences, distinct on dark and on light ground.
const COLOURS: [u8; crate::MAX_LINES] = [34, 33, 32, 35, 36, 31, 90];
/// Marks of several lines without colours.
const MARKS: [char; crate::MAX_LINES] = ['o', 'x', '+', '*', '#', '%', '@'];
/// The bit of each dot in a character of braille, by row and column.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
const BRAILLE: u32 = 0x2800;

/// Minimum size of a useful chart.
const LEAST_WIDTH: usize = 30;
const LEAST_ROWS: usize = 3;
/// Distance between ticks, in characters and lines.
const TICK_WIDTH: usize = 16;
const TICK_ROWS: usize = 6;

/// The drawing between the axes: the character of each cell, 0 for none, and the line last drawn there.
struct Canvas {
    width: usize,
    rows: usize,
    cells: Vec<(u32, usize)>,
}

/// Draws a chart.
pub(crate) fn draw(chart: &Chart, width: usize, height: usize, colour: bool) -> String {
    let has_legend = chart.has_legend();
    let rows = height.saturating_sub(3 + usize::from(has_legend)).max(LEAST_ROWS);
    let (numbers, time) = chart.axes((rows / TICK_ROWS).max(2), (width / TICK_WIDTH).max(1));
    let label = numbers.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let width = width.max(LEAST_WIDTH).saturating_sub(label + 3).max(LEAST_WIDTH / 2);
    let mut canvas = Canvas { width, rows, cells: vec![(0, 0); width * rows] };
    canvas.draw(chart, (&time, &numbers), chart.drawn().len() > 1 && !colour);

    let mut text = format!("{}\n", on_one_line(&chart.title));
    for row in 0..rows {
        let is_here = |(at, _): &&(f64, String)| place(numbers.share(*at), rows) == rows - 1 - row;
        let tick = numbers.ticks.iter().find(is_here);
        let (name, edge) = tick.map_or(("", '│'), |(_, name)| (name.as_str(), '┤'));
        let cells = &canvas.cells[row * width..(row + 1) * width];
        let drawn = cells.iter().map(|(letter, line)| match char::from_u32(*letter) {
            None | Some('\0') => " ".to_owned(),
            Some(letter) => coloured(letter, *line, colour),
        });
        text += format!("{name:>label$} {edge}{}", drawn.collect::<String>()).trim_end();
        text.push('\n');
    }
    text += &axis_of_time(&time, width, label + 1);
    if has_legend {
        text += &legend(chart, width, label + 2, colour);
    }
    text
}

/// Returns the names of the lines, in as many lines of text as they need.
fn legend(chart: &Chart, width: usize, indent: usize, colour: bool) -> String {
    let (mut text, mut used) = (String::new(), usize::MAX);
    for (index, line) in chart.drawn().iter().enumerate() {
        let name = on_one_line(&line.name);
        let length = name.chars().count() + 5;
        if used.saturating_add(length) > width {
            text = format!("{}\n{}", text.trim_end(), " ".repeat(indent));
            used = 0;
        }
        used += length;
        let sign = if colour || chart.drawn().len() == 1 { '━' } else { MARKS[index] };
        text += &format!("{} {name}   ", coloured(sign, index, colour));
    }
    format!("{}\n", text.trim_start_matches('\n').trim_end())
}

/// Returns the cell of a share, of `cells` in a row.
fn place(share: f64, cells: usize) -> usize {
    (share * (cells - 1) as f64).round().clamp(0.0, (cells - 1) as f64) as usize
}

fn coloured(letter: char, line: usize, colour: bool) -> String {
    if colour { format!("\u{1b}[{}m{letter}\u{1b}[0m", COLOURS[line]) } else { letter.to_string() }
}

/// Returns the axis of time and the texts below it. A text that would touch the one before is left out.
fn axis_of_time(time: &Axis, width: usize, indent: usize) -> String {
    let mut axis = vec!['─'; width];
    let mut names = String::new();
    for (tick, text) in &time.ticks {
        let at = place(time.share(*tick), width);
        let length = text.chars().count();
        let start = at.saturating_sub(length / 2).min(width.saturating_sub(length));
        let end = names.chars().count();
        if end > 0 && start < end + 2 {
            continue;
        }
        axis[at] = '┬';
        names += &" ".repeat(start - end);
        names += text;
    }
    let indent = " ".repeat(indent);
    format!("{indent}└{}\n{indent} {}\n", axis.into_iter().collect::<String>(), names.trim_end())
}

impl Canvas {
    /// Draws the lines, with dots or with a mark at each point. Gaps stay empty.
    fn draw(&mut self, chart: &Chart, (time, numbers): (&Axis, &Axis), with_marks: bool) {
        for (index, line) in chart.drawn().iter().enumerate() {
            let mut before = None;
            for point in &line.points {
                let dots = (self.width * 2, self.rows * 4);
                let here = point.value.map(|value| {
                    let x = place(time.share(point.at.micros() as f64), dots.0);
                    (x, dots.1 - 1 - place(numbers.share(value), dots.1))
                });
                match here {
                    Some((x, y)) if with_marks => {
                        self.cells[y / 4 * self.width + x / 2] = (MARKS[index].into(), index);
                    }
                    Some(here) => self.stroke(index, before.unwrap_or(here), here),
                    None => {}
                }
                before = here;
            }
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
            *cell = (cell.0 | BRAILLE | DOTS[y % 4][x % 2], line);
        }
    }
}
