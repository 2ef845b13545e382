//! Events of OpenLineage, posted to a catalog of data one after the other, as its clients do.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, bail, ensure};
use hyper::Uri;
use tokio::time::sleep;

use crate::fetch::{Posted, Web};

/// The token that is sent with each event, if there is one. It is no flag, since others on the machine see those.
pub(super) const TOKEN: &str = "ALMANAC_OPENLINEAGE_TOKEN";

/// How often an event is sent, at most, and how long it is after the first time; each wait is twice the one before.
const TRIES: u32 = 5;
const WAIT: Duration = Duration::from_millis(200);

/// Whether what is sent to a host stays on this machine.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Sends each line, and says how many there were. What was sent before may be sent again: an event has the same id each time.
pub(super) async fn lines(url: &str, token: Option<&str>, lines: &str) -> anyhow::Result<usize> {
    let uri: Uri = url.parse().with_context(|| format!("`{url}` is no URL"))?;
    let has_tls = uri.scheme_str() == Some("https");
    ensure!(has_tls || uri.scheme_str() == Some("http"), "`{url}` should begin with https:// or http://");
    let is_open = !has_tls && !uri.host().is_some_and(is_loopback);
    ensure!(
        token.is_none() || !is_open,
        "{TOKEN} is not sent without encryption: `{url}` should begin with https://"
    );
    let web = Web::new(has_tls).context("no certificates of authorities to know the catalog by")?;
    let mut sent = 0;
    for line in lines.lines() {
        one(&web, &uri, token, line).await.with_context(|| match sent {
            0 => "nothing was posted".to_owned(),
            sent => format!("{sent} of the events were posted, and can be posted again"),
        })?;
        sent += 1;
    }
    Ok(sent)
}

async fn one(web: &Web, uri: &Uri, token: Option<&str>, line: &str) -> anyhow::Result<()> {
    let mut wait = WAIT;
    for again in (0..TRIES).rev() {
        match web.post(uri, token, line).await {
            Posted::Taken => return Ok(()),
            Posted::Refused(why) => bail!("{uri} refused an event: {why}"),
            Posted::Failed(why) if again == 0 => bail!("{uri} took no event in {TRIES} tries: {why}"),
            Posted::Failed(_) => sleep(wait).await,
        }
        wait *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::{
        Router,
        http::{HeaderMap, StatusCode, header},
        routing::post,
    };
    use tokio::{net::TcpListener, sync::watch};

    use super::*;
    use crate::serve::{Listening, serve};

    /// A catalog of data that answers with these statuses, one after the other, and then takes everything. What it was sent, with
    /// the bearers.
    struct Catalog {
        url: String,
        got: Arc<Mutex<Vec<(String, String)>>>,
        _stop: watch::Sender<bool>,
    }

    impl Catalog {
        async fn answering(statuses: &[u16]) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/api/v1/lineage", listener.local_addr().unwrap());
            let got = Arc::new(Mutex::new(Vec::new()));
            let (seen, statuses) = (Arc::clone(&got), statuses.to_vec());
            let take = async move |headers: HeaderMap, body: String| {
                let bearer = headers.get(header::AUTHORIZATION).map_or("", |bearer| bearer.to_str().unwrap());
                let mut got = seen.lock().unwrap();
                got.push((bearer.to_owned(), body));
                let status = statuses.get(got.len() - 1).copied().unwrap_or(201);
                (StatusCode::from_u16(status).unwrap(), "as the test says")
            };
            let (stop, mut stopped) = watch::channel(false);
            let end = async move { _ = stopped.wait_for(|stop| *stop).await };
            tokio::spawn(serve(
                listener,
                Router::new().route("/api/v1/lineage", post(take)),
                Listening::default(),
                end,
            ));
            Self { url, got, _stop: stop }
        }

        fn bodies(&self) -> Vec<String> {
            self.got.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
        }
    }

    #[tokio::test]
    async fn each_event_is_posted_once_and_again_when_it_failed() {
        let catalog = Catalog::answering(&[201, 503, 429]).await;
        assert_eq!(lines(&catalog.url, Some("secret"), "{\"a\":1}\n{\"b\":2}\n").await.unwrap(), 2);
        assert_eq!(catalog.bodies(), ["{\"a\":1}", "{\"b\":2}", "{\"b\":2}", "{\"b\":2}"]);
        assert!(catalog.got.lock().unwrap().iter().all(|(bearer, _)| bearer == "Bearer secret"));
    }

    #[tokio::test]
    async fn what_is_refused_is_not_sent_again_and_says_why() {
        let catalog = Catalog::answering(&[201, 422]).await;
        let refused = format!(
            "{:#}",
            lines(&catalog.url, None, "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n").await.unwrap_err()
        );
        assert!(refused.starts_with("1 of the events were posted") && refused.contains("422"), "{refused}");
        assert!(refused.contains("as the test says"), "{refused}");
        assert_eq!((catalog.bodies().len(), catalog.got.lock().unwrap()[0].0.as_str()), (2, ""));
    }

    #[tokio::test]
    async fn a_token_stays_on_this_machine_or_is_encrypted() {
        let refused =
            lines("http://lineage.example.com/", Some("secret"), "{}").await.unwrap_err().to_string();
        assert!(refused.contains(TOKEN) && !refused.contains("secret"), "{refused}");
        assert!(lines("ftp://127.0.0.1/", None, "{}").await.is_err());
        assert!(
            is_loopback("localhost")
                && is_loopback("[::1]")
                && is_loopback("127.0.0.2")
                && !is_loopback("10.0.0.1")
        );
    }
}
