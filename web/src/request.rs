//! Parts of a request: its sender, its subject, the workspace in its path, and a small body.

use std::{convert::Infallible, error::Error as _, net::IpAddr, sync::Arc};

use axum::{
    Extension,
    body::Bytes,
    extract::{FromRequestParts, Path, Query, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use event::Id;
use serde::de::DeserializeOwned;

use crate::Problem;

/// The sender of a request, with the id by which the request is found in logs. It travels in the extensions of the request: the
/// listener notes the address, the outermost layer the id, and the guard the principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The user or system as people write it, such as `user:ann`; `preset` for the token that the service was started with;
    /// `None`, if callers need not identify themselves.
    pub principal: Option<Arc<str>>,
    /// The id of the token, if it is stored in the table.
    pub token: Option<Arc<str>>,
    /// True if it may administer the subject of the request.
    pub is_admin: bool,
    /// True if the token is limited to events of some kinds: it gives no access to texts made from events of any kind.
    pub is_of_some_kinds: bool,
    /// The id of the request.
    pub request_id: Arc<str>,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// True if the client called over TLS, as far as is known.
    pub is_encrypted: bool,
}

impl Requester {
    /// Returns true if it may act as an administrator: everybody may, if callers need not identify themselves.
    pub fn may_administer(&self) -> bool {
        self.principal.is_none() || self.is_admin
    }
}

/// Extension of the answer to a request that was refused for its sender. Outer layers take note of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The caller, if it was known.
    pub principal: Option<Arc<str>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Requester {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// The subject of a request, as far as it is known. It goes with the answer, for its line in the log. It holds nothing of the
/// events themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// The workspace.
    pub workspace: Option<Id>,
    /// Kind of the data appended or requested.
    pub kind: Option<&'static str>,
    /// Number of events or rows.
    pub rows: Option<u64>,
    /// The batch, by its idempotency key or its digest.
    pub batch: Option<String>,
}

impl RequestContext {
    /// Builds the context of a request for this kind of thing.
    pub fn kind(kind: &'static str) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    /// Attaches it to an answer.
    pub fn with(self, answer: impl IntoResponse) -> Response {
        (Extension(self), answer).into_response()
    }
}

/// An entity by its id or path, out of the one parameter that a path has for it, or of the two that it has for a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Path(segments) =
            segments.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
        let segments: Vec<&str> = segments.iter().map(|(_, segment)| segment.as_str()).collect();
        Ok(Self(named_in(&segments)))
    }
}

/// The id or path that segments of a path are. With `-`, which no category is called, in the place of the category a workspace is named
/// by its id.
pub fn named_in(segments: &[&str]) -> String {
    match segments {
        ["-", id] if !id.contains('/') => (*id).to_owned(),
        _ => segments.join("/"),
    }
}

/// Parameters of the query of a request. A wrong one is refused by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned> QueryParams<T> {
    /// Reads the parameters of a URI.
    ///
    /// # Errors
    /// A problem with status 400: the name of the parameter that cannot be read, and the reason.
    pub fn of(uri: &Uri) -> Result<Self, Problem> {
        let read = Query::try_from_uri(uri).map(|Query(params)| Self(params));
        read.map_err(|rejection| {
            let why = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
            let why = match why.split_once(": ") {
                Some((name, why)) if !name.contains(' ') => field_problem(name, &of_text(uri, name, why)),
                _ => field_problem("", &why),
            };
            Problem::new(StatusCode::BAD_REQUEST, why)
        })
    }
}

/// Reason why the text of a parameter is refused, where the standard library states it of its own terms.
fn of_text(uri: &Uri, name: &str, why: &str) -> String {
    let is_wrong = match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => "is not a whole number",
        "number too large to fit in target type" | "number too small to fit in target type" => {
            "is out of range"
        }
        "invalid float literal" | "cannot parse float from empty string" => "is not a number",
        "provided string was not `true` or `false`" => "is neither true nor false",
        _ => return why.to_owned(),
    };
    let all = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(all)| all).unwrap_or_default();
    let text = all.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text);
    format!("`{text}` {is_wrong}")
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.uri)
    }
}

/// A body, unless it was too large.
pub type Whole = Result<Bytes, BytesRejection>;

/// Returns true if the content type is JSON. A page of another origin cannot set this without permission.
pub fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Reads a body that is a JSON object.
///
/// # Errors
/// A problem about its type, its size or its fields, each by its path.
pub fn json_object<T: DeserializeOwned>(headers: &HeaderMap, body: Whole) -> Result<T, Problem> {
    if !is_json(headers) {
        let detail = "the content type should be application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let body = body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
    // Without this check, serde reads an array as well.
    if body.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        let detail = "the body should be a JSON object";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    let mut from = serde_json::Deserializer::from_slice(&body);
    let read = serde_path_to_error::deserialize(&mut from).map_err(|error| json_problem(&error));
    let read = read.and_then(|read| from.end().map(|()| read).map_err(|error| error.to_string()));
    read.map_err(|why| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why))
}

/// Message of an error in a JSON body, in the words of a caller: a field by its path, and types as JSON names them. One about its form
/// keeps the place.
fn json_problem(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, why) = (error.path().to_string(), error.inner().to_string());
    if !error.inner().is_data() {
        return why;
    }
    field_problem(&path, why.rsplit_once(" at line ").map_or(&*why, |(why, _)| why))
}

/// Message of an error about the field at a path; a dot or nothing is the whole.
fn field_problem(path: &str, why: &str) -> String {
    let path = if path == "." { "" } else { path };
    if let Some(name) = why.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let separator = if path.is_empty() { "" } else { "." };
        return format!("{path}{separator}{name}: it is missing");
    }
    let why = reason(why);
    if path.is_empty() { why } else { format!("{path}: {why}") }
}

/// A reason without types of Rust.
fn reason(why: &str) -> String {
    if let Some((name, names)) =
        why.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("{name} is none of {}", names.trim_start_matches("one of ").replace(" or ", ", "));
    }
    let typed = why.strip_prefix("invalid type: ").or_else(|| why.strip_prefix("invalid value: "));
    let Some((found, expected)) = typed.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return why.to_owned();
    };
    let expected = match expected {
        "f32" | "f64" | "a JSON number" => "a number",
        "i8" | "i16" | "i32" | "i64" | "isize" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "a string" | "a borrowed string" | "string or map" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        structure if structure.starts_with("struct ") => "an object",
        other => other,
    };
    let is_integer = found.starts_with("integer ");
    let found = match found {
        "map" => "an object",
        "sequence" => "a list",
        _ => ["string ", "floating point ", "integer ", "boolean "]
            .into_iter()
            .find_map(|kind| found.strip_prefix(kind))
            .unwrap_or(found),
    };
    match is_integer && expected == "a whole number" {
        true => format!("{found} is out of range"),
        false => format!("{found} is not {expected}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_query_parameters_are_refused_by_name() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Paged {
            _limit: Option<usize>,
        }
        let refused = |query: &str| {
            let uri = format!("/v1/models?{query}").parse().unwrap();
            QueryParams::<Paged>::of(&uri).unwrap_err().detail
        };
        assert_eq!(refused("_limit=ten"), "_limit: `ten` is not a whole number");
        assert!(
            refused("_limits=1").starts_with("_limits: unknown field `_limits`"),
            "{}",
            refused("_limits=1")
        );
    }

    #[test]
    fn wrong_fields_of_bodies_are_refused_by_path() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            _rules: Vec<Rule>,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Rule {
            _name: String,
            _below: Option<f64>,
            _days: Option<u32>,
            _order: Option<Order>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Order {
            Oldest,
            Newest,
        }
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, "application/json".parse().unwrap())]);
        let refused = |body: &'static str| {
            json_object::<Body>(&headers, Ok(Bytes::from_static(body.as_bytes()))).unwrap_err().detail
        };
        for (body, why) in [
            ("{}", "_rules: it is missing"),
            (r#"{"_rules": 5}"#, "_rules: `5` is not a list"),
            (r#"{"_rules": [null]}"#, "_rules[0]: null is not an object"),
            (r#"{"_rules": [{}]}"#, "_rules[0]._name: it is missing"),
            (r#"{"_rules": [{"_name": []}]}"#, "_rules[0]._name: a list is not text"),
            (r#"{"_rules": [{"_name": "x", "_below": "2"}]}"#, "_rules[0]._below: \"2\" is not a number"),
            (r#"{"_rules": [{"_name": "x", "_days": 2.5}]}"#, "_rules[0]._days: `2.5` is not a whole number"),
            (r#"{"_rules": [{"_name": "x", "_days": -1}]}"#, "_rules[0]._days: `-1` is out of range"),
            (
                r#"{"_rules": [{"_name": "x", "_order": "up"}]}"#,
                "_rules[0]._order: `up` is none of `oldest`, `newest`",
            ),
            (r#"{"_rules": []} x"#, "trailing characters at line 1 column 16"),
        ] {
            assert_eq!(refused(body), why, "{body}");
        }
        assert!(refused(r#"{"_rule": []}"#).starts_with("_rule: unknown field `_rule`"));
        assert!(refused(r#"{"_rules": "#).contains("at line 1"), "{}", refused(r#"{"_rules": "#));
    }

    #[test]
    fn a_dash_stands_before_an_id() {
        assert_eq!(named_in(&["credit", "prod"]), "credit/prod");
        assert_eq!(named_in(&["-", "w_2NBs0sLBnJxEcoDLgVnQdJkhEgV"]), "w_2NBs0sLBnJxEcoDLgVnQdJkhEgV");
        assert_eq!(named_in(&["-", "credit/prod"]), "-/credit/prod", "a path has its own place");
        assert_eq!(named_in(&["ann"]), "ann");
    }
}
