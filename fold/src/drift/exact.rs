//! Predictions of some days, with every number and every name.

use std::collections::{BTreeMap, BTreeSet};

use event::{Columns, Kind, fields::FieldType};

use super::{Compared, Drift, Names, PLAIN, Sort, Spread, profile};
use crate::{
    Result,
    read::{floats, required_texts, texts},
};

/// Approximate number of bytes of a name besides its text.
const BYTES_OF_NAME: u64 = 64;

/// Predictions column by column, with each number and each name.
#[derive(Clone, Debug, Default)]
pub struct Exact {
    predictions: u64,
    numbers: BTreeMap<String, Vec<f64>>,
    names: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Exact {
    /// Adds the predictions of a segment, of one release or of all. Returns the approximate number of bytes added.
    ///
    /// # Errors
    /// Fails if a column has another type or shape than predictions have.
    pub fn add(&mut self, columns: &Columns, release: Option<&str>) -> Result<u64> {
        if columns.rows == 0 {
            return Ok(0);
        }
        let releases = required_texts(columns, "release")?;
        let rows: Vec<usize> = (0..columns.rows)
            .filter(|row| release.is_none_or(|release| releases.get(*row) == Some(release)))
            .collect();
        self.predictions += rows.len() as u64;
        let mut bytes = 0;
        for column in columns.columns.iter().filter(|column| Sort::of(&column.name).is_some()) {
            let name = &column.name;
            if Kind::Predictions.column_type(name) == Some(FieldType::Text) {
                let Some(texts) = texts(columns, name)? else { continue };
                let counts = self.names.entry(name.clone()).or_default();
                for text in rows.iter().filter_map(|row| texts.get(*row)) {
                    match counts.get_mut(text) {
                        Some(n) => *n += 1,
                        None => {
                            bytes += text.len() as u64 + BYTES_OF_NAME;
                            counts.insert(text.to_owned(), 1);
                        }
                    }
                }
            } else if let Some(numbers) = floats(columns, name)? {
                let all = self.numbers.entry(name.clone()).or_default();
                let before = all.len();
                all.extend(rows.iter().filter_map(|row| numbers.get(*row)));
                bytes += ((all.len() - before) * size_of::<f64>()) as u64;
            }
        }
        Ok(bytes)
    }

    /// Adds the predictions of another.
    pub fn merge(&mut self, other: Self) {
        self.predictions += other.predictions;
        for (column, numbers) in other.numbers {
            self.numbers.entry(column).or_default().extend(numbers);
        }
        for (column, names) in other.names {
            let all = self.names.entry(column).or_default();
            names.into_iter().for_each(|(name, n)| *all.entry(name).or_default() += n);
        }
    }

    /// Returns the number of predictions.
    pub fn predictions(&self) -> u64 {
        self.predictions
    }

    /// Compares each column of `window` with that of the reference.
    pub fn compared(&self, window: &Self) -> Vec<Compared> {
        let of = [self.predictions, window.predictions];
        let columns = self.numbers.keys().chain(self.names.keys());
        let columns: BTreeSet<&String> =
            columns.chain(window.numbers.keys()).chain(window.names.keys()).collect();
        let plain = PLAIN.iter().filter_map(|plain| columns.get(&(*plain).to_owned()).copied());
        let others = columns.iter().copied().filter(|column| !PLAIN.contains(&column.as_str()));
        let compared =
            plain.chain(others).map(|column| match self.is_of_names(column) || window.is_of_names(column) {
                true => self.names(window, column, of),
                false => self.numbers(window, column, of),
            });
        compared.filter(|compared| compared.n != [0; 2]).collect()
    }

    fn is_of_names(&self, column: &str) -> bool {
        self.names.contains_key(column)
    }

    fn numbers(&self, window: &Self, column: &str, of: [u64; 2]) -> Compared {
        let sides = [self, window].map(|side| side.numbers.get(column).map_or(&[][..], Vec::as_slice));
        let n = sides.map(|side| side.len() as u64);
        let drift = match n.contains(&0) {
            true => Drift::default(),
            false => Spread::of_numbers(sides[0], sides[1]).drift(),
        };
        Compared { column: column.to_owned(), sort: profile::NUMBERS, drift, n, of, unseen: Vec::new() }
    }

    fn names(&self, window: &Self, column: &str, of: [u64; 2]) -> Compared {
        let mut counts = BTreeMap::<&String, [u64; 2]>::new();
        for (at, side) in [self, window].into_iter().enumerate() {
            for (name, n) in side.names.get(column).into_iter().flatten() {
                counts.entry(name).or_default()[at] = *n;
            }
        }
        let names = Names::of_counts(counts.into_iter().map(|(name, n)| (name.clone(), n)));
        profile::of_names(column.to_owned(), &names, of)
    }
}
