//! The digest of a frame: of its columns, their types, and their values row by row, independent of the division into parts.

use std::fmt::Write as _;

use event::{Error, Result};
use polars::prelude::{Column, DataFrame, DataType};
use sha2::{Digest as _, Sha256};

use crate::frame::failed;

/// Prefix of the digest's text. Another algorithm has another prefix.
const ALGORITHM: &str = "sha256";

/// Digests rows as they are added.
#[derive(Clone, Debug)]
pub(crate) struct FrameDigest {
    columns: Vec<Sha256>,
    names: Vec<String>,
    rows: u64,
}

impl FrameDigest {
    /// Begins the digest of no rows, with the columns of a frame.
    pub(crate) fn of_columns(empty: &DataFrame) -> Self {
        let begin = |column: &Column| {
            let mut hash = Sha256::new();
            text(&mut hash, column.name());
            text(&mut hash, &column.dtype().to_string());
            hash
        };
        let names = empty.columns().iter().map(|column| column.name().to_string()).collect();
        Self { columns: empty.columns().iter().map(begin).collect(), names, rows: 0 }
    }

    /// Returns the names of the columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of rows added.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `Corrupt`, if they have other columns.
    pub(crate) fn add(&mut self, rows: &DataFrame) -> Result<()> {
        self.rows += rows.height() as u64;
        let names = rows.columns().iter().map(|column| column.name().as_str());
        if !names.eq(self.names.iter().map(String::as_str)) {
            return Err(Error::corrupt("the rows of an answer have other columns than it began with"));
        }
        rows.columns().iter().zip(&mut self.columns).try_for_each(|(column, hash)| values(column, hash))
    }

    /// Returns the digest as text.
    pub(crate) fn text(self) -> String {
        let mut all = Sha256::new();
        all.update(self.rows.to_le_bytes());
        self.columns.into_iter().for_each(|column| all.update(column.finalize()));
        all.finalize().iter().fold(format!("{ALGORITHM}:"), |mut text, byte| {
            // Writing to a `String` never fails.
            _ = write!(text, "{byte:02x}");
            text
        })
    }
}

fn text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

/// Digests one value after the other: a byte for its presence, then the value.
fn values(column: &Column, hash: &mut Sha256) -> Result<()> {
    let column = column.as_materialized_series();
    let number = |hash: &mut Sha256, bytes: Option<[u8; 8]>| match bytes {
        Some(bytes) => {
            let [a, b, c, d, e, f, g, h] = bytes;
            hash.update([1, a, b, c, d, e, f, g, h]);
        }
        None => hash.update([0]),
    };
    match column.dtype() {
        DataType::String => column.str().map_err(failed)?.iter().for_each(|value| match value {
            Some(value) => {
                hash.update([1]);
                text(hash, value);
            }
            None => hash.update([0]),
        }),
        DataType::Float64 => {
            let bits = |value: Option<f64>| value.map(|value| value.to_bits().to_le_bytes());
            column.f64().map_err(failed)?.iter().for_each(|value| number(hash, bits(value)));
        }
        DataType::Date | DataType::Datetime(..) | DataType::Int64 => {
            let whole = column.to_physical_repr().cast(&DataType::Int64).map_err(failed)?;
            whole.i64().map_err(failed)?.iter().for_each(|value| number(hash, value.map(i64::to_le_bytes)));
        }
        other => return Err(Error::corrupt(format!("a column of type {other} has no digest"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use polars::prelude::{IntoColumn, NamedFrom, Series};

    use super::*;
    use crate::frame::{days, frame};

    fn rows() -> DataFrame {
        let text = Series::new("key".into(), [Some("a"), None, Some("")]);
        let number = Series::new("score".into(), [Some(0.5), Some(-0.0), None]);
        let columns = vec![days("day", vec![1, 2, 3]), text.into_column(), number.into_column()];
        frame(3, columns).unwrap()
    }

    fn digest(parts: &[DataFrame]) -> String {
        let mut digest = FrameDigest::of_columns(&parts[0].clear());
        parts.iter().for_each(|part| digest.add(part).unwrap());
        digest.text()
    }

    #[test]
    fn frame_digest_depends_only_on_values() {
        let whole = rows();
        let known = digest(std::slice::from_ref(&whole));
        // Snapshots store this digest, so it must never change.
        assert_eq!(known, GOLDEN);
        assert_eq!(digest(&[whole.head(Some(1)), whole.slice(1, 2)]), known);
        let others = [
            whole.head(Some(2)),
            whole.reverse(),
            whole.select(["key", "day", "score"]).unwrap(),
            whole.select(["day", "key"]).unwrap(),
            {
                let mut renamed = whole.clone();
                renamed.rename("key", "keys".into()).unwrap();
                renamed
            },
            {
                let score = Series::new("score".into(), [Some(0.5), Some(0.0), None]);
                frame(3, vec![whole.columns()[0].clone(), whole.columns()[1].clone(), score.into_column()])
                    .unwrap()
            },
        ];
        others.iter().for_each(|other| assert_ne!(digest(std::slice::from_ref(other)), known, "{other}"));
        let mut digest = FrameDigest::of_columns(&whole);
        assert!(digest.add(&whole.select(["day", "key"]).unwrap()).is_err());
    }

    const GOLDEN: &str = "sha256:fd135f5dd753325a6965a6cb571b30b697b22c2744dd7a58b8ef494e89448f54";
}
