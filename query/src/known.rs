//! States of expired days as of a past instant: each is the vintage of the last age that the day had reached, kept by
//! the projector.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
};

use event::{Day, Error, Result, Timestamp, Window};
use fold::maturity::{AGES, Age};
use log::expired;

use crate::{read::Reading, window::in_words};

/// The days of a window that have expired by now and that existed at the instant of a reading.
pub(crate) struct Expired {
    days: Vec<Day>,
    /// The days that had expired by that instant.
    gone: BTreeSet<Day>,
}

/// State of an expired day as of an instant.
enum PastState<T> {
    /// Its vintage at an age.
    At(Age, T),
    /// Its last state: its events had expired by then.
    Last(T),
    /// Nothing was known.
    Nothing,
}

impl Expired {
    /// Finds the expired days of a window.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub(crate) async fn of(reading: &Reading, window: Window) -> Result<Self> {
        let is_there = |day: &Day| !reading.kept.keeps(*day) && day.start() <= reading.closed;
        let expired = Self { days: window.days().filter(is_there).collect(), gone: BTreeSet::new() };
        let Some((first, last)) = expired.ends() else { return Ok(expired) };
        let marks = expired::between(&*reading.table, &reading.workspace, first, last).await?;
        let gone = marks.iter().filter(|mark| mark.at <= reading.closed).map(|mark| mark.day);
        Ok(Self { gone: gone.collect(), ..expired })
    }

    /// Returns the first and the last of them; `None`, if there are none.
    pub(crate) fn ends(&self) -> Option<(Day, Day)> {
        self.days.first().copied().zip(self.days.last().copied())
    }

    /// Returns the known state of each of these days that is in `last`: the result of `read` for its last vintage before the
    /// instant of the reading, or the state in `last` if the day had expired by then. Warnings name the choice for each day.
    ///
    /// # Errors
    /// `Gone`, if nothing is kept of a day that existed; errors of `read`.
    pub(crate) fn told<S, T>(
        self,
        reading: &Reading,
        (vintages, is_empty): (&BTreeMap<Day, BTreeMap<u32, S>>, impl Fn(&S) -> bool),
        last: impl IntoIterator<Item = (Day, T)>,
        read: impl Fn(Day, Age, &S) -> Result<T>,
    ) -> Result<Vec<(Day, T)>> {
        let mut last: BTreeMap<Day, T> = last.into_iter().collect();
        let (mut found, mut said) = (Vec::new(), BTreeMap::<_, Vec<Day>>::new());
        for day in self.days {
            let Some(last) = last.remove(&day) else { continue };
            let known = match self.gone.contains(&day) {
                true => PastState::Last(last),
                false => match known_at(day, (vintages.get(&day), &is_empty), reading.closed)? {
                    Some((age, vintage)) => PastState::At(age, read(day, age, vintage)?),
                    None => PastState::Nothing,
                },
            };
            let (age, told) = match known {
                PastState::At(age, told) => (Some(age), told),
                PastState::Last(told) => (None, told),
                PastState::Nothing => continue,
            };
            said.entry(age).or_default().push(day);
            found.push((day, told));
        }
        for (age, days) in said {
            reading.warn(as_it_stood(age, &days));
            reading.has_vintages.store(true, Ordering::Relaxed);
        }
        Ok(found)
    }
}

fn as_it_stood(age: Option<Age>, days: &[Day]) -> String {
    let days = format!("the events of {}", in_words(days));
    match age {
        Some(age) => format!(
            "{days} have expired: in the answer is what was known {} after the end of the day",
            age.name
        ),
        None => format!("{days} had expired by then: in the answer is what was known last"),
    }
}

/// Returns the last vintage of a day at an instant, with its age; `None`, if nothing was known.
fn known_at<'a, S>(
    day: Day,
    (vintages, is_empty): (Option<&'a BTreeMap<u32, S>>, &impl Fn(&S) -> bool),
    at: Timestamp,
) -> Result<Option<(Age, &'a S)>> {
    let none = || {
        Error::gone(format!(
            "the events of {day} have expired, and of what was known of it at {at} nothing is kept; ask without as-of for what was known of it last, or leave the day out"
        ))
    };
    let vintages = vintages.ok_or_else(none)?;
    let reached = AGES.into_iter().rfind(|age| age.of(day).is_some_and(|reached| reached <= at));
    let until = reached.map_or(0, |age| age.hours);
    if let Some((hours, vintage)) = vintages.range(..=until).next_back() {
        let age = AGES.into_iter().find(|age| age.hours == *hours);
        let age = age.ok_or_else(|| {
            Error::corrupt(format!("{day} has a vintage of {hours} hours, which is no age"))
        })?;
        return Ok(Some((age, vintage)));
    }
    let first = vintages
        .first_key_value()
        .and_then(|(hours, vintage)| Some((AGES.into_iter().position(|age| age.hours == *hours)?, vintage)));
    match first {
        // Nothing was known at the preceding age, or at this one.
        Some((number, vintage)) if number > 0 || is_empty(vintage) => Ok(None),
        Some((number, _)) => Err(Error::gone(format!(
            "the events of {day} have expired, and what was known of it at {at} is not kept: the first that is kept is of {} ({} after the end of the day); ask as of then or later, or leave the day out",
            AGES[number].of(day).unwrap_or(at),
            AGES[number].name,
        ))),
        None => Err(none()),
    }
}

#[cfg(test)]
mod tests {
    use event::ErrorKind;

    use super::*;

    /// Vintages by age; the value is true for an empty vintage.
    fn vintages(hours: &[u32]) -> BTreeMap<u32, bool> {
        hours.iter().map(|hours| (*hours, false)).collect()
    }

    #[test]
    fn nearest_earlier_age_or_its_absence_is_reported() {
        let day: Day = "2026-06-01".parse().unwrap();
        let told = |vintages: &BTreeMap<u32, bool>, at: &str| match known_at(
            day,
            (Some(vintages), &|is_empty| *is_empty),
            Timestamp::parse(at).unwrap(),
        ) {
            Ok(Some((age, _))) => age.name.to_owned(),
            Ok(None) => "nothing".into(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Gone);
                error.to_string()
            }
        };
        let kept = vintages(&[1, 6, 24]);
        assert_eq!(told(&kept, "2026-06-02T01:00:00Z"), "1h");
        assert_eq!(told(&kept, "2026-06-02T23:59:59Z"), "6h");
        // The day had expired before it was three days old.
        assert_eq!(told(&kept, "2026-06-20T00:00:00Z"), "1d");
        let early = told(&kept, "2026-06-02T00:30:00Z");
        assert!(
            early.contains("the first that is kept is of 2026-06-02T01:00:00Z (1h after the end"),
            "{early}"
        );
        // A vintage that is missing before a later one is empty.
        let late = vintages(&[24, 72]);
        assert_eq!(
            ["2026-06-01T12:00:00Z", "2026-06-02T12:00:00Z"].map(|at| told(&late, at)),
            ["nothing"; 2]
        );
        let empty = BTreeMap::from([(1, true)]);
        assert_eq!(told(&empty, "2026-06-02T00:30:00Z"), "nothing");
        assert!(told(&vintages(&[]), "2026-06-20T00:00:00Z").contains("ask without as-of"));
    }
}
