//! Single writes. A write without an answer is settled by reading.

use std::{collections::HashMap, error::Error as StdError, time::Duration};

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::AttributeValue,
};
use event::{Error, Result};
use table::{Condition, Item, Key, check, too_late};
use tokio::time::{Instant, timeout_at};

use super::{
    DynamoTable, codec,
    expression::{Terms, condition},
    fault::{Class, Fault},
    retry::{self, CALL_BUDGET, Failed},
    units::TOLD,
};

/// Minimum time for an attempt to be worth making.
const MIN_ATTEMPT: Duration = Duration::from_secs(1);

/// Names in an expression by placeholder.
type Names = HashMap<String, String>;

/// Values in an expression.
type Values = HashMap<String, AttributeValue>;

/// A write of one item.
#[derive(Clone, Copy, Debug)]
struct Single<'a> {
    key: &'a Key,
    /// Item stored after the write.
    wanted: Option<&'a Item>,
    demand: &'a Condition,
}

impl DynamoTable {
    /// Writes a whole item.
    pub(super) async fn put_item(&self, item: &Item, demand: &Condition) -> Result<()> {
        self.put_item_until(item, demand, Instant::now() + CALL_BUDGET).await
    }

    /// Writes new items, one after the other; after `within`, none is sent, and no answer is waited for.
    pub(super) async fn put_new_items(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        let until = Instant::now() + within;
        for (written, item) in items.iter().enumerate() {
            // With less time the next write would be interrupted for nothing.
            let left = until.saturating_duration_since(Instant::now());
            let result = match left.is_zero() || (written > 0 && left < MIN_ATTEMPT) {
                true => Err(too_late(&item.key)),
                false => self.put_item_until(item, &Condition::Absent, until).await,
            };
            if result.is_err() {
                return (written, result);
            }
        }
        (items.len(), Ok(()))
    }

    /// Writes a whole item, retrying as long as an attempt can be answered by `until`.
    async fn put_item_until(&self, item: &Item, demand: &Condition, until: Instant) -> Result<()> {
        check::check_item(item)?;
        let (condition, names, values) = self.demanded(demand);
        let request = self
            .client
            .db
            .put_item()
            .table_name(&self.client.place.table)
            .return_consumed_capacity(TOLD)
            .set_item(Some(codec::encode_item(item)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values);
        let put = Single { key: &item.key, wanted: Some(item), demand };
        let answer = self.make(put, until, || request.clone().send()).await?;
        self.units.put.note(answer.as_ref().and_then(|answer| answer.consumed_capacity()));
        Ok(())
    }

    /// Deletes an item.
    pub(super) async fn delete_item(&self, key: &Key, demand: &Condition) -> Result<()> {
        check::check_key(key)?;
        let (condition, names, values) = self.demanded(demand);
        let request = self
            .client
            .db
            .delete_item()
            .table_name(&self.client.place.table)
            .return_consumed_capacity(TOLD)
            .set_key(Some(codec::encode_key(key)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values);
        let delete = Single { key, wanted: None, demand };
        let answer = self.make(delete, Instant::now() + CALL_BUDGET, || request.clone().send()).await?;
        self.units.delete.note(answer.as_ref().and_then(|answer| answer.consumed_capacity()));
        Ok(())
    }

    /// Returns a condition as an expression, with the names and values in it.
    fn demanded(&self, demand: &Condition) -> (Option<String>, Option<Names>, Option<Values>) {
        let mut terms = Terms::default();
        let condition = condition(&mut terms, demand, self.clock.now());
        let (names, values) = terms.finish();
        (condition, names, values)
    }

    /// Sends a write until it is answered, and waits for no answer after `until`. Returns the answer; `None` if there
    /// was none but the stored item is as wanted.
    async fn make<T, E, F>(
        &self,
        single: Single<'_>,
        until: Instant,
        send: impl Fn() -> F,
    ) -> Result<Option<T>>
    where
        E: ProvideErrorMetadata + StdError + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        let outcome = retry::call_until(until, || {
            let answer = timeout_at(until, send());
            async move {
                let answer = answer.await;
                let answer = answer.map_err(|_| Fault::new(Class::Unanswered, "no answer in time"))?;
                answer.map_err(|error| Fault::of(&error))
            }
        });
        match outcome.await {
            Ok(answer) => Ok(Some(answer)),
            Err(failed) => self.settle(&failed, single).await.map(|()| None),
        }
    }

    /// Settles a write with an attempt that had no answer, by reading: if the stored item is as wanted, the write was
    /// executed, whatever the result of later attempts.
    async fn settle(&self, failed: &Failed, single: Single<'_>) -> Result<()> {
        let Single { key, wanted, demand } = single;
        if failed.is_unsettled {
            match self.read(key, None).await {
                Ok(stored) if stored.as_ref() == wanted => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%key, %error, "it could not be read whether the write was made")
                }
            }
        }
        Err(self.refusal(&failed.fault, key, demand))
    }

    /// Returns the error of a failed write, naming its item, or the table if that is missing.
    pub(super) fn refusal(&self, fault: &Fault, key: &Key, demand: &Condition) -> Error {
        match (fault.class, demand) {
            (Class::Refused, Condition::Absent) => Error::conflict(format!("item {key} exists already")),
            (Class::Refused, Condition::Exists) => Error::conflict(format!("item {key} does not exist")),
            (Class::Refused, Condition::Equals(..) | Condition::Without(_) | Condition::All(_)) => {
                Error::conflict(format!("item {key} has changed"))
            }
            (Class::Unanswered, _) => {
                fault.error(format_args!("item {key} may or may not have been written"))
            }
            (Class::Missing, _) => fault.error(&self.client.place),
            _ => fault.error(format_args!("item {key}")),
        }
    }
}
