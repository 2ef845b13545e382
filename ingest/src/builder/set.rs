//! What every row of a file has, although the file does not say it.

use std::borrow::Cow;

use super::{
    BatchBuilder, loose,
    names::{Constant, IS_SET},
    row::Scalar,
};

impl BatchBuilder {
    /// Gives every row what all of them have.
    pub(super) fn fill_set(&mut self) -> Result<(), String> {
        for (constant, text) in std::mem::take(&mut self.reading.set) {
            let column = match &constant {
                Constant::Tag(tag) => match self.tag(tag)? {
                    column if self.tags[column].filling.len() == 0 => column,
                    _ => return Err(format!("the tag `{tag}` {IS_SET}")),
                },
                _ => 0,
            };
            for at in 0..self.rows() {
                let whole = Scalar::Text(Cow::Borrowed(text.as_str()));
                match constant {
                    Constant::Field(field) => {
                        let value = loose(&self.fields[field], &text).unwrap_or(whole);
                        self.set_field(field, at, &value);
                    }
                    Constant::PredictedOn => self.set_predicted_on(at, &whole),
                    Constant::Tag(_) => self.set_tag(column, at, &whole),
                }
            }
        }
        Ok(())
    }
}
