//! Sessions of browsers: when a cookie authenticates its caller, and how it ends.

use std::{collections::BTreeMap, sync::Arc};

use ::access::{
    Access, IDLE_SECONDS, Limits, MAX_SESSIONS, NewToken, SESSION_SECONDS, Token, Tokens, http::guard,
};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, StatusCode, header},
};
use catalog::{Catalog, New, NewEntity, Patch, Role};
use event::Right;
use log::{
    audit::chain,
    key::{AuditLog, EntityId},
    store::Store,
};
use table::Table;
use tests::{
    conformance::TestClock,
    engine::{Engine, Fresh},
    on_both_engines,
};
use tokio::sync::watch;
use tower::ServiceExt;
use web::{Demands, Requester};

use super::ground::Ground;
use crate::up::{Options, Services};

const OWN: (&str, &str) = ("Almanac-Dashboard", "yes");

/// A service with two users, and a token that it was started with.
struct House {
    table: Arc<dyn Table>,
    clock: TestClock,
    tokens: Tokens,
    catalog: Catalog,
    ann: EntityId,
    bob: EntityId,
    preset: Token,
    demands: Demands,
    router: Router,
    fresh: Fresh,
    stop: watch::Sender<bool>,
}

impl House {
    async fn on(engine: Engine) -> Self {
        let Ground { clock, table, catalog, workspace, ann, fresh } = Ground::on(engine).await;
        let bob = catalog.create(NewEntity::new("bob", New::User), clock.now()).await.unwrap().at();
        catalog.grant(&workspace, &ann, Role::Maintainer, clock.now()).await.unwrap();
        let (preset, (stop, _)) = (Token::new(), watch::channel(false));
        let tokens = Tokens::new(Arc::clone(&table));
        let (router, demands) = Self::service(&table, &clock, &stop, Some(&preset));
        Self { table, clock, tokens, catalog, ann, bob, preset, demands, router, fresh, stop }
    }

    fn service(
        table: &Arc<dyn Table>,
        clock: &TestClock,
        stop: &watch::Sender<bool>,
        preset: Option<&Token>,
    ) -> (Router, Demands) {
        let options = Options::new(clock.clock());
        let services = Services::new(Store::over(Arc::clone(table)), &options);
        services.end_waiting();
        let routes = services.routes(&options, stop.subscribe());
        let demands = routes.demands().clone();
        let access = Access::new(Arc::clone(table), clock.clock()).with_preset(preset.map(Token::digest));
        (guard(routes, Arc::new(access)).into_router(), demands)
    }

    async fn token(&self, of: &EntityId, name: &str, days: Option<i64>, limits: Limits) -> Token {
        let expires_at = days.map(|days| self.clock.now().plus_seconds(days * 86_400));
        let new = NewToken { name: name.into(), expires_at, limits, is_once: false };
        self.tokens.create(of, new, self.clock.now()).await.unwrap().0
    }

    async fn send(&self, route: (&str, &str), headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
        self.send_as(Requester::default(), route, headers).await
    }

    async fn send_as(
        &self,
        requester: Requester,
        (method, uri): (&str, &str),
        headers: &[(&str, &str)],
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(uri).extension(requester);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        (head.status, head.headers, body)
    }

    /// Signs in; returns the cookie as the browser sends it.
    async fn sign_in(&self, token: &Token) -> String {
        let bearer = format!("Bearer {}", token.text());
        let (status, headers, body) =
            self.send(("POST", "/v1/session"), &[("Authorization", &bearer), OWN]).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{body}");
        let set = headers[header::SET_COOKIE].to_str().unwrap();
        let (pair, rest) = set.split_once("; ").unwrap();
        assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict");
        pair.to_owned()
    }

    /// Returns the principal that the service takes a cookie for, or the status of its refusal.
    async fn who(&self, cookie: &str) -> Result<String, StatusCode> {
        let (status, _, body) = self.send(("GET", "/v1/whoami"), &[("Cookie", cookie), OWN]).await;
        if status != StatusCode::OK {
            return Err(status);
        }
        let said: serde_json::Value = serde_json::from_str(&body).unwrap();
        Ok(said["principal"].as_str().unwrap().to_owned())
    }
}

on_both_engines!(
    House::on:
    session_cookie_works_only_for_dashboard_requests,
    session_cannot_exceed_the_token_that_opened_it,
    sign_out_ends_session_and_is_audited,
    excess_session_replaces_the_earliest_expiring_one,
    a_session_that_is_not_used_ends,
    users_list_and_end_only_their_own_sessions,
);

const ENDED: Result<String, StatusCode> = Err(StatusCode::UNAUTHORIZED);

async fn session_cookie_works_only_for_dashboard_requests(house: House) {
    let ann = house.token(&house.ann, "laptop", None, Limits::default()).await;
    let bob = house.token(&house.bob, "laptop", None, Limits::default()).await;
    let cookie = &*house.sign_in(&ann).await;
    assert_eq!(house.who(cookie).await, Ok("user:ann".into()));
    let other = format!("theme=dark; {cookie}; x=y");
    assert_eq!(house.who(&other).await, Ok("user:ann".into()), "among other cookies");
    // A link, a form or an image of another page: the cookie alone authenticates nobody, on any route.
    let mut asked = 0;
    for (path, methods) in &house.demands {
        for method in methods.iter().filter(|(_, demand)| !demand.is_nothing()).map(|(method, _)| *method) {
            let (status, _, body) = house.send((method, path), &[("Cookie", cookie)]).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
            assert!(body.contains("Almanac-Dashboard"), "{body}");
            asked += 1;
        }
    }
    assert!(asked > 100, "{asked} operations");
    let whoami = ("GET", "/v1/whoami");
    let host = ("Host", "almanac.example.com:7171");
    for (headers, is_own) in [
        (vec![("Origin", "http://almanac.example.com:7171")], true),
        (vec![("Origin", "https://ALMANAC.example.com:7171")], true),
        (vec![("Origin", "http://almanac.example.com")], false),
        (vec![("Origin", "http://evil.example.com:7171")], false),
        (vec![("Origin", "null")], false),
        (vec![("Sec-Fetch-Site", "same-origin"), ("Origin", "http://behind.a.proxy")], true),
        (vec![("Sec-Fetch-Site", "same-site")], false),
        (vec![("Sec-Fetch-Site", "cross-site")], false),
        (vec![("Sec-Fetch-Site", "none")], false),
        (vec![("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")], false),
    ] {
        let all = [&headers[..], &[("Cookie", cookie), OWN, host]].concat();
        let (status, _, body) = house.send(whoami, &all).await;
        assert_eq!(status == StatusCode::OK, is_own, "{headers:?}: {body}");
    }
    // Beside a bearer the cookie is ignored, even if the bearer is not valid.
    let of_bob = format!("Bearer {}", bob.text());
    let (_, _, body) = house.send(whoami, &[("Cookie", cookie), OWN, ("Authorization", &of_bob)]).await;
    assert!(body.contains("user:bob"), "{body}");
    for bad in ["Bearer alm_x", "Basic YTpi", "Bearer "] {
        let (status, ..) = house.send(whoami, &[("Cookie", cookie), OWN, ("Authorization", bad)]).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{bad}");
    }
    // No part of it can be changed, and it is no token.
    let value = cookie.split_once('=').unwrap().1;
    for at in (0..value.len()).step_by(5).chain([65, value.len() - 1]) {
        let letter = if value.as_bytes()[at] == b'1' { '2' } else { '1' };
        let changed = format!("almanac-session={}{letter}{}", &value[..at], &value[at + 1..]);
        assert_eq!(house.who(&changed).await, ENDED, "{changed}");
    }
    assert_eq!(house.who(&format!("{cookie}; almanac-session={value}")).await, ENDED, "two of one name");
    assert_eq!(house.who(&format!("almanac-session={}", ann.text())).await, ENDED);
    let (status, ..) = house.send(whoami, &[("Authorization", &format!("Bearer {value}"))]).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // Over TLS the cookie is another one, which only TLS sends and only this host sets.
    let encrypted = || Requester { is_encrypted: true, ..Requester::default() };
    let bearer = format!("Bearer {}", ann.text());
    let (_, headers, _) =
        house.send_as(encrypted(), ("POST", "/v1/session"), &[("Authorization", &bearer)]).await;
    let set = headers[header::SET_COOKIE].to_str().unwrap();
    let (pair, rest) = set.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict; Secure");
    assert!(pair.starts_with("__Host-almanac-session="), "{pair}");
    assert_eq!(house.send_as(encrypted(), whoami, &[("Cookie", pair), OWN]).await.0, StatusCode::OK);
    assert_eq!(
        house.send_as(encrypted(), whoami, &[("Cookie", cookie), OWN]).await.0,
        StatusCode::UNAUTHORIZED
    );
}

async fn session_cannot_exceed_the_token_that_opened_it(house: House) {
    let lasting = house.token(&house.ann, "lasting", None, Limits::default()).await;
    let short = house.token(&house.ann, "short", Some(1), Limits::default()).await;
    let limits = Limits { networks: Some(vec!["192.0.2.0/24".parse().unwrap()]), ..Limits::default() };
    let bound = house.token(&house.ann, "bound", None, limits).await;
    let narrow = Limits { rights: Some([Right::Read].into()), ..Limits::default() };
    let narrow = house.token(&house.ann, "narrow", None, narrow).await;

    let cookie = house.sign_in(&lasting).await;
    let put = ("POST", "/v1/workspaces/credit/prod/alerts");
    let may =
        async |cookie: &str| house.send(put, &[("Cookie", cookie), OWN]).await.0 != StatusCode::FORBIDDEN;
    assert!(may(&cookie).await && !may(&house.sign_in(&narrow).await).await, "limits of the token hold");
    let requester =
        |address: &str| Requester { address: Some(address.parse().unwrap()), ..Requester::default() };
    let bearer = format!("Bearer {}", bound.text());
    let open = ("POST", "/v1/session");
    let (_, headers, _) = house.send_as(requester("192.0.2.7"), open, &[("Authorization", &bearer)]).await;
    let at_home = headers[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let whoami = ("GET", "/v1/whoami");
    for (address, status) in [("192.0.2.9", StatusCode::OK), ("198.51.100.1", StatusCode::UNAUTHORIZED)] {
        let (answered, ..) = house.send_as(requester(address), whoami, &[("Cookie", &at_home), OWN]).await;
        assert_eq!(answered, status, "{address}");
    }
    // A session opens no other one, so it cannot be renewed; nor does a token for one append open one.
    let (status, _, body) = house.send(open, &[("Cookie", &cookie), OWN]).await;
    assert_eq!((status, body.contains("opens no other")), (StatusCode::CONFLICT, true), "{body}");
    let (status, ..) = house.send(open, &[OWN]).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);

    // A session ends with its token, and at most a fixed time after it was opened.
    house.tokens.revoke(&house.ann, "lasting").await.unwrap();
    house.clock.forward(5);
    assert_eq!(house.who(&cookie).await, ENDED, "the token was revoked 5 seconds ago");
    let (_, headers, _) = house.send(whoami, &[("Cookie", &cookie), OWN]).await;
    let gone = headers[header::SET_COOKIE].to_str().unwrap();
    assert_eq!(gone, "almanac-session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    house.clock.forward(86_400 - 60);
    let cookie = house.sign_in(&short).await;
    house.clock.forward(54);
    assert_eq!(house.who(&cookie).await, Ok("user:ann".into()));
    house.clock.forward(1);
    assert_eq!(house.who(&cookie).await, ENDED, "the token has expired");
    let cookie = house.sign_in(&narrow).await;
    let preset = house.sign_in(&house.preset).await;
    // A session in use lasts for its full time.
    let step = IDLE_SECONDS / 2;
    for seconds in (0..SESSION_SECONDS / step).map(|_| step).chain([step - 1]).skip(1) {
        house.clock.forward(seconds);
        assert_eq!(house.who(&cookie).await, Ok("user:ann".into()));
        assert_eq!(house.who(&preset).await, Ok("preset".into()));
    }
    house.clock.forward(1);
    assert_eq!((house.who(&cookie).await, house.who(&preset).await), (ENDED, ENDED), "12 hours have passed");
    let cookie = house.sign_in(&narrow).await;
    house.catalog.change(&house.ann, &Patch::archive(true), None, house.clock.now()).await.unwrap();
    house.clock.forward(5);
    assert_eq!(house.who(&cookie).await, ENDED, "ann is archived");
    // A start of the service with another token, or none, ends the sessions of the token before.
    let preset = house.sign_in(&house.preset).await;
    for other in [Some(Token::new()), None] {
        let (router, _) = House::service(&house.table, &house.clock, &house.stop, other.as_ref());
        let request = Request::get("/v1/whoami").header("Cookie", &preset).header(OWN.0, OWN.1);
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }
    assert_eq!(house.who(&preset).await, Ok("preset".into()));
}

async fn sign_out_ends_session_and_is_audited(house: House) {
    let token = house.token(&house.ann, "laptop", None, Limits::default()).await;
    let (cookie, other) = (house.sign_in(&token).await, house.sign_in(&token).await);
    assert_eq!(house.who(&cookie).await, Ok("user:ann".into()));
    let close = ("DELETE", "/v1/session");
    let (status, ..) = house.send(close, &[("Cookie", &cookie)]).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "no page of another origin signs anybody out");
    let (status, headers, _) = house.send(close, &[("Cookie", &cookie), OWN]).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert!(headers[header::SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(house.who(&cookie).await, ENDED, "without a second's delay");
    assert_eq!(house.who(&other).await, Ok("user:ann".into()), "the other browser is signed in still");
    let bearer = format!("Bearer {}", token.text());
    let (status, ..) = house.send(close, &[("Authorization", &bearer)]).await;
    assert_eq!(status, StatusCode::NO_CONTENT, "who came in no session has none to close");
    assert_eq!(house.who(&other).await, Ok("user:ann".into()));

    let records = chain::records(&*house.table, &AuditLog::Server, 1, 100).await.unwrap();
    let own: BTreeMap<&str, Vec<&log::audit::Record>> = records
        .iter()
        .filter(|record| record.action.starts_with("session."))
        .fold(BTreeMap::new(), |mut all, record| {
            all.entry(record.action.as_str()).or_default().push(record);
            all
        });
    assert_eq!((own["session.open"].len(), own["session.close"].len()), (2, 1));
    assert_eq!(own["session.open"][0].object, own["session.close"][0].object, "by the id of the session");
    assert!(own.values().flatten().all(|record| &*record.author.principal == "user:ann"));
    let text = format!("{records:?}");
    let secret = |cookie: &str| cookie.rsplit('.').next().unwrap().to_owned();
    let digest: String = token.digest().iter().map(|byte| format!("{byte:02x}")).collect();
    for hidden in [secret(&cookie), secret(&other), token.text().to_owned(), digest] {
        assert!(!text.contains(&hidden), "{text}");
    }
}

async fn a_session_that_is_not_used_ends(house: House) {
    let token = house.token(&house.ann, "laptop", None, Limits::default()).await;
    let (used, waits, idle) =
        (house.sign_in(&token).await, house.sign_in(&token).await, house.sign_in(&token).await);
    let news = ("GET", "/v1/workspaces/credit/prod/news?seconds=1");
    for _ in 0..2 {
        house.clock.forward(IDLE_SECONDS / 2);
        assert_eq!(house.who(&used).await, Ok("user:ann".into()));
        house.send(news, &[("Cookie", &waits), OWN]).await;
    }
    assert_eq!((house.who(&used).await, house.who(&idle).await), (Ok("user:ann".into()), ENDED));
    assert_eq!(house.who(&waits).await, ENDED, "a page that waits for news is not used by anybody");
}

async fn users_list_and_end_only_their_own_sessions(house: House) {
    let token = house.token(&house.ann, "laptop", None, Limits::default()).await;
    let bob = house.token(&house.bob, "laptop", None, Limits::default()).await;
    let mut cookies = Vec::new();
    for _ in 0..3 {
        cookies.push(house.sign_in(&token).await);
        house.clock.forward(1);
    }
    let other = house.sign_in(&bob).await;
    let own = ("Cookie", &*cookies[0]);
    let listed = async || {
        let (status, _, body) = house.send(("GET", "/v1/sessions/user:ann"), &[own, OWN]).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let said: serde_json::Value = serde_json::from_str(&body).unwrap();
        let ids = said["sessions"].as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ids = listed().await;
    assert_eq!(ids.len(), 3);
    // Other callers neither see nor end them.
    for method in ["GET", "DELETE"] {
        let (status, ..) = house.send((method, "/v1/sessions/user:ann"), &[("Cookie", &other), OWN]).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    let end = |id: &str| format!("/v1/sessions/user:ann?session={id}");
    let second = &*end(&ids[1]);
    assert_eq!(house.send(("DELETE", second), &[own, OWN]).await.0, StatusCode::NO_CONTENT);
    assert_eq!(house.send(("DELETE", second), &[own, OWN]).await.0, StatusCode::NOT_FOUND);
    house.clock.forward(5);
    let who = [house.who(&cookies[0]).await, house.who(&cookies[1]).await, house.who(&cookies[2]).await];
    assert_eq!(who, [Ok("user:ann".into()), ENDED, Ok("user:ann".into())]);
    assert_eq!(listed().await, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(house.send(("DELETE", "/v1/sessions/user:ann"), &[own, OWN]).await.0, StatusCode::NO_CONTENT);
    house.clock.forward(5);
    assert_eq!((house.who(&cookies[0]).await, house.who(&cookies[2]).await), (ENDED, ENDED));
    assert_eq!(house.who(&other).await, Ok("user:bob".into()));
}

async fn excess_session_replaces_the_earliest_expiring_one(house: House) {
    let token = house.token(&house.ann, "laptop", None, Limits::default()).await;
    let bob = house.token(&house.bob, "laptop", None, Limits::default()).await;
    let apart = house.sign_in(&bob).await;
    let mut cookies = Vec::new();
    for _ in 0..=MAX_SESSIONS {
        cookies.push(house.sign_in(&token).await);
        house.clock.forward(1);
    }
    house.clock.forward(5);
    assert_eq!(house.who(&cookies[0]).await, ENDED);
    for cookie in &cookies[1..] {
        assert_eq!(house.who(cookie).await, Ok("user:ann".into()));
    }
    assert_eq!(house.who(&apart).await, Ok("user:bob".into()), "those of another token are its own");
    // Concurrent sign-ins do not end a session that was just opened.
    let at_once = futures::future::join_all((0..4).map(|_| house.sign_in(&bob))).await;
    for cookie in at_once {
        assert_eq!(house.who(&cookie).await, Ok("user:bob".into()));
    }
    drop(house.fresh);
}
