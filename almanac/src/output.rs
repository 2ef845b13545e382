//! Output of answers: JSON for programs, a table for people.

use std::fmt;

use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table as TextTable, presets};
use event::plain::on_one_line;
use query::number_text;
use serde_json::Value;

/// Format of an answer.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ShowFormat {
    /// Aligned, for people.
    Table,
    /// For programs.
    Json,
}

/// The option `--format`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Shown {
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
    pub(crate) format: ShowFormat,
}

/// Makes a table with this header, and these columns aligned to the right.
pub(crate) fn aligned(header: &[&str], right: &[usize]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints a table without blanks at the end of lines.
pub(crate) fn print(table: &TextTable) {
    table.lines().for_each(|line| println!("{}", on_one_line(line.trim_end())));
}

/// Prints a JSON value over several lines.
pub(crate) fn print_json(value: &Value) {
    println!("{value:#}");
}

/// Prints one object: one field on a line, then a table for each list of objects; or JSON. Of an entity, which has an id, only fields with a
/// value are printed.
pub(crate) fn show_one(value: &Value, format: ShowFormat) {
    if let ShowFormat::Json = format {
        return print_json(value);
    }
    let is_entity = value["id"].is_string();
    let mut fields: Vec<(&String, &Value)> = value.as_object().into_iter().flatten().collect();
    fields.retain(|(_, value)| !(is_entity && is_empty(value)));
    fields.sort_by_key(|(name, _)| FIRST.iter().position(|first| name == first).unwrap_or(FIRST.len()));
    let (lists, fields): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(_, value)| {
        value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object))
    });
    let mut table = aligned(&["field", "value"], &[]);
    for (name, value) in fields {
        // A setting is printed exactly, not rounded.
        let text = if value.is_number() { value.to_string() } else { cell(value) };
        table.add_row([on_one_line(name).into_owned(), text]);
    }
    print(&table);
    for (name, list) in lists {
        println!("\n{}", on_one_line(name));
        let rows = list.as_array().map_or(&[][..], Vec::as_slice);
        show(&columns(rows), rows, format);
    }
}

/// Fields that come first.
const FIRST: [&str; 3] = ["name", "path", "id"];

/// Tells a value that is no list, object or null.
pub(crate) fn is_single(value: &Value) -> bool {
    !(value.is_null() || value.is_array() || value.is_object())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Names of the fields of rows that have a single value in any of them.
pub(crate) fn columns(rows: &[Value]) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    for (name, value) in rows.iter().flat_map(|row| row.as_object().into_iter().flatten()) {
        if !(value.is_object() || value.is_array() || value.is_null() || columns.contains(&name.as_str())) {
            columns.push(name);
        }
    }
    columns.sort_by_key(|name| FIRST.iter().position(|first| name == first).unwrap_or(FIRST.len()));
    columns
}

/// Prints rows: a table of these columns, or one object on a line.
pub(crate) fn show(columns: &[&str], rows: &[Value], format: ShowFormat) {
    match format {
        ShowFormat::Json => rows.iter().for_each(|row| println!("{row}")),
        ShowFormat::Table => {
            let is_number = |column: &usize| rows.iter().any(|row| row[columns[*column]].is_number());
            let right: Vec<usize> = (0..columns.len()).filter(is_number).collect();
            let mut table = aligned(columns, &right);
            for row in rows {
                table.add_row(columns.iter().map(|column| cell(&row[*column])));
            }
            print(&table);
        }
    }
}

/// Value in a table: texts on one line, numbers in their common format.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => on_one_line(text).into_owned(),
        Value::Number(number) if number.is_f64() => number_text(number.as_f64().unwrap_or_default()),
        list if is_empty(list) => "-".to_owned(),
        Value::Array(list) if list.iter().all(is_single) => {
            list.iter().map(cell).collect::<Vec<_>>().join(", ")
        }
        // A metric has its value beside the time at which it was measured.
        Value::Object(fields) if fields.values().all(|of| is_single(of) || is_single(&of["value"])) => {
            let of = |of: &Value| if is_single(of) { cell(of) } else { cell(&of["value"]) };
            let pair = |(name, value): (&String, &Value)| format!("{}={}", on_one_line(name), of(value));
            fields.iter().map(pair).collect::<Vec<_>>().join(", ")
        }
        other => on_one_line(&other.to_string()).into_owned(),
    }
}

/// Rows under a heading; the last column has no fixed width.
pub(crate) struct Lines {
    rows: Vec<Vec<String>>,
}

impl Lines {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|name| (*name).to_owned()).collect()] }
    }

    pub(crate) fn add(&mut self, row: Vec<String>) {
        self.rows.push(row.iter().map(|cell| on_one_line(cell).into_owned()).collect());
    }

    /// Returns whether there is only the heading.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let width = |at: usize| self.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
            writeln!(f, "{}", cells.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_stays_in_its_cell() {
        assert_eq!(cell(&json!("a\n\u{1b}[31m\u{202e}b")), r"a\n\u{1b}[31m\u{202e}b");
        assert_eq!(cell(&json!("late")), "late");
        assert_eq!((cell(&json!({})), cell(&json!(["a", 2]))), ("-".into(), "a, 2".into()));
        assert_eq!(
            cell(&json!({ "depth": "6", "loss": { "at": "now", "value": 0.5 } })),
            "depth=6, loss=0.5000"
        );
        assert_eq!(cell(&json!({ "$set": ["a"] })), r#"{"$set":["a"]}"#);
    }

    #[test]
    fn columns_are_aligned() {
        let mut lines = Lines::new(&["a", "bb"]);
        assert!(lines.is_empty());
        lines.add(vec!["long".into(), "x".into()]);
        assert_eq!(lines.to_string(), "a     bb\nlong  x\n");
    }

    #[test]
    fn a_text_stays_on_its_line() {
        let mut lines = Lines::new(&["a"]);
        lines.add(vec!["b\n\u{1b}[2J".into()]);
        assert_eq!(lines.to_string(), "a\nb\\n\\u{1b}[2J\n");
    }
}
