//! Answers of a service over HTTP.

use serde_json::Value;

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) replayed: bool,
    /// The methods that the path has, where that was said.
    pub(crate) allow: String,
    pub(crate) content_length: Option<String>,
    pub(crate) request_id: String,
    headers: ureq::http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(super) fn read(mut response: ureq::http::Response<ureq::Body>) -> Self {
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        Self {
            status: response.status().as_u16(),
            content_type: header("content-type").unwrap_or_default(),
            allow: header("allow").unwrap_or_default(),
            request_id: header("x-request-id").unwrap_or_default(),
            content_length: header("content-length"),
            replayed: header("idempotent-replayed").as_deref() == Some("true"),
            headers: response.headers().clone(),
            body: response.body_mut().with_config().limit(64 << 20).read_to_vec().expect("a body"),
        }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON, not {:?}", self.text()))
    }
}
