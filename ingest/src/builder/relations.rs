//! Checks of relations between the fields of a row.

use event::{
    Day, Kind, Timestamp,
    fields::{Field, GROUP, Rule},
};

use super::{
    BatchBuilder,
    check::other_day,
    column_builder::{ColumnBuilder, Growing},
    names::PREDICTED_ON,
    row::FieldError,
};

/// Maximum distance from 1 of numbers that must add up to it: those of a softmax in single precision are not exact. A decimal sum
/// of 0.999 is within it.
const MAX_SUM_ERROR: f64 = 1e-3 + 1e-9;

impl BatchBuilder {
    /// Checks numbers that must not exceed another field of their row.
    pub(super) fn check_order(&mut self) {
        let pairs =
            self.kind.sent_fields().iter().enumerate().filter_map(|(at, field)| Some((at, field.at_most?)));
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
                    let name = self.kind.sent_fields()[lower].name;
                    let message =
                        || format!("is {least:?}, which is more than `{other}`, {most:?}; swap the two");
                    let error = || FieldError::new(name, message());
                    self.notes.note(&mut budget, (at, self.numbers[at]), 1 + lower, error);
                }
            }
        }
    }

    /// Checks numbers that must add up to 1. They are added in the order of their names, so in one order for all formats.
    pub(super) fn check_sums(&mut self) {
        let families = self.kind.families().iter().enumerate();
        for (index, family) in families.filter(|(_, family)| family.sums_to_one) {
            let mut columns: Vec<_> =
                self.members.columns.iter().filter(|column| column.family == index).collect();
            columns.sort_by(|a, b| a.name.cmp(&b.name));
            let mut sums: Vec<Option<f64>> = vec![None; if columns.is_empty() { 0 } else { self.rows() }];
            for column in columns {
                let Growing::Float(values) = &column.filling.values else { continue };
                for (at, value) in values.iter().enumerate().filter(|(at, _)| column.filling.is_valid(*at)) {
                    sums[at] = Some(sums[at].unwrap_or(0.0) + value);
                }
            }
            let stage = self.member_stage();
            let mut budget = self.notes.budget();
            let is_off = |sum: f64| (sum - 1.0).abs() > MAX_SUM_ERROR;
            for (at, sum) in sums.into_iter().enumerate() {
                let Some(sum) = sum.filter(|sum| is_off(*sum)) else { continue };
                // The sum means nothing if one of the numbers was not accepted.
                if !self.notes.is_bad(at) {
                    let message =
                        || format!("add up to {sum}, not to 1; give the {} of every class", family.noun);
                    let error = || FieldError::new(family.name, message());
                    self.notes.note(&mut budget, (at, self.numbers[at]), stage, error);
                }
            }
        }
    }

    /// Checks numbers that may be NaN or infinite only if the event is of a run.
    pub(super) fn check_special(&mut self, field: usize) {
        let spec = self.spec(field);
        let Growing::Float(values) = &self.fields[field].values else { return };
        if values.iter().all(|number| number.is_finite()) {
            return;
        }
        let run = &self.fields[self.index_of("run")];
        let mut budget = self.notes.budget();
        for (at, number) in values.iter().enumerate() {
            if !number.is_finite() && self.fields[field].is_valid(at) && !run.is_valid(at) {
                let error = || FieldError::new(spec.name, spec.rule.refusal(*number));
                self.notes.note(&mut budget, (at, self.numbers[at]), 1 + field, error);
            }
        }
    }

    /// Checks that scores without a group are probabilities.
    pub(super) fn check_scores(&mut self, field: usize) {
        let spec = self.spec(field);
        let Growing::Float(values) = &self.fields[field].values else { return };
        let range = Rule::Probability.range();
        let is_wrong = |number: &f64| number.is_finite() && !range.contains(number);
        let group = &self.fields[self.index_of(GROUP)];
        let mut budget = self.notes.budget();
        for (at, number) in values.iter().enumerate().filter(|(_, number)| is_wrong(number)) {
            if self.fields[field].is_valid(at) && !group.is_valid(at) {
                let error = || FieldError::new(spec.name, spec.rule.refusal(*number));
                self.notes.note(&mut budget, (at, self.numbers[at]), 1 + field, error);
            }
        }
    }

    /// Checks that steps are whole numbers.
    pub(super) fn check_steps(&mut self, field: usize) {
        let spec = self.spec(field);
        let Growing::Float(values) = &self.fields[field].values else { return };
        let is_wrong = |number: &f64| number.is_finite() && number.fract() != 0.0;
        let mut budget = self.notes.budget();
        for (at, number) in values.iter().enumerate().filter(|(_, number)| is_wrong(number)) {
            if self.fields[field].is_valid(at) {
                let error = || FieldError::new(spec.name, spec.rule.refusal(*number));
                self.notes.note(&mut budget, (at, self.numbers[at]), 1 + field, error);
            }
        }
    }

    /// Checks fields that need another one beside them.
    pub(super) fn check_needs(&mut self) {
        for (index, field) in
            self.kind.sent_fields().iter().enumerate().filter(|(_, field)| !field.needs.is_empty())
        {
            let column = &self.fields[index];
            let is_needed = |(known, _): &(&Field, &ColumnBuilder)| field.needs.contains(&known.name);
            let needed = self.kind.sent_fields().iter().zip(&self.fields).filter(is_needed);
            let needed: Vec<&ColumnBuilder> = needed.map(|(_, column)| column).collect();
            // A value that was not accepted was given all the same.
            let has = |column: &ColumnBuilder, at: usize| {
                column.is_valid(at) || column.wrong.binary_search(&(at as u32)).is_ok()
            };
            if column.nulls() == self.numbers.len() || needed.iter().any(|needed| needed.nulls() == 0) {
                continue;
            }
            let names: Vec<String> = field.needs.iter().map(|name| format!("`{name}`")).collect();
            let mut budget = self.notes.budget();
            for at in 0..self.numbers.len() {
                if column.is_valid(at) && needed.iter().all(|needed| !has(needed, at)) {
                    let message = || format!("needs {} beside it", names.join(" or "));
                    let error = || FieldError::new(field.name, message());
                    self.notes.note(&mut budget, (at, self.numbers[at]), 1 + index, error);
                }
            }
        }
    }

    /// Checks that the day of a prediction is that of its instant, if both are stored.
    pub(super) fn check_predicted_on(&mut self) {
        let index = |name: &str| self.kind.sent_fields().iter().position(|field| field.name == name);
        let (Some(day), Some(instant)) = (index(PREDICTED_ON), index("predicted_at")) else { return };
        let (days, instants) = (&self.fields[day], &self.fields[instant]);
        let mut budget = self.notes.budget();
        for row in 0..self.numbers.len() {
            let on = days.text(row).and_then(|day| day.parse::<Day>().ok());
            let at = instants.time(row).and_then(Timestamp::from_micros).map(Timestamp::day);
            if let (Some(on), Some(at)) = (on, at)
                && on != at
            {
                self.notes.note(&mut budget, (row, self.numbers[row]), 1 + day, || other_day(on, at));
            }
        }
    }

    /// Checks that each prediction and outcome has content.
    pub(super) fn check_telling(&mut self) {
        let told = self.kind.sent_fields().iter().zip(&self.fields).filter(|(field, _)| field.is_telling);
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
        // Such a row is marked as bad only after its day was checked as well.
        self.silent = silent;
        for &at in &self.silent {
            self.notes
                .list_only(&mut budget, self.numbers[at], stage, || FieldError::of_row(silence(self.kind)));
        }
    }
}

/// Message for a row without content.
fn silence(kind: Kind) -> String {
    let fields =
        kind.lasting_fields().filter(|field| field.is_telling).map(|field| format!("a {}", field.name));
    let families = kind.families().iter().filter(|family| family.is_telling);
    let mut names: Vec<String> = fields.chain(families.map(|family| family.name.to_owned())).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} needs {} or {last}", kind.one(), names.join(", "))
}
