//! Transactions: several writes that happen together or not at all.

use aws_sdk_dynamodb::{
    error::{BuildError, SdkError},
    operation::transact_write_items::TransactWriteItemsError,
    types::{self, CancellationReason, ConditionCheck, Delete, Put, TransactWriteItem},
};
use event::{Error, Id, Result, Timestamp};
use table::{Condition, Key, Update, Write, check};

use super::{
    DynamoTable, codec,
    expression::{Terms, changes, condition},
    fault::{Class, Fault},
    retry::{self, CALL_BUDGET},
    units::TOLD,
};

impl DynamoTable {
    /// Executes all writes or none.
    pub(super) async fn transact_all(&self, writes: &[Write]) -> Result<()> {
        check::check_writes(writes)?;
        if writes.is_empty() {
            return Ok(());
        }
        for write in writes {
            match write {
                Write::Add(key, name, amount) => self.check_add(key, name, *amount).await?,
                Write::Update(update) => {
                    for (name, amount) in &update.add {
                        self.check_add(&update.key, name, *amount).await?;
                    }
                }
                _ => {}
            }
        }
        let now = self.clock.now();
        let items = writes.iter().map(|write| encode(write, &self.client.place.table, now));
        let items = items.collect::<Result<Vec<_>, _>>();
        let items =
            items.map_err(|error| Error::invalid("the transaction lacks something").because(error))?;
        // DynamoDB executes requests of one token once, so an attempt without an answer may be repeated, even if the
        // transaction adds.
        let token = Id::new(now).to_string();
        let request = self
            .client
            .db
            .transact_write_items()
            .set_transact_items(Some(items))
            .return_consumed_capacity(TOLD)
            .client_request_token(token);
        let outcome = retry::call(CALL_BUDGET, || {
            let request = request.clone();
            async move { request.send().await.map_err(|error| fault(&error)) }
        });
        let answer = outcome.await.map_err(|failed| self.cancellation(&failed.fault, writes))?;
        self.units.transact.note(answer.consumed_capacity());
        Ok(())
    }

    /// Checks an addition. DynamoDB adds to fractions too, and beyond 64 bits; Almanac counts in integers. No
    /// condition can require one, so it is checked before: only counters are added to, and nothing turns a counter
    /// into a fraction between this check and the write.
    async fn check_add(&self, key: &Key, name: &str, amount: i64) -> Result<()> {
        let only = [name.to_owned(), "expires_at".to_owned()];
        let item =
            self.read(key, Some(&only)).await?.filter(|item| !codec::has_expired(item, self.clock.now()));
        let Some(item) = item else { return Err(Error::conflict(format!("item {key} does not exist"))) };
        check::sum(key, name, item.attributes.get(name), amount).map(drop)
    }

    /// Returns the error of a failed transaction, naming the item at fault.
    fn cancellation(&self, fault: &Fault, writes: &[Write]) -> Error {
        let Some(write) = fault.at.and_then(|at| writes.get(at)) else {
            return match fault.class {
                Class::Unanswered => {
                    fault.error(format_args!("the transaction may or may not have been made"))
                }
                _ => fault.error(&self.client.place),
            };
        };
        let demand = match write {
            Write::Put(_, demand) | Write::Delete(_, demand) | Write::Check(_, demand) => demand,
            Write::Add(..) => &Condition::Exists,
            Write::Update(update) => &update.condition,
        };
        self.refusal(fault, write.key(), demand)
    }
}

/// Classifies a failed transaction. If it was cancelled, every write has a reason of its own.
fn fault(error: &SdkError<TransactWriteItemsError>) -> Fault {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            cancelled_because(cancelled.cancellation_reasons()).unwrap_or_else(|| Fault {
                // Cancelled without a reason: as with any other refusal, other writers may have been in the way.
                class: Class::Throttled,
                ..Fault::of(error)
            })
        }
        _ => Fault::of(error),
    }
}

/// Returns the decisive reason: permanent ones come before temporary ones.
fn cancelled_because(reasons: &[CancellationReason]) -> Option<Fault> {
    let faults = reasons.iter().enumerate().filter_map(|(at, reason)| {
        let code = reason.code().filter(|code| *code != "None")?;
        let class = Class::of_code(code).unwrap_or(Class::Invalid);
        let what = [Some(code), reason.message()].into_iter().flatten().collect::<Vec<_>>().join(": ");
        Some(Fault { at: Some(at), ..Fault::new(class, what) })
    });
    faults.min_by_key(|fault| fault.class.is_passing())
}

fn encode(write: &Write, table: &str, now: Timestamp) -> Result<TransactWriteItem, BuildError> {
    let mut terms = Terms::default();
    let request = TransactWriteItem::builder();
    Ok(match write {
        Write::Put(item, demand) => {
            let condition = condition(&mut terms, demand, now);
            let (names, values) = terms.finish();
            let put = Put::builder()
                .table_name(table)
                .set_item(Some(codec::encode_item(item)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values);
            request.put(put.build()?)
        }
        Write::Delete(key, demand) => {
            let condition = condition(&mut terms, demand, now);
            let (names, values) = terms.finish();
            let delete = Delete::builder()
                .table_name(table)
                .set_key(Some(codec::encode_key(key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values);
            request.delete(delete.build()?)
        }
        Write::Check(key, demand) => request.condition_check(encode_check(terms, table, key, demand, now)?),
        Write::Add(key, name, amount) => {
            let update = Update::new(key.clone(), Condition::Exists).add(name, *amount);
            request.update(encode_update(terms, table, &update, now)?)
        }
        Write::Update(update) => request.update(encode_update(terms, table, update, now)?),
    }
    .build())
}

fn encode_update(
    mut terms: Terms,
    table: &str,
    change: &Update,
    now: Timestamp,
) -> Result<types::Update, BuildError> {
    let demand = Condition::All(vec![Condition::Exists, change.condition.clone()]);
    let condition = condition(&mut terms, &demand, now);
    let changes = changes(&mut terms, change);
    let (names, values) = terms.finish();
    types::Update::builder()
        .table_name(table)
        .set_key(Some(codec::encode_key(&change.key)))
        .update_expression(changes)
        .set_condition_expression(condition)
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .build()
}

fn encode_check(
    mut terms: Terms,
    table: &str,
    key: &Key,
    demand: &Condition,
    now: Timestamp,
) -> Result<ConditionCheck, BuildError> {
    // A check must have a condition; one of these two holds for any item.
    let condition = condition(&mut terms, demand, now).unwrap_or_else(|| {
        let pk = terms.name("PK");
        format!("attribute_exists({pk}) OR attribute_not_exists({pk})")
    });
    let (names, values) = terms.finish();
    ConditionCheck::builder()
        .table_name(table)
        .set_key(Some(codec::encode_key(key)))
        .condition_expression(condition)
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn because(codes: &[&str]) -> Fault {
        let reasons =
            codes.iter().map(|code| CancellationReason::builder().code(*code).message("why").build());
        cancelled_because(&reasons.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn cancellation_names_faulty_write_with_permanent_faults_first() {
        let fault = because(&["None", "TransactionConflict", "ConditionalCheckFailed"]);
        assert_eq!((fault.class, fault.at), (Class::Refused, Some(2)));
        let fault = because(&["None", "TransactionConflict"]);
        assert_eq!(
            (fault.class, fault.at, fault.what.as_str()),
            (Class::Throttled, Some(1), "TransactionConflict: why")
        );
        assert_eq!(because(&["ThrottlingError"]).class, Class::Throttled);
        assert_eq!(because(&["ProvisionedThroughputExceeded"]).class, Class::Throttled);
        assert_eq!(because(&["ValidationError", "TransactionConflict"]).class, Class::Invalid);
        assert_eq!(cancelled_because(&[]), None);
    }

    #[test]
    fn an_add_demands_an_item() {
        let write = Write::Add(Key::new("p", "s"), "n".into(), -3);
        let encoded = encode(&write, "t", Timestamp::default()).unwrap();
        let update = encoded.update().unwrap();
        assert!(update.update_expression().starts_with("ADD #n2 :v"));
        assert!(update.condition_expression().unwrap().starts_with("(attribute_exists(#n0) AND"));
        let write = Write::Check(Key::new("p", "s"), Condition::None);
        assert!(encode(&write, "t", Timestamp::default()).unwrap().condition_check().is_some());
    }
}
