//! Messages of the Model Context Protocol: JSON-RPC 2.0, in the versions that begin with a handshake and in the one whose requests each
//! name their version.

use axum::http::HeaderMap;
use serde_json::{Map, Value, json};

/// Versions that begin with `initialize`.
const WITH_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Version without a handshake, whose requests each name it.
const PER_REQUEST: &str = "2026-07-28";

/// Fields of `_meta`.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Header of the version.
const VERSION_HEADER: &str = "mcp-protocol-version";

/// Time for which clients may keep the list of tools, in milliseconds.
const TTL_MS: u64 = 3_600_000;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;

/// Text for assistants on all tools.
const INSTRUCTIONS: &str = "The record of what ML models predicted, what then happened, and how good the predictions were. A workspace \
    is named category/name; list_workspaces lists them. Days are UTC. Datasets need days: `last`, such as 7d, or `from` and `to`.";

/// Message of a client.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// Request, which is answered.
    Request(Request),
    /// Notification, which is not.
    Notification { method: String, params: Map<String, Value> },
}

/// Request of a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    /// A number or a text.
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// Error of the protocol.
#[derive(Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) code: i64,
    message: String,
    data: Option<Value>,
}

/// Answer to a request.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    id: Value,
    /// True if the request named its version.
    pub(super) is_per_request: bool,
    pub(super) result: Result<Value, Failure>,
}

impl Failure {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// A parameter is missing or wrong.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// There is no such method in the version of the request.
    pub(super) fn no_method(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("there is no method `{method}`"))
    }
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// The reply to what is no message.
    pub(super) fn read(text: &[u8]) -> Result<Self, Reply> {
        let refused = |id, code, message: String| Reply {
            id,
            is_per_request: false,
            result: Err(Failure::new(code, message)),
        };
        let read = serde_json::from_slice::<Value>(text);
        let read =
            read.map_err(|error| refused(Value::Null, PARSE_ERROR, format!("it is no JSON: {error}")))?;
        let id = read.get("id").cloned();
        // A number beyond 64 bits would be answered as another one.
        let is_id = id.as_ref().is_none_or(|id| id.is_string() || id.is_i64() || id.is_u64());
        let params = match &read["params"] {
            Value::Null => Some(Map::new()),
            Value::Object(params) => Some(params.clone()),
            _ => None,
        };
        match (read["jsonrpc"] == "2.0" && is_id, read["method"].as_str(), params) {
            (true, Some(method), Some(params)) => {
                let method = method.to_owned();
                Ok(match id {
                    Some(id) => Self::Request(Request { id, method, params }),
                    None => Self::Notification { method, params },
                })
            }
            _ => {
                let id = id.filter(|_| is_id).unwrap_or_default();
                let why = match read.is_array() {
                    true => "batches are not taken; send messages one by one",
                    false => "it is neither a request nor a notification of JSON-RPC 2.0",
                };
                Err(refused(id, INVALID_REQUEST, why.to_owned()))
            }
        }
    }
}

impl Request {
    /// Returns true if it names its version, as the newest version has it; else there was a handshake.
    pub(super) fn is_per_request(&self) -> bool {
        self.meta(VERSION).is_some()
    }

    fn meta(&self, name: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(name)
    }

    /// Checks the version, and that headers say what the body says.
    ///
    /// # Errors
    /// The failure of another version, or of other headers.
    pub(super) fn check(&self, headers: Option<&HeaderMap>) -> Result<(), Failure> {
        let header = |name: &str| headers.and_then(|headers| headers.get(name)?.to_str().ok());
        let Some(version) = self.meta(VERSION) else {
            return match header(VERSION_HEADER) {
                Some(PER_REQUEST) => Err(Failure::invalid(format!("`_meta` has no `{VERSION}`"))),
                Some(version) if !WITH_HANDSHAKE.contains(&version) => Err(unsupported(version)),
                _ => Ok(()),
            };
        };
        let version = version.as_str().ok_or_else(|| Failure::invalid(format!("`{VERSION}` is no text")))?;
        if self.meta(CAPABILITIES).is_none() {
            return Err(Failure::invalid(format!("`_meta` has no `{CAPABILITIES}`")));
        }
        let name = self.params.get("name").and_then(Value::as_str).filter(|_| self.method == "tools/call");
        let said = [(VERSION_HEADER, Some(version)), ("mcp-method", Some(&*self.method)), ("mcp-name", name)];
        let differing = said.into_iter().find(|(name, said)| said.is_some() && header(name) != *said);
        if let Some((name, _)) = differing.filter(|_| headers.is_some()) {
            return Err(Failure::new(
                HEADER_MISMATCH,
                format!("the header {name} does not say what the body says"),
            ));
        }
        if version == PER_REQUEST { Ok(()) } else { Err(unsupported(version)) }
    }

    /// Makes the reply to it.
    pub(super) fn reply(&self, result: Result<Value, Failure>) -> Reply {
        let is_per_request = self.is_per_request();
        let complete = |mut result: Value| {
            if is_per_request {
                result["resultType"] = "complete".into();
                result["_meta"] = json!({ SERVER: server() });
            }
            if is_per_request && self.method != "tools/call" {
                result["ttlMs"] = TTL_MS.into();
                result["cacheScope"] = "public".into();
            }
            result
        };
        Reply { id: self.id.clone(), is_per_request, result: result.map(complete) }
    }

    /// Answers a handshake, in the version that it asks for, or else in the newest with a handshake.
    pub(super) fn initialized(&self) -> Value {
        let asked = self.params.get("protocolVersion").and_then(Value::as_str);
        let [.., newest] = WITH_HANDSHAKE;
        let version = asked.filter(|version| WITH_HANDSHAKE.contains(version)).unwrap_or(newest);
        json!({ "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": server(), "instructions": INSTRUCTIONS })
    }
}

/// Answers who asks which versions there are.
pub(super) fn discovered() -> Value {
    json!({ "supportedVersions": versions(), "capabilities": { "tools": {} }, "instructions": INSTRUCTIONS })
}

fn versions() -> Vec<&'static str> {
    WITH_HANDSHAKE.into_iter().chain([PER_REQUEST]).collect()
}

fn server() -> Value {
    json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") })
}

fn unsupported(version: &str) -> Failure {
    let data = json!({ "supported": versions(), "requested": version });
    Failure {
        data: Some(data),
        ..Failure::new(UNSUPPORTED_VERSION, format!("there is no version {version} here"))
    }
}

impl Reply {
    /// The message.
    pub(super) fn json(&self) -> Value {
        match &self.result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": self.id, "result": result }),
            Err(Failure { code, message, data }) => {
                let mut error = json!({ "code": code, "message": message });
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                json!({ "jsonrpc": "2.0", "id": self.id, "error": error })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &Value) -> Request {
        match Message::read(text.to_string().as_bytes()) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    fn asked(version: &str) -> Request {
        let meta = json!({ VERSION: version, CAPABILITIES: {} });
        request(
            &json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "live", "_meta": meta } }),
        )
    }

    #[test]
    fn malformed_messages_are_refused_with_their_code() {
        let refused = |text: &str| {
            let reply = Message::read(text.as_bytes()).unwrap_err();
            (reply.json()["error"]["code"].as_i64().unwrap(), reply.json()["id"].clone())
        };
        assert_eq!(refused("{"), (PARSE_ERROR, Value::Null));
        let latin = Message::read(b"{\"method\":\"p\xefng\"}").unwrap_err();
        assert_eq!(latin.json()["error"]["code"], PARSE_ERROR);
        let batch = Message::read(b"[]").unwrap_err().json();
        assert_eq!(batch["error"]["message"], "batches are not taken; send messages one by one");
        for (text, id) in [
            ("[]", Value::Null),
            (r#"{"id":3,"method":"ping"}"#, json!(3)),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":100000000000000000000,"method":"ping"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, json!(3)),
            (r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}"#, json!(3)),
        ] {
            assert_eq!(refused(text), (INVALID_REQUEST, id), "{text}");
        }
        let told = Message::read(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(matches!(told, Ok(Message::Notification { .. })), "{told:?}");
    }

    #[test]
    fn versions_are_negotiated_by_handshake_or_request() {
        let version = |asked: &str| {
            let params = json!({ "protocolVersion": asked });
            request(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }))
                .initialized()["protocolVersion"]
                .clone()
        };
        assert_eq!(
            (version("2025-06-18"), version("2026-07-28")),
            (json!("2025-06-18"), json!("2025-11-25"))
        );
        assert_eq!(asked(PER_REQUEST).check(None), Ok(()));
        let refused = asked("2030-01-01").check(None).unwrap_err();
        assert_eq!(
            (refused.code, &refused.data.unwrap()["requested"]),
            (UNSUPPORTED_VERSION, &json!("2030-01-01"))
        );
    }

    #[test]
    fn headers_must_agree_with_the_body() {
        let check = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, text)| (name.parse().unwrap(), text.parse().unwrap()));
            asked(PER_REQUEST).check(Some(&headers.collect())).map_err(|failure| failure.code)
        };
        let good = [(VERSION_HEADER, PER_REQUEST), ("mcp-method", "tools/call"), ("mcp-name", "live")];
        assert_eq!(check(&good), Ok(()));
        assert_eq!(check(&good[..2]), Err(HEADER_MISMATCH));
        assert_eq!(check(&[good[0], good[1], ("mcp-name", "sql")]), Err(HEADER_MISMATCH));
    }

    #[test]
    fn replies_have_the_form_of_their_version() {
        let new = asked(PER_REQUEST).reply(Ok(json!({})));
        assert_eq!(new.json()["result"]["resultType"], "complete");
        let old = request(&json!({ "jsonrpc": "2.0", "id": "a", "method": "ping" }));
        assert_eq!(old.reply(Ok(json!({}))).json(), json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
    }
}
