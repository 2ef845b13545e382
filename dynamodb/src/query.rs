//! Reading: one item, or a page of them.

use aws_sdk_dynamodb::{
    operation::query::{QueryOutput, builders::QueryFluentBuilder},
    types::ConsumedCapacity,
};
use event::{Error, Result};
use table::{Cursor, Direction, Index, Item, Key, MAX_PAGE_BYTES, Page, Query};

use super::{
    DynamoTable, codec, cursor,
    expression::{Terms, key_condition, not_expired, projection},
    fault::Fault,
    retry::{self, CALL_BUDGET},
    schema::along,
    units::TOLD,
};

impl DynamoTable {
    /// Returns the item at `key` as stored, even if it has expired.
    pub(super) async fn read(&self, key: &Key, only: Option<&[String]>) -> Result<Option<Item>> {
        let mut terms = Terms::default();
        let projection = projection(&mut terms, Index::Table, only);
        let request = self
            .client
            .db
            .get_item()
            .table_name(&self.client.place.table)
            .return_consumed_capacity(TOLD)
            .set_key(Some(codec::encode_key(key)))
            .consistent_read(true)
            .set_projection_expression(projection)
            .set_expression_attribute_names(terms.finish().0);
        let answer = retry::call(CALL_BUDGET, || {
            let request = request.clone();
            async move { request.send().await.map_err(|error| Fault::of(&error)) }
        });
        let answer = answer.await.map_err(|failed| failed.fault.error(&self.client.place))?;
        self.units.get.note(answer.consumed_capacity());
        answer.item.map(codec::decode_item).transpose()
    }

    /// Returns a page of `query`. DynamoDB leaves expired items out only after it has read a page, so a page may come
    /// out short, or even empty; empty ones are passed over here.
    pub(super) async fn page(&self, query: &Query) -> Result<Page> {
        let Some(mut request) = self.request(query)? else { return Ok(Page::default()) };
        let mut read_units = None;
        loop {
            let answer = self.answer(&request).await?;
            if let Some(units) = answer.consumed_capacity().and_then(ConsumedCapacity::capacity_units) {
                *read_units.get_or_insert_default() += units;
            }
            let items = answer.items.unwrap_or_default();
            let last = answer.last_evaluated_key.filter(|last| !last.is_empty());
            if let (true, Some(last)) = (items.is_empty(), &last) {
                request = request.set_exclusive_start_key(Some(last.clone()));
                continue;
            }
            let next = last.map(|last| cursor::write(last, query.index)).transpose()?;
            return Ok(Page { read_units, ..bounded(query, items, next)? });
        }
    }

    /// Returns the request of a page; `None` if it must be empty.
    fn request(&self, query: &Query) -> Result<Option<QueryFluentBuilder>> {
        if query.limit == Some(0) {
            return Err(Error::invalid("a page needs a limit of at least 1"));
        }
        let mut terms = Terms::default();
        let Some(key_condition) = key_condition(&mut terms, query) else { return Ok(None) };
        let filter = not_expired(&mut terms, self.clock.now());
        let projection = projection(&mut terms, query.index, query.attributes.as_deref());
        let start = query.after.as_ref().map(|after| cursor::read(after, query)).transpose()?;
        let (names, values) = terms.finish();
        let request = self
            .client
            .db
            .query()
            .table_name(&self.client.place.table)
            .return_consumed_capacity(TOLD)
            .set_index_name(along(query.index).index.map(str::to_owned))
            // An index cannot be read consistently.
            .consistent_read(query.index == Index::Table)
            .key_condition_expression(key_condition)
            .filter_expression(filter)
            .set_projection_expression(projection)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .scan_index_forward(query.direction == Direction::Forward)
            .set_limit(query.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)))
            .set_exclusive_start_key(start);
        Ok(Some(request))
    }

    async fn answer(&self, request: &QueryFluentBuilder) -> Result<QueryOutput> {
        let answer = retry::call(CALL_BUDGET, || {
            let request = request.clone();
            async move { request.send().await.map_err(|error| Fault::of(&error)) }
        });
        let answer = answer.await.map_err(|failed| failed.fault.error(&self.client.place))?;
        self.units.query.note(answer.consumed_capacity());
        Ok(answer)
    }
}

/// Returns the page of the items read. An emulator may return the item that crosses the bound as well; then it is
/// left to the next page.
fn bounded(query: &Query, read: Vec<codec::Attributes>, next: Option<Cursor>) -> Result<Page> {
    let mut page = Page { items: Vec::with_capacity(read.len()), next, read_units: None };
    let mut bytes = 0;
    for attributes in read {
        let item = codec::decode_item(attributes)?;
        bytes += item.size();
        if let (Some(last), true) = (page.items.last(), bytes > MAX_PAGE_BYTES) {
            page.next = Some(cursor::after(last, query.index)?);
            break;
        }
        page.items.push(item);
    }
    // The sort key of an index was read for the cursor, even if not requested.
    let sort = along(query.index).range;
    if query.attributes.as_ref().is_some_and(|wanted| !wanted.iter().any(|name| name == sort)) {
        page.items.iter_mut().for_each(|item| drop(item.attributes.remove(sort)));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_beyond_size_limit_starts_next_page() {
        let item = |sk: &str| Item::new(Key::new("p", sk)).with("data", vec![0; 300_000]).with("GSI1SK", sk);
        let read = || ["a", "b", "c", "d"].map(|sk| codec::encode_item(&item(sk))).to_vec();
        let query = Query::index(Index::Gsi1, "g").only(&["data"]);
        let page = bounded(&query, read(), None).unwrap();
        assert_eq!(page.items.len(), 3);
        assert!(!page.items[0].attributes.contains_key("GSI1SK"), "it was not asked for");
        assert_eq!(page.next, Some(cursor::after(&item("c"), Index::Gsi1).unwrap()));
        let page = bounded(&Query::index(Index::Gsi1, "g"), read()[..3].to_vec(), None).unwrap();
        assert_eq!((page.items.len(), page.next), (3, None));
        assert!(page.items[0].attributes.contains_key("GSI1SK"));
    }
}
