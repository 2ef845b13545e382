//! Text in aligned columns, for people.

use std::fmt;

use event::plain::on_one_line;

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
    use super::*;

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
