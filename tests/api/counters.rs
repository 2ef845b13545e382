//! Counters: free ones, and the counts of events.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use catalog::{
    Catalog,
    counts::{Kinds, MonthCounts, counts_item},
};
use event::Timestamp;
use log::key::{self, Counted};
use table::{Call, Condition, Item, Key, Layer, Table};
use tests::{
    on_both_engines,
    world::{World, at, cost},
};

on_both_engines!(
    World::on:
    free_counters_belong_to_any_entity,
    counter_change_is_recognized_by_key_or_transaction,
    workspace_page_size_is_independent_of_counters,
);

fn now() -> Timestamp {
    at("2026-06-10T00:00:00Z")
}

/// Access pattern A4.
async fn free_counters_belong_to_any_entity(world: World) {
    let catalog = &world.catalog;
    let at = world.workspace().await;
    let churn = world.model(&at, "churn", now()).await;
    for of in [&at, &churn] {
        assert_eq!(catalog.counter(of, "example").await.unwrap(), 0);
        assert_eq!(catalog.count(of, "example", 1, None).await.unwrap(), 1);
        let (two, reads) = world.reads(catalog.count(of, "example", 1, Some("k"))).await;
        assert_eq!((two.unwrap(), cost(reads)), (2, (2, 0)), "the entity and the counter");
        assert_eq!(catalog.count(of, "example", 1, Some("k")).await.unwrap(), 2, "a retry");
        assert_eq!(catalog.count(of, "example", -5, None).await.unwrap(), -3);
        catalog.count(of, "other", 7, None).await.unwrap();
        let (value, reads) = world.reads(catalog.counter(of, "example")).await;
        assert_eq!((value.unwrap(), cost(reads)), (-3, (1, 0)));
        let (all, reads) = world.reads(catalog.counters(of)).await;
        assert_eq!((all.unwrap().len(), cost(reads)), (2, (0, 1)));
    }
}

/// A table that counts the puts of free counters, which an engine may not know again when their answers are lost.
#[derive(Debug)]
struct Puts {
    inner: Arc<dyn Table>,
    seen: AtomicUsize,
}

impl Layer for Puts {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Call<'_>) -> event::Result<()> {
        if let Call::Put(item) = call
            && key::parse_free_counter(&item.key.sk).is_some()
        {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

async fn counter_change_is_recognized_by_key_or_transaction(world: World) {
    let at = world.workspace().await;
    let puts = Arc::new(Puts { inner: world.table(), seen: AtomicUsize::new(0) });
    let catalog = Catalog::new(Arc::clone(&puts) as _);
    for (known_by, seen) in [(None, 0), (Some("k"), 1), (None, 1)] {
        catalog.count(&at, "example", 1, known_by).await.unwrap();
        assert_eq!(puts.seen.load(Ordering::Relaxed), seen, "{known_by:?}");
    }
    assert_eq!(catalog.counter(&at, "example").await.unwrap(), 3);
}

/// Counts of a day, as a counter holds them.
fn counter(key: Key, day: &str, predictions: u64) -> Item {
    let kinds = Kinds::from([("predictions".to_owned(), predictions)]);
    counts_item(key, &MonthCounts::from([(day.to_owned(), kinds)])).with("ver", 1)
}

/// Access pattern B1.
async fn workspace_page_size_is_independent_of_counters(world: World) {
    let workspace = world.workspace().await;
    let (id, table) = (workspace.id(), world.table());
    let read = async || {
        let (page, reads) = world.reads(world.catalog.page(id)).await;
        page.unwrap();
        (cost(reads), reads.items)
    };
    let before = read().await;
    assert_eq!(before.0, (0, 1));
    let month = |number: usize| format!("{}-{:02}", 2024 + number / 12, number % 12 + 1);
    for number in 0..24 {
        for release in 0..10 {
            let key = key::counter(id, &Counted::Release(format!("v{release}")), &month(number));
            table.put(counter(key, &format!("{}-01", month(number)), 1), Condition::None).await.unwrap();
        }
    }
    assert_eq!(read().await, before, "not an item more");
    // Counts are read by months when they are asked for.
    let v3 = Counted::Release("v3".into());
    let (counts, reads) = world.reads(world.catalog.counts(id, &v3, ("2024-03", "2024-08"))).await;
    assert_eq!((counts.unwrap()["predictions"], reads.items, reads.gets), (6, 6, 0));
    let page = world.catalog.page_with_counts(id).await.unwrap();
    assert_eq!(page.counts_of(&v3).unwrap()["predictions"], 24);
}
