//! The body of an answer.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use event::Error;

use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::said;
use crate::{Said, Streamed, answer::Written};

/// The body of an answer. The memory of what its client has taken is given back, and the rest when it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody(pub(super) Written);

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let chunk = self.0.chunks.next();
        let bytes = chunk.as_ref().map_or(0, Vec::len) as u64;
        self.0.left -= bytes;
        self.0.hold.shrink(bytes);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.left)
    }
}

/// The most bytes of a stream that are sent at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// The body of an answer that is sent as it is made. An error breaks the transfer off, so that no client takes a part of
/// the answer for all of it.
#[derive(Debug)]
pub(super) struct StreamBody {
    streamed: Streamed,
    /// Bytes that were made and not given out yet.
    next: Bytes,
    has_ended: bool,
}

impl StreamBody {
    pub(super) fn new(streamed: Streamed) -> Self {
        Self { streamed, next: Bytes::new(), has_ended: false }
    }
}

impl StreamBody {
    fn chunk(&mut self) -> Bytes {
        let bytes = self.next.len().min(CHUNK_BYTES);
        self.next.split_to(bytes)
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if !self.next.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(self.chunk()))));
        }
        Poll::Ready(Some(match ready!(self.streamed.poll_next(context)) {
            Ok(Said::Bytes(bytes)) => {
                self.next = bytes.into();
                Ok(Frame::data(self.chunk()))
            }
            Ok(Said::End(end)) => {
                self.has_ended = true;
                Ok(Frame::trailers(said::trailers(&end)))
            }
            Err(error) => {
                self.has_ended = true;
                tracing::warn!(error = %error, "an answer is broken off while it is sent");
                Err(error)
            }
        }))
    }
}
