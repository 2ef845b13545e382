//! Counters: how many events of each kind a workspace and its releases have, day by day.
//!
//! A counter holds absolute counts, so writing one twice is harmless. The count of a day never
//! falls while its log grows, so of two writers the greater count is the later one.

use std::collections::BTreeMap;

use fold::rollup::release_counts;
use futures::future::try_join_all;
use store::{
    Error, ErrorKind, Item, Kind, Result, Table,
    item::Value,
    key::{self, Counted},
    rollup::COUNTER_VERSION,
    table::Condition,
};

use crate::{MAX_ATTEMPTS, WorkspaceDay, day::DayFold};

/// How many counters are written at once.
const WRITES_AT_ONCE: usize = 16;

/// The counts of a day: for the workspace, and for each release in the parts that were touched, by kind.
pub(crate) fn of(day: &DayFold<'_>) -> BTreeMap<Counted, BTreeMap<Kind, u64>> {
    let mut counts = BTreeMap::<Counted, BTreeMap<Kind, u64>>::new();
    for kind in Kind::ALL {
        let events = day.rollup.events(kind);
        if events > 0 {
            counts.entry(Counted::Workspace).or_default().insert(kind, events);
        }
    }
    for (release, of_release) in release_counts(day.parts.values().map(|part| &part.part)) {
        let kinds = counts.entry(Counted::Release(release.to_owned())).or_default();
        let present = Kind::ALL.into_iter().map(|kind| (kind, of_release.of(kind))).filter(|(_, n)| *n > 0);
        kinds.extend(present);
    }
    counts
}

/// Writes the counts of a day, each only where it is greater than what is there.
pub(crate) async fn write(table: &dyn Table, day: &WorkspaceDay, fold: &DayFold<'_>) -> Result<()> {
    let counts = of(fold);
    let counts: Vec<_> = counts.iter().collect();
    for some in counts.chunks(WRITES_AT_ONCE) {
        try_join_all(some.iter().map(|(counted, counts)| write_one(table, day, counted, counts))).await?;
    }
    Ok(())
}

async fn write_one(
    table: &dyn Table,
    day: &WorkspaceDay,
    counted: &Counted,
    counts: &BTreeMap<Kind, u64>,
) -> Result<()> {
    let key = key::counter(&day.workspace, counted, &day.day.month());
    for _ in 0..MAX_ATTEMPTS {
        let stored = table.get(&key).await?;
        let (ver, mut days) = match &stored {
            Some(item) => {
                item.check_version(COUNTER_VERSION)?;
                (item.int("ver")?, item.map("days")?.clone())
            }
            None => (0, BTreeMap::new()),
        };
        let mut kinds = stored.as_ref().map_or(Ok(BTreeMap::new()), |item| read_day(item, day))?;
        let before = kinds.clone();
        for (kind, count) in counts {
            let known = kinds.entry(kind.name().to_owned()).or_default();
            *known = (*known).max(*count);
        }
        if kinds == before {
            return Ok(());
        }
        let kinds = kinds.into_iter().map(|(kind, count)| (kind, Value::from(count as i64)));
        days.insert(day.day.to_string(), Value::M(kinds.collect()));
        let item = Item::new(key.clone()).with("v", COUNTER_VERSION).with("ver", ver + 1).with("days", days);
        let condition = if ver == 0 { Condition::Absent } else { Condition::Equals("ver", Value::from(ver)) };
        match table.put(item, condition).await {
            Err(error) if error.is_conflict() => continue,
            other => return other,
        }
    }
    Err(Error::new(ErrorKind::Throttled, format!("too many projectors write the counter {key}")))
}

/// The counts that a counter holds for a day, by the name of the kind.
pub(crate) fn read_day(item: &Item, day: &WorkspaceDay) -> Result<BTreeMap<String, u64>> {
    let Some(kinds) = item.map("days")?.get(&day.day.to_string()) else { return Ok(BTreeMap::new()) };
    let Value::M(kinds) = kinds else { return Err(item.corrupt("`days` is not a map of maps")) };
    let count = |value: &Value| match value {
        Value::N(number) => number.as_i64().and_then(|count| u64::try_from(count).ok()),
        _ => None,
    };
    kinds
        .iter()
        .map(|(kind, value)| {
            Ok((kind.clone(), count(value).ok_or_else(|| item.corrupt("a count is no number"))?))
        })
        .collect()
}
