//! The catalog with the clock by which entities are created and changed.

use std::sync::Arc;

use event::Clock;
use table::Table;

use crate::Catalog;

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
