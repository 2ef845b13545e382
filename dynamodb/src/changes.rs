//! Reading the changes of a shard. Changes that are no longer available are reported as a gap, never skipped.

use std::time::Duration;

use aws_sdk_dynamodbstreams::{
    operation::get_records::GetRecordsOutput,
    types::{AttributeValue, Record, ShardIteratorType},
};
use event::{Error, Result};
use table::{Changes, Key, Position};
use tokio::time::{Instant, sleep};

use super::{
    DynamoTable,
    fault::{Class, Fault},
    position::{Start, from_now, unread},
    retry::{self, CALL_BUDGET},
    shards::ShardPlace,
};

/// Time to wait after the first empty answer. A shard may be asked five times a second.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Maximum time to wait between two empty answers.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of lost iterators replaced in one call.
const MAX_REOPENED: usize = 3;

/// An iterator with its position.
struct Standing {
    iterator: String,
    /// Position that a reader keeps when it gets no change from here.
    position: Position,
    /// True if changes before it are gone.
    gap: bool,
}

/// Result of looking for an iterator or for records.
enum Found<T> {
    Here(T),
    /// The shard or its stream no longer exists.
    Gone,
    /// The iterator is too old, but its position is still available.
    Expired,
    /// Its position is no longer available.
    Trimmed,
}

impl DynamoTable {
    /// Returns the changes of a shard after `from`, waiting about `wait` for them.
    pub(super) async fn read_changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        let place = ShardPlace::parse(shard, &self.arn)?;
        let deadline = Instant::now() + wait;
        let mut pause = FIRST_PAUSE;
        let mut reopened = 0;
        let start = Start::of(from)?;
        let mut standing = match self.iterators.get(shard, from) {
            Some(iterator) => Some(Standing { iterator, position: from.clone(), gap: false }),
            None => self.stand(&place, start, from).await?,
        };
        loop {
            let Some(mut here) = standing else { return Ok(self.gone(shard)) };
            let answer = match self.records(&here.iterator).await? {
                Found::Here(answer) => answer,
                Found::Gone => return Ok(self.gone(shard)),
                lost if reopened < MAX_REOPENED => {
                    reopened += 1;
                    let gap = here.gap || matches!(lost, Found::Trimmed);
                    standing = match lost {
                        Found::Trimmed => self.stand_at_horizon(&place, true).await?,
                        _ => self.stand(&place, Start::of(&here.position)?, &here.position).await?,
                    };
                    standing.iter_mut().for_each(|standing| standing.gap |= gap);
                    continue;
                }
                _ => {
                    return Err(Error::unavailable(format!(
                        "shard {shard}: its iterators are lost again and again"
                    )));
                }
            };
            let is_over = Instant::now() >= deadline;
            let records = answer.records.unwrap_or_default();
            if !records.is_empty() || here.gap || is_over || answer.next_shard_iterator.is_none() {
                return self.told(shard, &here, &records, answer.next_shard_iterator);
            }
            here.iterator = answer.next_shard_iterator.unwrap_or_default();
            // Kept before the wait, since the caller may stop waiting.
            self.iterators.keep(shard, &here.position, here.iterator.clone());
            standing = Some(here);
            sleep(pause.min(deadline - Instant::now())).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn told(
        &self,
        shard: &str,
        here: &Standing,
        records: &[Record],
        next: Option<String>,
    ) -> Result<Changes> {
        let (keys, last) = decode(shard, records)?;
        let position = last.map_or_else(|| here.position.clone(), Position::After);
        let next = match next {
            Some(iterator) => {
                self.iterators.keep(shard, &position, iterator);
                Some(position)
            }
            None => {
                self.iterators.forget(shard);
                None
            }
        };
        Ok(Changes { keys, next, gap: here.gap })
    }

    /// Returns the answer for a shard that no longer exists: all its unread changes are gone.
    fn gone(&self, shard: &str) -> Changes {
        self.iterators.forget(shard);
        Changes { keys: Vec::new(), next: None, gap: true }
    }

    /// Creates an iterator at `start`; `None` if the shard no longer exists.
    async fn stand(&self, place: &ShardPlace, start: Start, from: &Position) -> Result<Option<Standing>> {
        let now = self.clock.now();
        let (kind, after) = match &start {
            Start::Oldest => return self.stand_at_horizon(place, false).await,
            Start::Since(_) => {
                let gap = start.may_have_lost(now);
                let standing = self.stand_at_horizon(place, gap).await?;
                // The position keeps its meaning, unless changes are gone.
                return Ok(standing.map(|mut standing| {
                    if !gap {
                        standing.position = from.clone();
                    }
                    standing
                }));
            }
            Start::Latest => (ShardIteratorType::Latest, None),
            Start::After(sequence) => (ShardIteratorType::AfterSequenceNumber, Some(sequence.clone())),
        };
        match self.iterator(place, kind, after).await? {
            Found::Here(iterator) => {
                let position = if start == Start::Latest { from_now(now) } else { from.clone() };
                Ok(Some(Standing { iterator, position, gap: false }))
            }
            Found::Gone => Ok(None),
            Found::Trimmed | Found::Expired => self.stand_at_horizon(place, true).await,
        }
    }

    async fn stand_at_horizon(&self, place: &ShardPlace, gap: bool) -> Result<Option<Standing>> {
        match self.iterator(place, ShardIteratorType::TrimHorizon, None).await? {
            Found::Here(iterator) => Ok(Some(Standing { iterator, position: unread(self.clock.now()), gap })),
            Found::Gone => Ok(None),
            // Not an end: an open shard must be asked again.
            Found::Trimmed | Found::Expired => Err(Error::unavailable(format!(
                "shard {}: it gives no iterator at its oldest change",
                place.shard
            ))),
        }
    }

    async fn iterator(
        &self,
        place: &ShardPlace,
        kind: ShardIteratorType,
        after: Option<String>,
    ) -> Result<Found<String>> {
        let request = self
            .client
            .streams
            .get_shard_iterator()
            .stream_arn(&place.stream)
            .shard_id(&place.shard)
            .shard_iterator_type(kind)
            .set_sequence_number(after);
        let answer = retry::call(CALL_BUDGET, || {
            let request = request.clone();
            async move { request.send().await.map_err(|error| Fault::of(&error)) }
        });
        let answer = answer.await.map(|answer| answer.shard_iterator).map_err(|failed| failed.fault);
        // An answer without an iterator leaves nothing to read with.
        self.sorted(answer).map(|found| match found {
            Found::Here(Some(iterator)) => Found::Here(iterator),
            Found::Here(None) | Found::Gone => Found::Gone,
            Found::Expired => Found::Expired,
            Found::Trimmed => Found::Trimmed,
        })
    }

    async fn records(&self, iterator: &str) -> Result<Found<GetRecordsOutput>> {
        let request = self.client.streams.get_records().shard_iterator(iterator);
        let answer = retry::call(CALL_BUDGET, || {
            let request = request.clone();
            async move { request.send().await.map_err(|error| Fault::of(&error)) }
        });
        self.sorted(answer.await.map_err(|failed| failed.fault))
    }

    fn sorted<T>(&self, answer: Result<T, Fault>) -> Result<Found<T>> {
        match answer {
            Ok(answer) => Ok(Found::Here(answer)),
            Err(fault) => match fault.class {
                Class::Missing => Ok(Found::Gone),
                Class::Expired => Ok(Found::Expired),
                Class::Trimmed => Ok(Found::Trimmed),
                _ => Err(fault.error(format_args!("the changes of {}", self.client.place))),
            },
        }
    }
}

/// Returns the keys of records, and the sequence number of the last.
fn decode(shard: &str, records: &[Record]) -> Result<(Vec<Key>, Option<String>)> {
    let wrong = || Error::corrupt(format!("shard {shard}: a change does not tell which item has changed"));
    let mut keys = Vec::with_capacity(records.len());
    let mut last = None;
    for record in records {
        let change = record.dynamodb().ok_or_else(wrong)?;
        let part = |name| match change.keys().and_then(|keys| keys.get(name)) {
            Some(AttributeValue::S(text)) => Ok(text.as_str()),
            _ => Err(wrong()),
        };
        keys.push(Key::new(part("PK")?, part("SK")?));
        last = Some(change.sequence_number().ok_or_else(wrong)?.to_owned());
    }
    Ok((keys, last))
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::types::StreamRecord;

    use super::*;

    fn record(sk: Option<&str>, sequence: &str) -> Record {
        let mut change =
            StreamRecord::builder().sequence_number(sequence).keys("PK", AttributeValue::S("p".into()));
        if let Some(sk) = sk {
            change = change.keys("SK", AttributeValue::S(sk.into()));
        }
        Record::builder().dynamodb(change.build()).build()
    }

    #[test]
    fn changed_keys_come_in_order_with_last_sequence() {
        let (keys, last) = decode("s", &[record(Some("b"), "7"), record(Some("a"), "9")]).unwrap();
        assert_eq!(keys, [Key::new("p", "b"), Key::new("p", "a")]);
        assert_eq!(last.as_deref(), Some("9"));
        assert_eq!(decode("s", &[]).unwrap(), (Vec::new(), None));
    }

    #[test]
    fn unreadable_change_is_an_error() {
        let error = decode("s", &[record(Some("a"), "1"), record(None, "2")]).unwrap_err();
        assert_eq!(error.kind(), event::ErrorKind::Corrupt);
    }
}
