//! Creating and deleting the table. Each step first checks the current state, so that all of it may be repeated after
//! an interruption.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{
        AttributeValue, PointInTimeRecoveryStatus, TableDescription as Described, TableStatus,
        TimeToLiveSpecification,
    },
};
use event::{Error, Result};
use table::{Cursor, Index, Key, Page, Scan};
use tokio::time::{Instant, sleep};

use super::{
    DynamoConfig, DynamoTable,
    client::Client,
    codec,
    describe::{self, START_BUDGET, TableDescription, explain, look},
    expression::{Terms, not_expired, projection},
    fault::{Class, Fault},
    retry::{self, CALL_BUDGET},
    schema,
};

/// Maximum time to wait for a table to be ready, or to be gone.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Prefix of the cursors of a scan.
const SCAN: &str = "scan";

/// Interval of checking that.
const LOOK: Duration = Duration::from_millis(500);

/// Creates the table with its indexes, its stream and its time to live, and waits until it is ready. For an existing
/// table, the stream and the time to live are turned on if needed.
///
/// # Errors
/// `Invalid` if a table of another shape exists; else an error with the reason.
pub async fn create(config: &DynamoConfig) -> Result<TableDescription> {
    let client = Client::new(config).await?;
    let existing = describe::describe(&client).await.map_err(|failed| explain(&client, &failed.fault))?;
    let is_going = existing.as_ref().is_some_and(is_going);
    if is_going {
        wait_until(&client, |table| table.is_none()).await?;
    }
    if is_going || existing.is_none() {
        let request = client.db.create_table().table_name(&client.place.table);
        let request = schema::create(request).map_err(unbuilt)?;
        // A table that another process is creating is waited for as well.
        run(&client, &[Class::InUse], || {
            let request = request.clone();
            async move { request.send().await.map(drop).map_err(|error| Fault::of(&error)) }
        })
        .await?;
    }
    let table = wait_until(&client, is_ready).await?.ok_or_else(|| describe::missing(&client))?;
    refuse_foreign(&client, &table)?;
    if schema::stream_view(&table).is_none() {
        turn_on_stream(&client).await?;
        wait_until(&client, is_ready).await?;
    }
    let found = look(&client).await?;
    if !found.ttl.as_ref().is_some_and(schema::removes_expired) {
        turn_on_ttl(&client).await?;
    }
    let found = look(&client).await?;
    found.check(&client)?;
    Ok(found.description(&client))
}

/// Describes the table.
///
/// # Errors
/// `NotFound` if there is no table; else an error with the reason.
pub async fn describe(config: &DynamoConfig) -> Result<TableDescription> {
    let client = Client::new(config).await?;
    let described = look(&client).await?.description(&client);
    Ok(TableDescription { is_recoverable: is_recoverable(&client).await, ..described })
}

/// Returns whether point-in-time recovery is on; `None` if these credentials may not ask, or an emulator does not know.
async fn is_recoverable(client: &Client) -> Option<bool> {
    let request = client.db.describe_continuous_backups().table_name(&client.place.table);
    let answer = retry::call(START_BUDGET, || {
        let request = request.clone();
        async move { request.send().await.map_err(|error| Fault::of(&error)) }
    });
    let backups = answer.await.ok()?.continuous_backups_description?;
    let status = backups.point_in_time_recovery_description?.point_in_time_recovery_status?;
    Some(status == PointInTimeRecoveryStatus::Enabled)
}

impl DynamoTable {
    /// Returns a page of all items, in an order of DynamoDB's own. It reads, and costs, the whole table, even with a
    /// prefix.
    ///
    /// # Errors
    /// `Invalid` if the cursor belongs to another query; errors of reading.
    pub async fn scan(&self, scan: &Scan) -> Result<Page> {
        let mut terms = Terms::default();
        let mut filter = not_expired(&mut terms, self.clock.now());
        if !scan.prefix.is_empty() {
            let prefix = terms.value(AttributeValue::S(scan.prefix.clone()));
            filter = format!("({filter}) AND begins_with({}, {prefix})", terms.name("PK"));
        }
        let only: Option<&[String]> = if scan.keys_only { Some(&[]) } else { None };
        let projection = projection(&mut terms, Index::Table, only);
        let start = match scan.after.as_ref().map(Cursor::parts) {
            None => None,
            Some([name, pk, sk]) if name == SCAN => Some(codec::encode_key(&Key::new(pk, sk))),
            Some(_) => return Err(Error::invalid("the cursor belongs to another query")),
        };
        let (names, values) = terms.finish();
        let mut request = self
            .client
            .db
            .scan()
            .table_name(&self.client.place.table)
            .consistent_read(true)
            .filter_expression(filter)
            .set_projection_expression(projection)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_exclusive_start_key(start);
        loop {
            let answer = retry::call(CALL_BUDGET, || {
                let request = request.clone();
                async move { request.send().await.map_err(|error| Fault::of(&error)) }
            });
            let answer = answer.await.map_err(|failed| failed.fault.error(&self.client.place))?;
            let items = answer.items.unwrap_or_default();
            let last = answer.last_evaluated_key.filter(|last| !last.is_empty());
            match last {
                // No item read is wanted.
                Some(last) if items.is_empty() => request = request.set_exclusive_start_key(Some(last)),
                last => {
                    let next = last.map(|mut last| {
                        let key = codec::decode_key(&mut last)?;
                        Ok::<_, Error>(Cursor::of(vec![SCAN.to_owned(), key.pk, key.sk]))
                    });
                    let items = items.into_iter().map(codec::decode_item).collect::<Result<_>>()?;
                    return Ok(Page { items, next: next.transpose()?, read_units: None });
                }
            }
        }
    }
}

/// Deletes the table with all its data, and waits until it is gone. A missing table counts as deleted.
///
/// # Errors
/// `Invalid` if it is a table of another shape; else an error with the reason.
pub async fn delete(config: &DynamoConfig) -> Result<()> {
    let client = Client::new(config).await?;
    // A table that is being created or changed cannot be deleted yet.
    let is_still =
        |table: Option<&Described>| table.is_none_or(|table| is_ready(Some(table)) || is_going(table));
    let Some(table) = wait_until(&client, is_still).await? else { return Ok(()) };
    refuse_foreign(&client, &table)?;
    let request = client.db.delete_table().table_name(&client.place.table);
    run(&client, &[Class::Missing, Class::InUse], || {
        let request = request.clone();
        async move { request.send().await.map(drop).map_err(|error| Fault::of(&error)) }
    })
    .await?;
    wait_until(&client, |table| table.is_none()).await.map(drop)
}

/// Refuses a table of another application.
fn refuse_foreign(client: &Client, table: &Described) -> Result<()> {
    match schema::foreign(table) {
        Some(foreign) => Err(Error::invalid(format!("{}: {foreign}", client.place))),
        None => Ok(()),
    }
}

async fn turn_on_stream(client: &Client) -> Result<()> {
    let stream = schema::stream().map_err(unbuilt)?;
    let request = client.db.update_table().table_name(&client.place.table).stream_specification(stream);
    run(client, &[Class::InUse], || {
        let request = request.clone();
        async move { request.send().await.map(drop).map_err(|error| Fault::of(&error)) }
    })
    .await
}

async fn turn_on_ttl(client: &Client) -> Result<()> {
    let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name(schema::TTL_ATTRIBUTE);
    let ttl = ttl.build().map_err(unbuilt)?;
    let request =
        client.db.update_time_to_live().table_name(&client.place.table).time_to_live_specification(ttl);
    run(client, &[], || {
        let request = request.clone();
        async move { request.send().await.map(drop).map_err(|error| Fault::of(&error)) }
    })
    .await
}

/// Calls, and takes the faults of `fine` as success: they mean that it is done or under way.
async fn run<F>(client: &Client, fine: &[Class], attempt: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<(), Fault>>,
{
    match retry::call(START_BUDGET, attempt).await {
        Err(failed) if !fine.contains(&failed.fault.class) => Err(explain(client, &failed.fault)),
        _ => Ok(()),
    }
}

/// Waits until the table, or its absence, is as wanted.
async fn wait_until(
    client: &Client,
    wanted: impl Fn(Option<&Described>) -> bool,
) -> Result<Option<Described>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let table = describe::describe(client).await.map_err(|failed| explain(client, &failed.fault))?;
        if wanted(table.as_ref()) {
            return Ok(table);
        }
        if Instant::now() >= deadline {
            let status = table
                .and_then(|table| table.table_status)
                .map_or("absent".to_owned(), |status| status.to_string());
            let minutes = PATIENCE.as_secs() / 60;
            return Err(Error::unavailable(format!(
                "{} is still {status} after {minutes} minutes",
                client.place
            )));
        }
        sleep(LOOK).await;
    }
}

fn is_ready(table: Option<&Described>) -> bool {
    let Some(table) = table else { return false };
    let indexes = table.global_secondary_indexes().iter();
    let settled = indexes
        .map(|index| index.index_status())
        .all(|status| status.is_none_or(|status| status.as_str() == "ACTIVE"));
    table.table_status() == Some(&TableStatus::Active) && settled
}

fn is_going(table: &Described) -> bool {
    table.table_status() == Some(&TableStatus::Deleting)
}

fn unbuilt(error: BuildError) -> Error {
    Error::invalid("the request lacks something").because(error)
}
