//! `almanac admin table get|query|scan`: shows items of the table.

use clap::{Args, ValueEnum};
use event::Error;
use log::key;
use serde_json::{Map, Value as Json, json};
use table::{Index, Item, Key, KeyRange, Query, Scan};

use crate::{
    config::Config,
    open,
    output::{aligned, print},
};

/// Maximum letters of the attributes of an item in a line for people.
const SHOWN: usize = 100;

/// How items are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ItemFormat {
    /// Aligned, for people; long attributes are cut.
    Table,
    /// Whole, an object a line, for programs.
    Ndjson,
}

/// Along what a query reads.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Along {
    /// By PK, in the order of SK.
    Table,
    /// By GSI1PK, in the order of GSI1SK.
    Gsi1,
    /// By leaderboard, in the order of score.
    Leaderboard,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The partition key, such as sys/worker.
    pk: String,
    /// The sort key; that of an entity is its partition key.
    sk: Option<String>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = ItemFormat::Table)]
    format: ItemFormat,
}

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// The partition key, in the index.
    pk: String,
    /// The least sort key.
    #[arg(long, value_name = "SK")]
    from: Option<String>,
    /// The greatest sort key, which is included.
    #[arg(long, value_name = "SK")]
    to: Option<String>,
    /// What sort keys begin with.
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// Which index to read, or the table itself.
    #[arg(long, value_enum, default_value_t = Along::Table)]
    index: Along,
    /// The most to show.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// The greatest sort key first.
    #[arg(long)]
    backward: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = ItemFormat::Table)]
    format: ItemFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// Only partitions whose keys begin with this.
    #[arg(long, default_value = "")]
    prefix: String,
    /// Only print how many there are.
    #[arg(long, conflicts_with = "limit")]
    count: bool,
    /// The most to show.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = ItemFormat::Table)]
    format: ItemFormat,
}

pub(crate) async fn get(config: &Config, args: &GetArgs) -> anyhow::Result<()> {
    let table = open::to_look(config).await?;
    let key = Key::new(&args.pk, args.sk.as_ref().unwrap_or(&args.pk));
    let missing = || Error::not_found(format!("there is no item {key}"));
    let item = table.get(&key).await?.ok_or_else(missing)?;
    if args.format == ItemFormat::Ndjson {
        println!("{}", Json::Object(object(&item)));
        return Ok(());
    }
    let mut lines = aligned(&["attribute", "value"], &[]);
    for (name, value) in object(&item) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        lines.add_row([name, text]);
    }
    print(&lines);
    Ok(())
}

pub(crate) async fn query(config: &Config, args: QueryArgs) -> anyhow::Result<()> {
    let table = open::to_look(config).await?;
    let index = match args.index {
        Along::Table => Index::Table,
        Along::Gsi1 => Index::Gsi1,
        Along::Leaderboard => Index::Board,
    };
    let is_ranged = args.from.is_some() || args.to.is_some() || args.prefix.is_some();
    if matches!(index, Index::Board) && is_ranged {
        return Err(Error::invalid("leaderboard is read whole: it is ordered by numbers").into());
    }
    let end = char::MAX.to_string();
    let range = match args.prefix {
        Some(prefix) => KeyRange { pk: args.pk, to: format!("{prefix}{end}"), from: prefix },
        None => KeyRange { pk: args.pk, from: args.from.unwrap_or_default(), to: args.to.unwrap_or(end) },
    };
    let query = Query { index, ..Query::table(range).as_stored() };
    let mut query = if args.backward { query.backward() } else { query };
    let mut items = Vec::new();
    let is_more = loop {
        let wanted = args.limit - items.len();
        if wanted == 0 {
            break true;
        }
        let page = table.query(&query.clone().limit(wanted)).await?;
        items.extend(page.items);
        match page.next {
            None => break false,
            next => query.after = next,
        }
    };
    show(&items, is_more, args.format);
    Ok(())
}

pub(crate) async fn scan(config: &Config, args: &ScanArgs) -> anyhow::Result<()> {
    let store = &config.store.value;
    let table = store.engine.open_whole(&store.place, &config.surroundings()).await?;
    let mut scan = Scan { prefix: args.prefix.clone(), keys_only: args.count, after: None };
    let (mut items, mut count) = (Vec::new(), 0);
    loop {
        let page = table.page(&scan).await?;
        count += page.items.len();
        if !args.count {
            items.extend(page.items);
        }
        match page.next {
            Some(next) if args.count || items.len() < args.limit => scan.after = Some(next),
            next => {
                let is_more = next.is_some() || items.len() > args.limit;
                items.truncate(args.limit);
                match args.count {
                    true => println!("{count}"),
                    false => show(&items, is_more, args.format),
                }
                return Ok(());
            }
        }
    }
}

fn show(items: &[Item], is_more: bool, format: ItemFormat) {
    match format {
        ItemFormat::Ndjson => items.iter().for_each(|item| println!("{}", Json::Object(object(item)))),
        ItemFormat::Table => {
            let mut lines = aligned(&["PK", "SK", "attributes"], &[]);
            for item in items {
                let mut rest = object(item);
                rest.retain(|name, _| !["PK", "SK"].contains(&name.as_str()));
                let text = Json::Object(rest).to_string();
                let cut = match text.char_indices().nth(SHOWN) {
                    Some((at, _)) => format!("{} ...", &text[..at]),
                    None => text,
                };
                lines.add_row([item.key.pk.clone(), item.key.sk.clone(), cut]);
            }
            print(&lines);
        }
    }
    if is_more {
        eprintln!("there are more; --limit shows more of them");
    }
}

/// An item as JSON. Sets and bytes are wrapped in an object that names their type.
fn object(item: &Item) -> Map<String, Json> {
    let mut object = Map::new();
    object.insert("PK".to_owned(), item.key.pk.as_str().into());
    object.insert("SK".to_owned(), item.key.sk.as_str().into());
    if key::is_secret(&item.key) {
        object.insert("$secret".to_owned(), "it is shown to nobody".into());
        return object;
    }
    object.extend(item.attributes.iter().map(|(name, value)| (name.clone(), json!(value))));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_render_as_json_without_token_secrets() {
        let item = Item::new(Key::new("p", "s")).with("n", 7).with("data", vec![1, 2, 3]);
        assert_eq!(
            Json::Object(object(&item)),
            json!({ "PK": "p", "SK": "s", "n": 7, "data": { "$bytes": "AQID" } })
        );
        let secret = Item::new(Key::new("token#abc", "token")).with("hash", "deadbeef");
        assert!(!Json::Object(object(&secret)).to_string().contains("deadbeef"));
    }
}
