//! Shards of the stream.
//!
//! The id of a shard begins with the label of its stream. A stream that was turned off and on again has another
//! label, so none of its shards can be mistaken for an old one.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodbstreams::types::Shard as Described;
use event::{Error, Result};
use table::Shard;

use super::{
    DynamoTable, describe,
    fault::{Class, Fault},
    retry::{self, CALL_BUDGET},
    schema,
};

/// Separator between the label of a stream and the id of a shard in it.
const SEPARATOR: char = '/';

/// Address of a shard for DynamoDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardPlace {
    /// Amazon resource name of its stream.
    pub(super) stream: String,
    /// Id in the stream.
    pub(super) shard: String,
}

impl ShardPlace {
    /// Returns the address of the shard `id` of a table.
    ///
    /// # Errors
    /// `NotFound` if no shard can have that id.
    pub(super) fn parse(id: &str, table_arn: &str) -> Result<Self> {
        match id.split_once(SEPARATOR) {
            Some((label, shard)) if !label.is_empty() && !shard.is_empty() => {
                Ok(Self { stream: format!("{table_arn}/stream/{label}"), shard: shard.to_owned() })
            }
            _ => Err(Error::not_found(format!("there is no shard `{id}` in a DynamoDB stream"))),
        }
    }
}

impl DynamoTable {
    /// Returns all shards of the current stream, parents before children.
    pub(super) async fn list_shards(&self) -> Result<Vec<Shard>> {
        let table = describe::describe(&self.client).await;
        let table = table.map_err(|failed| failed.fault.error(&self.client.place))?;
        let table = table.ok_or_else(|| describe::missing(&self.client))?;
        let off = || {
            Error::not_found(format!(
                "{} has no stream; `almanac admin table create` turns it on",
                self.client.place
            ))
        };
        schema::stream_view(&table).ok_or_else(off)?;
        let (arn, label) = table.latest_stream_arn().zip(table.latest_stream_label()).ok_or_else(off)?;
        let mut shards = Vec::new();
        let mut start = None;
        loop {
            let request =
                self.client.streams.describe_stream().stream_arn(arn).set_exclusive_start_shard_id(start);
            let answer = retry::call(CALL_BUDGET, || {
                let request = request.clone();
                async move { request.send().await.map_err(|error| Fault::of(&error)) }
            });
            let stream = match answer.await {
                Ok(answer) => answer.stream_description,
                // The stream was turned off just now; the next call will find the new one.
                Err(failed) if failed.fault.class == Class::Missing => return Err(off()),
                Err(failed) => return Err(failed.fault.error(&self.client.place)),
            };
            let stream = stream.ok_or_else(|| Error::unavailable(format!("{arn} is not described")))?;
            shards.extend(stream.shards().iter().cloned());
            start = stream.last_evaluated_shard_id;
            if start.is_none() {
                return Ok(in_order(label, &shards));
            }
        }
    }
}

/// Sorts shards with parents before children. A parent that no longer exists is omitted.
fn in_order(label: &str, shards: &[Described]) -> Vec<Shard> {
    // Ids begin with the time of creation, so the map alone puts most of them in order.
    let mut waiting: BTreeMap<&str, Option<&str>> =
        shards.iter().filter_map(|shard| Some((shard.shard_id()?, shard.parent_shard_id()))).collect();
    let known: BTreeSet<&str> = waiting.keys().copied().collect();
    waiting.values_mut().for_each(|parent| *parent = parent.filter(|parent| known.contains(parent)));
    let id = |shard: &str| format!("{label}{SEPARATOR}{shard}");
    let mut ordered = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let ready = |parent: &Option<&str>| parent.is_none_or(|parent| !waiting.contains_key(parent));
        let mut next: Vec<&str> =
            waiting.iter().filter(|(_, parent)| ready(parent)).map(|(shard, _)| *shard).collect();
        if next.is_empty() {
            // A cycle of parents is impossible; but no shard must be left out, nor the loop be endless.
            next = waiting.keys().copied().collect();
        }
        for shard in next {
            let parent = waiting.remove(shard).flatten();
            ordered.push(Shard { id: id(shard), parent: parent.map(id) });
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(shards: &[(&str, Option<&str>)]) -> Vec<Described> {
        let shard = |(id, parent): &(&str, Option<&str>)| {
            Described::builder().shard_id(*id).set_parent_shard_id(parent.map(str::to_owned)).build()
        };
        shards.iter().map(shard).collect()
    }

    fn ids(shards: &[Shard]) -> Vec<&str> {
        shards.iter().map(|shard| shard.id.as_str()).collect()
    }

    #[test]
    fn parents_come_before_children() {
        let shards = described(&[("a", Some("c")), ("b", Some("a")), ("c", Some("gone")), ("d", None)]);
        let ordered = in_order("l", &shards);
        assert_eq!(ids(&ordered), ["l/c", "l/d", "l/a", "l/b"]);
        assert_eq!(ordered[0].parent, None, "a parent that is no longer kept is not waited for");
        assert_eq!(ordered[2].parent.as_deref(), Some("l/c"));
    }

    #[test]
    fn nothing_is_left_out_of_a_circle() {
        assert_eq!(in_order("l", &described(&[("a", Some("b")), ("b", Some("a"))])).len(), 2);
    }

    #[test]
    fn an_id_leads_to_its_stream() {
        let place =
            ShardPlace::parse("2026-01-01T00:00:00.000/shardId-1", "arn:aws:dynamodb:r:1:table/t").unwrap();
        assert_eq!(place.stream, "arn:aws:dynamodb:r:1:table/t/stream/2026-01-01T00:00:00.000");
        assert_eq!(place.shard, "shardId-1");
        for wrong in ["other", "/x", "x/"] {
            assert!(ShardPlace::parse(wrong, "arn").is_err());
        }
    }
}
