//! Conversion of matches to decisions, and of decisions to outcomes: pure functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::repeat_n,
};

use evaluate::latest::Answer;
use event::{Column, Columns, Day, Error, Kind, Result, Timestamp, Values, fields::AppliesTo};
use fold::latest::{Asked, MAX_JUDGED};
use log::{
    key::LogId,
    key_filter,
    projection::Applied,
    unmatched::{Decision, MAX_DECIDED, MAX_DECIDED_DAYS},
};

use crate::key_filters::of_kind;

/// Digest of the covered predictions, and of the segments left out.
pub(super) fn digest(covered: &BTreeMap<Day, Applied>, left_out: &BTreeSet<(LogId, u64)>) -> u64 {
    let of_day = |(day, applied): (&Day, &Applied)| {
        let logs = of_kind(applied, Kind::Predictions).into_iter();
        logs.map(|(log, seq)| format!("{day}/{log}/{seq}").into_bytes()).collect::<Vec<_>>()
    };
    let mut all: Vec<Vec<u8>> = covered.iter().flat_map(of_day).collect();
    all.extend(left_out.iter().map(|(log, seq)| format!("-{log}/{seq}").into_bytes()));
    key_filter::digest(&all)
}

/// Weight of a question among those searched together: about the number of instants held for it, by tens.
pub(super) fn weight(asked: &Asked) -> usize {
    match asked.applies_to {
        AppliesTo::Latest => 1,
        AppliesTo::All => MAX_JUDGED / 10,
    }
}

/// Splits questions with weights into parts of no more than `most`, unless one alone is heavier.
pub(super) fn parted<T>(questions: impl IntoIterator<Item = (T, usize)>, most: usize) -> Vec<Vec<T>> {
    let (mut parts, mut sum) = (Vec::<Vec<T>>::new(), 0);
    for (question, weight) in questions {
        sum += weight;
        match parts.last_mut() {
            Some(part) if sum <= most => part.push(question),
            _ => {
                parts.push(vec![question]);
                sum = weight;
            }
        }
    }
    parts
}

/// Makes the decisions about rows whose predictions are known, and, if `is_due`, about those that have waited for too long.
pub(super) fn decisions(answers: &[(u32, Answer)], is_due: bool, as_of: Timestamp) -> Vec<Decision> {
    let empty = || Decision {
        as_of,
        matched: BTreeMap::new(),
        expired: BTreeSet::new(),
        refused: BTreeSet::new(),
        after: BTreeMap::new(),
    };
    let (mut all, mut this, mut days, mut size) = (Vec::new(), empty(), BTreeSet::new(), 0);
    for (row, answer) in answers {
        let judged: &[Timestamp] = match answer {
            Answer::Found(judged) => judged,
            Answer::TooMany => &[],
            _ if is_due => &[],
            _ => continue,
        };
        let more: BTreeSet<Day> = judged.iter().map(|at| at.day()).collect();
        let weight = judged.len().max(1);
        // A row that exceeds the bounds by itself is decided alone.
        let is_full = size + weight > MAX_DECIDED
            || days.len() + more.iter().filter(|day| !days.contains(*day)).count() > MAX_DECIDED_DAYS;
        if is_full && size > 0 {
            all.push(std::mem::replace(&mut this, empty()));
            days.clear();
            size = 0;
        }
        days.extend(more);
        size += weight;
        match answer {
            Answer::Found(judged) => {
                _ = this.matched.insert(*row, judged.iter().map(|at| at.micros()).collect());
            }
            Answer::TooMany => _ = this.refused.insert(*row),
            _ => _ = this.expired.insert(*row),
        }
    }
    if size > 0 {
        all.push(this);
    }
    all
}

/// Outcomes of a decision: the rows that label something, once for each prediction that they label.
pub(super) fn outcomes_of(decision: &Decision, columns: &Columns) -> Result<Columns> {
    let rows = decision.matched.iter();
    let rows: Vec<usize> = rows.flat_map(|(row, judged)| repeat_n(*row as usize, judged.len())).collect();
    if rows.iter().any(|row| *row >= columns.rows) {
        return Err(Error::corrupt("a decision is about more outcomes than its segment has"));
    }
    let taken = columns.take(&rows);
    let mut by_name: BTreeMap<String, Column> =
        taken.columns.into_iter().map(|column| (column.name.clone(), column)).collect();
    let judged = Values::Time(decision.matched.values().flatten().copied().collect());
    by_name.insert("predicted_at".to_owned(), Column::new("predicted_at", judged));
    // Sorted in the order of the fields, without the fields of unmatched outcomes alone.
    let columns = Kind::Outcomes.fields().iter().filter_map(|field| by_name.remove(field.name)).collect();
    Ok(Columns { rows: rows.len(), columns })
}

#[cfg(test)]
mod tests {
    use evaluate::latest::question;
    use event::{
        Id,
        fields::{JUDGES, PREDICTED_SINCE},
    };
    use log::{scan, unmatched::LOOK_BACK_DAYS};

    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn found(micros: i64) -> Answer {
        all_of(&[micros])
    }

    fn all_of(micros: &[i64]) -> Answer {
        Answer::Found(micros.iter().map(|at| Timestamp::from_micros(*at).unwrap()).collect())
    }

    #[test]
    fn found_outcomes_are_decided_and_others_expire() {
        let as_of = Timestamp::default();
        let answers = [(0, found(5)), (2, Answer::Nothing), (3, found(7)), (9, Answer::Gone(as_of.day()))];
        let matched = BTreeMap::from([(0, vec![5]), (3, vec![7])]);
        let (refused, after) = (BTreeSet::new(), BTreeMap::new());
        let expected = Decision { as_of, matched, expired: BTreeSet::new(), refused, after };
        assert_eq!(decisions(&answers, false, as_of), std::slice::from_ref(&expected));
        assert_eq!(decisions(&answers, true, as_of), [Decision { expired: [2, 9].into(), ..expected }]);
        assert_eq!(decisions(&answers[1..2], false, as_of), []);
        assert_eq!(decisions(&[], true, as_of), []);
    }

    #[test]
    fn excess_labels_are_refused_and_large_decisions_split() {
        let as_of = Timestamp::default();
        let answers = [(0, all_of(&[5, 7])), (1, Answer::TooMany), (2, found(9))];
        let decided = decisions(&answers, false, as_of);
        let [one] = &decided[..] else { panic!("{decided:?}") };
        assert_eq!(one.matched, BTreeMap::from([(0, vec![5, 7]), (2, vec![9])]));
        assert_eq!((&one.refused, one.expired.len()), (&BTreeSet::from([1]), 0));
        let of = |count: i64, every: i64| all_of(&(0..count).map(|n| n * every).collect::<Vec<_>>());
        let sizes = |answers: &[(u32, Answer)]| {
            let decided = decisions(answers, false, as_of);
            decided.iter().map(|one| one.matched.len()).collect::<Vec<_>>()
        };
        let thousands: Vec<_> = (0..12).map(|row| (row, of(1_000, 1))).collect();
        assert_eq!(sizes(&thousands), [5, 5, 2]);
        // More days than others have together.
        let far = [(0, found(1)), (1, of(401, 24 * HOUR)), (2, of(401, 24 * HOUR)), (3, found(1))];
        assert_eq!(sizes(&far), [1, 1, 1, 1]);
    }

    #[test]
    fn lookups_are_split_into_parts_by_weight() {
        let parts = |weights: &[usize]| parted(weights.iter().map(|weight| (*weight, *weight)), 10);
        assert_eq!(parts(&[4, 6, 1, 30, 9, 1, 1]), [vec![4, 6], vec![1], vec![30], vec![9, 1], vec![1]]);
        assert_eq!(parts(&[]), Vec::<Vec<usize>>::new());
        let asked = |applies_to| weight(&Asked { key: "a".into(), from: 0, until: 0, applies_to });
        assert_eq!((asked(AppliesTo::Latest), asked(AppliesTo::All)), (1, 100));
    }

    #[test]
    fn decision_is_bounded_in_rows_and_days() {
        let as_of = Timestamp::default();
        let days: Vec<_> = (0..200).map(|row| (row, found(i64::from(row) * 24 * HOUR))).collect();
        let decided = decisions(&days, false, as_of);
        assert_eq!(decided.iter().map(|one| one.matched.len()).collect::<Vec<_>>(), [64, 64, 64, 8]);
        let rows: Vec<_> =
            (0..10_000).map(|row| (row, if row % 2 == 0 { found(1) } else { Answer::Nothing })).collect();
        let decided = decisions(&rows, true, as_of);
        assert_eq!(
            decided.iter().map(|one| one.rows().count()).collect::<Vec<_>>(),
            [MAX_DECIDED, MAX_DECIDED]
        );
        let all: BTreeSet<u32> = decided.iter().flat_map(Decision::rows).collect();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn decision_outcomes_name_their_predictions() {
        let text = |texts: [&str; 3]| Values::Text(texts.into_iter().collect());
        let columns = Columns {
            rows: 3,
            columns: vec![
                Column::new("key", text(["a", "b", "c"])),
                Column::new("observed_at", Values::Time(vec![10, 20, 30])),
                Column::new("label", text(["x", "y", "z"])),
                Column::new(PREDICTED_SINCE, Values::Time(vec![1, 2, 3])),
                Column::new(JUDGES, text(["latest", "latest", "all"])),
            ],
        };
        let asked = question(&columns, 1).unwrap();
        assert_eq!(asked, Asked { key: "b".into(), from: 2, until: 20, applies_to: AppliesTo::Latest });
        assert_eq!(question(&columns, 2).unwrap().applies_to, AppliesTo::All);
        let without = Columns { columns: columns.columns[..3].to_vec(), ..columns.clone() };
        let asked = question(&without, 1).unwrap();
        assert_eq!((asked.from, asked.applies_to), (20 - LOOK_BACK_DAYS * 24 * HOUR, AppliesTo::Latest));
        assert!(question(&Columns { columns: Vec::new(), rows: 3 }, 1).is_err());
        let (as_of, after) = (Timestamp::default(), BTreeMap::new());
        let matched = BTreeMap::from([(0, vec![5]), (2, vec![6, 8])]);
        let decision = Decision { as_of, matched, expired: [1].into(), refused: BTreeSet::new(), after };
        let outcomes = outcomes_of(&decision, &columns).unwrap();
        let names: Vec<&str> = outcomes.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!((outcomes.rows, names), (3, vec!["key", "predicted_at", "observed_at", "label"]));
        let at = |row| outcomes.column("predicted_at").unwrap().time(row);
        assert_eq!((at(0), at(1), at(2)), (Some(5), Some(6), Some(8)));
        assert_eq!([1, 2].map(|row| outcomes.column("key").unwrap().text(row)), [Some("c"), Some("c")]);
        assert!(outcomes_of(&Decision { matched: [(3, vec![5])].into(), ..decision }, &columns).is_err());
    }

    #[test]
    fn coverage_digest_reflects_predictions_and_omissions() {
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
