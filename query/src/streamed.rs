//! Answers that are sent while they are computed: rows are read, encoded and taken by the client concurrently, each
//! step at most one part ahead of the next, or two messages in a format of messages. So an answer of any length takes
//! the same memory.
//!
//! A small answer is computed as a whole, since then its length and all its warnings are known before it is sent.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use event::{Error, ErrorKind, Id, Kind, Result, Timestamp};
use futures::{FutureExt, StreamExt, TryStreamExt, stream::FuturesOrdered};
use log::read_version::ReadVersion;
use polars::prelude::DataFrame;
use tokio::{sync::mpsc, time::Instant};
use tracing::Instrument;

use crate::{
    Answer, Point, Query,
    answer::{Found, Held},
    budget::{Hold, StreamPlace, Wanted as WantedHold, not_whole},
    encode::Encoder,
    explain::Step,
    output::Format,
    packed,
    parts::{self, Part, Parts},
    plan::Plan,
    read::Reading,
    request::{Dataset, Request},
    rollups,
    row_filter::RowFilter,
    work,
};

/// Number of messages made at once, in a format of messages.
const MESSAGES_AT_ONCE: usize = 2;

/// An answer that is computed as a whole or while it is sent.
#[derive(Debug)]
pub enum Made {
    /// Computed as a whole.
    Whole(Box<Answer>),
    /// Computed while it is sent.
    Streamed(Box<Streamed>),
}

/// An item of a stream.
#[derive(Debug)]
pub enum Said {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// The end of a complete answer, which is the last item.
    End(End),
}

/// The end of a streamed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Number of rows.
    pub rows: u64,
    /// Warnings that were unknown when it began.
    pub warnings: Vec<String>,
}

/// An answer that is sent while it is computed. It is complete only if its last item is [`Said::End`]; a stream that
/// ends otherwise has failed.
#[derive(Debug)]
pub struct Streamed {
    /// The read version that it is read from.
    pub read_version: ReadVersion,
    /// The instant that the rows are as of, if a time was requested: that time or the last closed instant, whichever is earlier.
    pub as_of: Option<Timestamp>,
    /// Warnings known so far.
    pub warnings: Vec<String>,
    first: Option<Said>,
    coming: mpsc::Receiver<Result<Said>>,
    hold: Hold,
    /// Dropping it ends the work.
    _wanted: WantedHold,
    _place: StreamPlace,
}

impl Query {
    /// Answers a request in a format: a large answer of events or of joined rows as a stream, any other as a whole.
    ///
    /// # Errors
    /// Errors of [`Query::run`].
    pub async fn answer_as(&self, workspace: &Id, request: &Request, format: Format) -> Result<Made> {
        if request.what.rows_of().is_none() {
            return Ok(Made::Whole(Box::new(self.run(workspace, request).await?)));
        }
        let (turn, hold) = self.budget.enter(Some(workspace)).await?;
        let wanted = hold.wanted();
        let began = Instant::now();
        let row_filter = &request.row_filter;
        hold.stay_whole(row_filter.conditions.is_empty() && row_filter.sample.is_none());
        let found = match self.has_too_many_rows(workspace, request, &hold).await? {
            true => Err(not_whole()),
            false => self.read(workspace, request, &hold).await,
        };
        match found {
            Ok(Found { frame, reading, .. }) => {
                let asked = (reading, request.as_of);
                let held = Held { hold, wanted, turn: None };
                match self.answer(request.what.name(), began, frame, asked, held).await {
                    Err(error) if error.kind() == ErrorKind::TooLarge => {}
                    answer => {
                        return answer.map(|mut answer| {
                            answer.named = request.columns.is_some();
                            answer.held.turn = Some(turn);
                            answer.held.hold.may_grow();
                            Made::Whole(Box::new(answer))
                        });
                    }
                }
            }
            // The rows read are dropped: they were few, and a stream is read up to a read version that is known before.
            Err(error) if error.kind() == ErrorKind::TooLarge => drop((hold, wanted)),
            Err(error) => return Err(error),
        }
        let streamed = self.stream(workspace, request, format, began).await?;
        drop(turn);
        Ok(Made::Streamed(Box::new(streamed)))
    }

    /// Returns true if rollups count too many events in the first days of a window to try its answer as a whole. It is a guess
    /// that saves reading events twice: events not yet in rollups are found by the attempt.
    async fn has_too_many_rows(&self, workspace: &Id, request: &Request, hold: &Hold) -> Result<bool> {
        let Dataset::Events(kind) = request.what else { return Ok(false) };
        let is_of_all = request.row_filter == RowFilter::default() && request.release.is_none();
        // For one day the check saves nothing.
        if !is_of_all || !request.is_of_now() || request.window.from() == request.window.to() {
            return Ok(false);
        }
        let counted = rollups::counted(&*self.table, workspace, request.window, kind).await?;
        Ok(hold.has_no_room_for(counted))
    }

    pub(crate) async fn plan(&self, reading: &Arc<Reading>, request: &Request) -> Result<Plan> {
        self.warn_of_expired_events(reading, request).await?;
        match request.what {
            Dataset::Events(kind) => Plan::of_events(reading, self.wanted(kind, request).await?).await,
            _ => Plan::of_joined(reading, self.wanted(Kind::Predictions, request).await?).await,
        }
    }

    async fn stream(
        &self,
        workspace: &Id,
        request: &Request,
        format: Format,
        began: Instant,
    ) -> Result<Streamed> {
        let (place, hold) = self.budget.enter_stream(workspace).await?;
        let wanted = hold.wanted();
        let make = |reading: Arc<Reading>| async move { self.plan(&reading, request).await }.boxed();
        let (plan, reading) = self.out_of_logs(workspace, &Point::of(request), &hold, make).await?;
        let bytes = Sink::default();
        let encoder = Encoder::begin(format, &plan.no_rows()?, bytes.clone())?;
        let encoder = encoder.of_named(request.columns.is_some());
        let (parts, fixed) = plan.parts(&reading);
        let (read_version, warnings) = reading.read_version();
        let (parts_to, parts_from) = mpsc::channel(1);
        let (to, mut coming) = mpsc::channel(1);
        tokio::spawn(forward(parts, parts_to).in_current_span());
        let encoding = Encoding { encoder, bytes, hold: hold.clone(), rows: 0, waiting: 0, waiting_rows: 0 };
        let (meters, name, said) = (Arc::clone(&self.meters), request.what.name(), warnings.clone());
        let encoding = async move {
            let last = encoding.all(parts_from, &to).await.map(|rows| {
                // A missing number of rows means that nobody takes them any more.
                let rows = rows?;
                meters.answered(name, began.elapsed(), rows as usize);
                let late = fixed.read_version().1.into_iter().filter(|warning| !said.contains(warning));
                Some(Said::End(End { rows, warnings: late.collect() }))
            });
            if let Some(last) = last.transpose() {
                // A failure to send means that nobody waits for it.
                _ = to.send(last).await;
            }
        };
        tokio::spawn(encoding.in_current_span());
        // A failure before the first bytes is an error of the request, not of a stream.
        let first = Some(coming.recv().await.ok_or_else(broken)??);
        let as_of = request.as_of.map(|_| read_version.as_of);
        Ok(Streamed { read_version, as_of, warnings, first, coming, hold, _wanted: wanted, _place: place })
    }
}

fn broken() -> Error {
    Error::unavailable("making the answer was interrupted")
}

/// Reads parts ahead of the encoder, until nobody takes them any more. Behind the last part comes `None`.
async fn forward(mut parts: Parts, to: mpsc::Sender<Result<Option<Part>>>) {
    loop {
        let part = tokio::select! {
            part = parts.try_next() => part,
            () = to.closed() => return,
        };
        let is_last = !matches!(part, Ok(Some(_)));
        if to.send(part).await.is_err() || is_last {
            return;
        }
    }
}

/// Encodes parts into bytes.
struct Encoding {
    encoder: Encoder<Sink>,
    bytes: Sink,
    hold: Hold,
    rows: u64,
    /// Bytes of rows that are not written yet; for messages also their number.
    waiting: u64,
    waiting_rows: u64,
}

impl Encoding {
    /// Sends the bytes of all parts, and returns their number of rows; `None`, if nobody takes them.
    async fn all(
        mut self,
        mut parts: mpsc::Receiver<Result<Option<Part>>>,
        to: &mpsc::Sender<Result<Said>>,
    ) -> Result<Option<u64>> {
        let (mut full, mut coming) = (VecDeque::new(), FuturesOrdered::new());
        let mut is_last = false;
        loop {
            while coming.len() < MESSAGES_AT_ONCE
                && let Some(group) = full.pop_front()
            {
                coming.push_back(self.message(group));
            }
            if is_last && coming.is_empty() {
                break;
            }
            let (bytes, held) = tokio::select! {
                Some(made) = coming.next() => made?,
                part = parts.recv(), if !is_last && coming.len() < MESSAGES_AT_ONCE => match part.ok_or_else(broken)?? {
                    Some(part) if self.encoder.makes_messages() => {
                        full.extend(self.full(part));
                        (self.bytes.take(), 0)
                    }
                    Some(part) => {
                        let bytes;
                        (self, bytes) = self.part(part).await?;
                        (bytes, 0)
                    }
                    None => {
                        is_last = true;
                        continue;
                    }
                },
                () = to.closed() => return Ok(None),
            };
            if !send(&self.hold, to, bytes, held).await? {
                return Ok(None);
            }
        }
        let (rows, hold) = (self.rows, self.hold.clone());
        if let Some(tally) = hold.tally() {
            tally.rows(rows);
        }
        let Self { encoder, bytes, .. } = self;
        let ending = work::piece(move || encoder.end().map(|()| bytes.take()));
        let bytes = ending.await.map_err(parts::interrupted)??;
        Ok(send(&hold, to, bytes, 0).await?.then_some(rows))
    }

    /// Returns the groups that a part fills, and the bytes counted for their rows.
    fn full(&mut self, part: Part) -> Vec<(Vec<DataFrame>, u64)> {
        let rows = part.frame.height() as u64;
        self.rows += rows;
        self.waiting += part.bytes;
        self.waiting_rows += rows;
        let groups = self.encoder.messages(part.frame).into_iter().map(|group| {
            let rows = group.iter().map(DataFrame::height).sum::<usize>() as u64;
            let held =
                (u128::from(self.waiting) * u128::from(rows) / u128::from(self.waiting_rows.max(1))) as u64;
            self.waiting -= held;
            self.waiting_rows -= rows;
            (group, held)
        });
        groups.collect()
    }

    /// Encodes a group as a message; its rows count as `held` bytes until it is sent.
    fn message(
        &self,
        (group, held): (Vec<DataFrame>, u64),
    ) -> impl Future<Output = Result<(Vec<u8>, u64)>> + use<> {
        let hold = self.hold.clone();
        let making = work::piece(move || {
            hold.check()?;
            let _timed = hold.step(Step::Write);
            Ok((packed::message(&group)?, held))
        });
        async move { making.await.map_err(parts::interrupted)? }
    }

    /// Writes a part, on a thread for long work.
    async fn part(mut self, part: Part) -> Result<(Self, Vec<u8>)> {
        let encoding = work::piece(move || {
            self.hold.check()?;
            let _timed = self.hold.step(Step::Write);
            self.rows += part.frame.height() as u64;
            self.waiting += part.bytes;
            self.encoder.rows(part.frame)?;
            let bytes = self.bytes.take();
            if !bytes.is_empty() || !self.encoder.keeps_rows() {
                self.hold.shrink(std::mem::take(&mut self.waiting));
            }
            Ok((self, bytes))
        });
        encoding.await.map_err(parts::interrupted)?
    }
}

/// Sends bytes, which count instead of the `held` bytes of their rows; returns true if they were taken.
async fn send(hold: &Hold, to: &mpsc::Sender<Result<Said>>, bytes: Vec<u8>, held: u64) -> Result<bool> {
    match (bytes.len() as u64).checked_sub(held) {
        Some(more) => hold.grow(more).await.map_err(|full| hold.refusal(full))?,
        None => hold.shrink(held - bytes.len() as u64),
    }
    Ok(bytes.is_empty() || to.send(Ok(Said::Bytes(bytes))).await.is_ok())
}

/// The bytes written and not taken yet.
#[derive(Clone, Debug, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Streamed {
    /// Returns the next item; an error, if the answer cannot be completed. Must not be called after the end.
    pub async fn next(&mut self) -> Result<Said> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Said>> {
        let said = match self.first.take() {
            Some(said) => said,
            None => ready!(self.coming.poll_recv(context)).ok_or_else(broken)??,
        };
        if let Said::Bytes(bytes) = &said {
            self.hold.shrink(bytes.len() as u64);
        }
        Poll::Ready(Ok(said))
    }
}

#[cfg(test)]
mod tests {
    use polars::prelude::DataFrame;

    use super::*;
    use crate::{
        Bounds,
        budget::Budget,
        frame::{floats, frame, texts},
    };

    const ROWS: usize = 170_000;

    fn rows() -> DataFrame {
        let numbers = (0..ROWS).map(|row| Some(row as f64 / 7.0));
        let columns = vec![texts("key", std::iter::repeat_n(Some("a"), ROWS)), floats("score", numbers)];
        frame(ROWS, columns).unwrap()
    }

    /// A part of many messages is encoded while no client takes any: they are made two at a time and counted, and equal the bytes
    /// of the rows written as a whole.
    #[tokio::test]
    async fn streamed_messages_are_encoded_lazily_and_counted() {
        let budget = Budget::new(Bounds::default());
        let (_place, hold) = budget.enter_stream(&event::Id::new(event::Timestamp::default())).await.unwrap();
        let (all, bytes) = (rows(), Sink::default());
        let held = all.estimated_size() as u64;
        hold.grow(held).await.unwrap();
        let encoder = Encoder::begin(Format::IpcStreamLz4, &all.clear(), bytes.clone()).unwrap();
        let encoding = Encoding { encoder, bytes, hold: hold.clone(), rows: 0, waiting: 0, waiting_rows: 0 };
        let (parts_to, parts) = mpsc::channel(1);
        let (to, mut coming) = mpsc::channel(1);
        let part = Part { frame: all.clone(), bytes: held, begin: None };
        tokio::spawn(async move {
            for part in [Some(part), None] {
                parts_to.send(Ok(part)).await.unwrap();
            }
        });
        let work = tokio::spawn(async move { encoding.all(parts, &to).await });
        let mut streamed = Vec::new();
        let mut counted = Vec::new();
        while let Some(said) = coming.recv().await {
            let Said::Bytes(bytes) = said.unwrap() else { panic!("the end is said elsewhere") };
            counted.push(budget.held());
            hold.shrink(bytes.len() as u64);
            streamed.extend(bytes);
        }
        assert_eq!(work.await.unwrap().unwrap(), Some(ROWS as u64));
        let mut whole = Vec::new();
        Format::IpcStreamLz4.write(&mut all.clone(), &mut whole).unwrap();
        assert!(streamed == whole);
        assert!(counted.len() > 10, "{}", counted.len());
        // A message that is not sent yet counts as its rows.
        assert!(counted[1] > held * 7 / 10, "{counted:?} of {held}");
        assert!(counted.is_sorted_by(|one, other| one >= other || other - one < held / 10), "{counted:?}");
    }
}
