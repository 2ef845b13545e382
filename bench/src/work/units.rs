//! What the appends would cost on DynamoDB, beside an item per event. Counted above SQLite, while
//! the services run in this process and get the same batches as anywhere else here.

use std::sync::Arc;

use anyhow::Context as _;
use event::{Clock, Timestamp};
use table::{Item, Key, Table, sqlite::SqliteTable};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    context::{CONNECTIONS, Context},
    counting::{CountingTable, Units},
    data::{BRANCHES, Data, LABELS, RELEASES},
    line::{Figures, Line},
    load::{self, Plan},
    samples::Samples,
    service,
    uploads::{self, Form},
};

/// The most predictions that are counted.
const MAX_ROWS: usize = 1_000_000;

/// Serves on a table that counts, sends the predictions, and returns the units of appending and of
/// projecting, and the rows.
async fn count(context: &Context) -> anyhow::Result<(Units, usize)> {
    let folder = context.place.fresh("units")?;
    let inner: Arc<dyn Table> = Arc::new(SqliteTable::open(&folder.join("almanac.db"), Clock::system())?);
    let table = Arc::new(CountingTable::new(inner));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { _ = stopped.await };
    let serving = tokio::spawn(almanac::up::run(
        listener,
        Arc::clone(&table) as Arc<dyn Table>,
        Clock::system(),
        shutdown,
    ));
    service::register(address).await?;
    let before = table.counted();
    let requests = uploads::predictions(&context.data, Form::Lines, MAX_ROWS)?;
    let rows: usize = requests.iter().map(|request| request.rows).sum();
    let plan = Plan { address, connections: CONNECTIONS, every: None };
    load::run(plan, load::ready(requests)).await?;
    let (from, to) = (context.data.day(0).to_string(), context.data.day(crate::data::DAYS - 1).to_string());
    service::projected(address, (&from, &to), rows as u64, 0).await?;
    _ = stop.send(());
    serving.await.context("the services panicked")??;
    let after = table.counted();
    let units = Units {
        segments: after.segments - before.segments,
        projections: after.projections - before.projections,
        others: after.others - before.others,
    };
    Ok((units, rows))
}

/// The units of a thousand predictions as an item each, keyed by day and key.
fn item_per_event(data: &Data) -> f64 {
    let rows = data.predictions(0, 0);
    let cost = |row: &crate::data::Prediction| {
        let key = String::from_utf8_lossy(&row.key).into_owned();
        let at = Timestamp::from_micros(row.predicted_at).unwrap_or_default().to_string();
        let item = Item::new(Key::new(data.day(0).to_string(), format!("{key}/{at}")))
            .with("release", RELEASES[row.release])
            .with("score", row.score.to_string())
            .with("label", LABELS[row.label()])
            .with("branch", BRANCHES[row.branch]);
        table::units::write_units(item.size())
    };
    rows.iter().map(cost).sum::<u64>() as f64 / rows.len() as f64 * 1e3
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let (units, rows) = context.runtime.block_on(count(context))?;
    let per_thousand = |units: u64| Samples::new(vec![units as f64 / rows as f64 * 1e3]);
    let line = |id, work: &str, units: u64| {
        let peer = Some(Samples::new(vec![item_per_event(&context.data)]));
        let figures = Ok(Figures { almanac: per_thousand(units), peer });
        Line { id, work: work.to_owned(), unit: "WRU", peer: Some("an item per event".to_owned()), figures }
    };
    let appended = units.segments + units.others;
    Ok(vec![
        line("units/items", "DynamoDB write units for 1,000 predictions, all that is written", units.all()),
        line("units/appended", "the same without rollups and evaluations", appended),
    ])
}
