//! `almanac cost`: what a load costs a month on DynamoDB, or what a workspace costs to keep.
//!
//! What a request costs is counted (`sample`): some requests go through the code that services run, above which stands a
//! table that counts units (`counted`). `model` makes a month of it, and `prices` says what AWS takes. `measured` reads what is there.

mod counted;
mod measured;
mod model;
mod prices;
mod sample;

use std::path::PathBuf;

use clap::Args;
use event::Error;
use serde_json::{Value, json};

use self::{
    model::{Load, Month},
    prices::Prices,
    sample::{BASE_COLUMNS, Sample},
};
use crate::{
    config::Config,
    shown::{ShowFormat, aligned, print, print_json},
};

/// The bytes of a gigabyte, as Amazon bills it.
const GIGABYTE: f64 = 1e9;
/// The most columns of a prediction.
const MAX_COLUMNS: usize = 500;
/// The most predictions a day: ten million a minute are 14.4 billion.
const MAX_PREDICTIONS: f64 = 1e12;

#[derive(Debug, Args)]
#[command(after_help = "\
  almanac cost --predictions-per-day 10M --columns 20 --retention 365
  almanac cost --measured -w flights/nyc

A load is what comes; --region and --prices say by which prices. The last line says what was assumed.")]
pub(crate) struct CostArgs {
    /// How many predictions come a day, such as 50000, 10M or 1.5G.
    #[arg(long, value_name = "NUMBER", value_parser = quantity, required_unless_present = "measured")]
    predictions_per_day: Option<f64>,
    /// How many columns a prediction has; key, time, release, score and label are the first five, all more are features.
    #[arg(long, value_name = "NUMBER", default_value_t = BASE_COLUMNS)]
    columns: usize,
    /// For how many days events are kept.
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    retention: u32,
    /// How many outcomes come for a prediction.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    outcomes: f64,
    /// How many rows a request has.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    rows: usize,
    /// Requests have idempotency keys.
    #[arg(long)]
    idempotency_keys: bool,
    /// Count what a workspace takes now, by a read of all of its items (of a table on DynamoDB, of all items of the table).
    #[arg(long, requires = "workspace", conflicts_with = "predictions_per_day")]
    measured: bool,
    /// The workspace that is counted.
    #[arg(long, short, requires = "measured")]
    workspace: Option<String>,
    /// A file of TOML with prices in US dollars, such as `write_million = 0.7`; those that it lacks are list prices.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
    format: ShowFormat,
}

/// A number, which may end with k, M or G.
fn quantity(text: &str) -> Result<f64, String> {
    let (number, times) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(number) if text.ends_with('k') => (number, 1e3),
        Some(number) if text.ends_with('M') => (number, 1e6),
        Some(number) => (number, 1e9),
        None => (text, 1.0),
    };
    let number: Option<f64> = number.parse().ok().map(|number: f64| number * times);
    number.filter(|number| (1.0..=MAX_PREDICTIONS).contains(number)).ok_or_else(|| {
        format!("`{text}` is not a number of predictions such as 50000 or 10M, from 1 to 1000G")
    })
}

impl CostArgs {
    /// The load, if it is one.
    fn load(&self) -> event::Result<Load> {
        let within = |name: &str, is_within: bool, bounds: &str| {
            let message = || Error::invalid(format!("--{name} is {bounds}"));
            if is_within { Ok(()) } else { Err(message()) }
        };
        within(
            "columns",
            (BASE_COLUMNS..=MAX_COLUMNS).contains(&self.columns),
            &format!("{BASE_COLUMNS} to {MAX_COLUMNS}"),
        )?;
        within("retention", self.retention > 0, "at least 1 day")?;
        within("outcomes", (0.0..=10.0).contains(&self.outcomes), "0 to 10 a prediction")?;
        within(
            "rows",
            (1..=ingest::limits::MAX_BATCH_ROWS).contains(&self.rows),
            &format!("1 to {}", ingest::limits::MAX_BATCH_ROWS),
        )?;
        Ok(Load {
            predictions: self.predictions_per_day.unwrap_or_default(),
            outcomes: self.outcomes,
            columns: self.columns,
            rows: self.rows as f64,
            retention: f64::from(self.retention),
        })
    }
}

pub(crate) async fn command(config: &Config, args: &CostArgs) -> anyhow::Result<()> {
    let prices = Prices::of(config.region.value.as_deref(), args.prices.as_deref())?;
    if let Some(workspace) = &args.workspace {
        return measured::show(config, workspace, &prices, args.format).await;
    }
    let load = args.load()?;
    let sample = sample::count(args.columns, args.rows, args.idempotency_keys).await?;
    let months = [model::packed(&load, &sample), model::item_per_event(&load, &sample)];
    match args.format {
        ShowFormat::Json => print_json(&document(&load, &sample, &months, &prices)),
        ShowFormat::Table => print_table(&sample, &months, &prices),
    }
    Ok(())
}

/// Dollars, as people write them.
fn usd(amount: f64) -> String {
    format!("${amount:.2}")
}

fn total(month: &Month, prices: &Prices) -> f64 {
    month.bill(prices).iter().map(|line| line.usd).sum()
}

fn print_table(sample: &Sample, months: &[Month; 2], prices: &Prices) {
    let mut lines = aligned(&["a month", "unit", "packed", "", "an item per event", ""], &[2, 3, 4, 5]);
    let [packed, each] = months.map(|month| month.bill(prices));
    for (packed, each) in packed.iter().zip(&each) {
        let quantity = |line: &model::Line| format!("{:.0}", line.quantity);
        let [first, second] = [packed, each].map(|line| [quantity(line), usd(line.usd)]);
        let unit = packed.unit.to_owned();
        lines.add_row([[packed.what.to_owned(), unit], first, second].concat());
    }
    let [packed, each] = months.map(|month| usd(total(&month, prices)));
    lines.add_row(["all", "", "", &packed, "", &each]);
    print(&lines);
    println!(
        "\nIn US dollars, {}. Units of requests of {} rows are counted, on a file in the temporary folder. Assumed: outcomes come on the \
         day of their predictions; evaluations read 20 MB/s; four shards of the stream; three tasks of Fargate, more with the load; \
         storage as it is once the retention is over. An item per event has no rollups here, is \
         judged by the same schedule, and expires for nothing.",
        prices.of, sample.rows
    );
}

fn document(load: &Load, sample: &Sample, months: &[Month; 2], prices: &Prices) -> Value {
    let bill = |month: &Month| -> Value {
        let lines = month.bill(prices).into_iter().map(
            |line| json!({"what": line.what, "unit": line.unit, "quantity": line.quantity, "usd": line.usd}),
        );
        json!({"lines": lines.collect::<Vec<_>>(), "usd": total(month, prices)})
    };
    let units = |of: &counted::Units| json!({"written": of.written, "read": of.read});
    let named: serde_json::Map<String, Value> =
        prices.named().map(|(name, usd)| (name.to_owned(), usd.into())).collect();
    json!({
        "load": {
            "predictions_per_day": load.predictions, "outcomes": load.outcomes, "columns": load.columns,
            "rows": load.rows, "retention": load.retention,
        },
        "counted": {
            "rows": sample.rows, "predictions": units(&sample.predictions), "outcomes": units(&sample.outcomes),
            "fold": units(&sample.fold), "sketch": units(&sample.sketch), "evaluation": units(&sample.evaluation),
            "segment_bytes": sample.predictions_packed.bytes + sample.outcomes_packed.bytes,
        },
        "packed": bill(&months[0]),
        "item_per_event": bill(&months[1]),
        "prices": {"of": prices.of, "usd": named},
    })
}
