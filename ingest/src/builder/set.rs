//! Values that every row of a file has, given apart from the file.

use std::borrow::Cow;

use super::{
    BatchBuilder, loose,
    names::{ColumnTarget, IS_SET},
    row::Scalar,
};
use crate::batch::Refused;

impl BatchBuilder {
    /// Sets these values in every row.
    pub(super) fn fill_set(&mut self) -> Result<(), Refused> {
        for (target, text) in std::mem::take(&mut self.reading.set) {
            let column = match &target {
                ColumnTarget::Member(family, name) => match self.member(name, (*family, name))? {
                    column if self.member_column(column).len() == 0 => column,
                    _ => {
                        let noun = self.kind.families()[*family].noun;
                        return Err(Refused::Whole(format!("the {noun} `{name}` {IS_SET}")));
                    }
                },
                _ => 0,
            };
            for at in 0..self.rows() {
                let whole = Scalar::Text(Cow::Borrowed(text.as_str()));
                match target {
                    ColumnTarget::Field(field) => {
                        let value = loose(&self.fields[field], &text).unwrap_or(whole);
                        self.set_field(field, at, &value);
                    }
                    ColumnTarget::PredictedOn => self.set_predicted_on(at, &whole),
                    ColumnTarget::EventId => self.set_event_id(at, &whole),
                    ColumnTarget::Member(..) => {
                        let value = loose(self.member_column(column), &text).unwrap_or(whole);
                        self.set_member(column, at, &value);
                    }
                }
            }
        }
        Ok(())
    }
}
