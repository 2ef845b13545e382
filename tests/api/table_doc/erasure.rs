//! Stored form of an erasure, and the digests of its keys.

use std::sync::Arc;

use catalog::Catalog;
use event::Id;
use log::key;
use table::Table;

use super::{Ids, now, section};

/// Section about erasures.
pub(super) async fn page(table: &Arc<dyn Table>, ids: &mut Ids, catalog: &Catalog, workspace: &Id) -> String {
    let keys = ["loan-17".to_owned()];
    let erasure = catalog.begin_erasure(workspace, (&keys, true), "letter 9 of 2026", now()).await.unwrap();
    let mut page = String::new();
    for (title, key) in [
        ("How many keys were erased, and by what they are known", key::erased(workspace)),
        ("A page of their digests", key::erased_page(workspace, 0)),
        ("An erasure, with values, that goes on", key::erasure(workspace, &erasure.id)),
    ] {
        page += &section(table, ids, title, key).await;
    }
    page
}
