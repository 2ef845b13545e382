//! `almanac health`: asks the service at the configured address how it is, as a container's health check.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use axum::body::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{
    config::Config,
    paths::{LIVE, READY},
};

/// How long the answer may take: longer than the service itself waits for the store, shorter than container
/// engines wait for a check.
const WITHIN: Duration = Duration::from_secs(4);

/// The most of an answer that is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Prints the answer; the exit code says whether it is a good one.
pub(crate) async fn command(config: &Config, is_ready: bool) -> anyhow::Result<ExitCode> {
    let address = within_reach(config.listen.value);
    let path = if is_ready { READY } else { LIVE };
    let asked = tokio::time::timeout(WITHIN, ask(address, path)).await;
    let Ok(answer) = asked else { bail!("http://{address}{path} does not answer within {WITHIN:?}") };
    let (is_good, text) = answer.with_context(|| format!("http://{address}{path} does not answer"))?;
    println!("{}", text.trim_end());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Who listens on every address is reached at this machine's own.
fn within_reach(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn ask(address: SocketAddr, path: &str) -> anyhow::Result<(bool, String)> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let is_good = answer.status().is_success();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer breaks off: {error}"))?.to_bytes();
    connection.abort();
    Ok((is_good, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_everywhere_is_asked_here() {
        for (listen, asked) in
            [("0.0.0.0:7171", "127.0.0.1:7171"), ("[::]:80", "[::1]:80"), ("10.0.0.7:7171", "10.0.0.7:7171")]
        {
            assert_eq!(within_reach(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
