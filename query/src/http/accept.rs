//! Formats that a request asks for: by the parameter `format`, or by the header `Accept`.

use axum::http::{HeaderMap, header::ACCEPT};
use event::Result;

use super::{media_type, said};
use crate::output::Format;

/// Media type of explanations; of rows, JSON is one object a line.
const JSON: &str = "application/json";

/// Formats that have media types of their own; the first is the answer to who accepts any.
const OFFERED: [Format; 6] =
    [Format::Ndjson, Format::Csv, Format::Parquet, Format::Ipc, Format::IpcStream, Format::Table];

/// Returns the format of an answer: the named one, else the one that the caller prefers; `None` for the read version alone.
///
/// # Errors
/// `Invalid`, if there is no such format.
pub(super) fn format(name: Option<&str>, headers: &HeaderMap) -> Result<Option<Format>> {
    match name {
        Some(said::READ_VERSION_FORMAT) => Ok(None),
        name => of_rows(name, headers).map(Some),
    }
}

/// Returns the format of rows: the named one, else the one that the caller prefers.
///
/// # Errors
/// `Invalid`, if there is no such format.
pub(super) fn of_rows(name: Option<&str>, headers: &HeaderMap) -> Result<Format> {
    let offers = OFFERED.map(|format| (media_type(format), format));
    let offers = offers.into_iter().chain([(JSON, Format::Ndjson)]);
    name.map_or_else(|| Ok(preferred(headers, offers).unwrap_or(Format::Ndjson)), Format::parse)
}

/// Returns true if an explanation is text: in the place of a table, or because the caller prefers text to JSON.
pub(super) fn is_text(format: Option<Format>, headers: &HeaderMap) -> bool {
    let offers = [(JSON, false), (media_type(Format::Table), true)];
    format == Some(Format::Table) || preferred(headers, offers) == Some(true)
}

/// Returns the offer with the highest quality in `Accept`, and of several the one that stands first there; `None`, if none is
/// accepted.
fn preferred<T>(headers: &HeaderMap, offers: impl IntoIterator<Item = (&'static str, T)>) -> Option<T> {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<(String, f32)> = ranges.flat_map(|value| value.split(',')).map(range).collect();
    let rated = offers.into_iter().filter_map(|(media, offer)| {
        // The most precise range that names a type says its quality.
        let any = media.split_once('/').map(|(kind, _)| format!("{kind}/*"));
        let names = [Some(media), any.as_deref(), Some("*/*")];
        let found = names.into_iter().flatten().find_map(|name| ranges.iter().position(|(of, _)| of == name));
        found.filter(|at| ranges[*at].1 > 0.0).map(|at| ((ranges[at].1, at), offer))
    });
    let better = |(one, _): &((f32, usize), T), (other, _): &((f32, usize), T)| {
        one.0 > other.0 || (one.0 >= other.0 && one.1 <= other.1)
    };
    rated.reduce(|one, other| if better(&one, &other) { one } else { other }).map(|(_, offer)| offer)
}

/// Returns the media type of a range, and its quality.
fn range(text: &str) -> (String, f32) {
    let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
    let media = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
    (media, quality.unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_the_highest_quality_is_chosen() {
        for (accept, chosen) in [
            ("*/*", Format::Ndjson),
            ("text/csv", Format::Csv),
            ("application/json, text/plain, */*", Format::Ndjson),
            ("text/csv;q=0.5, application/vnd.apache.parquet", Format::Parquet),
            ("application/vnd.apache.arrow.stream;q=0.9,TEXT/CSV;q=0.95", Format::Csv),
            ("*/*;q=0.1, text/*", Format::Csv),
            ("text/*, text/csv;q=0, */*;q=0.5", Format::Table),
            ("*/*, application/x-ndjson;q=0", Format::Csv),
            ("image/png", Format::Ndjson),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(format(None, &headers).unwrap(), Some(chosen), "{accept}");
            assert_eq!(format(Some("ipc"), &headers).unwrap(), Some(Format::Ipc));
        }
        assert_eq!(format(Some("read-version"), &HeaderMap::new()).unwrap(), None);
        assert!(format(Some("xml"), &HeaderMap::new()).is_err());
    }
}
