//! Describing the table itself: at start, and on request.

use std::time::Duration;

use aws_sdk_dynamodb::types::{TableDescription as Described, TimeToLiveDescription, TimeToLiveStatus};
use event::{Error, ErrorKind, Result, Timestamp};

use super::{
    client::Client,
    fault::{Class, Fault},
    retry::{self, Failed},
    schema,
};

/// Time for which a call at start is tried: a person is waiting.
pub(super) const START_BUDGET: Duration = Duration::from_secs(3);

/// Description of a table for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescription {
    /// Name of the table.
    pub name: String,
    /// Region.
    pub region: String,
    /// Endpoint, if it is not that of the region.
    pub endpoint: Option<String>,
    /// Amazon resource name.
    pub arn: String,
    /// Status, such as `ACTIVE`.
    pub status: String,
    /// Time of creation.
    pub created_at: Option<Timestamp>,
    /// Key, such as `PK S, SK S`.
    pub key: String,
    /// Billing mode: `PAY_PER_REQUEST` or `PROVISIONED`.
    pub billing: String,
    /// Approximate number of items; counted every six hours.
    pub items: u64,
    /// Approximate number of bytes; counted every six hours.
    pub bytes: u64,
    /// Indexes.
    pub indexes: Vec<IndexDescription>,
    /// Change feed, if it is on.
    pub stream: Option<StreamDescription>,
    /// Attribute by which expired items are removed, if that is on.
    pub time_to_live: Option<String>,
    /// True if it must be unlocked before it can be deleted.
    pub is_protected: bool,
    /// True if it can be restored to any second of the last days; `None` if these credentials may not ask, or nobody asked.
    pub is_recoverable: Option<bool>,
    /// Problems that prevent Almanac from using it, with instructions; empty if there are none.
    pub problems: Vec<String>,
}

/// Description of an index for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDescription {
    /// Name of the index.
    pub name: String,
    /// Key, such as `board S, score N`.
    pub key: String,
    /// Status, such as `ACTIVE`.
    pub status: String,
    /// Approximate number of items.
    pub items: u64,
}

/// Description of a change feed for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDescription {
    /// Amazon resource name; a stream that is turned off and on again has another one.
    pub arn: String,
    /// Content of a change, such as `KEYS_ONLY`.
    pub view: String,
}

/// A table and its time to live, as described by DynamoDB.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) table: Described,
    /// Time to live; `None` if these credentials may not ask.
    pub(super) ttl: Option<TimeToLiveDescription>,
}

/// Describes the table and its time to live.
///
/// # Errors
/// `NotFound` if there is no table; else an error with the reason in one line.
pub(super) async fn look(client: &Client) -> Result<Found> {
    let table = describe(client).await.map_err(|failed| explain(client, &failed.fault))?;
    let table = table.ok_or_else(|| missing(client))?;
    let request = client.db.describe_time_to_live().table_name(&client.place.table);
    let ttl = retry::call(START_BUDGET, || {
        let request = request.clone();
        async move { request.send().await.map_err(|error| Fault::of(&error)) }
    });
    let ttl = match ttl.await {
        Ok(answer) => answer.time_to_live_description,
        Err(failed) => {
            // Not worth refusing to start: expired items are only kept for longer.
            tracing::warn!(
                why = failed.fault.what,
                "it cannot be seen whether {} removes what has expired",
                client.place
            );
            None
        }
    };
    Ok(Found { table, ttl })
}

/// Describes the table; `None` if it does not exist.
pub(super) async fn describe(client: &Client) -> Result<Option<Described>, Failed> {
    let request = client.db.describe_table().table_name(&client.place.table);
    let answer = retry::call(START_BUDGET, || {
        let request = request.clone();
        async move { request.send().await.map_err(|error| Fault::of(&error)) }
    });
    match answer.await {
        Ok(answer) => Ok(answer.table),
        Err(failed) if failed.fault.class == Class::Missing => Ok(None),
        Err(failed) => Err(failed),
    }
}

/// Returns the error for a missing table.
pub(super) fn missing(client: &Client) -> Error {
    let place = &client.place;
    Error::not_found(format!(
        "there is no table `{}` {}; `almanac admin table create` makes it",
        place.table,
        place.location()
    ))
}

/// Returns an error at start, in one line with instructions.
pub(super) fn explain(client: &Client, fault: &Fault) -> Error {
    let (place, what) = (&client.place, &fault.what);
    let location = place.location();
    match (fault.class, &place.endpoint) {
        (Class::Unanswered, Some(_)) => {
            Error::unavailable(format!("there is no answer {location} ({what}); is DynamoDB running there?"))
        }
        (Class::Unanswered, None) => Error::unavailable(format!(
            "there is no answer from DynamoDB {location} ({what}); is that a region, and is there a network?"
        )),
        (Class::Forbidden, _) => {
            Error::new(ErrorKind::Invalid, format!("these AWS credentials may not use {place} ({what})"))
        }
        (Class::Missing, _) => missing(client),
        _ => fault.error(place),
    }
}

impl Found {
    /// Checks that the table can be used, and reports all problems in one line.
    ///
    /// # Errors
    /// `Invalid` if there are any problems.
    pub(super) fn check(&self, client: &Client) -> Result<()> {
        let problems = schema::problems(&self.table, self.ttl.as_ref());
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!("{} cannot be used: {}", client.place, problems.join("; "))))
    }

    /// Returns the description for people.
    pub(super) fn description(self, client: &Client) -> TableDescription {
        let problems = schema::problems(&self.table, self.ttl.as_ref());
        let Self { table, ttl } = self;
        let on = [TimeToLiveStatus::Enabled, TimeToLiveStatus::Enabling];
        let ttl = ttl.filter(|ttl| ttl.time_to_live_status().is_some_and(|status| on.contains(status)));
        let created = table.creation_date_time().and_then(|time| i64::try_from(time.as_nanos() / 1_000).ok());
        let view = schema::stream_view(&table).map(ToString::to_string);
        TableDescription {
            name: client.place.table.clone(),
            region: client.place.region.clone(),
            endpoint: client.place.endpoint.clone(),
            status: table.table_status().map(ToString::to_string).unwrap_or_default(),
            created_at: created.and_then(Timestamp::from_micros),
            key: schema::key_text(table.key_schema(), table.attribute_definitions()),
            billing: billing(&table),
            items: count(table.item_count()),
            bytes: count(table.table_size_bytes()),
            indexes: indexes(&table),
            stream: view.map(|view| StreamDescription {
                arn: table.latest_stream_arn.clone().unwrap_or_default(),
                view,
            }),
            time_to_live: ttl.and_then(|ttl| ttl.attribute_name),
            is_protected: table.deletion_protection_enabled().unwrap_or(false),
            is_recoverable: None,
            arn: table.table_arn.unwrap_or_default(),
            problems,
        }
    }
}

fn billing(table: &Described) -> String {
    let mode = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    // Tables from before there was a choice have no billing mode.
    mode.map_or("PROVISIONED", |mode| mode.as_str()).to_owned()
}

fn indexes(table: &Described) -> Vec<IndexDescription> {
    let index = |index: &aws_sdk_dynamodb::types::GlobalSecondaryIndexDescription| IndexDescription {
        name: index.index_name().unwrap_or_default().to_owned(),
        key: schema::key_text(index.key_schema(), table.attribute_definitions()),
        status: index.index_status().map(ToString::to_string).unwrap_or_default(),
        items: count(index.item_count()),
    };
    let mut indexes: Vec<_> = table.global_secondary_indexes().iter().map(index).collect();
    indexes.sort_by(|a, b| a.name.cmp(&b.name));
    indexes
}

fn count(count: Option<i64>) -> u64 {
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}
