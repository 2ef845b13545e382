//! Answers of tools: the text of an operation's answer, limited in length, and notes on it.

use axum::http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_TYPE, TE},
};
use http_body_util::BodyExt;
use query::http::NEXT;
use serde_json::{Map, Value};

use crate::{
    client::{Client, broken_off, next_page},
    operations::tools::Tool,
};

/// Maximum bytes of an answer: about 16,000 tokens of a language model.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Headers and trailers that say of what an answer is.
const NOTES: [&str; 5] = ["almanac-window", "almanac-as-of", "almanac-source", "almanac-warning", ROWS];

/// Header that says how many rows an answer has.
const ROWS: &str = "almanac-rows";

/// Argument of a page of rows.
const AFTER: &str = "after";

/// Calls the operation of a tool, and returns its answer and the notes on it.
///
/// # Errors
/// The problem that the operation answers, also when it breaks off; `Invalid`, for arguments that it does not take.
pub(super) async fn answer(
    client: &Client,
    tool: &Tool,
    arguments: Map<String, Value>,
) -> anyhow::Result<Vec<String>> {
    let is_page = arguments.contains_key(AFTER);
    let mut request = tool.request(arguments)?;
    request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    let asked = format!("{} {}", request.method(), request.uri());
    let (head, mut body) = client.open(request).await?.into_parts();
    let (mut bytes, mut headers) = (Vec::new(), head.headers);
    while bytes.len() <= MAX_ANSWER_BYTES
        && let Some(frame) = body.frame().await
    {
        match frame.map_err(broken_off)?.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => headers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    let is_cut = bytes.len() > MAX_ANSWER_BYTES;
    if is_cut {
        cut(&mut bytes, &mut headers);
    }
    let mut notes = notes(&headers);
    if is_cut {
        let rest = match is_page {
            true => "The page did not fit: ask again with a smaller `limit`, and the same `after`".to_owned(),
            false => format!("Other arguments ask for less or for the rest ({})", tool.less().join(", ")),
        };
        notes += &format!(
            "There is more: these are the first {} bytes of the answer. {rest}; `{asked}` of the HTTP API answers all of it.\n",
            bytes.len()
        );
    }
    let text = match bytes.is_empty() {
        true => "no rows".to_owned(),
        false => String::from_utf8_lossy(&bytes).into_owned(),
    };
    Ok([text, notes].into_iter().filter(|text| !text.is_empty()).collect())
}

/// Cuts an answer that is too long. Its number of rows says how many are shown, and it has no next page, which begins behind rows that are
/// not.
fn cut(bytes: &mut Vec<u8>, headers: &mut HeaderMap) {
    let is_rows = headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().ends_with(b"ndjson"));
    bytes.truncate(end_within(bytes, is_rows));
    headers.remove(NEXT);
    let rows = headers.get(ROWS).and_then(|rows| rows.to_str().ok()).filter(|_| is_rows);
    let shown = bytes.iter().filter(|byte| **byte == b'\n').count();
    let shown = rows.and_then(|rows| format!("{rows}, of which {shown} are shown").parse().ok());
    if let Some(shown) = shown {
        headers.insert(ROWS, shown);
    }
}

/// Number of bytes that are shown of an answer that is too long: up to the end of a row, where it has rows.
fn end_within(bytes: &[u8], is_rows: bool) -> usize {
    let shown = &bytes[..MAX_ANSWER_BYTES.min(bytes.len())];
    let end = shown.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
    end.filter(|_| is_rows).unwrap_or(shown.len())
}

/// Lines on an answer, from its headers and trailers.
fn notes(headers: &HeaderMap) -> String {
    let of = |name: &'static str| {
        headers.get_all(name).iter().filter_map(move |value| Some((name, value.to_str().ok()?)))
    };
    let line = |(name, text): (&str, &str)| format!("{}: {text}\n", name.trim_start_matches("almanac-"));
    let next = next_page(headers).map(|next| match next {
        Ok(after) => format!("There is more: the next page is had with `after`: {after}\n"),
        Err(bytes) => {
            format!("There is more, but its `after` is too long ({bytes} bytes): ask for fewer days\n")
        }
    });
    NOTES.into_iter().flat_map(of).map(line).chain(next).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn long_answers_end_with_a_row() {
        let rows = "{\"a\":1}\n".repeat(10_000).into_bytes();
        let end = end_within(&rows, true);
        assert!(end <= MAX_ANSWER_BYTES && rows[..end].ends_with(b"}\n"), "{end}");
        assert_eq!(end_within(&rows, false), MAX_ANSWER_BYTES);
        assert_eq!(end_within(b"{}", true), 2);
    }

    #[test]
    fn notes_name_the_next_page() {
        let of = |next| headers(&[("almanac-source", "stored"), (NEXT, next), ("content-type", "text/csv")]);
        let expected = "source: stored\nThere is more: the next page is had with `after`: x1\n";
        assert_eq!(notes(&of("x1")), expected);
        let expected =
            "source: stored\nThere is more, but its `after` is too long (9331 bytes): ask for fewer days\n";
        assert_eq!(notes(&of("omitted; bytes=9331")), expected);
    }

    #[test]
    fn cut_page_says_how_many_rows_are_shown() {
        let mut headers = headers(&[(ROWS, "10000"), (NEXT, "x1"), ("content-type", "application/x-ndjson")]);
        let mut rows = "{\"a\":1}\n".repeat(10_000).into_bytes();
        cut(&mut rows, &mut headers);
        assert_eq!((rows.len(), &*notes(&headers)), (65_536, "rows: 10000, of which 8192 are shown\n"));
    }

    fn headers(of: &[(&'static str, &'static str)]) -> HeaderMap {
        let named = |(name, text): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(text))
        };
        of.iter().map(named).collect()
    }
}
