//! Cost of the appends on DynamoDB, beside an item per event. Counted above SQLite, while the services run in this
//! process and get the batches of the other benchmarks.

use std::{sync::Arc, time::Duration};

use almanac::up::Options;
use anyhow::Context as _;
use event::{Clock, Timestamp};
use log::store::Store;
use projector::PAID_REST;
use table::{Item, Key, Table, sqlite::SqliteTable};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    context::{CONNECTIONS, Context},
    counting::{CountingTable, Units},
    data::{BRANCHES, Data, LABELS, RELEASES},
    line::{Figures, Line},
    load::{self, Plan, Request},
    samples::Samples,
    service,
    uploads::{self, Form},
};

/// Maximum number of predictions counted.
const MAX_ROWS: usize = 1_000_000;

/// Number of single events; `ALONE_EVERY` is their interval.
const ALONE: usize = 4_000;
const ALONE_EVERY: Duration = Duration::from_millis(10);

/// Requests with their timing.
struct Sent {
    requests: Vec<Request>,
    every: Option<Duration>,
    /// Rest between folds of days that grow a little.
    rest: Duration,
}

/// Serves on a counting table, sends the predictions, and returns the units of appending and of projecting, and the
/// number of rows.
async fn count(context: &Context, sent: Sent) -> anyhow::Result<(Units, usize)> {
    let folder = context.place.fresh("units")?;
    let inner: Arc<dyn Table> = Arc::new(SqliteTable::open(&folder.join("almanac.db"), Clock::system())?);
    let table = Arc::new(CountingTable::new(inner));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { _ = stopped.await };
    let options = Options { rest: sent.rest, ..Options::new(Clock::system()) };
    let served = Store::over(Arc::clone(&table) as Arc<dyn Table>);
    let serving = tokio::spawn(almanac::up::run_as(listener, served, options, shutdown));
    service::register(address).await?;
    let before = table.counted();
    let rows: usize = sent.requests.iter().map(|request| request.rows).sum();
    let plan = Plan { address, connections: CONNECTIONS, every: sent.every };
    load::run(plan, load::ready(sent.requests)).await?;
    let (from, to) = (context.data.day(0).to_string(), context.data.last_day().to_string());
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

/// Returns the units of a thousand predictions as an item each, keyed by day and key.
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
    let per_thousand = |units: u64, rows: usize| Samples::new(vec![units as f64 / rows as f64 * 1e3]);
    let line = |id, work: &str, almanac, (peer, figure): (&str, Samples)| {
        let figures = Ok(Figures { almanac, peer: Some(figure) });
        Line { id, work: work.to_owned(), unit: "WRU", peer: Some(peer.to_owned()), figures }
    };
    let counted = |sent| context.runtime.block_on(count(context, sent));
    let requests = uploads::predictions(&context.data, Form::Lines, MAX_ROWS)?;
    let (units, rows) = counted(Sent { requests, every: None, rest: PAID_REST })?;
    let beside = || ("an item per event", Samples::new(vec![item_per_event(&context.data)]));
    let appended = per_thousand(units.segments + units.others, rows);
    let mut lines = vec![
        line(
            "units/items",
            "1,000 predictions, all that is written",
            per_thousand(units.all(), rows),
            beside(),
        ),
        line("units/appended", "the same without rollups and evaluations", appended, beside()),
    ];
    let alone = |rest| -> anyhow::Result<Samples> {
        let requests = uploads::singles(&context.data, ALONE)?;
        let (units, rows) = counted(Sent { requests, every: Some(ALONE_EVERY), rest })?;
        Ok(per_thousand(units.all(), rows))
    };
    let (rested, at_once) = (alone(PAID_REST)?, alone(Duration::ZERO)?);
    let work = "the same where predictions come alone, 100 a second";
    lines.push(line("units/alone", work, rested, ("Almanac, each folded at once", at_once)));
    Ok(lines)
}
