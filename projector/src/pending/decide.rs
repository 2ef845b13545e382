//! What was found as decisions, and decisions as outcomes: pure functions.

use std::collections::{BTreeMap, BTreeSet};

use evaluate::latest::Answer;
use event::{Column, Columns, Day, Error, Kind, Result, Timestamp, Values};
use log::{
    key::LogId,
    key_filter,
    pending::{Decision, MAX_DECIDED, MAX_DECIDED_DAYS},
    projection::Applied,
};

use crate::key_filters::of_kind;

/// A digest of what is covered of predictions, and of what is left out.
pub(super) fn digest(covered: &BTreeMap<Day, Applied>, left_out: &BTreeSet<(LogId, u64)>) -> u64 {
    let of_day = |(day, applied): (&Day, &Applied)| {
        let logs = of_kind(applied, Kind::Predictions).into_iter();
        logs.map(|(log, seq)| format!("{day}/{log}/{seq}").into_bytes()).collect::<Vec<_>>()
    };
    let mut all: Vec<Vec<u8>> = covered.iter().flat_map(of_day).collect();
    all.extend(left_out.iter().map(|(log, seq)| format!("-{log}/{seq}").into_bytes()));
    key_filter::digest(&all)
}

/// The decisions about rows of which it is known what they judge, or that have waited for too long, when that is so of the segment.
pub(super) fn decisions(answers: &[(u32, Answer)], is_due: bool, as_of: Timestamp) -> Vec<Decision> {
    let empty =
        || Decision { as_of, judges: BTreeMap::new(), expired: BTreeSet::new(), after: BTreeMap::new() };
    let (mut all, mut this, mut days) = (Vec::new(), empty(), BTreeSet::new());
    for (row, answer) in answers {
        let day = match answer {
            Answer::Found(at) => Some(at.day()),
            _ if is_due => None,
            _ => continue,
        };
        let is_full = this.rows().count() >= MAX_DECIDED
            || day.is_some_and(|day| !days.contains(&day) && days.len() >= MAX_DECIDED_DAYS);
        if is_full {
            all.push(std::mem::replace(&mut this, empty()));
            days.clear();
        }
        days.extend(day);
        match answer {
            Answer::Found(at) => _ = this.judges.insert(*row, at.micros()),
            _ => _ = this.expired.insert(*row),
        }
    }
    if this.rows().next().is_some() {
        all.push(this);
    }
    all
}

/// The outcomes of a decision: the rows that judge something, with what they judge.
pub(super) fn outcomes_of(decision: &Decision, columns: &Columns) -> Result<Columns> {
    let rows: Vec<usize> = decision.judges.keys().map(|row| *row as usize).collect();
    if rows.iter().any(|row| *row >= columns.rows) {
        return Err(Error::corrupt("a decision is about more outcomes than its segment has"));
    }
    let taken = columns.take(&rows);
    let mut by_name: BTreeMap<String, Column> =
        taken.columns.into_iter().map(|column| (column.name.clone(), column)).collect();
    let judged = Values::Time(decision.judges.values().copied().collect());
    by_name.insert("predicted_at".to_owned(), Column::new("predicted_at", judged));
    // In the order of the fields, and without what is of pending outcomes alone.
    let columns = Kind::Outcomes.fields().iter().filter_map(|field| by_name.remove(field.name)).collect();
    Ok(Columns { rows: rows.len(), columns })
}

#[cfg(test)]
mod tests {
    use evaluate::latest::question;
    use event::{Id, fields::PREDICTED_SINCE};
    use fold::latest::Asked;
    use log::{pending::LOOK_BACK_DAYS, scan};

    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn found(micros: i64) -> Answer {
        Answer::Found(Timestamp::from_micros(micros).unwrap())
    }

    #[test]
    fn what_is_found_is_decided_and_the_rest_once_it_has_waited_long() {
        let as_of = Timestamp::default();
        let answers = [(0, found(5)), (2, Answer::Nothing), (3, found(7)), (9, Answer::Gone(as_of.day()))];
        let judges = BTreeMap::from([(0, 5), (3, 7)]);
        let expected = Decision { as_of, judges, expired: BTreeSet::new(), after: BTreeMap::new() };
        assert_eq!(decisions(&answers, false, as_of), std::slice::from_ref(&expected));
        assert_eq!(decisions(&answers, true, as_of), [Decision { expired: [2, 9].into(), ..expected }]);
        assert_eq!(decisions(&answers[1..2], false, as_of), []);
        assert_eq!(decisions(&[], true, as_of), []);
    }

    #[test]
    fn a_decision_is_of_so_many_rows_and_days() {
        let as_of = Timestamp::default();
        let days: Vec<_> = (0..200).map(|row| (row, found(i64::from(row) * 24 * HOUR))).collect();
        let cut = decisions(&days, false, as_of);
        assert_eq!(cut.iter().map(|one| one.judges.len()).collect::<Vec<_>>(), [64, 64, 64, 8]);
        let rows: Vec<_> =
            (0..10_000).map(|row| (row, if row % 2 == 0 { found(1) } else { Answer::Nothing })).collect();
        let cut = decisions(&rows, true, as_of);
        assert_eq!(cut.iter().map(|one| one.rows().count()).collect::<Vec<_>>(), [MAX_DECIDED, MAX_DECIDED]);
        let all: BTreeSet<u32> = cut.iter().flat_map(Decision::rows).collect();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn the_outcomes_of_a_decision_are_those_rows_with_what_they_judge() {
        let text = |texts: [&str; 3]| Values::Text(texts.into_iter().collect());
        let columns = Columns {
            rows: 3,
            columns: vec![
                Column::new("key", text(["a", "b", "c"])),
                Column::new("observed_at", Values::Time(vec![10, 20, 30])),
                Column::new("label", text(["x", "y", "z"])),
                Column::new(PREDICTED_SINCE, Values::Time(vec![1, 2, 3])),
            ],
        };
        let asked = question(&columns, 1).unwrap();
        assert_eq!(asked, Asked { key: "b".into(), from: 2, until: 20 });
        let without = Columns { columns: columns.columns[..3].to_vec(), ..columns.clone() };
        assert_eq!(question(&without, 1).unwrap().from, 20 - LOOK_BACK_DAYS * 24 * HOUR);
        assert!(question(&Columns { columns: Vec::new(), rows: 3 }, 1).is_err());
        let (as_of, after) = (Timestamp::default(), BTreeMap::new());
        let decision = Decision { as_of, judges: [(0, 5), (2, 6)].into(), expired: [1].into(), after };
        let outcomes = outcomes_of(&decision, &columns).unwrap();
        let names: Vec<&str> = outcomes.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!((outcomes.rows, names), (2, vec!["key", "predicted_at", "observed_at", "label"]));
        let at = |row| outcomes.column("predicted_at").unwrap().time(row);
        assert_eq!((at(0), at(1)), (Some(5), Some(6)));
        assert_eq!(outcomes.column("key").unwrap().text(1), Some("c"));
        assert!(outcomes_of(&Decision { judges: [(3, 5)].into(), ..decision }, &columns).is_err());
    }

    #[test]
    fn the_digest_tells_what_predictions_there_are_and_what_is_left_out() {
        let day: Day = "2026-06-01".parse().unwrap();
        let covered = |log: &str, seq| BTreeMap::from([(day, Applied::from([(log.to_owned(), seq)]))]);
        let none = BTreeSet::new();
        let first = digest(&covered("p/00", 1), &none);
        assert_eq!(first, digest(&covered("p/00", 1), &none));
        assert_ne!(first, digest(&covered("p/00", 2), &none));
        assert_eq!(digest(&covered("o/00", 1), &none), digest(&covered("w/00", 2), &none));
        let log = scan::log_named(&Id::new(Timestamp::default()), day, "p/00").unwrap();
        assert_ne!(first, digest(&covered("p/00", 1), &[(log, 1)].into()));
    }
}
