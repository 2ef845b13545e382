//! The catalog service: the way in from outside to [`store::catalog`].
//!
//! What the catalog is, its entities, their keys and its transactions, lives in the store, because every
//! service reads it. Here is what people and programs ask of it over [`http`].

pub mod http;
pub mod json;
pub mod new;

use std::sync::Arc;

use store::{Clock, Table, catalog::Catalog};

/// The catalog, and the clock by which entities are created and changed.
#[derive(Debug)]
pub struct Service {
    catalog: Catalog,
    clock: Clock,
}

impl Service {
    /// A service on `table`.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self { catalog: Catalog::new(table), clock }
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}
