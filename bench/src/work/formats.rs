//! The other formats over HTTP, beside NDJSON: the same rows in batches of the same size.

use super::ndjson::{MAX_ROWS, send};
use crate::{
    context::{CONNECTIONS, Context},
    line::Line,
    rounds::{Side, interleave},
    uploads::{self, Form},
};

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let rows = context.data.rows().min(MAX_ROWS);
    let requests = |form| uploads::predictions(&context.data, form, rows);
    let (lines, columns, arrow) = (requests(Form::Lines)?, requests(Form::Columns)?, requests(Form::Arrow)?);
    let side = |name, requests| Side::new(name, move || send(context, requests, CONNECTIONS));
    let sides = vec![side("NDJSON", &lines), side("columnar JSON", &columns), side("Arrow", &arrow)];
    let found = interleave(context.rounds, sides);
    let rate = ("rows/s", "rows_per_s");
    let line = |id, work, at: usize| Line::of(id, work, rate, &found[at], ("Almanac: NDJSON", &found[0]));
    Ok(vec![
        line("columns/ndjson", "columnar JSON over HTTP to durable", 1),
        line("arrow/ndjson", "Arrow IPC stream over HTTP to durable", 2),
    ])
}
