//! Bad rows: the first ones are printed, and all of them written to a file when one is named.

use std::{
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use event::{Error, Kind, RowProblem, Timestamp, Values, plain::on_one_line};
use ingest::{Batch, file::BadRow};
use serde_json::json;

/// How many bad rows are printed.
const SHOWN: usize = 20;

/// A bad row.
pub(super) struct Bad {
    number: u64,
    problems: Vec<RowProblem>,
    raw: Option<Vec<u8>>,
}

impl From<BadRow> for Bad {
    fn from(row: BadRow) -> Self {
        Self { number: row.number, problems: row.problems, raw: row.raw }
    }
}

impl Bad {
    /// An event that is well-formed but does not fit the catalog, as an object of its fields.
    pub(super) fn event(batch: &Batch, row: usize, problem: RowProblem) -> Self {
        let mut event = serde_json::Map::new();
        if batch.kind == Kind::Outcomes && !batch.is_waiting(row) {
            event.insert("predicted_on".into(), json!(batch.days[row].to_string()));
        }
        for column in batch.columns.columns.iter().filter(|column| column.is_valid(row)) {
            let value = match &column.values {
                Values::Time(times) => json!(Timestamp::from_micros(times[row]).map(|time| time.to_string())),
                Values::Float(numbers) => json!(numbers[row]),
                Values::Text(_) | Values::Coded(_) => json!(column.text(row)),
            };
            event.insert(column.name.clone(), value);
        }
        let raw = serde_json::Value::from(event).to_string().into_bytes();
        Self { number: problem.row, problems: vec![problem], raw: Some(raw) }
    }
}

/// Where bad rows go.
pub(super) struct Rejects {
    file: Option<(PathBuf, BufWriter<fs::File>)>,
    shown: usize,
}

impl Rejects {
    /// Bad rows go to the file at `path`, which must not exist yet.
    pub(super) fn new(path: Option<&Path>) -> anyhow::Result<Self> {
        let create = |path: &Path| {
            let file = fs::File::create_new(path).map_err(|error| {
                Error::invalid(format!("--rejects {}: it cannot be created: {error}", path.display()))
            })?;
            Ok::<_, Error>((path.to_owned(), BufWriter::new(file)))
        };
        Ok(Self { file: path.map(create).transpose()?, shown: 0 })
    }

    /// Takes the bad rows of a part of `file`.
    pub(super) fn write(&mut self, file: &Path, mut bad: Vec<Bad>) -> anyhow::Result<()> {
        bad.sort_by_key(|row| row.number);
        for row in bad {
            for problem in row.problems.iter().take(SHOWN.saturating_sub(self.shown)) {
                self.shown += 1;
                eprintln!("{}", line(problem));
            }
            if let Some((path, out)) = &mut self.file {
                let line = json!({
                    "file": file.display().to_string(),
                    "row": row.number,
                    "errors": row.problems,
                    "raw": row.raw.as_deref().map(String::from_utf8_lossy),
                });
                writeln!(out, "{line}").map_err(|error| unwritable(path, &error))?;
            }
        }
        Ok(())
    }

    /// Everything is written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let Some((path, mut out)) = self.file {
            out.flush().map_err(|error| unwritable(&path, &error))?;
        }
        Ok(())
    }
}

/// What is wrong with a row, on one line: it may quote the file.
fn line(problem: &RowProblem) -> String {
    let RowProblem { row, field, message } = problem;
    let said = match field {
        Some(field) => format!("row {row}: `{field}` {message}"),
        None => format!("row {row}: {message}"),
    };
    on_one_line(&said).into_owned()
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(format!("--rejects {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_on_one_line() {
        let message = "`\n\u{1b}[2J` is not a number".to_owned();
        let problem = |field: Option<&str>| RowProblem {
            row: 3,
            field: field.map(str::to_owned),
            message: message.clone(),
        };
        assert_eq!(line(&problem(Some("score"))), r"row 3: `score` `\n\u{1b}[2J` is not a number");
        assert_eq!(line(&problem(None)), r"row 3: `\n\u{1b}[2J` is not a number");
    }
}
