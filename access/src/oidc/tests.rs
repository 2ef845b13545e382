//! A small issuer in memory, and every error that a bearer can have.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures::future::join_all;
use jsonwebtoken::{DecodingKey, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::json;
use tokio::time::{Duration, advance};

use super::*;

const ISSUER: &str = "https://login.example.com/realm";

/// Issuer that publishes keys, and counts the requests for them.
#[derive(Debug, Default)]
struct Issuer {
    keys: Mutex<Vec<Jwk>>,
    asked: AtomicUsize,
    is_away: AtomicBool,
}

impl Fetch for Issuer {
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move {
            if self.is_away.load(Ordering::SeqCst) {
                return Err(Error::unavailable("the issuer is away"));
            }
            let answer = match url.strip_prefix(ISSUER) {
                Some("/.well-known/openid-configuration") => {
                    json!({ "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys"), "other": [] })
                }
                Some("/keys") => {
                    self.asked.fetch_add(1, Ordering::SeqCst);
                    // Lets other requests come meanwhile.
                    tokio::task::yield_now().await;
                    json!({ "keys": *self.keys.lock().unwrap() })
                }
                _ => panic!("{url} is asked for"),
            };
            Ok(serde_json::to_vec(&answer).unwrap())
        })
    }
}

/// Ed25519 key of a seed.
fn secret(seed: u8) -> EncodingKey {
    let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    der.extend([seed; 32]);
    EncodingKey::from_ed_der(&der)
}

fn public(seed: u8, id: &str) -> Jwk {
    let mut jwk = Jwk::from_encoding_key(&secret(seed), Algorithm::EdDSA).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    jwk
}

fn settings() -> OidcSettings {
    OidcSettings {
        issuer: ISSUER.to_owned(),
        audiences: vec!["almanac".to_owned()],
        jwks_url: None,
        algorithms: Signing::usual(),
        principal_claim: "sub".to_owned(),
        domain: None,
        system_claim: None,
        groups_claim: None,
        admins: false,
        creates_users: false,
    }
}

fn now() -> Timestamp {
    Timestamp::parse("2026-06-10T00:00:00Z").unwrap()
}

fn claims() -> Value {
    let now = now().micros() / 1_000_000;
    json!({ "iss": ISSUER, "aud": "almanac", "sub": "ann", "exp": now + 300, "nbf": now, "iat": now })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn header(id: &str) -> Header {
    Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::EdDSA) }
}

fn signed(id: &str, claims: &Value, seed: u8) -> String {
    encode(&header(id), claims, &secret(seed)).unwrap()
}

/// An issuer that has published the keys of these seeds, by their numbers.
fn world(seeds: &[u8]) -> (Arc<Issuer>, Oidc) {
    let issuer = Arc::new(Issuer::default());
    issuer.keys.lock().unwrap().extend(seeds.iter().map(|seed| public(*seed, &seed.to_string())));
    let oidc = Oidc::new(settings(), Arc::<Issuer>::clone(&issuer)).unwrap();
    (issuer, oidc)
}

async fn verdict(oidc: &Oidc, bearer: &str) -> Result<(), Wrong> {
    oidc.verify(bearer, now()).await.unwrap().map(drop)
}

#[tokio::test(start_paused = true)]
async fn bearer_token_verification_reports_its_fault() {
    let (_, oidc) = world(&[1, 2]);
    let good = signed("1", &claims(), 1);
    assert!(Oidc::is_alike(&good));
    assert_eq!(verdict(&oidc, &good).await, Ok(()));
    let several = with("aud", json!(["other", "almanac"]));
    assert_eq!(verdict(&oidc, &signed("1", &several, 1)).await, Ok(()));
    let claim = |name: &str| Err(Wrong::Claim(name.to_owned()));
    let now = now().micros() / 1_000_000;
    for (name, value, verdict_) in [
        ("exp", json!(now - 60), Err(Wrong::Expired)),
        ("exp", json!(null), claim("exp")),
        ("nbf", json!(now + 61), Err(Wrong::Early)),
        ("aud", json!("other"), Err(Wrong::Audience)),
        ("aud", json!([]), Err(Wrong::Audience)),
        ("aud", json!(null), claim("aud")),
        ("iss", json!("https://evil.example.com"), Err(Wrong::Issuer)),
        ("iss", json!([ISSUER]), Err(Wrong::Issuer)),
        ("iss", json!(null), claim("iss")),
        ("sub", json!(null), claim("sub")),
    ] {
        assert_eq!(
            verdict(&oidc, &signed("1", &with(name, value.clone()), 1)).await,
            verdict_,
            "{name} {value}"
        );
    }
    assert_eq!(
        verdict(&oidc, &signed("1", &claims(), 2)).await,
        Err(Wrong::Signature),
        "the key of another id"
    );
    assert_eq!(verdict(&oidc, &signed("1", &claims(), 9)).await, Err(Wrong::Signature), "a key of its own");
    assert_eq!(verdict(&oidc, &signed("9", &claims(), 9)).await, Err(Wrong::Key));
    let unnamed = encode(&Header::new(Algorithm::EdDSA), &claims(), &secret(1)).unwrap();
    assert_eq!(verdict(&oidc, &unnamed).await, Err(Wrong::Key), "it could be either");
    let parts: Vec<&str> = good.split('.').collect();
    let forged = signed("1", &with("sub", json!("root")), 9);
    let swapped = [parts[0], forged.split('.').nth(1).unwrap(), parts[2]].join(".");
    assert_eq!(verdict(&oidc, &swapped).await, Err(Wrong::Signature));
    for bad in
        ["", ".", "..", "ey..", "a.b.c", &good[..good.len() - 2], &format!("{good}."), &"x".repeat(20_000)]
    {
        assert!(verdict(&oidc, bad).await.is_err(), "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn forged_token_header_cannot_replace_issuer_key() {
    let (_, oidc) = world(&[1]);
    let good = signed("1", &claims(), 1);
    let (rest, signature) = good.rsplit_once('.').unwrap();
    let payload = rest.split('.').nth(1).unwrap();
    // {"alg":"none"}, and {"alg":"None","kid":"1"}
    for header in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOb25lIiwia2lkIjoiMSJ9"] {
        for signature in ["", signature] {
            let wrong = verdict(&oidc, &format!("{header}.{payload}.{signature}")).await.unwrap_err();
            assert!(matches!(wrong, Wrong::Algorithm | Wrong::Form), "{wrong:?}");
        }
    }
    // The public key, in each of its forms, as a secret.
    let jwk = public(1, "1");
    let text = serde_json::to_value(&jwk).unwrap()["x"].as_str().unwrap().to_owned();
    let raw = DecodingKey::from_jwk(&jwk).unwrap().try_get_as_bytes().unwrap().to_vec();
    for key in [text.into_bytes(), raw, serde_json::to_vec(&jwk).unwrap()] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let header = Header { kid: Some("1".to_owned()), ..Header::new(algorithm) };
            let forged = encode(&header, &claims(), &EncodingKey::from_secret(&key)).unwrap();
            assert_eq!(verdict(&oidc, &forged).await, Err(Wrong::Algorithm));
        }
    }
    // A key that comes with the bearer, and an unsupported critical extension.
    let own = Header { jwk: Some(public(9, "1")), ..header("1") };
    let forged = encode(&own, &claims(), &secret(9)).unwrap();
    assert_eq!(verdict(&oidc, &forged).await, Err(Wrong::Signature));
    let extended = Header { crit: Some(vec!["b64".to_owned()]), ..header("1") };
    let forged = encode(&extended, &claims(), &secret(1)).unwrap();
    assert_eq!(verdict(&oidc, &forged).await, Err(Wrong::Form));
    // An algorithm that is not on the list, though the issuer has a key for it.
    let narrow = OidcSettings { algorithms: vec!["RS256".parse().unwrap()], ..settings() };
    let (issuer, _) = world(&[1]);
    let narrow = Oidc::new(narrow, issuer).unwrap();
    assert_eq!(verdict(&narrow, &good).await, Err(Wrong::Algorithm));
}

#[tokio::test(start_paused = true)]
async fn keys_not_for_signatures_are_ignored() {
    for change in [json!({ "use": "enc" }), json!({ "key_ops": ["sign"] }), json!({ "alg": "ES256" })] {
        let (issuer, oidc) = world(&[2]);
        let mut jwk = serde_json::to_value(public(1, "1")).unwrap();
        jwk.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        issuer.keys.lock().unwrap().push(serde_json::from_value(jwk).unwrap());
        assert_eq!(verdict(&oidc, &signed("1", &claims(), 1)).await, Err(Wrong::Key), "{change}");
        assert_eq!(verdict(&oidc, &signed("2", &claims(), 2)).await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn key_rotation_finds_new_and_drops_old_keys() {
    let (issuer, oidc) = world(&[1]);
    assert_eq!(verdict(&oidc, &signed("1", &claims(), 1)).await, Ok(()));
    *issuer.keys.lock().unwrap() = vec![public(2, "2")];
    let new = signed("2", &claims(), 2);
    assert_eq!(verdict(&oidc, &new).await, Err(Wrong::Key), "the issuer was asked a moment ago");
    advance(Duration::from_secs(30)).await;
    assert_eq!(verdict(&oidc, &new).await, Ok(()));
    assert_eq!(verdict(&oidc, &signed("1", &claims(), 1)).await, Err(Wrong::Key), "it was taken back");
    // Holds also without an unknown key.
    *issuer.keys.lock().unwrap() = vec![public(3, "3")];
    advance(Duration::from_secs(10 * 60)).await;
    assert_eq!(verdict(&oidc, &new).await, Err(Wrong::Key));
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_query_issuer_once_per_30_seconds() {
    let (issuer, oidc) = world(&[1]);
    assert_eq!(verdict(&oidc, &signed("1", &claims(), 1)).await, Ok(()));
    let flood = async || {
        let bearers: Vec<String> = (0..1_000).map(|n| signed(&format!("x{n}"), &claims(), 9)).collect();
        let verdicts = join_all(bearers.iter().map(|bearer| verdict(&oidc, bearer))).await;
        assert!(verdicts.iter().all(|one| *one == Err(Wrong::Key)));
        issuer.asked.load(Ordering::SeqCst)
    };
    assert_eq!(flood().await, 1);
    for round in 2..5 {
        advance(Duration::from_secs(30)).await;
        assert_eq!(flood().await, round);
    }
}

#[tokio::test(start_paused = true)]
async fn cached_keys_last_a_day_without_issuer() {
    let (issuer, oidc) = world(&[1]);
    let good = signed("1", &claims(), 1);
    issuer.is_away.store(true, Ordering::SeqCst);
    assert!(
        oidc.verify(&good, now()).await.unwrap_err().to_string().contains(ISSUER),
        "no key was ever known"
    );
    issuer.is_away.store(false, Ordering::SeqCst);
    advance(Duration::from_secs(2)).await;
    assert_eq!(verdict(&oidc, &good).await, Ok(()));
    issuer.is_away.store(true, Ordering::SeqCst);
    advance(Duration::from_secs(24 * 60 * 60 - 1)).await;
    assert_eq!(verdict(&oidc, &good).await, Ok(()));
    advance(Duration::from_secs(1)).await;
    assert!(oidc.verify(&good, now()).await.is_err());
    issuer.is_away.store(false, Ordering::SeqCst);
    advance(Duration::from_secs(30)).await;
    assert_eq!(verdict(&oidc, &good).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_does_not_cancel_key_fetch() {
    let (issuer, oidc) = world(&[1]);
    let good = signed("1", &claims(), 1);
    let mut begun = Box::pin(oidc.verify(&good, now()));
    assert!(futures::poll!(begun.as_mut()).is_pending());
    drop(begun);
    // The question goes on without it, and is the only one.
    assert_eq!(verdict(&oidc, &good).await, Ok(()));
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn invalid_issuer_discovery_document_fetches_no_keys() {
    #[derive(Debug)]
    struct Says(Value);
    impl Fetch for Says {
        fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>>> {
            assert!(url.ends_with("/.well-known/openid-configuration"), "{url} is asked for");
            Box::pin(async { Ok(serde_json::to_vec(&self.0).unwrap()) })
        }
    }
    for says in [
        json!({ "issuer": "https://other", "jwks_uri": format!("{ISSUER}/keys") }),
        json!({ "issuer": ISSUER, "jwks_uri": "http://login.example.com/keys" }),
        json!({ "issuer": ISSUER, "jwks_uri": "http://127.0.0.1/keys" }),
        json!({ "issuer": ISSUER }),
        json!([]),
    ] {
        let oidc = Oidc::new(settings(), Arc::new(Says(says.clone()))).unwrap();
        assert!(oidc.verify(&signed("1", &claims(), 1), now()).await.is_err(), "{says}");
    }
}

#[test]
fn only_this_machine_is_asked_without_encryption() {
    let check = |url: &str, issuer: &str| check_url(url, issuer).is_ok();
    assert!(check("https://login.example.com/keys", "https://login.example.com"));
    assert!(check("http://127.0.0.1:8080/keys", "http://localhost:8080"));
    assert!(check("http://[::1]:8080/keys", "http://[::1]"));
    for (url, issuer) in [
        ("http://login.example.com/keys", "https://login.example.com"),
        ("http://127.0.0.1/keys", "https://login.example.com"),
        ("http://localhost.example.com/keys", "http://localhost"),
        ("http://127.0.0.1@example.com/keys", "http://localhost"),
        ("https://", "https://"),
        ("https:///keys", "https://x"),
        ("ftp://x", "https://x"),
        ("login.example.com", "https://x"),
    ] {
        assert!(!check(url, issuer), "{url} {issuer}");
    }
}

#[test]
fn no_algorithm_has_a_shared_secret() {
    for (name, _) in ALGORITHMS {
        assert_eq!(name.parse::<Signing>().unwrap().to_string(), name);
    }
    for name in ["HS256", "HS384", "HS512", "none", "None", "", "rs256"] {
        assert!(name.parse::<Signing>().is_err(), "{name}");
    }
}
