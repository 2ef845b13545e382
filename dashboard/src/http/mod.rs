//! The files over HTTP, with a policy that lets the pages load and run only these files.

use std::{collections::BTreeMap, fmt::Write as _};

use axum::{
    body::Bytes,
    extract::{Path, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest as _, Sha256};
use web::{Problem, RequiredPermission, Routes};

use crate::{FILES, File, PAGE};

/// Content security policy: a page runs and loads files of this server, and no inline code.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
);

/// Browsers keep the files, and revalidate them on each use.
const KEPT: HeaderValue = HeaderValue::from_static("no-cache");

/// A file with its tag.
#[derive(Clone, Debug)]
struct Sent {
    file: File,
    /// Entity tag, made from the content.
    tag: HeaderValue,
}

impl Sent {
    fn new(file: File) -> Self {
        let digest = Sha256::digest(file.text);
        let hex = digest.iter().take(12).fold(String::new(), |mut hex, byte| {
            // Writing to a `String` never fails.
            _ = write!(hex, "{byte:02x}");
            hex
        });
        let tag = HeaderValue::try_from(format!("\"{hex}\""));
        Self { file, tag: tag.unwrap_or(HeaderValue::from_static("\"\"")) }
    }

    /// Returns the answer to a request with these headers; it is 304 without a body if the client has the file already.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let is_known = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| {
            let known = known.to_str().unwrap_or_default();
            let mut tags = known.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
            tags.any(|tag| tag.as_bytes() == self.tag.as_bytes() || tag == "*")
        });
        let kept: [(HeaderName, HeaderValue); 3] = [
            (header::ETAG, self.tag.clone()),
            (header::CACHE_CONTROL, KEPT),
            (header::CONTENT_SECURITY_POLICY, POLICY),
        ];
        if is_known {
            return (StatusCode::NOT_MODIFIED, kept).into_response();
        }
        let media = [(header::CONTENT_TYPE, HeaderValue::from_static(self.file.media_type()))];
        (kept, media, Bytes::from_static(self.file.text.as_bytes())).into_response()
    }
}

/// Returns the routes of the page at `/`, and of its files below `/dashboard/`. They are equal for everybody and reveal nothing
/// of the stored data.
pub fn routes() -> Routes {
    let page = Sent::new(PAGE);
    let files: BTreeMap<&str, Sent> = FILES.iter().map(|file| (file.name, Sent::new(*file))).collect();
    Routes::new()
        .serve("GET", "/", RequiredPermission::nothing(), async move |headers: HeaderMap| {
            page.answer(&headers)
        })
        .serve(
            "GET",
            "/dashboard/{file}",
            RequiredPermission::nothing(),
            async move |path: Result<Path<String>, PathRejection>, headers: HeaderMap| match path {
                Ok(Path(name)) => match files.get(&*name) {
                    Some(file) => file.answer(&headers),
                    None => {
                        Problem::new(StatusCode::NOT_FOUND, "the dashboard has no such file").into_response()
                    }
                },
                Err(rejection) => {
                    Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()).into_response()
                }
            },
        )
}
