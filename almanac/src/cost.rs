//! `almanac admin cost`: the size of the items of a workspace, and the price of keeping them on DynamoDB.

use std::collections::BTreeMap;

use catalog::Catalog;
use clap::Args;
use log::key;
use serde_json::json;
use table::{Key, Scan};

use crate::{
    config::Config,
    open,
    output::{ShowFormat, aligned, print, print_json},
};

/// Bytes of a gigabyte, as Amazon bills it.
const GIGABYTE: f64 = 1e9;
/// Bytes that DynamoDB adds to each item that it bills as stored.
const ITEM_OVERHEAD: usize = 100;
/// List prices of a gigabyte in a month by region, without tax, as of November 2025 (aws.amazon.com/dynamodb/pricing/on-demand):
/// storage (0.25, 0.283) and point-in-time recovery (0.20, 0.226). The first is that of unknown regions.
const GIGABYTE_MONTH: [(&str, f64); 2] = [("us-east-1", 0.45), ("eu-west-1", 0.509)];

#[derive(Debug, Args)]
#[command(after_help = "  almanac admin cost -w flights/nyc

All items of the workspace are read (of a table on DynamoDB, all items of the table).")]
pub(crate) struct CostArgs {
    /// The workspace whose items are counted.
    #[arg(long, short)]
    workspace: String,
    /// US dollars for a gigabyte in a month [default: 0.45, as in us-east-1; with `--region eu-west-1` 0.509].
    #[arg(long, value_name = "USD", value_parser = price)]
    gigabyte_month: Option<f64>,
    /// The form of the answer.
    #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
    format: ShowFormat,
}

fn price(text: &str) -> Result<f64, String> {
    let usd = text.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0);
    usd.ok_or_else(|| format!("`{text}` is not a price in US dollars such as {}", of_region(None)))
}

/// List price of a gigabyte in a month.
fn of_region(region: Option<&str>) -> f64 {
    let known = GIGABYTE_MONTH.iter().find(|(name, _)| Some(*name) == region);
    known.unwrap_or(&GIGABYTE_MONTH[0]).1
}

/// Items of one sort.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    items: u64,
    bytes: u64,
}

/// Sort of an item: the kind of a segment's events, or the item's partition in the workspace.
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

pub(crate) async fn command(config: &Config, args: &CostArgs) -> anyhow::Result<()> {
    let id = Catalog::new(open::existing(config).await?).workspace(&args.workspace).await?.id().clone();
    let table = open::whole(config).await?;
    // Ids have one length, so no other workspace begins with this one.
    let mut scan = Scan { prefix: key::workspace_page(&id), keys_only: false, after: None };
    let mut kept = BTreeMap::<String, Kept>::new();
    let mut all = Kept::default();
    loop {
        let page = table.page(&scan).await?;
        for item in page.items {
            for one in [kept.entry(sort(&item.key)).or_default(), &mut all] {
                one.items += 1;
                one.bytes += (item.size() + ITEM_OVERHEAD) as u64;
            }
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => break,
        }
    }
    let gigabyte_month = args.gigabyte_month.unwrap_or_else(|| of_region(config.region.value.as_deref()));
    show(&kept, all, args.format, gigabyte_month);
    Ok(())
}

fn show(kept: &BTreeMap<String, Kept>, all: Kept, format: ShowFormat, gigabyte_month: f64) {
    let price = |one: &Kept| one.bytes as f64 / GIGABYTE * gigabyte_month;
    match format {
        ShowFormat::Json => {
            let document = |name: &str, one: &Kept| json!({"what": name, "items": one.items, "bytes": one.bytes, "usd_a_month": price(one)});
            let lines: Vec<_> = kept.iter().map(|(name, one)| document(name, one)).collect();
            print_json(&json!({"kept": lines, "all": document("all", &all)}));
        }
        ShowFormat::Table => {
            let mut lines = aligned(&["what", "items", "bytes", "a month"], &[1, 2, 3]);
            for (name, one) in kept.iter().map(|(name, one)| (name.as_str(), one)).chain([("all", &all)]) {
                let usd = format!("${:.2}", price(one));
                lines.add_row([name.to_owned(), one.items.to_string(), one.bytes.to_string(), usd]);
            }
            print(&lines);
            println!(
                "\nBytes include the {ITEM_OVERHEAD} that DynamoDB adds to each item; a gigabyte is ${gigabyte_month} a month."
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_those_of_the_region() {
        let prices = [None, Some("us-east-1"), Some("eu-west-1"), Some("ap-south-2")].map(of_region);
        assert_eq!(prices, [0.45, 0.45, 0.509, 0.45]);
    }
}
