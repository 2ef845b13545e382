//! Minimal HTTP/1.1 for a load generator: a request of bytes; and from the answer the status, the headers
//! `Retry-After` and `Almanac-Read-Version`, and the body. The parser is small so that measuring costs little.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Maximum number of bytes of the head of an answer.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of bytes of the body of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 30;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Number of seconds after which to retry, if requested.
    pub retry_after: Option<u64>,
    /// Read version up to which the logs were read, if given.
    pub read_version: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns whether the request succeeded.
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns whether the request may be sent again.
    pub fn is_busy(&self) -> bool {
        matches!(self.status, 429 | 503)
    }

    /// Returns the status and the beginning of the body, for people.
    pub fn told(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(300).collect();
        format!("{} {}", self.status, text.trim())
    }
}

/// Returns the bytes of a request with a body. They name no port, so that they can be sent to several servers.
pub fn post(path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Adds a token to the bytes of a request.
pub fn with_token(request: &[u8], token: &str) -> Vec<u8> {
    let first = request.windows(2).position(|two| two == b"\r\n").map_or(request.len(), |at| at + 2);
    let (line, rest) = request.split_at(first);
    [line, format!("Authorization: Bearer {token}\r\n").as_bytes(), rest].concat()
}

/// Returns the bytes of a request without a body.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// A connection reused for several requests.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Fails if nobody listens.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("nobody listens on {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(16 * 1024) })
    }

    /// Sends the bytes of a request and reads the answer.
    ///
    /// # Errors
    /// Fails if the connection is lost, or the answer is not supported by this parser.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.stream.write_all(request).await.context("the connection was lost while sending")?;
        self.received.clear();
        let end = loop {
            if let Some(at) = end_of_head(&self.received) {
                break at;
            }
            ensure!(self.received.len() <= MAX_HEAD_BYTES, "the head of an answer is too long");
            self.receive().await?;
        };
        let head = Head::parse(&self.received[..end])?;
        let length = match (head.length, head.status) {
            (Some(length), _) => length,
            (None, 204 | 304) => 0,
            (None, _) => bail!("an answer without Content-Length"),
        };
        ensure!(length <= MAX_ANSWER_BYTES, "an answer of {length} bytes");
        while self.received.len() < end + length {
            self.receive().await?;
        }
        ensure!(self.received.len() == end + length, "more bytes than the answer has");
        let body = self.received[end..].to_vec();
        Ok(Answer {
            status: head.status,
            retry_after: head.retry_after,
            read_version: head.read_version,
            body,
        })
    }

    async fn receive(&mut self) -> anyhow::Result<()> {
        let bytes = self.stream.read_buf(&mut self.received).await?;
        ensure!(bytes > 0, "the server closed the connection before it answered");
        Ok(())
    }
}

/// Returns the beginning of the body.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

struct Head {
    status: u16,
    length: Option<usize>,
    retry_after: Option<u64>,
    read_version: Option<String>,
}

impl Head {
    fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).context("the head of an answer is no text")?;
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.with_context(|| format!("`{first}` is not the first line of an answer"))?;
        let mut head = Head { status, length: None, retry_after: None, read_version: None };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                head.length = Some(value.trim().parse().context("Content-Length is no number")?);
            } else if name.eq_ignore_ascii_case("retry-after") {
                head.retry_after = value.trim().parse().ok();
            } else if name.eq_ignore_ascii_case("almanac-read-version") {
                head.read_version = Some(value.trim().to_owned());
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_more_header() {
        let request = with_token(&get("/x"), "alm_y");
        let text = String::from_utf8(request).unwrap();
        assert_eq!(text, "GET /x HTTP/1.1\r\nAuthorization: Bearer alm_y\r\nHost: localhost\r\n\r\n");
    }

    #[test]
    fn heads_are_read() {
        let bytes = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 12\r\nRetry-After: 3\r\n\r\nbody";
        let end = end_of_head(bytes).unwrap();
        assert_eq!(&bytes[end..], b"body");
        let head = Head::parse(&bytes[..end]).unwrap();
        assert_eq!((head.status, head.length, head.retry_after), (429, Some(12), Some(3)));
        assert!(Head::parse(b"SSH-2.0\r\n\r\n").is_err());
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n").is_err());
    }
}
