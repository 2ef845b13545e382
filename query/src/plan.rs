//! The plan of an answer, known before its first row: the segments that it is read from, and its columns.

use std::{collections::BTreeSet, sync::Arc};

use event::{Day, Result};
use futures::{StreamExt, TryStreamExt, stream};
use polars::prelude::{Column as Series, DataFrame};

use crate::{
    events::{self, DAY, Wanted},
    frame::failed,
    joined,
    parts::{self, Parts},
    read::Reading,
    runs::{self, DayRuns},
};

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The requested rows, with named columns.
    pub(crate) wanted: Arc<Wanted>,
    /// The runs of the days that have some.
    pub(crate) days: Vec<DayRuns>,
}

impl Plan {
    /// Plans an answer of events.
    ///
    /// # Errors
    /// `Invalid`, if a named column does not exist; errors of the table.
    pub(crate) async fn of_events(reading: &Arc<Reading>, wanted: Wanted) -> Result<Self> {
        events::check(&wanted)?;
        let days = runs::survey(reading, &wanted.filter(), seeks_members(&wanted)).await?;
        let members = match wanted.columns {
            Some(_) => members_of(&days),
            None => members_of(&first_days(reading, &wanted, &days).await?),
        };
        let names = wanted.columns.clone().unwrap_or_else(|| events::all_names(wanted.kind, &members));
        Self::new(wanted, names, days, &members)
    }

    /// Plans an answer of predictions with their outcomes.
    ///
    /// # Errors
    /// Errors of [`Plan::of_events`].
    pub(crate) async fn of_joined(reading: &Arc<Reading>, wanted: Wanted) -> Result<Self> {
        joined::check(&wanted)?;
        let (of_predictions, of_outcomes) = (wanted.filter(), joined::of_outcomes(&wanted));
        let (days, _) = futures::try_join!(
            runs::survey(reading, &of_predictions, seeks_members(&wanted)),
            runs::survey(reading, &of_outcomes, false),
        )?;
        let members = match wanted.columns {
            Some(_) => members_of(&days),
            None => members_of(&first_days(reading, &wanted, &days).await?),
        };
        let names = wanted.columns.clone().unwrap_or_else(|| joined::all_names(&members));
        Self::new(wanted, names, days, &members)
    }

    fn new(
        wanted: Wanted,
        names: Vec<String>,
        days: Vec<DayRuns>,
        members: &BTreeSet<String>,
    ) -> Result<Self> {
        if wanted.row_filter.limit.is_none() && seeks_members(&wanted) {
            let needed = wanted.with_working(names.clone());
            events::check_members(wanted.kind, &needed, members, !days.is_empty())?;
        }
        let wanted = Arc::new(Wanted { columns: Some(names), ..wanted });
        Ok(Self { wanted, days })
    }

    /// Builds a frame with its columns and no rows.
    pub(crate) fn no_rows(&self) -> Result<DataFrame> {
        let names = self.wanted.columns.as_deref().unwrap_or_default();
        events::no_rows(self.wanted.kind, names)
    }

    /// Returns the rows, from the reading for which it was planned, and the reading that has their warnings in the end.
    pub(crate) fn parts(&self, reading: &Arc<Reading>) -> (Parts, Arc<Reading>) {
        let fixed = Arc::new(reading.fixed());
        (parts_of(&fixed, &self.wanted, self.days.clone()), fixed)
    }
}

/// Returns the rows of days, in parts.
fn parts_of(reading: &Arc<Reading>, wanted: &Arc<Wanted>, days: Vec<DayRuns>) -> Parts {
    if !wanted.is_joined {
        return parts::parts(reading, wanted, days);
    }
    let mut days: Vec<Day> = days.into_iter().map(|day| day.day).collect();
    if wanted.row_filter.newest {
        days.reverse();
    }
    let (reading, all) = (Arc::clone(reading), Arc::clone(wanted));
    let days = days.into_iter().map(move |day| {
        let (reading, wanted) = (Arc::clone(&reading), Arc::clone(&all));
        async move { joined::part(&reading, day, &wanted).await }
    });
    parts::limited(wanted, stream::iter(days).buffered(1))
}

/// Returns true if the headers of segments must be read to find the members of families.
fn seeks_members(wanted: &Wanted) -> bool {
    let kind = wanted.kind;
    match &wanted.columns {
        None => !kind.families().is_empty(),
        Some(names) => {
            let names = wanted.with_working(names.clone());
            wanted.row_filter.limit.is_none() && names.iter().any(|name| kind.family(name).is_some())
        }
    }
}

fn members_of(days: &[DayRuns]) -> BTreeSet<String> {
    days.iter().flat_map(|day| day.members.iter().cloned()).collect()
}

/// Returns the days with the rows of the answer: all, unless it has enough rows before their end.
async fn first_days(reading: &Arc<Reading>, wanted: &Wanted, days: &[DayRuns]) -> Result<Vec<DayRuns>> {
    let Some(limit) = wanted.row_filter.limit else { return Ok(days.to_vec()) };
    let newest = wanted.row_filter.newest;
    // A prediction sent several times is one joined row.
    let last = match wanted.chooses_rows() || wanted.is_joined {
        true => last_chosen(reading, wanted, days, limit).await?,
        false => {
            let mut rows = 0;
            let mut in_order: Vec<&DayRuns> = days.iter().collect();
            if newest {
                in_order.reverse();
            }
            let last = in_order.into_iter().find(|day| {
                rows += day.rows;
                rows >= limit as u64
            });
            last.map(|day| day.day)
        }
    };
    let is_in =
        |day: &&DayRuns| last.is_none_or(|last| if newest { day.day >= last } else { day.day <= last });
    Ok(days.iter().filter(is_in).cloned().collect())
}

/// Returns the day of the last row of an answer with `limit` rows; `None`, if there are fewer.
async fn last_chosen(
    reading: &Arc<Reading>,
    wanted: &Wanted,
    days: &[DayRuns],
    limit: usize,
) -> Result<Option<Day>> {
    let counted = Arc::new(Wanted { columns: Some(vec![DAY.to_owned()]), ..wanted.clone() });
    let mut parts = parts_of(reading, &counted, days.to_vec());
    let (mut rows, mut last) = (0, None);
    while let Some(part) = parts.try_next().await? {
        reading.hold.shrink(part.bytes);
        rows += part.frame.height();
        let of_day = part.frame.column(DAY).and_then(Series::date).map_err(failed)?.physical().clone();
        last = of_day.last().or(last);
    }
    let day = |number: i32| days.iter().map(|day| day.day).find(|day| day.number() == number);
    Ok(last.filter(|_| rows >= limit).and_then(day))
}
