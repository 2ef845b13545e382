use std::{net::SocketAddr, sync::Mutex, time::Duration};

use catalog::Webhook;
use projector::deliver::TRY_WITHIN;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::*;

/// Answer of a receiver.
#[derive(Clone, Debug)]
enum Answers {
    /// This whole text.
    With(String),
    /// None, ever.
    Hangs,
    /// A body that never ends.
    Endless(&'static str),
    /// Headers that never end.
    Headers,
}

/// A receiver, and the requests sent to it.
struct Receiver {
    address: SocketAddr,
    got: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn status(line: &str) -> Answers {
    Answers::With(format!("HTTP/1.1 {line}\r\ncontent-length: 2\r\n\r\nno"))
}

impl Receiver {
    async fn that(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, got) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&got);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (answers, seen) = (answers.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    while !String::from_utf8_lossy(&bytes).contains("\r\n\r\n{") || !bytes.ends_with(b"}") {
                        let mut some = [0; 4096];
                        match stream.read(&mut some).await {
                            Ok(0) | Err(_) => return,
                            Ok(count) => bytes.extend(&some[..count]),
                        }
                    }
                    seen.lock().unwrap().push(String::from_utf8(bytes).unwrap());
                    match answers {
                        Answers::With(text) => _ = stream.write_all(text.as_bytes()).await,
                        Answers::Hangs => std::future::pending().await,
                        Answers::Endless(head) => {
                            let head = format!("HTTP/1.1 {head}\r\ntransfer-encoding: chunked\r\n\r\n");
                            let mut more = stream.write_all(head.as_bytes()).await;
                            while more.is_ok() {
                                more = stream.write_all(b"5\r\nagain\r\n").await;
                            }
                        }
                        Answers::Headers => {
                            let mut more = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
                            while more.is_ok() {
                                more = stream.write_all(b"x-more: and more\r\n").await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, got, task }
    }

    fn url(&self) -> String {
        format!("http://{}/hook?a=b", self.address)
    }

    fn got(&self) -> Vec<String> {
        self.got.lock().unwrap().clone()
    }
}

fn parcel(url: &str, secret: Option<&str>) -> Parcel {
    let webhook = Webhook {
        name: "oncall".into(),
        url: Some(url.to_owned()),
        secret: secret.map(str::to_owned),
        ..Webhook::default()
    };
    Parcel {
        webhook,
        path: "credit/prod".into(),
        id: "2NBs0sLBnJxEcoDLgVnQdJkhEgV.few.2026-06-02.1780315200000000".into(),
        at: Timestamp::parse("2026-06-03T00:01:00.5Z").unwrap(),
        body: r#"{"type":"alert.fires"}"#.into(),
    }
}

fn sender(to_private: bool, folder: Option<PathBuf>) -> Arc<dyn WebhookSender> {
    WebhookArgs { webhooks_to_private: to_private, webhook_secrets: folder }.sender()
}

/// Example of the specification's own libraries.
#[test]
fn a_signature_is_that_of_the_standard() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
    let signed = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    assert_eq!(signatures(secret, id, 1_614_265_330, body).unwrap(), signed);
    let both = signatures(&format!("{secret}\n{secret}"), id, 1_614_265_330, body).unwrap();
    assert_eq!(both, format!("{signed} {signed}"));
    for wrong in
        ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8G", "whsec_!", "postgres://user:password@db"]
    {
        let said = signatures(wrong, id, 0, body).unwrap_err();
        assert!(said.contains("whsec_") && !said.contains("password"), "{said}");
    }
}

#[tokio::test]
async fn a_delivery_is_signed_and_has_one_id() {
    let receiver = Receiver::that(status("204 No Content")).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("oncall"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    std::fs::write(folder.path().join("place"), receiver.url()).unwrap();
    std::fs::write(folder.path().join("oncall.workspaces"), "fraud/prod, credit/prod\n").unwrap();
    std::fs::write(folder.path().join("place.workspaces"), "credit/*").unwrap();
    let sender = sender(true, Some(folder.path().to_owned()));
    let mut signed = parcel(&receiver.url(), Some("oncall"));
    assert_eq!(sender.post(&signed).await, Posted::Taken);
    signed.webhook.url = None;
    signed.webhook.url_from = Some("place".into());
    assert_eq!(sender.post(&signed).await, Posted::Taken);
    let got = receiver.got();
    let id = "2NBs0sLBnJxEcoDLgVnQdJkhEgV:few:2026-06-02:1780315200000000";
    let signature =
        signatures("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", id, 1_780_444_860, &signed.body).unwrap();
    for request in &got {
        assert!(request.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{request}");
        for line in [
            format!("webhook-id: {id}\r\n"),
            "webhook-timestamp: 1780444860\r\n".to_owned(),
            format!("webhook-signature: {signature}\r\n"),
            "content-type: application/json\r\n".to_owned(),
            format!("\r\n\r\n{}", signed.body),
        ] {
            assert!(request.contains(&line), "{request} has no {line}");
        }
    }
    assert_eq!(got.len(), 2);
    // A delivery to be signed is never sent without a signature.
    let missing = sender.post(&parcel(&receiver.url(), Some("other"))).await;
    assert!(
        matches!(&missing, Posted::Down(why) if why.contains("ALMANAC_WEBHOOK_SECRET_OTHER")),
        "{missing:?}"
    );
    let wrong = sender.post(&parcel(&receiver.url(), Some("place"))).await;
    assert!(matches!(&wrong, Posted::Down(why) if !why.contains("http")), "{wrong:?}");
    // A workspace can neither sign with another workspace's secret, nor post to its place.
    signed.path = "credits/prod".into();
    let places =
        [signed.clone(), Parcel { path: "credit/test".into(), ..parcel(&receiver.url(), Some("oncall")) }];
    for other in places {
        let refused = sender.post(&other).await;
        assert!(matches!(&refused, Posted::Down(why) if why.contains("is not for credit")), "{refused:?}");
    }
    assert_eq!(receiver.got().len(), 2);
}

#[tokio::test]
async fn private_addresses_are_refused_however_they_are_written() {
    let receiver = Receiver::that(status("200 OK")).await;
    let port = receiver.address.port();
    // Without TLS, or some would fail for another reason.
    let web = Web::for_strangers(false, Names::public()).map_err(|error| error.to_string());
    let strict = Post { web: web.into(), secrets: Secrets { folder: None }, allows_private: true };
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.1",
    ] {
        let refused = strict.post(&parcel(&format!("http://{host}:{port}/"), None)).await;
        let Posted::Down(why) = &refused else { panic!("{host}: {refused:?}") };
        assert!(why.contains("private address"), "{host}: {why}");
    }
    let sender = sender(false, None);
    let refused = sender.post(&parcel(&format!("https://localhost:{port}/"), None)).await;
    assert!(matches!(&refused, Posted::Down(why) if why.contains("private address")), "{refused:?}");
    let open = sender.post(&parcel(&receiver.url(), None)).await;
    assert!(matches!(&open, Posted::Down(why) if why.contains("https://")), "{open:?}");
    assert!(receiver.got().is_empty());
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Receiver::that(status("200 OK")).await;
    let moved =
        format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url());
    let receiver = Receiver::that(Answers::With(moved)).await;
    let posted = sender(true, None).post(&parcel(&receiver.url(), None)).await;
    assert!(
        matches!(&posted, Posted::Refused(why) if why.contains("redirects are not followed")),
        "{posted:?}"
    );
    assert_eq!((receiver.got().len(), other.got().len()), (1, 0));
}

#[tokio::test]
async fn receiver_status_decides_webhook_delivery_outcome() {
    let sender = sender(true, None);
    for (line, expected) in [
        ("200 OK", Posted::Taken),
        ("410 Gone", Posted::Gone("410 Gone".into())),
        ("400 Bad Request", Posted::Refused("400 Bad Request".into())),
        ("404 Not Found", Posted::Refused("404 Not Found".into())),
        ("429 Too Many Requests", Posted::Down("429 Too Many Requests".into())),
        ("500 Internal Server Error", Posted::Down("500 Internal Server Error".into())),
    ] {
        let receiver = Receiver::that(status(line)).await;
        assert_eq!(sender.post(&parcel(&receiver.url(), None)).await, expected);
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let posted = sender.post(&parcel(&format!("http://{nobody}/"), None)).await;
    assert!(matches!(posted, Posted::Down(_)), "{posted:?}");
}

#[tokio::test]
async fn hostile_webhook_receiver_is_read_version_off_soon() {
    let sender = sender(true, None);
    for (answers, is_taken) in [(Answers::Endless("200 OK"), true), (Answers::Endless("503 Busy"), false)] {
        let receiver = Receiver::that(answers).await;
        let begun = Instant::now();
        let posted = sender.post(&parcel(&receiver.url(), None)).await;
        assert_eq!(posted == Posted::Taken, is_taken, "{posted:?}");
        assert!(begun.elapsed() < TRY_WITHIN, "the body is not read");
    }
    let receiver = Receiver::that(Answers::Headers).await;
    let posted = timeout(TRY_WITHIN, sender.post(&parcel(&receiver.url(), None))).await;
    assert!(matches!(posted, Ok(Posted::Down(_))), "{posted:?}");
    // A caller leaves a receiver that never answers after a while; meanwhile others are served.
    let (dead, good) = (Receiver::that(Answers::Hangs).await, Receiver::that(status("200 OK")).await);
    let to_dead = parcel(&dead.url(), None);
    let hanging = timeout(Duration::from_secs(2), sender.post(&to_dead));
    let to_good = parcel(&good.url(), None);
    let other = async {
        while dead.got().is_empty() {
            tokio::task::yield_now().await;
        }
        sender.post(&to_good).await
    };
    let (hanging, other) = tokio::join!(hanging, other);
    assert!(hanging.is_err());
    assert_eq!(other, Posted::Taken);
}
