//! Survey of the columns of predictions from which buckets are made, before evaluations are broken down by them.

use std::sync::Arc;

use event::{Error, Kind, Result};
use fold::evaluation::{By, Survey, Wanted};

use crate::{
    filter::Lanes,
    read::{Filter, Reading, RowBounds},
    work,
};

/// Determines the buckets of the wanted columns, from the predictions of the whole window or of a span of time in it, and the
/// names of columns that no prediction has. The evaluation afterwards must read up to the same heads ([`Reading::heads`]), so
/// that both see the same events. At most `most` values of a column have a bucket each.
pub(crate) async fn survey(
    reading: &Arc<Reading>,
    wanted: Vec<Wanted>,
    span: Option<(i64, i64)>,
    most: usize,
) -> Result<(Vec<By>, Vec<String>)> {
    if wanted.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let columns = wanted.iter().map(|wanted| match wanted {
        Wanted::Texts(column) | Wanted::Bins(column, _) => column.clone(),
    });
    // The UTC days read hold more than the days of another time zone.
    let columns = columns.chain(span.map(|_| "predicted_at".to_owned()));
    let filter = Arc::new(Filter {
        kind: Kind::Predictions,
        columns: Some(columns.collect()),
        release: None,
        bounds: RowBounds::default(),
    });
    let mut survey = Survey::new(wanted).within(span);
    let mut bytes = 0;
    for day in reading.window.days() {
        let mut walk = reading.walk(day, Kind::Predictions)?;
        while let Some(page) = reading.page(&mut walk, None).await? {
            let (taking, filter) = (Arc::clone(reading), Arc::clone(&filter));
            let counting = work::piece(move || {
                for segment in taking.unpack(&filter, &Lanes::default(), page)? {
                    survey
                        .add(&segment.columns)
                        .map_err(|error| Error::corrupt(format!("{day}: {error}")))?;
                }
                Ok::<_, Error>(survey)
            });
            let interrupted = |error| Error::unavailable("reading was interrupted").because(error);
            survey = counting.await.map_err(interrupted)??;
            let after = survey.bytes() as u64;
            match after.checked_sub(bytes) {
                Some(more) => reading.grow(more).await?,
                None => reading.hold.shrink(bytes - after),
            }
            bytes = after;
        }
    }
    reading.hold.shrink(bytes);
    let unseen = survey.unseen().map(str::to_owned).collect();
    Ok((survey.keep(most), unseen))
}
