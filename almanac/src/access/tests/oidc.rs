//! Bearers of an issuer, from its keys over HTTP to the answer of a service.

use std::sync::Arc;

use ::access::{
    Access,
    http::guard,
    oidc::{Oidc, OidcSettings, Signing},
};
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
    routing::get,
};
use catalog::{Catalog, New, NewEntity, Patch, Role};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use log::{
    key::{EntityId, EntityKind, Scope},
    store::Store,
};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use serde_json::{Value, json};
use table::Table;
use tests::{
    between::{Between, Call, Happens},
    conformance::TestClock,
    engine::{Engine, Fresh},
    on_both_engines,
};
use tokio::{net::TcpListener, sync::watch};
use tower::ServiceExt;

use super::ground::Ground;
use crate::{
    http_client::Web,
    serve::{Listening, serve},
    up::{Options, Services},
};

/// Bytes before the key of RFC 8017 in PKCS #8, for 2,048 bits.
const RSA_HEADER_BYTES: usize = 26;

/// A key of the issuer, for each algorithm.
struct Signer {
    algorithm: Algorithm,
    secret: EncodingKey,
}

impl Signer {
    fn all() -> Vec<Self> {
        let der = |algorithm| KeyPair::generate_for(algorithm).unwrap().serialize_der();
        let rsa = der(&PKCS_RSA_SHA256);
        vec![
            Self { algorithm: Algorithm::RS256, secret: EncodingKey::from_rsa_der(&rsa[RSA_HEADER_BYTES..]) },
            Self {
                algorithm: Algorithm::ES256,
                secret: EncodingKey::from_ec_der(&der(&PKCS_ECDSA_P256_SHA256)),
            },
            Self {
                algorithm: Algorithm::EdDSA,
                secret: ed25519(&KeyPair::generate_for(&PKCS_ED25519).unwrap()),
            },
        ]
    }

    fn id(&self) -> String {
        format!("{:?}", self.algorithm)
    }

    fn public(&self) -> Jwk {
        let mut jwk = Jwk::from_encoding_key(&self.secret, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.id());
        jwk
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.secret).unwrap()
    }
}

/// The first version of PKCS #8, without the public key after the secret one.
fn ed25519(pair: &KeyPair) -> EncodingKey {
    let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    der.extend(&pair.serialize_der()[16..48]);
    EncodingKey::from_ed_der(&der)
}

/// An issuer on a port of its own, and a service that believes it.
struct House {
    issuer: String,
    signers: Vec<Signer>,
    clock: TestClock,
    catalog: Catalog,
    table: Arc<dyn Table>,
    ann: EntityId,
    workspace: Scope,
    _fresh: Fresh,
    stop: watch::Sender<bool>,
}

impl House {
    async fn on(engine: Engine) -> Self {
        let Ground { clock, table, catalog, workspace, ann, fresh } = Ground::on(engine).await;
        let signers = Signer::all();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let keys = json!({ "keys": signers.iter().map(Signer::public).collect::<Vec<_>>() });
        let found = json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(async || Json(found)))
            .route("/keys", get(async || Json(keys)));
        let (stop, mut stopped) = watch::channel(false);
        let end = async move { _ = stopped.wait_for(|stop| *stop).await };
        tokio::spawn(serve(listener, router, Listening::default(), end));
        Self { issuer, signers, clock, catalog, table, ann, workspace, _fresh: fresh, stop }
    }

    fn settings(&self) -> OidcSettings {
        OidcSettings {
            issuer: self.issuer.clone(),
            audiences: vec!["almanac".to_owned()],
            jwks_url: None,
            algorithms: Signing::usual(),
            principal_claim: "email".to_owned(),
            domain: Some("example.com".to_owned()),
            system_claim: Some("client".to_owned()),
            groups_claim: Some("groups".to_owned()),
            admins: false,
            creates_users: false,
        }
    }

    /// The service, as after its start.
    fn service(&self, settings: OidcSettings) -> Router {
        self.service_by(settings, |access| access)
    }

    fn service_by(&self, settings: OidcSettings, by: impl FnOnce(Access) -> Access) -> Router {
        self.service_on(Arc::clone(&self.table), settings, by)
    }

    /// A service that finds its callers in `table`.
    fn service_on(
        &self,
        table: Arc<dyn Table>,
        settings: OidcSettings,
        by: impl FnOnce(Access) -> Access,
    ) -> Router {
        let options = Options::new(self.clock.clock());
        let routes = Services::new(Store::over(Arc::clone(&self.table)), &options)
            .routes(&options, self.stop.subscribe());
        let oidc = Oidc::new(settings, Arc::new(Web::new(false).unwrap())).unwrap();
        let access = Access::new(table, self.clock.clock());
        guard(routes, Arc::new(by(access.with_oidc(Some(Arc::new(oidc)))))).into_router()
    }

    fn claims(&self, email: &str) -> Value {
        let expires = self.clock.now().micros() / 1_000_000 + 3_600;
        json!({ "iss": self.issuer, "aud": "almanac", "exp": expires, "email": email })
    }

    async fn create(&self, name: &str, what: New) -> EntityId {
        self.catalog.create(NewEntity::new(name, what), self.clock.now()).await.unwrap().at()
    }
}

async fn get_of(router: &Router, path: &str, bearer: &str) -> (StatusCode, Value) {
    let request = Request::get(path).header("Authorization", format!("Bearer {bearer}"));
    let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

on_both_engines!(
    House::on:
    issuer_people_are_users_and_programs_are_systems,
    an_issuer_makes_administrators_where_that_is_set,
    catalog_and_claimed_groups_grant_their_roles,
    unknown_user_is_created_only_where_configured,
    concurrently_created_user_is_recognized,
    session_expires_with_the_issuers_token,
);

async fn issuer_people_are_users_and_programs_are_systems(house: House) {
    let service = house.service(house.settings());
    for signer in &house.signers {
        let (status, said) =
            get_of(&service, "/v1/whoami", &signer.sign(&house.claims("ann@example.com"))).await;
        assert_eq!((status, &said["principal"]), (StatusCode::OK, &json!("user:ann")), "{said}");
    }
    let signer = &house.signers[1];
    house.create("nightly", New::System).await;
    let mut of_program = house.claims("nightly");
    of_program["client"] = json!("nightly");
    let (_, said) = get_of(&service, "/v1/whoami", &signer.sign(&of_program)).await;
    assert_eq!(said["principal"], "system:nightly");
    let refused = async |email: &str| {
        let (status, said) = get_of(&service, "/v1/whoami", &signer.sign(&house.claims(email))).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{said}");
        said["detail"].as_str().unwrap().to_owned()
    };
    assert!(refused("bob@example.com").await.contains("no user `bob`"));
    assert!(refused("ann@example.org").await.contains("`email`"));
    // A claim that names people names no system, even if somebody chose such a name.
    assert!(refused("nightly").await.contains("no user `nightly`"));
    let expired = signer.sign(&house.claims("ann@example.com"));
    assert_eq!(get_of(&service, "/v1/whoami", &expired).await.0, StatusCode::OK);
    house.clock.forward(3_600 + 60);
    let (status, said) = get_of(&service, "/v1/whoami", &expired).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(said["detail"].as_str().unwrap().contains("expired"), "{said}");
    let good = signer.sign(&house.claims("ann@example.com"));
    assert_eq!(get_of(&service, "/v1/whoami", &good).await.0, StatusCode::OK);
    house.catalog.change(&house.ann, &Patch::archive(true), None, house.clock.now()).await.unwrap();
    house.clock.forward(5);
    assert_eq!(get_of(&service, "/v1/whoami", &good).await.0, StatusCode::UNAUTHORIZED, "ann is archived");
    house.stop.send_replace(true);
}

async fn an_issuer_makes_administrators_where_that_is_set(house: House) {
    house.catalog.grant(&Scope::Server, &house.ann, Role::Admin, house.clock.now()).await.unwrap();
    let bearer = house.signers[1].sign(&house.claims("ann@example.com"));
    let service = house.service(house.settings());
    assert_eq!(get_of(&service, "/v1/workspaces/credit/prod", &bearer).await.0, StatusCode::OK);
    assert_eq!(get_of(&service, "/v1/audit", &bearer).await.0, StatusCode::FORBIDDEN);
    let service = house.service(OidcSettings { admins: true, ..house.settings() });
    assert_eq!(get_of(&service, "/v1/audit", &bearer).await.0, StatusCode::OK);
    house.stop.send_replace(true);
}

async fn catalog_and_claimed_groups_grant_their_roles(house: House) {
    let service = house.service(house.settings());
    let [own, claimed] = [house.create("own", New::Group).await, house.create("claimed", New::Group).await];
    house.catalog.grant(&house.workspace, &own, Role::Reader, house.clock.now()).await.unwrap();
    house.catalog.grant(&house.workspace, &claimed, Role::Reader, house.clock.now()).await.unwrap();
    let signer = &house.signers[1];
    let plain = signer.sign(&house.claims("ann@example.com"));
    let sees = async |bearer: &str| get_of(&service, "/v1/workspaces/credit/prod", bearer).await.0;
    assert_eq!(sees(&plain).await, StatusCode::NOT_FOUND);
    let mut claims = house.claims("ann@example.com");
    claims["groups"] = json!(["nobody-knows-it", "claimed"]);
    let of_claimed = signer.sign(&claims);
    assert_eq!(sees(&of_claimed).await, StatusCode::OK);
    for (is_archived, status) in [(true, StatusCode::NOT_FOUND), (false, StatusCode::OK)] {
        let patch = Patch::archive(is_archived);
        house.catalog.change(&claimed, &patch, None, house.clock.now()).await.unwrap();
        house.clock.forward(5);
        assert_eq!(sees(&of_claimed).await, status, "the claimed group is archived: {is_archived}");
    }
    claims["groups"] = json!(["claimed"]);
    claims["aud"] = json!("another");
    assert_eq!(sees(&signer.sign(&claims)).await, StatusCode::UNAUTHORIZED);
    house.catalog.add_member(&own, &house.ann, house.clock.now()).await.unwrap();
    house.clock.forward(5);
    assert_eq!(sees(&plain).await, StatusCode::OK, "5 seconds after ann joined the group");
    house.catalog.remove_member(&own, &house.ann, house.clock.now()).await.unwrap();
    house.clock.forward(5);
    assert_eq!(sees(&plain).await, StatusCode::NOT_FOUND, "5 seconds after ann left the group");
    house.stop.send_replace(true);
}

async fn unknown_user_is_created_only_where_configured(house: House) {
    let settings = OidcSettings { creates_users: true, ..house.settings() };
    let bearer = house.signers[1].sign(&house.claims("bob@example.com"));
    let reading = house.service_by(settings.clone(), Access::reading_only);
    let (status, said) = get_of(&reading, "/v1/whoami", &bearer).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(said["detail"].as_str().unwrap().contains("there is no user `bob` yet"), "{said}");
    let service = house.service(settings);
    let (status, said) = get_of(&service, "/v1/whoami", &bearer).await;
    assert_eq!((status, &said["principal"]), (StatusCode::OK, &json!("user:bob")), "{said}");
    assert!(house.catalog.principal_named(EntityKind::User, "bob").await.unwrap().is_some());
    assert_eq!(get_of(&reading, "/v1/whoami", &bearer).await.0, StatusCode::OK, "he is known now");
    let (status, _) = get_of(&service, "/v1/workspaces/credit/prod", &bearer).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "bob is known and may do nothing yet");
    house.stop.send_replace(true);
}

async fn concurrently_created_user_is_recognized(house: House) {
    let settings = OidcSettings { creates_users: true, ..house.settings() };
    let (catalog, now) = (house.catalog.clone(), house.clock.now());
    let mut first = Some(NewEntity::new("bob", New::User));
    let table = Between::new(Arc::clone(&house.table), move |call| {
        let Call::Write(_) = call else { return None };
        let (catalog, new) = (catalog.clone(), first.take()?);
        Some(Box::pin(async move { drop(catalog.create(new, now).await.unwrap()) }) as Happens)
    });
    let service = house.service_on(Arc::new(table), settings, |access| access);
    let bearer = house.signers[1].sign(&house.claims("bob@example.com"));
    let (status, said) = get_of(&service, "/v1/whoami", &bearer).await;
    assert_eq!((status, &said["principal"]), (StatusCode::OK, &json!("user:bob")), "{said}");
    house.stop.send_replace(true);
}

async fn session_expires_with_the_issuers_token(house: House) {
    let service = house.service(house.settings());
    let claimed = house.create("claimed", New::Group).await;
    house.catalog.grant(&house.workspace, &claimed, Role::Reader, house.clock.now()).await.unwrap();
    let mut claims = house.claims("ann@example.com");
    claims["groups"] = json!(["claimed"]);
    let bearer = format!("Bearer {}", house.signers[1].sign(&claims));
    let open = Request::post("/v1/session").header("Authorization", bearer).body(Body::empty()).unwrap();
    let answer = service.clone().oneshot(open).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let sees = async |service: &Router| {
        let request = Request::get("/v1/workspaces/credit/prod").header("Cookie", &cookie);
        let request = request.header("Almanac-Dashboard", "yes").body(Body::empty()).unwrap();
        service.clone().oneshot(request).await.unwrap().status()
    };
    assert_eq!(sees(&service).await, StatusCode::OK, "by the role of the group that was claimed");
    // Another process finds the claimed groups in the table, unless it trusts another issuer, or none.
    assert_eq!(sees(&house.service(house.settings())).await, StatusCode::OK);
    let other = OidcSettings { issuer: "http://127.0.0.1:1".to_owned(), ..house.settings() };
    assert_eq!(sees(&house.service(other)).await, StatusCode::UNAUTHORIZED);
    house.catalog.revoke(&house.workspace, &claimed).await.unwrap();
    house.clock.forward(5);
    assert_eq!(sees(&service).await, StatusCode::NOT_FOUND, "the group has no role any more");
    for seconds in [1_800, 1_800 + 54] {
        house.clock.forward(seconds);
        assert_eq!(sees(&service).await, StatusCode::NOT_FOUND);
    }
    house.clock.forward(1);
    assert_eq!(sees(&service).await, StatusCode::UNAUTHORIZED, "what the issuer signed has expired");
    house.stop.send_replace(true);
}
