//! The other formats over HTTP, beside NDJSON, rows of SQLite and embedded ClickHouse: the same rows in batches of
//! the same size.

use super::ndjson::{MAX_ROWS, SQLITE, chdb, send, sqlite};
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
    let rows = lines.iter().map(|request| request.rows).sum();
    let sides = vec![
        side("NDJSON", &lines),
        side("columnar JSON", &columns),
        side("Arrow", &arrow),
        Side::new("SQLite", || sqlite(context, rows)),
        Side::new("chDB", || chdb(context, rows, "arrow")),
    ];
    let found = interleave(context.rounds, sides);
    let rate = ("rows/s", "rows_per_s");
    let peers =
        [("Almanac: NDJSON", &found[0]), (SQLITE, &found[3]), ("chDB, MergeTree, Arrow, fsync", &found[4])];
    let line = |id, work, at: usize, peer: usize| Line::of(id, work, rate, &found[at], peers[peer]);
    let works = ["columnar JSON", "Arrow IPC stream"];
    Ok(vec![
        line("columns/ndjson", works[0], 1, 0),
        line("columns/sqlite", works[0], 1, 1),
        line("arrow/ndjson", works[1], 2, 0),
        line("arrow/sqlite", works[1], 2, 1),
        line("arrow/chdb", works[1], 2, 2),
    ])
}
