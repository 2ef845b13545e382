//! What a workspace costs to keep: its items, counted by a read of all of them.

use std::collections::BTreeMap;

use catalog::Catalog;
use log::key;
use serde_json::json;
use table::{Key, Scan};

use super::{
    GIGABYTE,
    counted::ITEM_OVERHEAD,
    prices::{Paid, Prices},
    usd,
};
use crate::{
    config::Config,
    open,
    shown::{ShowFormat, aligned, print},
};

/// Items of one sort.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    items: u64,
    bytes: u64,
}

/// The sort of an item: the kind of events of a segment, or in which partition of the workspace it stands.
fn sort(key: &Key) -> String {
    if let Some((log, _)) = key::parse_segment(key) {
        return format!("segments of {}", log.kind.name());
    }
    if key::parse_projection(key).is_ok() {
        return "projections".to_owned();
    }
    // `w#<id>/batch/3f` and `w#<id>/rollup/v1` are of the sorts `batch` and `rollup`; `w#<id>` itself has the entities.
    key.pk.split('/').nth(1).unwrap_or("catalog").to_owned()
}

/// Reads all items of a workspace and says what they take.
///
/// # Errors
/// Those of the table.
pub(super) async fn show(
    config: &Config,
    workspace: &str,
    prices: &Prices,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let id = Catalog::new(open::existing(config).await?).workspace(workspace).await?.id().clone();
    let table = open::whole(config).await?;
    let own = key::workspace_page(&id);
    let mut scan = Scan { prefix: own.clone(), keys_only: false, after: None };
    let mut kept = BTreeMap::<String, Kept>::new();
    loop {
        let page = table.page(&scan).await?;
        // Ids have one length, so no other workspace begins with this one.
        for item in page.items {
            let one = kept.entry(sort(&item.key)).or_default();
            one.items += 1;
            one.bytes += (item.size() + ITEM_OVERHEAD) as u64;
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => break,
        }
    }
    print_kept(&kept, prices, format);
    Ok(())
}

fn print_kept(kept: &BTreeMap<String, Kept>, prices: &Prices, format: ShowFormat) {
    let gigabyte = prices.usd(Paid::Storage) + prices.usd(Paid::Recovery);
    let price = |one: &Kept| one.bytes as f64 / GIGABYTE * gigabyte;
    let all = kept.values().fold(Kept::default(), |all, one| Kept {
        items: all.items + one.items,
        bytes: all.bytes + one.bytes,
    });
    let document = |name: &str, one: &Kept| json!({"what": name, "items": one.items, "bytes": one.bytes, "usd_a_month": price(one)});
    match format {
        ShowFormat::Json => {
            let lines: Vec<_> = kept.iter().map(|(name, one)| document(name, one)).collect();
            let document = json!({"kept": lines, "all": document("all", &all), "prices": prices.of});
            println!("{document:#}");
        }
        ShowFormat::Table => {
            let mut lines = aligned(&["what", "items", "bytes", "a month"], &[1, 2, 3]);
            let all = [("all".to_owned(), all)];
            for (name, one) in kept.iter().chain(all.iter().map(|(name, one)| (name, one))) {
                lines.add_row([name.clone(), one.items.to_string(), one.bytes.to_string(), usd(price(one))]);
            }
            print(&lines);
            println!(
                "\nCounted by a read of all items of the workspace, with the {ITEM_OVERHEAD} bytes that DynamoDB adds to each; a month of \
                 storage and of point-in-time recovery by {}.",
                prices.of
            );
        }
    }
}
