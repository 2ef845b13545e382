//! Reading the body of an append: streamed, bounded, and not forever.

use std::{mem, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, StatusCode, header},
};
use http_body_util::BodyExt;
use store::{Kind, Timestamp};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use web::Problem;

use crate::{
    batch::{Batch, Refused},
    format::{BodyReader, Encoding, Format},
    gate::{Pass, Size},
    limits::MAX_BODY_BYTES,
};

use super::busy;

/// Bodies of up to so many bytes are small: read whole and parsed at once.
const SMALL_BODY_BYTES: u64 = 64 * 1024;

/// How much of a large body is parsed at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// How long a client may pause within a body.
const PAUSE: Duration = Duration::from_secs(10);

/// How long a client may take for a whole body.
const WHOLE: Duration = Duration::from_secs(120);

/// What the headers say of a body.
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
            return Err(too_large());
        }
        Ok(Self { format, encoding, length })
    }

    /// Whether the body is small. Of a compressed one nobody knows how large it will be.
    pub(super) fn size(&self) -> Size {
        let is_small = self.length.is_some_and(|length| length <= SMALL_BODY_BYTES);
        if is_small && self.encoding == Encoding::Identity { Size::Small } else { Size::Large }
    }

    /// Reads the body as events of `kind`.
    pub(super) async fn read(
        self,
        body: Body,
        kind: Kind,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<Batch, Problem> {
        let expected = self.length.map_or(0, |length| length as usize);
        let reader = BodyReader::new(kind, self.format, self.encoding, now).expecting(expected);
        let mut frames = Frames { body, until: Instant::now() + WHOLE };
        if self.size() == Size::Small {
            let mut reader = reader;
            while let Some(bytes) = frames.next().await? {
                pass.hold(bytes.len()).map_err(busy)?;
                reader.push(&bytes)?;
            }
            return Ok(reader.finish()?);
        }
        // The next part is read while the last one is parsed.
        let mut parsing = Parsing::Idle(Box::new(reader));
        let mut chunk = Vec::new();
        while let Some(bytes) = frames.next().await? {
            pass.hold(bytes.len()).map_err(busy)?;
            match &mut parsing {
                // That takes less time than to hand them on.
                Parsing::Idle(reader) if chunk.is_empty() && reader.only_holds(&bytes) => {
                    reader.push(&bytes)?
                }
                _ => chunk.extend_from_slice(&bytes),
            }
            if chunk.len() >= CHUNK_BYTES {
                let next = Vec::with_capacity(chunk.capacity());
                parsing = parsing.push(mem::replace(&mut chunk, next)).await?;
            }
        }
        let reader = parsing.push(chunk).await?.done().await?;
        let finished = tokio::task::spawn_blocking(move || reader.finish()).await;
        Ok(finished.map_err(|_| broken())??)
    }
}

/// A reader, or where it comes back from.
enum Parsing {
    Idle(Box<BodyReader>),
    Busy(JoinHandle<(Box<BodyReader>, Result<(), Refused>)>),
}

impl Parsing {
    /// Parses `chunk` aside, once what came before it is parsed.
    async fn push(self, chunk: Vec<u8>) -> Result<Self, Problem> {
        let mut reader = self.done().await?;
        Ok(Parsing::Busy(tokio::task::spawn_blocking(move || {
            let result = reader.push(&chunk);
            (reader, result)
        })))
    }

    async fn done(self) -> Result<Box<BodyReader>, Problem> {
        match self {
            Parsing::Idle(reader) => Ok(reader),
            Parsing::Busy(parsing) => {
                let (reader, result) = parsing.await.map_err(|_| broken())?;
                result?;
                Ok(reader)
            }
        }
    }
}

/// The data of a body, as it comes.
struct Frames {
    body: Body,
    until: Instant,
}

impl Frames {
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
                            WHOLE.as_secs()
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

fn too_large() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {} MiB; send several batches", MAX_BODY_BYTES >> 20),
    )
}

fn broken() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "reading the body failed")
}
