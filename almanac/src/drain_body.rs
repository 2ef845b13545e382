//! Unread rest of a request: a refusal does not need the body. A connection with an unread rest cannot be used again, and the
//! next request on it would fail without a reason. So a short body is read to its end before the answer goes out; else the answer
//! announces the end of the connection.

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

/// Maximum bytes that are read and dropped, and the maximum time for it.
const MOST_BYTES: usize = 64 * 1024;
const WITHIN: Duration = Duration::from_secs(1);

/// Place of the rest of a body.
type Left = Arc<Mutex<Option<Incoming>>>;

/// Answers a request by `router`.
pub(crate) async fn answered(router: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    // A client that waits for a go-ahead has not sent the body.
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

/// Reads the rest of a body, and returns true if that reached its end.
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

/// Body of a request. Its rest is kept for the answer when it is dropped.
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
            // A chunked body does not know its end beforehand.
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
