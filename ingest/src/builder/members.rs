//! Members of families: the columns of a batch whose names the client chooses, such as tags.

use std::{borrow::Cow, collections::HashMap};

use event::{
    Column, Kind,
    fields::{Family, FieldType},
    id::check_name,
};

use super::{
    BatchBuilder, Rule,
    column_builder::ColumnBuilder,
    loose,
    row::{FieldError, Member, Scalar},
    row_errors::Budget,
    rules,
};
use crate::{
    batch::Refused,
    builder::names::ColumnTarget,
    limits::{MAX_BATCH_CELLS, MAX_LISTED_ERRORS},
};

/// Maximum columns among which a name is searched one by one; beyond, by its hash.
const MAX_SEARCHED: usize = 16;

/// A member and its column.
#[derive(Clone, Debug)]
pub(super) struct MemberColumn {
    /// Index of its family in the families of the kind.
    pub(super) family: usize,
    pub(super) name: String,
    pub(super) filling: ColumnBuilder,
}

/// Members of all families of a batch.
#[derive(Clone, Debug)]
pub(super) struct Members {
    families: &'static [Family],
    pub(super) columns: Vec<MemberColumn>,
    /// Column of each name, for each family, once there are many columns.
    index: Vec<HashMap<String, usize>>,
    /// Family with too many members.
    too_many: Option<&'static Family>,
    /// Number of columns that hold numbers.
    numbers: usize,
    /// True if columns came whole; then the members of each row are not counted yet.
    came_whole: bool,
}

impl Members {
    pub(super) fn new(kind: Kind) -> Self {
        let families = kind.families();
        let index = vec![HashMap::new(); families.len()];
        Self { families, columns: Vec::new(), index, too_many: None, numbers: 0, came_whole: false }
    }

    pub(super) fn family(&self, column: usize) -> &'static Family {
        &self.families[self.columns[column].family]
    }

    /// Stored name of a column: `tag.carrier`.
    pub(super) fn stored_name(&self, column: usize) -> String {
        self.family(column).column(&self.columns[column].name)
    }

    fn find(&self, family: usize, name: &str) -> Option<usize> {
        match self.columns.len() > MAX_SEARCHED {
            true => self.index[family].get(name).copied(),
            false => self.columns.iter().position(|column| column.is(family, name)),
        }
    }

    /// Returns the index of a member's column, which is made if needed; `position` is its expected place. `None` for a null
    /// without a column, and when there are too many members.
    fn column(
        &mut self,
        position: usize,
        (family, name): (usize, &str),
        is_null: bool,
    ) -> Result<Option<usize>, String> {
        if self.columns.get(position).is_some_and(|column| column.is(family, name)) {
            return Ok(Some(position));
        }
        if let Some(at) = self.find(family, name) {
            return Ok(Some(at));
        }
        let of = &self.families[family];
        let name = check_member_name(of, name)?;
        if let Some(at) = self.find(family, &name) {
            return Ok(Some(at));
        }
        if is_null {
            return Ok(None);
        }
        if self.columns.iter().filter(|column| column.family == family).count() >= of.max_batch {
            self.too_many = Some(of);
            return Ok(None);
        }
        self.numbers += usize::from(of.kind == FieldType::Float);
        self.columns.push(MemberColumn {
            family,
            name: name.clone().into_owned(),
            filling: ColumnBuilder::new(of.kind, of.rule),
        });
        self.note_index(name.into_owned());
        Ok(Some(self.columns.len() - 1))
    }

    /// Indexes the name of the last column, and all names before it when there are many for the first time.
    fn note_index(&mut self, name: String) {
        let columns = self.columns.len();
        if columns == MAX_SEARCHED + 1 {
            for (at, column) in self.columns.iter().enumerate() {
                self.index[column.family].insert(column.name.clone(), at);
            }
        } else if columns > MAX_SEARCHED {
            self.index[self.columns[columns - 1].family].insert(name, columns - 1);
        }
    }

    pub(super) fn fillings(&self) -> impl Iterator<Item = &ColumnBuilder> {
        self.columns.iter().map(|column| &column.filling)
    }

    pub(super) fn pad(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.filling.pad(rows));
    }

    /// Columns of families whose members count as content.
    pub(super) fn telling(&self) -> impl Iterator<Item = &ColumnBuilder> {
        let telling = self.columns.iter().filter(|column| self.families[column.family].is_telling);
        telling.map(|column| &column.filling)
    }

    /// Returns a sentence about the family with too many members for a batch.
    pub(super) fn too_many(&self) -> Option<String> {
        let family = self.too_many?;
        Some(format!("there are more than the {} different {} of a batch", family.max_batch, family.name))
    }

    /// Returns the columns that hold a value, by family and name.
    pub(super) fn finish(mut self, rows: usize) -> impl Iterator<Item = Column> {
        self.columns.sort_by(|a, b| (a.family, &a.name).cmp(&(b.family, &b.name)));
        let kept = self.columns.into_iter().filter(move |column| column.filling.nulls() < rows);
        kept.map(move |column| column.filling.finish(self.families[column.family].column(&column.name)))
    }
}

impl MemberColumn {
    #[inline]
    fn is(&self, family: usize, name: &str) -> bool {
        self.family == family && self.name == name
    }
}

/// Checks the name of a member, and returns it as stored.
fn check_member_name<'a>(family: &Family, name: &'a str) -> Result<Cow<'a, str>, String> {
    let rule = family.name_rule;
    if rule == Rule::Name {
        return match check_name(name) {
            Ok(()) => Ok(Cow::Borrowed(name)),
            Err(_) => Err("its name should be letters, digits, `.`, `_` or `-`, at most 128".into()),
        };
    }
    let plain = rules::plain(rule, name);
    match rules::check(rule, &plain) {
        Ok(()) => Ok(plain),
        Err(message) => Err(format!("its name {message}")),
    }
}

/// Checks that a member can have a value; numbers may still be out of range.
fn check_value(family: &Family, value: &Scalar<'_>) -> Result<(), String> {
    match (family.kind, value) {
        (_, Scalar::Null | Scalar::Int(_)) => Ok(()),
        (FieldType::Text, Scalar::Bool(_)) | (FieldType::Float, Scalar::Float(_)) => Ok(()),
        (FieldType::Text, Scalar::Text(text)) => rules::check(family.rule, text),
        (FieldType::Float, other) => Err(format!("should be a number, but is {}", other.is_called())),
        (_, other) => Err(format!("should be a string, but is {}", other.is_called())),
    }
}

impl BatchBuilder {
    pub(super) fn push_members(&mut self, at: usize, number: u64, members: &[Member<'_>]) {
        for (index, family) in self.kind.families().iter().enumerate() {
            if members.len() <= family.max {
                continue;
            }
            let count = members.iter().filter(|member| member.family == index).count();
            if count > family.max {
                let message = format!("{count} are more than the {} of an event", family.max);
                return self.note_member(at, number, FieldError::new(family.name, message));
            }
        }
        for (position, member) in members.iter().enumerate() {
            if let Err(message) = self.push_member(at, position, members) {
                let field = self.kind.families()[member.family].column(&member.name);
                self.note_member(at, number, FieldError::new(&field, message));
            }
        }
    }

    #[cold]
    fn note_member(&mut self, at: usize, number: u64, error: FieldError) {
        let stage = self.member_stage();
        self.notes.note(&mut self.row_budget, (at, number), stage, || error);
    }

    /// Sets the member of row `at` at `position` among the members of the row. Its column has the same position, if the row has
    /// the members of the one before.
    fn push_member(&mut self, at: usize, position: usize, members: &[Member<'_>]) -> Result<(), String> {
        let Member { family, name, value } = &members[position];
        let value = self.reading.present(value);
        let columns = self.members.columns.len();
        let column = self.members.column(position, (*family, name), *value == Scalar::Null)?;
        if self.members.columns.len() > columns
            && let Err(refused) = self.claim(at + 1)
        {
            self.refused = Some(refused);
            return Ok(());
        }
        if let Some(column) = column
            && self.members.columns[column].filling.len() <= at
        {
            let loose_text = self.reading.loose_text;
            return self.members.columns[column].filling.push_loose(
                at,
                value,
                &mut self.reading.times,
                loose_text,
            );
        }
        // The row has the member already, or it has no column: only the fault of the value matters.
        let of = &self.kind.families()[*family];
        check_value(of, value)?;
        let is_good = |value: &Scalar<'_>| *value != Scalar::Null && check_value(of, value).is_ok();
        let is_known = |known: &Member<'_>| {
            known.family == *family
                && check_member_name(of, &known.name) == check_member_name(of, name)
                && is_good(&known.value)
        };
        match is_good(value) && members[..position].iter().any(is_known) {
            true => Err("is given twice".into()),
            false => Ok(()),
        }
    }

    /// Returns a sentence if `rows` rows of a request have too many numbers.
    pub(crate) fn too_many_cells(&self, rows: usize) -> Option<String> {
        let columns = self.members.numbers;
        (!self.reading.import && rows * columns > MAX_BATCH_CELLS).then(|| {
            format!(
                "{rows} rows of {columns} scores and features are more than the {MAX_BATCH_CELLS} numbers of a \
                 batch; send several"
            )
        })
    }

    /// Returns the column of a member, for a format that comes by column and calls it `called`: one name has one column.
    ///
    /// # Errors
    /// Fails when the name is not valid, or there are too many.
    pub(crate) fn member(&mut self, called: &str, (family, name): (usize, &str)) -> Result<usize, Refused> {
        self.members.came_whole = true;
        let (of, known) = (&self.kind.families()[family], self.members.columns.len());
        let too_many =
            || format!("is one of more than the {} different {} of a batch", of.max_batch, of.name);
        let column = self.members.column(usize::MAX, (family, name), false);
        let column = column.and_then(|column| column.ok_or_else(too_many));
        let column = column.map_err(|message| Refused::Whole(format!("the column `{called}`: {message}")))?;
        if self.members.columns.len() > known {
            self.check_cells(self.rows())?;
            self.claim(self.rows())?;
        }
        Ok(column)
    }

    fn check_cells(&self, rows: usize) -> Result<(), Refused> {
        self.too_many_cells(rows).map_or(Ok(()), |message| Err(Refused::TooLarge(message)))
    }

    /// Makes the columns of the members among `places`, and room for `rows` rows of all, before any value of them is decoded.
    ///
    /// # Errors
    /// Fails when a batch cannot have them, or no memory is left for them.
    pub(crate) fn expect(
        &mut self,
        places: &[(String, Vec<ColumnTarget>)],
        rows: usize,
    ) -> Result<(), Refused> {
        for (called, targets) in places {
            for target in targets {
                if let ColumnTarget::Member(family, name) = target {
                    self.member(called, (*family, name))?;
                }
            }
        }
        self.check_cells(rows)?;
        self.make_room(rows)
    }

    /// Returns the filling of a member's column, for a format that comes by column.
    pub(crate) fn member_column(&mut self, column: usize) -> &mut ColumnBuilder {
        &mut self.members.columns[column].filling
    }

    /// Sets a member of row `at` in a column returned by [`BatchBuilder::member`].
    #[inline]
    pub(crate) fn set_member(&mut self, column: usize, at: usize, value: &Scalar<'_>) {
        let value = self.reading.present(value);
        let loose_text = self.reading.loose_text;
        let filling = &mut self.members.columns[column].filling;
        if let Err(message) = filling.push_loose(at, value, &mut self.reading.times, loose_text) {
            self.note_member_column(column, at, message);
        }
    }

    /// Sets a member of text, in a column returned by [`BatchBuilder::member`], in the rows from `from` on.
    pub(crate) fn extend_member<'a>(
        &mut self,
        column: usize,
        from: usize,
        texts: impl Iterator<Item = Option<&'a str>>,
    ) {
        let texts = texts.map(|text| text.filter(|text| !self.reading.is_absent(text)));
        for (at, message) in self.members.columns[column].filling.extend_texts(from, texts) {
            self.note_member_column(column, at, message);
        }
    }

    /// Records a bad member of a column. Each column is a source of its own: the number of its wrong rows bounds its messages.
    #[cold]
    pub(crate) fn note_member_column(&mut self, column: usize, at: usize, message: String) {
        let error = FieldError::new(&self.members.stored_name(column), message);
        let mut budget = self.notes.budget();
        if !self.reading.import && self.members.columns[column].filling.wrong.len() > MAX_LISTED_ERRORS {
            budget = Budget::spent();
        }
        let stage = self.member_stage();
        self.notes.note(&mut budget, (at, self.numbers[at]), stage, || error);
    }

    /// Checks the number of members of a family in each row, for rows that came by column. (Rows that came whole were counted
    /// then.)
    pub(super) fn check_member_counts(&mut self) {
        for (index, family) in self.kind.families().iter().enumerate() {
            let columns = || self.members.columns.iter().filter(|column| column.family == index);
            if !self.members.came_whole || columns().count() <= family.max {
                continue;
            }
            let mut counts = vec![0; self.rows()];
            for MemberColumn { filling, .. } in columns() {
                let wrong = filling.wrong.iter().map(|row| *row as usize);
                let valid = (0..counts.len()).filter(|row| filling.is_valid(*row));
                wrong.chain(valid).for_each(|row| counts[row] += 1);
            }
            let stage = self.member_stage();
            let mut budget = self.notes.budget();
            for (at, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > family.max) {
                let message = || format!("{count} are more than the {} of an event", family.max);
                let error = || FieldError::new(family.name, message());
                self.notes.note(&mut budget, (at, self.numbers[at]), stage, error);
            }
        }
    }

    /// Finds numbers of families that are out of their range.
    pub(super) fn check_member_floats(&mut self) {
        let stage = self.member_stage();
        for column in 0..self.members.columns.len() {
            let name = || self.members.stored_name(column);
            let filling = &self.members.columns[column].filling;
            let rule = self.members.family(column).rule;
            super::check::note_floats(&mut self.notes, &self.numbers, (filling, rule), stage, &name);
        }
    }
}

impl ColumnBuilder {
    /// Pushes as [`ColumnBuilder::push`]; with `loose_text` text may hold a number and empty text is null.
    #[inline]
    pub(super) fn push_loose(
        &mut self,
        at: usize,
        value: &Scalar<'_>,
        times: &mut super::TimeReader,
        loose_text: bool,
    ) -> Result<(), String> {
        match (loose_text, value) {
            (true, Scalar::Text(text)) => match loose(self, text) {
                Some(value) => self.push(at, &value, times),
                None => Ok(()),
            },
            _ => self.push(at, value, times),
        }
    }
}
