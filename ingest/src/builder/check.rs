//! The checks that every event passes, whatever format it came in: a tight loop over each column,
//! then what holds between the fields of a row.

use std::collections::BTreeSet;

use event::{
    Column, Columns, Day, Kind, RowProblem, Timestamp,
    fields::{PREDICTED_SINCE, RETRACTED, Rule, UNDATED},
    time::DAY_MICROS,
};

use super::{
    BatchBuilder,
    column_builder::{ColumnBuilder, Growing},
    names::{EVENT_ID, PREDICTED_ON},
    not_alone,
    row::FieldError,
    row_errors::RowErrors,
    times::TIMES,
};
use crate::{
    batch::{Batch, Refused},
    limits::{MAX_BATCH_DAYS, MAX_BATCH_ROWS, MAX_LOOK_BACK_DAYS},
};

/// The good rows of a builder, and the bad ones.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// `None` when no row is good.
    pub(crate) good: Option<Batch>,
    /// The number of each bad row and what is wrong with it, in order.
    pub(crate) bad: Vec<(u64, Vec<RowProblem>)>,
    /// Time at which each good row was known, if the file says it.
    pub(crate) known_at: Vec<Timestamp>,
}

impl BatchBuilder {
    /// The batch, or what is wrong with it.
    ///
    /// # Errors
    /// As [`Refused`] tells: bad rows come before what is wrong with the whole. Too many different members come before both: rows lack
    /// those for which there was no room, and would be refused for it.
    pub(crate) fn finish(mut self) -> Result<Batch, Refused> {
        self.check_member_names()?;
        let days = self.check();
        let error_count = self.notes.count();
        if error_count > 0 {
            return Err(Refused::Rows { errors: self.notes.list(), error_count });
        }
        let rows = self.rows();
        if rows > MAX_BATCH_ROWS {
            return Err(Refused::TooLarge(format!(
                "{rows} rows are more than the {MAX_BATCH_ROWS} of a batch; send several"
            )));
        }
        let distinct = distinct_days(&days);
        if distinct > MAX_BATCH_DAYS {
            let message =
                format!("{distinct} days are more than the {MAX_BATCH_DAYS} of a batch; send several");
            return Err(Refused::Whole(message));
        }
        Ok(self.into_batch(days))
    }

    /// Its good rows as a batch of any number of days, and all its bad ones.
    ///
    /// # Errors
    /// When there are too many different tags.
    pub(crate) fn sort(mut self) -> Result<Sorted, Refused> {
        self.fill_set()?;
        let mut days = self.check();
        self.check_member_names()?;
        let is_mixed = self.notes.any_in_draft();
        let good: Vec<usize> = (0..self.rows()).filter(|&row| !self.notes.is_bad(row)).collect();
        let notes = std::mem::replace(&mut self.notes, RowErrors::new(None));
        let bad = notes.rows();
        if good.is_empty() {
            return Ok(Sorted { good: None, bad, known_at: Vec::new() });
        }
        if is_mixed {
            days = good.iter().map(|&row| days[row]).collect();
        }
        let known_at = match self.fields.get(self.kind.sent_fields().len()) {
            Some(column) => {
                good.iter().filter_map(|row| Timestamp::from_micros(column.time(*row)?)).collect()
            }
            None => Vec::new(),
        };
        let mut batch = Batch { event_id: None, ..self.into_batch(days) };
        if is_mixed {
            batch.columns = batch.columns.take(&good);
            batch.numbers = good.iter().map(|&row| batch.numbers[row]).collect();
            if !batch.waits.is_empty() {
                batch.waits = good.iter().map(|&row| batch.waits[row]).collect();
            }
            let rows = batch.columns.rows;
            let kind = batch.kind;
            let is_wanted = |name: &str| kind.field(name).is_some_and(|field| field.is_required);
            batch.columns.columns.retain(|column| column.nulls() < rows || is_wanted(&column.name));
        }
        Ok(Sorted { good: Some(batch), bad, known_at })
    }

    /// Checks all columns; returns the day of every row, which means nothing for a bad one.
    fn check(&mut self) -> Vec<Day> {
        let rows = self.rows();
        self.fields.iter_mut().for_each(|column| column.pad(rows));
        self.members.pad(rows);
        self.predicted_on.pad(rows);
        for field in 0..self.fields.len() {
            self.check_missing(field);
            self.check_floats(field);
            self.check_times(field);
        }
        self.check_member_counts();
        self.check_member_floats();
        self.check_sums();
        self.check_order();
        self.check_needs();
        self.check_predicted_on();
        self.check_event_ids();
        self.check_telling();
        match self.kind {
            Kind::Outcomes => self.judged_days(),
            _ => self.days_of(self.index_of(self.kind.time_field())),
        }
    }

    pub(super) fn index_of(&self, field: &str) -> usize {
        self.kind.sent_fields().iter().position(|known| known.name == field).unwrap_or_default()
    }

    fn check_missing(&mut self, field: usize) {
        let spec = self.spec(field);
        if spec.is_required {
            let (notes, numbers) = (&mut self.notes, &self.numbers);
            let mut budget = notes.budget();
            self.fields[field].each_missing(|at| {
                let error = || FieldError::new(spec.name, "is missing");
                notes.note(&mut budget, (at, numbers[at]), 1 + field, error);
            });
        }
    }

    fn check_floats(&mut self, field: usize) {
        let spec = self.spec(field);
        if spec.rule.may_be_special() {
            return self.check_special(field);
        }
        if spec.rule == Rule::Score {
            self.check_scores(field);
        }
        if spec.rule == Rule::Step {
            self.check_steps(field);
        }
        let column = (&self.fields[field], spec.rule);
        note_floats(&mut self.notes, &self.numbers, column, 1 + field, &|| spec.name.to_owned());
    }

    fn check_times(&mut self, field: usize) {
        let Growing::Time(values) = &self.fields[field].values else { return };
        let good = *TIMES.start()..=self.latest.min(*TIMES.end());
        let is_good = |time: &i64| good.contains(time);
        if values.iter().all(is_good) {
            return;
        }
        let (mut budget, name) = (self.notes.budget(), self.spec(field).name);
        for (at, time) in values.iter().enumerate() {
            if !is_good(time) && self.fields[field].is_valid(at) {
                let message = match *time > self.latest {
                    true => "is more than 24 hours in the future",
                    false => "is outside of the years 1 to 9999",
                };
                let error = || FieldError::new(name, message);
                self.notes.note(&mut budget, (at, self.numbers[at]), 1 + field, error);
            }
        }
    }

    fn check_event_ids(&mut self) {
        let is_alone = self.rows() == 1 && self.notes.count_unread() == 0 && !self.reading.import;
        let stage = self.event_id_stage();
        let mut budget = self.notes.budget();
        for (at, id) in &self.event_ids {
            let at = *at as usize;
            let error = match id {
                Ok(_) if is_alone => continue,
                Err(message) if is_alone => FieldError::new(EVENT_ID, message.clone()),
                _ => not_alone(),
            };
            self.notes.note(&mut budget, (at, self.numbers[at]), stage, || error);
        }
    }

    /// The days of a column of times.
    fn days_of(&mut self, field: usize) -> Vec<Day> {
        for &at in &self.silent {
            self.notes.mark(at);
        }
        let Growing::Time(times) = &self.fields[field].values else { return Vec::new() };
        let mut days = DayReader::default();
        times.iter().map(|time| days.day(*time)).collect()
    }

    /// The days of the predictions that outcomes judge; of those that do not say it, the day on which they arrive.
    fn judged_days(&mut self) -> Vec<Day> {
        let predicted_at = self.index_of("predicted_at");
        let (mut at_days, mut on_days) = (DayReader::default(), DayReader::default());
        let mut wrong = std::mem::take(&mut self.wrong_days).into_iter().peekable();
        let mut is_wrong = std::mem::take(&mut self.predicted_on.wrong).into_iter().peekable();
        let mut budget = self.notes.budget();
        let stage = self.event_id_stage() + 2;
        let epoch = Timestamp::default().day();
        let mut days = Vec::with_capacity(self.rows());
        for at in 0..self.rows() {
            let text_error = wrong.next_if(|(row, _)| *row as usize == at).map(|(_, error)| error);
            let is_no_day = is_wrong.next_if_eq(&(at as u32)).is_some();
            let predicted = self.fields[predicted_at].time(at).map(|time| at_days.day(time));
            let given = self.predicted_on.time(at).map(|time| on_days.day(time));
            if self.notes.is_bad(at) {
                days.push(epoch);
                continue;
            }
            let judged = match is_no_day {
                true => Err(text_error.unwrap_or_else(|| FieldError::of_row("is no day"))),
                false => self.judged_day(at, predicted, given),
            };
            let judged = judged.and_then(|day| match day.start().micros() > self.latest {
                true => Err(FieldError::new(PREDICTED_ON, "is more than 24 hours in the future")),
                false => Ok(day),
            });
            days.push(judged.unwrap_or_else(|error| {
                self.notes.note(&mut budget, (at, self.numbers[at]), stage, || error);
                epoch
            }));
        }
        for &at in &self.silent {
            self.notes.mark(at);
        }
        days
    }

    /// The day of the prediction that the outcome of a row judges. One that does not say it waits, under the day on which it arrives.
    fn judged_day(
        &mut self,
        at: usize,
        predicted_at: Option<Day>,
        given: Option<Day>,
    ) -> Result<Day, FieldError> {
        let is_said = |name: &&&str| self.fields[self.index_of(name)].is_valid(at);
        match (predicted_at, given) {
            (Some(at), Some(on)) if at != on => Err(other_day(on, at)),
            (Some(day), _) | (None, Some(day)) => match UNDATED.iter().find(is_said) {
                None => Ok(day),
                Some(name) => Err(FieldError::new(
                    name,
                    "is of an outcome that has neither `predicted_at` nor `predicted_on`",
                )),
            },
            (None, None) => {
                let since = self.fields[self.index_of(PREDICTED_SINCE)].time(at);
                let observed = self.fields[self.index_of("observed_at")].time(at).unwrap_or_default();
                check_waiting(self.fields[self.index_of(RETRACTED)].is_valid(at), since, observed)?;
                self.waits.resize(self.numbers.len(), false);
                self.waits[at] = true;
                Ok(self.arrival)
            }
        }
    }

    fn check_member_names(&self) -> Result<(), Refused> {
        self.members.too_many().map_or(Ok(()), |message| Err(Refused::Whole(message)))
    }

    fn into_batch(mut self, days: Vec<Day>) -> Batch {
        let rows = self.rows();
        let event_id = self.event_ids.pop().and_then(|(_, id)| id.ok());
        let fields = self.kind.sent_fields().iter().zip(self.fields);
        let kept = fields.filter(|(field, column)| field.is_required || column.nulls() < rows);
        let mut columns: Vec<Column> =
            kept.map(|(field, column)| column.finish(field.name.to_owned())).collect();
        columns.extend(self.members.finish(rows));
        let waits = match self.waits.iter().any(|waits| *waits) {
            true => self.waits,
            false => Vec::new(),
        };
        let columns = Columns { rows, columns };
        Batch { kind: self.kind, columns, days, waits, numbers: self.numbers, event_id }
    }
}

/// Notes the numbers of a column that its rule does not allow.
pub(super) fn note_floats(
    notes: &mut RowErrors,
    numbers: &[u64],
    (column, rule): (&ColumnBuilder, Rule),
    stage: usize,
    name: &dyn Fn() -> String,
) {
    let Growing::Float(values) = &column.values else { return };
    let range = rule.range();
    // Under a null stands 0, which is good everywhere.
    if values.iter().all(|number| range.contains(number)) {
        return;
    }
    let mut budget = notes.budget();
    for (at, number) in values.iter().enumerate() {
        if !range.contains(number) && column.is_valid(at) {
            let error = || FieldError::new(&name(), rule.refusal(*number));
            notes.note(&mut budget, (at, numbers[at]), stage, error);
        }
    }
}

/// Number of different days.
pub(crate) fn distinct_days(days: &[Day]) -> usize {
    let mut distinct = BTreeSet::new();
    for pair in days.chunk_by(|a, b| a == b) {
        distinct.insert(pair[0]);
    }
    distinct.len()
}

/// The day of an instant; the next one is often of the same.
struct DayReader {
    day: Day,
    start: i64,
}

impl Default for DayReader {
    fn default() -> Self {
        Self { day: Timestamp::default().day(), start: 0 }
    }
}

impl DayReader {
    #[inline]
    fn day(&mut self, micros: i64) -> Day {
        if !(self.start..self.start + DAY_MICROS).contains(&micros) {
            // Outside of the calendar the row is bad, and its day means nothing.
            self.day = Timestamp::from_micros(micros).unwrap_or_default().day();
            self.start = self.day.start().micros();
        }
        self.day
    }
}

/// Error of a prediction whose `predicted_on` is another day than that of its instant.
pub(super) fn other_day(on: Day, at: Day) -> FieldError {
    FieldError::new(PREDICTED_ON, format!("is {on}, but `predicted_at` is on {at} (UTC)"))
}

/// Checks an outcome that does not say which prediction it judges.
fn check_waiting(is_retracted: bool, since: Option<i64>, observed_at: i64) -> Result<(), FieldError> {
    if is_retracted {
        return Err(FieldError::of_row(
            "to take an outcome back, give the `predicted_at` that it has; `almanac query outcomes --key` tells it",
        ));
    }
    match since {
        Some(since) if since > observed_at => Err(FieldError::new(
            PREDICTED_SINCE,
            "is after `observed_at`, and what is judged was predicted before",
        )),
        Some(since) if since < observed_at - i64::from(MAX_LOOK_BACK_DAYS) * DAY_MICROS => {
            let message = format!("is more than {MAX_LOOK_BACK_DAYS} days before `observed_at`");
            Err(FieldError::new(PREDICTED_SINCE, message))
        }
        _ => Ok(()),
    }
}
