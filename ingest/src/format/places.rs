//! Where the columns of a table go.

use crate::{
    batch::Refused,
    builder::{
        names::{IS_SET, Names, Target, unknown_field},
        rules,
    },
};

/// Where the values of a column go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnTarget {
    Field(usize),
    PredictedOn,
    EventId,
    /// Into the member of this family and name.
    Member(usize, String),
    Ignored,
}

/// Where each column of a table goes, in their order.
///
/// # Errors
/// When one is not known or goes where another one goes.
pub(crate) fn places<'a>(
    names: &Names,
    columns: impl Iterator<Item = &'a str>,
) -> Result<Vec<(String, ColumnTarget)>, Refused> {
    let mut places: Vec<(String, ColumnTarget)> = Vec::new();
    for name in columns {
        let wrong = |message: &str| Refused::Whole(format!("the column `{name}` {message}"));
        let place = match names.find(name) {
            Some(Target::Field(field)) => ColumnTarget::Field(field),
            Some(Target::PredictedOn) => ColumnTarget::PredictedOn,
            Some(Target::EventId) => ColumnTarget::EventId,
            Some(Target::Member(family, skipped)) => member(names, family, &name[skipped..]),
            Some(Target::Named(at)) => member(names, names.named[at].0, &names.named[at].1),
            Some(Target::Family(family)) => {
                let family = &names.kind.families()[family];
                let called = family.columns_are_called();
                return Err(wrong(&format!(
                    "should be one column for each {} here, called {called}",
                    family.noun
                )));
            }
            Some(Target::Ignored) => ColumnTarget::Ignored,
            Some(Target::Set) => return Err(wrong(IS_SET)),
            None => return Err(wrong(&unknown_field(names.kind))),
        };
        if place != ColumnTarget::Ignored && places.iter().any(|(_, known)| *known == place) {
            return Err(wrong("is given twice"));
        }
        places.push((name.to_owned(), place));
    }
    Ok(places)
}

fn member(names: &Names, family: usize, name: &str) -> ColumnTarget {
    let rule = names.kind.families()[family].name_rule;
    ColumnTarget::Member(family, rules::plain(rule, name).into_owned())
}
