//! Looking at the table itself: at start, and when a person asks.

use std::time::Duration;

use aws_sdk_dynamodb::types::{TableDescription as Described, TimeToLiveDescription, TimeToLiveStatus};
use event::{Error, ErrorKind, Result, Timestamp};

use super::{
    client::Client,
    fault::{Class, Fault},
    retry::{self, Failed},
    schema,
};

/// How long a call at start is tried: a person is waiting.
pub(super) const START_BUDGET: Duration = Duration::from_secs(3);

/// What a person wants to see of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescription {
    /// Its name.
    pub name: String,
    /// The region.
    pub region: String,
    /// The address, where it is not the one of the region.
    pub endpoint: Option<String>,
    /// Its Amazon resource name.
    pub arn: String,
    /// Such as `ACTIVE`.
    pub status: String,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// Its key, such as `PK S, SK S`.
    pub key: String,
    /// How it is paid: `PAY_PER_REQUEST` or `PROVISIONED`.
    pub billing: String,
    /// About how many items it has; counted every six hours.
    pub items: u64,
    /// About how many bytes it has; counted every six hours.
    pub bytes: u64,
    /// Its indexes.
    pub indexes: Vec<IndexDescription>,
    /// Its change feed, when it is on.
    pub stream: Option<StreamDescription>,
    /// The attribute by which items are removed when they have expired, when that is on.
    pub time_to_live: Option<String>,
    /// Whether it must be unlocked before it can be deleted.
    pub is_protected: bool,
    /// What keeps Almanac from using it, and what to do about it; empty when nothing does.
    pub problems: Vec<String>,
}

/// What a person wants to see of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDescription {
    /// Its name.
    pub name: String,
    /// Its key, such as `board S, score N`.
    pub key: String,
    /// Such as `ACTIVE`.
    pub status: String,
    /// About how many items it has.
    pub items: u64,
}

/// What a person wants to see of a change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDescription {
    /// Its Amazon resource name; a stream that is turned off and on again has another one.
    pub arn: String,
    /// What a change tells, such as `KEYS_ONLY`.
    pub view: String,
}

/// A table and its time to live, as DynamoDB describes them.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) table: Described,
    /// `None` when these credentials may not ask.
    pub(super) ttl: Option<TimeToLiveDescription>,
}

/// Looks at the table.
///
/// # Errors
/// `NotFound`, when there is none; else saying, in one line, why it cannot be looked at.
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
            // Not worth refusing to start: only what has expired is kept for longer.
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

/// The table; `None` when there is none.
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

/// The error that there is no table.
pub(super) fn missing(client: &Client) -> Error {
    let place = &client.place;
    Error::not_found(format!(
        "there is no table `{}` {}; `almanac table create` makes it",
        place.table,
        place.location()
    ))
}

/// An error at start, in a line that says what to do.
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
    /// Everything that keeps the table from being used, in one line.
    ///
    /// # Errors
    /// `Invalid`, when there is anything.
    pub(super) fn check(&self, client: &Client) -> Result<()> {
        let problems = schema::problems(&self.table, self.ttl.as_ref());
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!("{} cannot be used: {}", client.place, problems.join("; "))))
    }

    /// What a person wants to see.
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
            arn: table.table_arn.unwrap_or_default(),
            problems,
        }
    }
}

fn billing(table: &Described) -> String {
    let mode = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    // Tables from before there was a choice say nothing.
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
