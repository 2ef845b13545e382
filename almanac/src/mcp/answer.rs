//! Answers of tools: the text of an operation's answer, limited in length, and notes on it.

use axum::http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_TYPE, TE},
};
use http_body_util::BodyExt;
use serde_json::{Map, Value};

use crate::{
    client::{Client, broken_off},
    operations::tools::Tool,
};

/// Maximum bytes of an answer: about 16,000 tokens of a language model.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Headers and trailers that say of what an answer is.
const NOTES: [&str; 5] =
    ["almanac-window", "almanac-as-of", "almanac-source", "almanac-warning", "almanac-rows"];

/// Header that says where the next page begins.
const NEXT: &str = "almanac-next";

/// Calls the operation of a tool, and returns its answer and the notes on it.
///
/// # Errors
/// The problem that the operation answers, also when it breaks off; `Invalid`, for arguments that it does not take.
pub(super) async fn answer(
    client: &Client,
    tool: &Tool,
    arguments: Map<String, Value>,
) -> anyhow::Result<Vec<String>> {
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
    let mut notes = notes(&headers);
    if bytes.len() > MAX_ANSWER_BYTES {
        let is_rows = headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().ends_with(b"ndjson"));
        bytes.truncate(end_within(&bytes, is_rows));
        notes += &format!(
            "There is more: these are the first {} bytes of the answer. Other arguments ask for less or for the rest ({}); \
             `{asked}` of the HTTP API answers all of it.\n",
            bytes.len(),
            tool.less().join(", ")
        );
    }
    let text = match bytes.is_empty() {
        true => "no rows".to_owned(),
        false => String::from_utf8_lossy(&bytes).into_owned(),
    };
    Ok([text, notes].into_iter().filter(|text| !text.is_empty()).collect())
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
    let next =
        of(NEXT).map(|(_, after)| format!("There is more: the next page is had with `after`: {after}\n"));
    NOTES.into_iter().flat_map(of).map(line).chain(next).collect()
}

#[cfg(test)]
mod tests {
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
        let headers = [("almanac-source", "stored"), ("almanac-next", "x1"), ("content-type", "text/csv")];
        let headers = headers.map(|(name, text)| (name.parse().unwrap(), HeaderValue::from_static(text)));
        let expected = "source: stored\nThere is more: the next page is had with `after`: x1\n";
        assert_eq!(notes(&HeaderMap::from_iter(headers)), expected);
    }
}
