//! Survey of the columns of a day's predictions that determine dimensions, before the day is judged.

use event::{Kind, Result};
use fold::evaluation::Survey;
use log::{
    segment_item::{DATA, Segment},
    walk::Admitted,
};

use crate::{Failure, Reading, Unreadable, caught, held::corrupt, unpacking};

/// Adds all predictions of the day to a survey.
pub(crate) async fn surveyed(reading: &dyn Reading, mut survey: Survey) -> Result<Survey, Failure> {
    let mut walk = reading.walk(Kind::Predictions, None)?;
    loop {
        let page = walk.next(reading.table(), None).await;
        reading.note(walk.notes());
        let Some(page) = page.map_err(|error| reading.failed(error))? else { break };
        let bytes = page.iter().filter_map(|segment| segment.item.bytes(DATA).ok()).map(<[u8]>::len).sum();
        reading.unpacks(bytes);
        let before = survey.bytes();
        let taken = unpacking(bytes, move || {
            let unreadable = take(&mut survey, page);
            (survey, unreadable)
        });
        let unreadable;
        (survey, unreadable) = taken.await?;
        for segment in unreadable {
            if !reading.leaves_out(&segment) {
                return Err(Failure::Stopped(segment));
            }
        }
        match survey.bytes() {
            after if after > before => reading.grow((after - before) as u64).await?,
            after => reading.shrink((before - after) as u64),
        }
        reading.check()?;
    }
    reading.shrink(survey.bytes() as u64);
    Ok(survey)
}

/// Takes the readable segments, and returns the rest.
fn take(survey: &mut Survey, page: Vec<Admitted>) -> Vec<Unreadable> {
    let mut unreadable = Vec::new();
    for Admitted { log, seq, item } in page {
        let taken = caught(|| {
            let columns = Segment::from_item(item)?.unpack(|name| survey.needs(name))?;
            survey.add(&columns).map_err(corrupt)
        });
        if let Err((reason, has_panicked)) = taken {
            unreadable.push(Unreadable { log, seq, reason, has_panicked });
        }
    }
    unreadable
}
