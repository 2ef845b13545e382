//! What a request sends and its answer does not need: a refusal needs no body. A connection on which some of it is left is of no use any
//! more, and the next request on it would fail without a word. So a body that is short is read to its end before the answer goes out; else
//! the answer says that the connection ends.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderValue, Request, header},
    response::Response,
};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tower::ServiceExt;

/// The most bytes that are read for nothing, and how long they may take.
const MOST_BYTES: usize = 64 * 1024;
const WITHIN: Duration = Duration::from_secs(1);

/// Where the rest of a body is put.
type Left = Arc<Mutex<Option<Incoming>>>;

/// Answers a request by `router`.
pub(crate) async fn answered(router: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    // Who waits to be asked for the body has not sent it.
    let waits = request.headers().contains_key(header::EXPECT);
    let left = Left::default();
    let given = |body| Body::new(Given { body: Some(body), left: Arc::clone(&left) });
    let mut answer = router.oneshot(request.map(given)).await?;
    let rest = left.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(rest) = rest
        && (waits || !is_read(rest).await)
    {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

/// Reads the rest of a body, and says whether that was its end.
async fn is_read(body: Incoming) -> bool {
    let reading = async {
        let (mut body, mut bytes) = (pin!(body), 0);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > MOST_BYTES {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(WITHIN, reading).await.unwrap_or(false)
}

/// The body of a request. What is left of it when it is dropped stays for who answers.
struct Given {
    body: Option<Incoming>,
    left: Left,
}

impl HttpBody for Given {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if frame.is_none() {
            // One in chunks does not know its end before.
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = rest;
    }
}
