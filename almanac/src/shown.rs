//! Output of answers: JSON for programs, a table for people.

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

/// Prints one object: one field on a line, or JSON.
pub(crate) fn show_one(value: &Value, format: ShowFormat) {
    if let ShowFormat::Json = format {
        return print_json(value);
    }
    let mut table = aligned(&["field", "value"], &[]);
    for (name, value) in value.as_object().into_iter().flatten() {
        // A setting is printed exactly, not rounded.
        let text = if value.is_number() { value.to_string() } else { cell(value) };
        table.add_row([on_one_line(name).into_owned(), text]);
    }
    print(&table);
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
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => on_one_line(text).into_owned(),
        Value::Number(number) if number.is_f64() => number_text(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
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
    }
}
