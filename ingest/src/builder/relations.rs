//! What must hold between the fields of a row.

use event::Kind;

use super::{
    BatchBuilder,
    column_builder::{ColumnBuilder, Growing},
    row::FieldError,
};

impl BatchBuilder {
    /// Numbers that must not exceed another field of their row.
    pub(super) fn check_order(&mut self) {
        let pairs =
            self.kind.fields().iter().enumerate().filter_map(|(at, field)| Some((at, field.at_most?)));
        for (lower, other) in pairs {
            let upper = self.index_of(other);
            let (Growing::Float(least), Growing::Float(most)) =
                (&self.fields[lower].values, &self.fields[upper].values)
            else {
                continue;
            };
            let mut budget = self.notes.budget();
            for (at, (least, most)) in
                least.iter().zip(most).enumerate().filter(|(_, (least, most))| least > most)
            {
                if self.fields[lower].is_valid(at) && self.fields[upper].is_valid(at) {
                    let name = self.kind.fields()[lower].name;
                    let message =
                        || format!("is {least}, which is more than `{other}`, {most}; swap the two");
                    let error = || FieldError::new(name, message());
                    self.notes.note(&mut budget, (at, self.numbers[at]), 1 + lower, error);
                }
            }
        }
    }

    /// A prediction and an outcome must say something.
    pub(super) fn check_telling(&mut self) {
        let told = self.kind.fields().iter().zip(&self.fields).filter(|(field, _)| field.is_telling);
        let told: Vec<&ColumnBuilder> =
            told.map(|(_, column)| column).chain(self.members.telling()).collect();
        if told.is_empty() || told.iter().any(|column| column.nulls() == 0) {
            return;
        }
        let silent: Vec<usize> = (0..self.rows())
            .filter(|&at| !self.notes.is_bad(at) && told.iter().all(|column| !column.is_valid(at)))
            .collect();
        let stage = self.event_id_stage() + 1;
        let mut budget = self.notes.budget();
        // That such a row is bad is noted only after its day was looked at as well.
        self.silent = silent;
        for &at in &self.silent {
            self.notes
                .list_only(&mut budget, self.numbers[at], stage, || FieldError::of_row(silence(self.kind)));
        }
    }
}

/// That a row says nothing.
fn silence(kind: Kind) -> String {
    let fields =
        kind.fields().iter().filter(|field| field.is_telling).map(|field| format!("a {}", field.name));
    let families = kind.families().iter().filter(|family| family.is_telling);
    let mut names: Vec<String> = fields.chain(families.map(|family| family.name.to_owned())).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} needs {} or {last}", kind.one(), names.join(", "))
}
