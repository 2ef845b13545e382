//! Interned values of a column.

use std::collections::HashMap;

use super::{By, NONE, Value};
use crate::{
    LogSegment, Result,
    read::{floats, texts},
};

/// Values of a column, by number.
#[derive(Default)]
pub(super) struct Interned {
    pub(super) values: Vec<Value>,
    numbers: HashMap<Value, u32>,
}

impl Interned {
    fn number(&mut self, value: Value) -> u32 {
        let next = self.values.len() as u32;
        let number = *self.numbers.entry(value.clone()).or_insert(next);
        if number == next {
            self.values.push(value);
        }
        number
    }

    /// Returns the number of the value of each row of a segment.
    pub(super) fn codes(&mut self, by: &By, segment: &LogSegment<'_>) -> Result<Vec<u32>> {
        let rows = segment.columns.rows;
        if rows == 0 {
            return Ok(Vec::new());
        }
        match by {
            By::Texts { column, kept } => {
                let Some(texts) = texts(segment.columns, column)? else {
                    return Ok(vec![self.number(Value::Null); rows]);
                };
                let codes = texts.codes();
                let mut numbers = vec![NONE; codes.len()];
                let number = |code: u32| {
                    let number = &mut numbers[code as usize];
                    if *number == NONE {
                        *number = self.number(match codes.names.get(code as usize) {
                            None => Value::Null,
                            Some(text) if kept.as_ref().is_none_or(|kept| kept.contains(*text)) => {
                                Value::Text((*text).to_owned())
                            }
                            Some(_) => Value::Others,
                        });
                    }
                    *number
                };
                Ok(codes.codes.iter().copied().map(number).collect())
            }
            By::Bins { column, edges } => {
                let numbers = floats(segment.columns, column)?;
                let value = |row| match numbers.and_then(|numbers| numbers.get(row)) {
                    None => Value::Null,
                    Some(number) => Value::Bin(edges.partition_point(|edge| *edge <= number)),
                };
                Ok((0..rows).map(|row| self.number(value(row))).collect())
            }
        }
    }
}
