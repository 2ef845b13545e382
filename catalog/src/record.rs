//! Recording release events: the happenings, and the live releases after them.

use event::{Id, Result};
use log::key;
use table::{
    Condition, Item, KeyRange, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_WRITES, Policy, Query, Table, Write,
    check::write_bytes, item::Value, query_all, unless_overtaken,
};

use super::{
    Catalog,
    feed::note_release,
    live::{ITEM_VERSION, LiveChange, LiveState, ReleaseChange, first, state_of},
};

/// Records release events: the happenings, and the live releases after them.
///
/// # Errors
/// Errors of the table. It may be called again with the same events at any time.
pub async fn record(table: &dyn Table, workspace: &Id, changes: &[ReleaseChange]) -> Result<()> {
    for change in changes {
        note_release(table, workspace, change).await?;
        if let Some(environment) = &change.environment
            && change.action.is_of_live()
        {
            put_in_place(table, workspace, environment, change).await?;
        }
    }
    Ok(())
}

impl Catalog {
    /// Records release events: see [`record`].
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn record(&self, workspace: &Id, changes: &[ReleaseChange]) -> Result<()> {
        record(&*self.table, workspace, changes).await
    }
}

/// Puts a change in its place among those of its environment.
async fn put_in_place(
    table: &dyn Table,
    workspace: &Id,
    environment: &str,
    change: &ReleaseChange,
) -> Result<()> {
    let key = key::live_change(workspace, environment, change.at, change.action.name(), &change.release);
    let all = key::live_changes(workspace, environment);
    let mut tries = Policy::of(&"what is live").tries();
    loop {
        tries.next().await?;
        let control = table.get(&key::live(workspace, environment)).await?;
        let from = KeyRange { from: key.sk.clone(), ..all.clone() };
        let after = query_all(table, Query::table(from)).await?;
        if after.first().is_some_and(|item| item.key == key) {
            return Ok(());
        }
        let until = Query::table(KeyRange { to: key.sk.clone(), ..all.clone() }).backward().limit(1);
        let before = first(table, until).await?;
        let mut state = before.as_ref().map(state_of).transpose()?.unwrap_or_default();
        change.apply(&mut state);
        let placed = LiveChange { change: change.clone(), state: state.clone() };
        let mut repairs = Vec::new();
        for item in &after {
            let mut known: LiveChange = item.to_record(ITEM_VERSION)?;
            known.change.apply(&mut state);
            if known.state == state {
                // From here on the states are unchanged.
                state = after.last().map(state_of).transpose()?.unwrap_or_default();
                break;
            }
            known.state = state.clone();
            repairs.push(known.to_item(workspace, environment));
        }
        let ver = control.as_ref().map_or(Ok(0), |item| item.int("ver"))?;
        let placed = placed.to_item(workspace, environment);
        let written = write_changes(table, (workspace, environment, ver), &state, placed, repairs).await;
        if unless_overtaken(written)?.is_some() {
            return Ok(());
        }
    }
}

/// Writes repairs, the latest first, and the change that caused them last: a crash before that leaves the change to be made
/// again. Each write demands that no other writer wrote.
async fn write_changes(
    table: &dyn Table,
    (workspace, environment, mut ver): (&Id, &str, i64),
    state: &LiveState,
    placed: Item,
    mut repairs: Vec<Item>,
) -> Result<()> {
    let mut placed = Some(placed);
    while let Some(last) = placed.take() {
        let unchanged = Condition::unchanged(ver);
        ver += 1;
        let control = Item::new(key::live(workspace, environment))
            .with("v", ITEM_VERSION)
            .with("ver", ver)
            .with("live", Value::record(state));
        let mut writes = vec![Write::Put(control, unchanged)];
        let last = Write::Put(last, Condition::Absent);
        // Each transaction keeps room for the last write, so that it goes with the last repairs.
        let mut bytes = write_bytes(&writes[0]) + write_bytes(&last);
        while let Some(item) = repairs.pop() {
            let repair = Write::Put(item, Condition::None);
            bytes += write_bytes(&repair);
            if bytes > MAX_TRANSACTION_BYTES || writes.len() + 2 > MAX_TRANSACTION_WRITES {
                repairs.extend(item_of(repair));
                break;
            }
            writes.push(repair);
        }
        match repairs.is_empty() {
            true => writes.push(last),
            false => placed = item_of(last),
        }
        table.transact(writes).await?;
    }
    Ok(())
}

fn item_of(write: Write) -> Option<Item> {
    match write {
        Write::Put(item, _) => Some(item),
        _ => None,
    }
}
