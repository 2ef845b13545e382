//! Reading the body of an append: streamed, bounded in size and in time.
//!
//! A large body asks for a slot when its first part is there, and is parsed in a stream while it has one. When the client keeps
//! it waiting, it gives the slot back and goes on without parsing: received bytes are held, until the body is whole or there is
//! no more room for it, and then it asks for a slot again.
//!
//! A small body is read at once on the thread that serves, unless it decodes to much: then it is a large one.

use std::{mem, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, HeaderName, StatusCode, header},
};
use event::{Id, Kind, Timestamp};
use http_body_util::BodyExt;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use web::Problem;

use super::busy;
use crate::{
    admission::{Pass, Size},
    batch::{Batch, Refused},
    format::{BodyReader, Encoding, Format},
    limits::MAX_BODY_BYTES,
    service::Ingest,
};

/// Maximum bytes of a small body, which is read whole and parsed at once.
const SMALL_BODY_BYTES: u64 = 64 * 1024;

/// Maximum memory of the rows of a small body. One of a few KiB can have 100,000 rows of many columns.
const SMALL_ROWS_BYTES: usize = 1024 * 1024;

/// Number of bytes of a large body parsed at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// Total time for which a slot is kept while the client is waited for.
const PATIENCE: Duration = Duration::from_millis(250);

/// Maximum pause of a client within a body.
const PAUSE: Duration = Duration::from_secs(10);

/// Format, encoding and length of a body, from its headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    format: Format,
    encoding: Encoding,
    length: Option<u64>,
}

impl Form {
    /// Reads the headers.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let text = |name: HeaderName| match headers.get(name).map(|value| value.to_str()) {
            Some(Ok(text)) => text.trim().to_ascii_lowercase(),
            Some(Err(_)) => "?".into(),
            None => String::new(),
        };
        let unknown = |detail: String| Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
        let encoding = match text(header::CONTENT_ENCODING).as_str() {
            "" => Encoding::Identity,
            token => Encoding::from_token(token).ok_or_else(|| {
                unknown(
                    "the content encoding is none of identity, gzip, zstd; send the body in one of them"
                        .into(),
                )
            })?,
        };
        let media = text(header::CONTENT_TYPE);
        let media = media.split(';').next().unwrap_or_default().trim();
        let format = Format::from_media_type(media).ok_or_else(|| {
            unknown(format!(
                "the content type is not known; send one of {}",
                Format::ALL.map(Format::media_type).join(", ")
            ))
        })?;
        let length = text(header::CONTENT_LENGTH).parse().ok();
        if length.is_some_and(|length: u64| length > MAX_BODY_BYTES as u64) {
            return Err(too_large(MAX_BODY_BYTES));
        }
        Ok(Self { format, encoding, length })
    }

    /// Size of the body. The size of a compressed one is not known before it is read.
    pub(super) fn size(&self) -> Size {
        let is_small = self.length.is_some_and(|length| length <= SMALL_BODY_BYTES);
        if is_small && self.encoding == Encoding::Identity { Size::Small } else { Size::Large }
    }

    /// Reads the body, which must come `within` some time, as events of `kind`.
    pub(super) async fn read(
        self,
        (body, within): (Body, Duration),
        kind: Kind,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<Batch, Problem> {
        let expected = self.length.map_or(0, |length| length as usize);
        let form = (kind, self.format, self.encoding);
        let large = |pass: &Pass| BodyReader::claiming(pass.memory(), form, now).expecting(expected);
        let mut frames = Frames { body, until: Instant::now() + within, within };
        if self.size() == Size::Small {
            let mut small = Vec::with_capacity(expected);
            while let Some(bytes) = frames.next().await? {
                pass.hold(bytes.len()).map_err(busy)?;
                small.extend_from_slice(&bytes);
            }
            let mut reader = BodyReader::within_bytes(SMALL_ROWS_BYTES, form, now).expecting(expected);
            return match reader.push(&small).and_then(|()| reader.finish()) {
                Err(Refused::NoRoom) => {
                    pass.enlarge().map_err(busy)?;
                    pass.line_up().await.map_err(busy)?;
                    let held = Held { parts: vec![small], ..Held::new(large(pass)) };
                    held.finish().await
                }
                read => Ok(read?),
            };
        }
        let mut held = Held::new(large(pass));
        let mut coming = Coming { frames, pass, patience: PATIENCE };
        loop {
            match coming.next().await? {
                Came::Bytes(bytes) => {
                    held.take(&bytes)?;
                    if coming.pass.has_slot() {
                        held.parse_some().await?;
                    }
                }
                Came::Late => {
                    held.settle().await?;
                    coming.step_aside();
                }
                Came::End => break,
            }
        }
        coming.pass.line_up().await.map_err(busy)?;
        held.finish().await
    }
}

/// Reads a whole body of at most `most` bytes that is no batch of events, through the admission as appends are. A large one is
/// returned with its pass: it has a slot until it gives that back, and its bytes count until it ends. A small one is read, and
/// needs none any more.
///
/// # Errors
/// As for appends: too much is under way, or the body is too large, breaks off or does not come in time.
pub async fn read_whole(
    ingest: &Ingest,
    workspace: &Id,
    body: Body,
    most: usize,
) -> Result<(Vec<u8>, Option<Pass>), Problem> {
    if body.is_end_stream() {
        return Ok((Vec::new(), None));
    }
    let (hint, within) = (body.size_hint(), ingest.body_within());
    if hint.lower() > most as u64 {
        return Err(too_large(most));
    }
    let size = match hint.upper() {
        Some(upper) if upper <= SMALL_BODY_BYTES => Size::Small,
        _ => Size::Large,
    };
    let mut pass = ingest.admission().enter(workspace, size).map_err(busy)?;
    let frames = Frames { body, until: Instant::now() + within, within };
    let mut coming = Coming { frames, pass: &mut pass, patience: PATIENCE };
    let mut whole = Vec::new();
    loop {
        match coming.next().await? {
            Came::Bytes(bytes) if whole.len() + bytes.len() > most => return Err(too_large(most)),
            Came::Bytes(bytes) => whole.extend_from_slice(&bytes),
            Came::Late => coming.step_aside(),
            Came::End => break,
        }
    }
    drop(coming);
    if whole.len() as u64 <= SMALL_BODY_BYTES {
        return Ok((whole, None));
    }
    pass.line_up().await.map_err(busy)?;
    Ok((whole, Some(pass)))
}

/// Incoming body, with the pass that holds the received bytes.
struct Coming<'a> {
    frames: Frames,
    pass: &'a mut Pass,
    patience: Duration,
}

/// Next event of an incoming body.
enum Came {
    /// Next bytes, for which there is room.
    Bytes(Bytes),
    /// Nothing, for so long that the slot is to be given back.
    Late,
    /// End of the body.
    End,
}

impl Coming<'_> {
    async fn next(&mut self) -> Result<Came, Problem> {
        let next = match self.pass.has_slot() {
            true => self.frames.next_within(&mut self.patience).await?,
            false => Some(self.frames.next().await?),
        };
        let Some(next) = next else { return Ok(Came::Late) };
        let Some(bytes) = next else { return Ok(Came::End) };
        if !self.pass.has_room(bytes.len()) {
            self.pass.line_up().await.map_err(busy)?;
        }
        self.pass.hold(bytes.len()).map_err(busy)?;
        Ok(Came::Bytes(bytes))
    }

    /// Gives the slot back, since the client is slow.
    fn step_aside(&mut self) {
        self.pass.step_aside();
        self.patience = PATIENCE;
    }
}

/// Received part of a large body: in a reader, and, unparsed, in parts.
struct Held {
    parsing: Parsing,
    parts: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Held {
    fn new(reader: BodyReader) -> Self {
        Self { parsing: Parsing::Idle(Box::new(reader)), parts: Vec::new(), last: Vec::new() }
    }

    /// Adds received bytes to the held ones.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let is_first = self.parts.is_empty() && self.last.is_empty();
        if let Parsing::Idle(reader) = &mut self.parsing
            && is_first
            && reader.only_holds(bytes)
        {
            return Ok(reader.push(bytes)?);
        }
        self.last.extend_from_slice(bytes);
        if self.last.len() >= CHUNK_BYTES {
            let next = Vec::with_capacity(self.last.capacity());
            self.parts.push(mem::replace(&mut self.last, next));
        }
        Ok(())
    }

    /// Begins to parse the held parts, once there is a whole one; the next part is read meanwhile.
    async fn parse_some(&mut self) -> Result<(), Problem> {
        match self.parts.is_empty() {
            true => Ok(()),
            false => self.parsing.push(mem::take(&mut self.parts)).await,
        }
    }

    /// Waits for the parts that are being parsed.
    async fn settle(&mut self) -> Result<(), Problem> {
        self.parsing.settle().await
    }

    /// Returns the batch, after the end of the body.
    async fn finish(mut self) -> Result<Batch, Problem> {
        self.parts.push(self.last);
        self.parsing.push(self.parts).await?;
        self.parsing.settle().await?;
        let Parsing::Idle(reader) = self.parsing else { return Err(broken()) };
        let finished = tokio::task::spawn_blocking(move || reader.finish()).await;
        Ok(finished.map_err(|_| broken())??)
    }
}

/// Reader, or the task that will return it.
enum Parsing {
    Idle(Box<BodyReader>),
    /// Lost: it was handed on and did not come back.
    Broken,
    Busy(JoinHandle<(Box<BodyReader>, Result<(), Refused>)>),
}

impl Parsing {
    /// Parses `parts` on another thread, after the parts before them.
    async fn push(&mut self, parts: Vec<Vec<u8>>) -> Result<(), Problem> {
        self.settle().await?;
        let Parsing::Idle(mut reader) = mem::replace(self, Parsing::Broken) else { return Err(broken()) };
        *self = Parsing::Busy(tokio::task::spawn_blocking(move || {
            let result = parts.into_iter().try_for_each(|part| reader.push(&part));
            (reader, result)
        }));
        Ok(())
    }

    /// Waits until nothing is being parsed.
    async fn settle(&mut self) -> Result<(), Problem> {
        if let Parsing::Busy(parsing) = self {
            let (reader, result) = parsing.await.map_err(|_| broken())?;
            *self = Parsing::Idle(reader);
            result?;
        }
        Ok(())
    }
}

/// Stream of the data of a body.
struct Frames {
    body: Body,
    until: Instant,
    within: Duration,
}

impl Frames {
    /// Returns the next data, if it comes within `patience`, which is reduced by the time taken.
    async fn next_within(&mut self, patience: &mut Duration) -> Result<Option<Option<Bytes>>, Problem> {
        let began = Instant::now();
        match timeout(*patience, self.next()).await {
            Ok(next) => {
                *patience = patience.saturating_sub(began.elapsed());
                next.map(Some)
            }
            Err(_) => Ok(None),
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let frame = timeout_at(self.until, timeout(PAUSE, self.body.frame())).await;
            match frame {
                Err(_) | Ok(Err(_)) => {
                    return Err(Problem::new(
                        StatusCode::REQUEST_TIMEOUT,
                        format!(
                            "the body did not come in time: no pause may last {} s, and the whole {} s",
                            PAUSE.as_secs(),
                            self.within.as_secs()
                        ),
                    ));
                }
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(Err(error)))) => {
                    let detail = format!("the body was broken off: {error}");
                    return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
                }
                Ok(Ok(Some(Ok(frame)))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

fn too_large(most: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {} MiB; send several batches", most >> 20),
    )
}

fn broken() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "reading the body failed")
}
