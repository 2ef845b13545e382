//! Columns of a Delta table: those of answers, with names that every reader can distinguish. Names of events contain only
//! characters that Delta allows in names of columns: letters, digits, `.`, `_` and `-`.

use std::collections::HashSet;

use event::{Error, Result};
use polars::prelude::{DataType, TimeUnit};
use serde_json::{Value, json};

/// Maximum columns of a table, over all its days.
const MAX_COLUMNS: usize = 4_096;

/// Column that partitions tables.
pub(super) const DAY: &str = "day";

/// Key in the metadata of a field: the name of its column in answers.
const COLUMN: &str = "almanac.column";

/// Columns of a table, from its metadata.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schema {
    fields: Vec<Value>,
}

impl Schema {
    /// Makes the schema of a table without rows.
    pub(super) fn new() -> Self {
        Self { fields: vec![field(DAY, DAY, "date")] }
    }

    /// Parses the text of a schema.
    ///
    /// # Errors
    /// `Corrupt`, when it is none.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let found: Option<Value> = serde_json::from_str(text).ok();
        let fields = found.as_ref().and_then(|found| found["fields"].as_array()).cloned();
        let fields = fields.filter(|fields| fields.iter().all(|field| field["name"].is_string()));
        let fields = fields.ok_or_else(|| Error::corrupt("the schema of the table cannot be read"))?;
        Ok(Self { fields })
    }

    /// Text of the schema.
    pub(super) fn text(&self) -> String {
        json!({ "type": "struct", "fields": self.fields }).to_string()
    }

    /// Returns the names in the table of the columns of an answer. New columns are added to the table.
    ///
    /// # Errors
    /// `Invalid`, when a column has another type than in the table, or when there are too many.
    pub(super) fn names(&mut self, columns: &[(String, DataType)]) -> Result<Vec<String>> {
        columns.iter().map(|(column, kind)| self.name(column, delta_type(column, kind)?)).collect()
    }

    fn name(&mut self, column: &str, kind: &str) -> Result<String> {
        if let Some(found) = self.fields.iter().find(|field| field["metadata"][COLUMN] == column) {
            return match found["type"] == kind {
                true => Ok(found["name"].as_str().unwrap_or_default().to_owned()),
                false => Err(Error::invalid(format!(
                    "the column `{column}` is a {kind} now and a {} in the table; sync to a new folder",
                    found["type"]
                ))),
            };
        }
        if self.fields.len() == MAX_COLUMNS {
            let message = format!("with `{column}` the table would have more than {MAX_COLUMNS} columns");
            return Err(Error::invalid(message));
        }
        let name = self.free(column);
        self.fields.push(field(&name, column, kind));
        Ok(name)
    }

    /// Returns the name, with a number after it if another column has the same name except for case: engines do not distinguish
    /// those.
    fn free(&self, name: &str) -> String {
        let taken: HashSet<String> =
            self.fields.iter().filter_map(|field| field["name"].as_str()).map(str::to_lowercase).collect();
        let numbered = (2..).map(|number| format!("{name}~{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names.find(|name| !taken.contains(&name.to_lowercase())).unwrap_or_default()
    }
}

fn field(name: &str, column: &str, kind: &str) -> Value {
    json!({ "name": name, "type": kind, "nullable": true, "metadata": { COLUMN: column } })
}

/// Delta type for the values of a column.
fn delta_type(column: &str, kind: &DataType) -> Result<&'static str> {
    match kind {
        DataType::String => Ok("string"),
        DataType::Float64 => Ok("double"),
        DataType::Int64 => Ok("long"),
        DataType::Date => Ok("date"),
        DataType::Datetime(TimeUnit::Microseconds, Some(_)) => Ok("timestamp"),
        other => {
            Err(Error::corrupt(format!("the column `{column}` has the type {other}, which no table has")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, kind: DataType) -> (String, DataType) {
        (name.to_owned(), kind)
    }

    #[test]
    fn column_names_stay_stable_and_unique_ignoring_case() {
        let mut schema = Schema::new();
        let columns = ["key", "score.late", "score.Late", "score.LATE", "tag.day", "DAY"];
        let columns = columns.map(|name| column(name, DataType::String));
        let names = schema.names(&columns).unwrap();
        let expected = ["key", "score.late", "score.Late~2", "score.LATE~3", "tag.day", "DAY~2"];
        assert_eq!(names, expected);
        let mut again = Schema::parse(&schema.text()).unwrap();
        assert_eq!(again.names(&columns).unwrap(), names);
        assert_eq!(again, schema, "nothing was added");
        let other = again.names(&[column("key", DataType::Float64)]).unwrap_err().to_string();
        assert!(other.contains("`key` is a double now"), "{other}");
        assert!(again.names(&[column("x", DataType::UInt8)]).is_err());
        assert!(Schema::parse("{}").is_err() && Schema::parse("").is_err());
    }

    #[test]
    fn columns_are_bounded() {
        let columns: Vec<_> = (0..MAX_COLUMNS).map(|n| column(&n.to_string(), DataType::Int64)).collect();
        let mut schema = Schema::new();
        assert!(schema.names(&columns[1..]).is_ok());
        assert!(schema.names(&columns).unwrap_err().to_string().contains("more than 4096 columns"));
    }
}
