//! Places of the columns of a table.

use crate::{
    batch::Refused,
    builder::names::{ColumnTarget, IS_SET, Names, Target},
};

/// Columns of a table, each with all its places; one that is left out has none.
pub(crate) type Places = Vec<(String, Vec<ColumnTarget>)>;

/// Finds the places of each column of a table, in their order.
///
/// # Errors
/// Fails when a column is not known or has the place of another one, or an option names a missing one.
pub(crate) fn places<'a>(names: &Names, columns: impl Iterator<Item = &'a str>) -> Result<Places, Refused> {
    let mut places = Places::new();
    for name in columns {
        let wrong = |message: &str| Refused::Whole(format!("the column `{name}` {message}"));
        let targets = match names.find(name) {
            Some(Target::Asked(at)) => names.asked[at].targets.clone(),
            Some(Target::Family(family)) => {
                let family = &names.kind.families()[family];
                let called = family.columns_are_called();
                return Err(wrong(&format!(
                    "should be one column for each {} here, called {called}",
                    family.noun
                )));
            }
            Some(Target::Set) => return Err(wrong(IS_SET)),
            Some(target) => names.column_target(name, target).into_iter().collect(),
            None => return Err(wrong(&names.unknown(name, names.nearest(name)))),
        };
        if places.iter().flat_map(|(_, known)| known).any(|known| targets.contains(known)) {
            return Err(wrong("is given twice"));
        }
        places.push((name.to_owned(), targets));
    }
    match names.lacking().into_values().next() {
        Some(lacking) => Err(Refused::Whole(lacking)),
        None => Ok(places),
    }
}
