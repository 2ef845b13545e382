//! Bad rows: the first ones are printed, and all are written to a named file, which can be imported.

use std::{
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use event::{Error, RowProblem, plain::on_one_line};
use ingest::file::{Rejected, SourceRow, SourceRows};

/// Number of bad rows that are printed.
const SHOWN: usize = 20;

/// Endings of a file of rejects that `import` can read.
const ENDINGS: [&str; 2] = ["ndjson", "jsonl"];

/// Number of a bad row, and its problems.
pub(super) type Bad = (u64, Vec<RowProblem>);

/// Output of bad rows.
pub(super) struct Rejects {
    file: Option<(PathBuf, BufWriter<fs::File>)>,
    shown: usize,
    /// True if printed rows name their file, since there are several.
    names_files: bool,
}

impl Rejects {
    /// Writes bad rows to the file at `path`, which must not exist yet; printed rows name their file if `names_files`.
    pub(super) fn new(path: Option<&Path>, names_files: bool) -> anyhow::Result<Self> {
        Self::check(path)?;
        let create = |path: &Path| match fs::File::create_new(path) {
            Ok(file) => Ok((path.to_owned(), BufWriter::new(file))),
            Err(error) => {
                Err(Error::invalid(format!("--rejects {}: it cannot be created: {error}", path.display())))
            }
        };
        Ok(Self { file: path.map(create).transpose()?, shown: 0, names_files })
    }

    /// Refuses a path that exists, or whose ending `import` cannot read.
    pub(super) fn check(path: Option<&Path>) -> Result<(), Error> {
        let Some(path) = path else { return Ok(()) };
        let wrong = |what: &str| Err(Error::invalid(format!("--rejects {}: {what}", path.display())));
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            false => wrong("it should end in .ndjson or .jsonl, by which import knows how to read it"),
            true if path.exists() => wrong("it cannot be created: it exists already"),
            true => Ok(()),
        }
    }

    /// Writes the bad rows of a part of `file`.
    pub(super) fn write(
        &mut self,
        file: &Path,
        mut bad: Vec<Bad>,
        source: &SourceRows,
    ) -> anyhow::Result<()> {
        if bad.is_empty() {
            return Ok(());
        }
        bad.sort_by_key(|(number, _)| *number);
        let of = self.names_files.then_some(file);
        for problem in bad.iter().flat_map(|(_, problems)| problems).take(SHOWN.saturating_sub(self.shown)) {
            self.shown += 1;
            eprintln!("{}", line(of, problem));
        }
        let Some((path, out)) = &mut self.file else { return Ok(()) };
        let rows = source.rows(bad.iter().map(|(number, _)| *number));
        for ((row, errors), source) in bad.iter().zip(rows) {
            let file = file.to_string_lossy();
            let source = source.unwrap_or_else(|| SourceRow::Text(String::new()));
            let line = serde_json::to_string(&Rejected { file, row: *row, errors, source })?;
            writeln!(out, "{line}").map_err(|error| unwritable(path, &error))?;
        }
        Ok(())
    }

    /// Completes the file.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let Some((path, mut out)) = self.file {
            out.flush().map_err(|error| unwritable(&path, &error))?;
        }
        Ok(())
    }
}

/// Problem of a row, on one line: it may quote the file.
fn line(file: Option<&Path>, problem: &RowProblem) -> String {
    let RowProblem { row, field, message } = problem;
    let of = file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
    let said = match field {
        Some(field) => format!("{of}row {row}: `{field}` {message}"),
        None => format!("{of}row {row}: {message}"),
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
    fn a_problem_is_one_line() {
        let message = "`\n\u{1b}[2J` is not a number".to_owned();
        let problem = |field: Option<&str>| RowProblem {
            row: 3,
            field: field.map(str::to_owned),
            message: message.clone(),
        };
        assert_eq!(line(None, &problem(Some("score"))), r"row 3: `score` `\n\u{1b}[2J` is not a number");
        assert_eq!(
            line(Some(Path::new("a\nb.csv")), &problem(None)),
            r"a\nb.csv: row 3: `\n\u{1b}[2J` is not a number"
        );
    }
}
