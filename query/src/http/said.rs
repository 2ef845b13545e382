//! What the headers of an answer say of it: as of when it is, what it was read from, what it lacks.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header::TRAILER};
use event::{Error, Timestamp, Window};
use log::read_version::ReadVersion;

use crate::{Answer, End, Request, Streamed};

/// The format that asks for the read version itself, and its media type.
pub(super) const READ_VERSION_FORMAT: &str = "read-version";
pub(super) const READ_VERSION_TYPE: &str = "text/plain; charset=utf-8";

pub(super) const READ_VERSION: HeaderName = HeaderName::from_static("almanac-read-version");
const AS_OF: HeaderName = HeaderName::from_static("almanac-as-of");
const SOURCE: HeaderName = HeaderName::from_static("almanac-source");
const WINDOW: HeaderName = HeaderName::from_static("almanac-window");
pub(super) const WARNING: HeaderName = HeaderName::from_static("almanac-warning");
/// Behind the rows of a stream.
const ROWS: HeaderName = HeaderName::from_static("almanac-rows");

/// The headers, and what the document says of them.
pub(super) const HEADERS: [(HeaderName, &str); 5] = [
    (
        READ_VERSION,
        "What the answer was read from: with this as `read-version` it is answered again, the same to the byte. One that is too long for a header is `omitted; bytes=N`; `format=read-version` answers it as text.",
    ),
    (AS_OF, "As of when the answer is, when `as-of` was asked for: that instant, or the last closed one."),
    (
        SOURCE,
        "What metrics of evaluations, classes and confusion were taken from: `stored`, what is stored of each day, or `events`.",
    ),
    (
        WARNING,
        "What the answer lacks: a segment that cannot be read, or was skipped by an operator. There may be several. Of a large answer, which has no `Content-Length`, what was found while it was sent stands in a trailer of this name.",
    ),
    (
        ROWS,
        "How many rows the answer has. Of a large answer, which has no `Content-Length`, it is a trailer.",
    ),
];

/// The longest cut in a header; servers and proxies take 8 KiB for all headers together.
const MAX_READ_VERSION_BYTES: usize = 6 * 1024;

/// The longest cut in a header of an answer of who follows a log, which needs it: about as long as a URL may be.
const MAX_FOLLOWED_READ_VERSION_BYTES: usize = 48 * 1024;

/// The most warnings, and the most bytes of one.
const MAX_WARNINGS: usize = 5;
const MAX_WARNING_BYTES: usize = 200;

/// The header of an answer whose window was named by its length, and what the document says of it.
pub(super) const OF_WINDOW: (HeaderName, &str) = (
    WINDOW,
    "Which window the answer is of, when its days were not named: `from` and `to`, with a slash between.",
);

/// The headers of the answer to a request that is made as a whole.
pub(super) fn headers_of(request: &Request, answer: &Answer) -> HeaderMap {
    with_window(headers(answer), request)
}

fn with_window(mut headers: HeaderMap, request: &Request) -> HeaderMap {
    let window = request.last.as_ref().and_then(|ends| HeaderValue::try_from(ends.join("/")).ok());
    if let Some(window) = window {
        headers.insert(WINDOW, window);
    }
    headers
}

/// The window of an answer about days that were not named.
pub(super) fn window(of: Window) -> Option<(HeaderName, HeaderValue)> {
    Some((WINDOW, HeaderValue::try_from(format!("{}/{}", of.from(), of.to())).ok()?))
}

/// The header that says where the next page begins.
pub const NEXT: &str = "almanac-next";

/// Beginning of a header whose text is too long for it; the number of its bytes follows.
pub const OMITTED: &str = "omitted; bytes=";

/// The header that says where the next page begins, and what the document says of it.
pub(super) const OF_NEXT: (HeaderName, &str) = (
    HeaderName::from_static(NEXT),
    "After what the next page begins, for `after`; the last page has no such header. One that is too long for a header, because the window has too many logs, is `omitted; bytes=N`: ask for fewer days then.",
);

/// Where the next page begins.
pub(super) fn next(end: String) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::try_from(unless_too_long(end));
    (OF_NEXT.0, value.unwrap_or(HeaderValue::from_static("omitted")))
}

fn unless_too_long(text: String) -> String {
    if text.len() > MAX_READ_VERSION_BYTES { format!("{OMITTED}{}", text.len()) } else { text }
}

/// What an answer lacks.
pub(super) fn warnings(warnings: &[String]) -> HeaderMap {
    said(None, None, warnings)
}

/// The headers of an answer that is made as a whole.
pub(super) fn headers(answer: &Answer) -> HeaderMap {
    let mut headers = said(answer.read_version.as_ref(), answer.as_of, &answer.warnings);
    headers.insert(ROWS, answer.frame.height().into());
    if let Some(source) = answer.source {
        headers.insert(SOURCE, HeaderValue::from_static(source.name()));
    }
    headers
}

/// The headers of an answer that is sent as it is made; they announce what comes behind its rows.
pub(super) fn headers_of_stream(request: &Request, streamed: &Streamed) -> HeaderMap {
    let headers = said(Some(&streamed.read_version), streamed.as_of, &streamed.warnings);
    let mut headers = with_window(headers, request);
    [ROWS, WARNING].into_iter().for_each(|name| _ = headers.append(TRAILER, name.into()));
    headers
}

/// The headers of some events of a log that is followed.
///
/// # Errors
/// `TooLarge`, when the read version is too long for a header, since nobody could go on without it.
pub(super) fn headers_of_follow(answer: &Answer) -> Result<HeaderMap, Error> {
    let mut headers = said(None, None, &answer.warnings);
    if let Some(read_version) = &answer.read_version {
        let text = read_version.to_string();
        if text.len() > MAX_FOLLOWED_READ_VERSION_BYTES {
            return Err(Error::too_large(format!(
                "the read version has {} letters, and a header takes {MAX_FOLLOWED_READ_VERSION_BYTES}; follow from a later day on, or by `almanac tail`",
                text.len()
            )));
        }
        // It has the letters of URLs.
        headers.extend(HeaderValue::try_from(text).ok().map(|text| (READ_VERSION, text)));
    }
    Ok(headers)
}

/// What comes behind the rows of a stream.
pub(super) fn trailers(end: &End) -> HeaderMap {
    let mut trailers = said(None, None, &end.warnings);
    trailers.insert(ROWS, end.rows.into());
    trailers
}

fn said(read_version: Option<&ReadVersion>, as_of: Option<Timestamp>, warnings: &[String]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut say = |name, text: String| {
        let plain = |letter: char| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' };
        let text: String = text.chars().map(plain).collect();
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.append(name, value);
        }
    };
    if let Some(read_version) = read_version {
        say(READ_VERSION, unless_too_long(read_version.to_string()));
    }
    if let Some(as_of) = as_of {
        say(AS_OF, as_of.to_string());
    }
    let more = warnings.len().saturating_sub(MAX_WARNINGS);
    for warning in warnings.iter().take(MAX_WARNINGS) {
        let end = warning.floor_char_boundary(MAX_WARNING_BYTES);
        say(WARNING, warning[..end].to_owned());
    }
    if more > 0 {
        say(WARNING, format!("and {more} more"));
    }
    headers
}
