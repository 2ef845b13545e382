//! The body of an answer.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::answer::Written;

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
