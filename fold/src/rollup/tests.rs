use event::{Columns, lane::LogPosition};

use super::*;

mod bounds;
mod features;
mod hand;
mod properties;
mod states;

fn folded(kind: Kind, columns: &Columns) -> Delta {
    folded_at(LogPosition::of(0, 1), kind, columns)
}

fn folded_at(place: LogPosition, kind: Kind, columns: &Columns) -> Delta {
    Delta::of(kind, LogSegment { place, columns }).unwrap()
}

fn release_part<'a>(day: &'a Delta, name: &str) -> &'a ReleasePart {
    match &day.parts[&Breakdown::of(By::Release, name)] {
        Part::Release(part) => part,
        other => panic!("{other:?}"),
    }
}

fn detail<'a>(day: &'a Delta, name: &str) -> &'a ReleaseDetail {
    release_part(day, name).details.get(name).unwrap()
}

fn metric<'a>(day: &'a Delta, name: &str) -> &'a LoggedMetricRollup {
    match &day.parts[&Breakdown::of(By::Metric, name)] {
        Part::Metric(part) => part.metrics.get(name).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn tag<'a>(day: &'a Delta, name: &str) -> &'a TagValues {
    match &day.parts[&Breakdown::of(By::Tag, name)] {
        Part::Tag(part) => part.tags.get(name).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Writes the texts of everything, and reads each back.
fn texts_of(day: &Delta) -> Vec<String> {
    let rollup = day.rollup.to_state();
    assert_eq!(Rollup::from_state(&rollup).unwrap(), day.rollup);
    assert!(rollup.len() <= MAX_ROLLUP_BYTES, "a rollup of {} bytes", rollup.len());
    let mut texts = vec![rollup];
    for (breakdown, part) in &day.parts {
        let text = part.to_state();
        assert_eq!(Part::from_state(breakdown.by, &text).as_ref(), Ok(part));
        assert!(text.len() <= MAX_PART_BYTES, "{breakdown} of {} bytes", text.len());
        texts.push(format!("{breakdown} {text}"));
    }
    texts
}

/// Columns handed over include some that no fold wants, unlike columns that were read.
#[test]
fn fold_ignores_unwanted_columns() {
    use event::{Column, fields::FieldType};

    use crate::testing;

    let column = |name: &str, kind: FieldType| match kind {
        FieldType::Time => testing::times(name, &[Some(1), Some(2), Some(3)]),
        FieldType::Float => testing::floats(name, &[Some(0.25), Some(0.5), None]),
        FieldType::Text => testing::texts(name, &[Some("a"), Some("b"), Some("a")], true),
    };
    for kind in Kind::STORED {
        let fields = kind.fields().iter().map(|field| column(field.name, field.kind));
        let members = kind.families().iter().map(|family| column(&family.column("x"), family.kind));
        let mut all: Vec<_> = fields.chain(members).collect();
        // Required columns have no nulls.
        for required in
            all.iter_mut().filter(|column| kind.field(&column.name).is_some_and(|field| field.is_required))
        {
            required.valid = None;
        }
        for folding in [Folding::Rollup, Folding::Features] {
            let fold = |columns: Vec<Column>| {
                let columns = testing::columns(columns);
                Delta::folded(folding, kind, LogSegment { place: LogPosition::of(0, 1), columns: &columns })
                    .unwrap()
            };
            let wanted = all.iter().filter(|column| folding.wants(kind, &column.name)).cloned().collect();
            assert_eq!(fold(all.clone()), fold(wanted), "{kind:?} {folding:?}");
        }
    }
}
