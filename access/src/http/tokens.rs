//! Tokens over HTTP, and the identity of the caller.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{LimitValues, Quota, Service, http::quota_schema};
use event::{Error, Kind, Right, Timestamp};
use log::key::{EntityId, EntityKind, Scope};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use web::{
    About, Operation, Place, Problem, Refused, RequiredPermission, Routes, Whole, answer, content, in_path,
    json_object,
    openapi::{ObjectBuilder, RefOr, Response as Answered, Schema, Type},
    schema,
};

use super::session;
use crate::{
    caller::Caller,
    limits::{Limits, MAX_LISTED},
    once::check_role,
    tokens::{Lifetime, MAX_DAYS, NewToken, TokenRecord, Tokens, USUAL_DAYS},
};

const JSON: &str = "application/json";

/// A range of addresses: IPv4, or IPv6 written in full or as a prefix.
const NETWORK_PATTERN: &str = concat!(
    "^(",
    "((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(/(3[0-2]|[12]?[0-9]))?",
    "|",
    "(([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|([0-9a-f]{1,4}:){1,6}:)(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?",
    ")$"
);

/// State of the routes.
#[derive(Debug)]
pub struct Tokening {
    pub(super) service: Arc<Service>,
    pub(super) tokens: Tokens,
}

/// Request for a token, as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    name: String,
    /// `Some(None)`, when it is `null`: the token never expires.
    #[serde(default, deserialize_with = "said")]
    expires_in_days: Option<Option<f64>>,
    workspaces: Option<Vec<String>>,
    categories: Option<Vec<String>>,
    rights: Option<Vec<String>>,
    kinds: Option<Vec<String>>,
    addresses: Option<Vec<String>>,
    quota: Option<LimitValues>,
    #[serde(default)]
    once: bool,
}

/// Reads a present value, `null` included.
fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Routes of tokens and sessions, and of the caller's own identity.
pub fn routes(service: Arc<Service>, tokens: Tokens) -> Routes {
    operations().with_state(Arc::new(Tokening { service, tokens }))
}

/// The operations of [`routes`], as they describe themselves.
pub fn operations() -> Routes<Arc<Tokening>> {
    session::add(all(Routes::new()))
}

/// Routes of [`routes`] that change nothing.
pub fn reads(service: Arc<Service>, tokens: Tokens) -> Routes {
    all(Routes::reads()).with_state(Arc::new(Tokening { service, tokens }))
}

fn all(routes: Routes<Arc<Tokening>>) -> Routes<Arc<Tokening>> {
    let own = |right| RequiredPermission::of(right, About::Own(None, Place::Path("principal")));
    routes
        .add(create_operation(), RequiredPermission::server(Right::Admin), create)
        .add(list_operation(), own(Right::Admin), list)
        .add(revoke_operation(), own(Right::Admin), revoke)
        .add(whoami_operation(), RequiredPermission::known(), whoami)
        .schema("Token", record_schema())
}

/// Operation at a path that names a user or system.
pub(super) fn principal(path: &str, method: fn(String, &str) -> Operation, id: &str) -> Operation {
    let principal = schema::string().pattern(Some("^(user|system):[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"));
    let says = "Whose: `user:` or `system:` and an id or a name.";
    method(path.to_owned(), id).tag("people").takes(in_path("principal", principal.into(), "user:ann", says))
}

fn boolean() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

fn list_of(items: impl Into<RefOr<Schema>>, says: &str) -> RefOr<Schema> {
    let all = schema::array(items).min_items(Some(1)).max_items(Some(MAX_LISTED)).unique_items(true);
    all.description(Some(says)).into()
}

/// Schemas of the limits of a token.
fn limits() -> [(&'static str, RefOr<Schema>); 6] {
    [
        ("workspaces", list_of(schema::workspace(), "Only on these workspaces.")),
        ("categories", list_of(schema::string(), "Only on these categories and their workspaces.")),
        ("rights", list_of(schema::one_of(Right::ALL.map(Right::name)), "Only these rights.")),
        ("kinds", list_of(schema::one_of(Kind::ALL.map(Kind::name)), "Only events of these kinds.")),
        (
            "addresses",
            list_of(
                schema::string().pattern(Some(NETWORK_PATTERN)),
                "Only from these addresses, such as `10.0.0.0/8` or `2001:db8::/32`.",
            ),
        ),
        ("quota", quota_schema()),
    ]
}

fn create_operation() -> Operation {
    let says =
        format!("For how many days it is good; {USUAL_DAYS} when it is not given. `null`: it never expires.");
    let days = schema::integer(1..=MAX_DAYS as usize).schema_type(schema::types(&[Type::Integer], true));
    let days = days.description(Some(says));
    let once = boolean().description(Some(
        "Whether it is good for one append: of one kind of events, to one workspace, within 7 days (1, when nothing else is said).",
    ));
    let new = schema::object([("name", schema::name().into())]);
    let new = new.property("expires_in_days", days).property("once", once);
    let new = limits().into_iter().fold(new, |new, (name, schema)| new.property(name, schema));
    let example =
        json!({ "name": "laptop", "expires_in_days": 90, "workspaces": ["credit/prod"], "rights": ["read"] });
    let made = schema::all_of([
        schema::component("Token"),
        schema::object([("token", schema::string().into())]).additional_properties::<Schema>(None).into(),
    ]);
    principal("/v1/tokens/{principal}", Operation::post, "create_token")
        .summary("Make a token for a user or system")
        .description("Its text is answered once, and stored nowhere. Once there is a token, services ask their callers for one. A token that is made with one that is limited is limited as that is: what is not named is taken from there, and what is named must be within it.")
        .body("What it is for, and what it is limited to.", [(JSON, content(new, Some(example)))])
        .answers(StatusCode::CREATED, answer("The token.", JSON, made))
}

fn list_operation() -> Operation {
    let tokens = schema::object([("tokens", schema::array(schema::component("Token")).into())]);
    principal("/v1/tokens/{principal}", Operation::get, "list_tokens")
        .summary("List the tokens of a user or system")
        .answers(StatusCode::OK, answer("What is known of them, not their texts.", JSON, tokens))
}

fn revoke_operation() -> Operation {
    principal("/v1/tokens/{principal}/{token}", Operation::delete, "revoke_token")
        .takes(in_path("token", schema::name().into(), "laptop", "The id of the token, or its name."))
        .summary("Revoke a token")
        .description("Within 5 seconds no service takes it any more.")
        .answers(StatusCode::NO_CONTENT, Answered::new("It is revoked."))
}

fn whoami_operation() -> Operation {
    let who = schema::object([("principal", schema::nullable(schema::string()).into())]);
    Operation::get("/v1/whoami", "whoami")
        .tag("people")
        .summary("Tell who the caller is")
        .answers(StatusCode::OK, answer("Null, where callers are not asked who they are.", JSON, who))
}

fn record_schema() -> RefOr<Schema> {
    let maybe = |text| -> RefOr<Schema> { schema::nullable(text).into() };
    let record = schema::object([
        ("id", schema::id().into()),
        ("name", schema::name().into()),
        ("principal", schema::id().into()),
        ("created_at", schema::time().into()),
        ("expires_at", maybe(schema::time())),
        ("used_at", maybe(schema::time())),
        ("once", boolean().into()),
        ("spent_at", maybe(schema::time())),
    ]);
    let record = record.additional_properties::<Schema>(None);
    limits().into_iter().fold(record, |record, (name, schema)| record.property(name, schema)).into()
}

/// JSON of a token.
pub fn record(record: &TokenRecord) -> Value {
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let mut value = json!({
        "id": record.id.as_str(), "name": record.name, "principal": record.principal.to_string(),
        "created_at": record.created_at.to_string(), "expires_at": time(record.expires_at),
        "used_at": time(record.used_at), "once": record.is_once, "spent_at": time(record.spent_at),
    });
    let limits = &record.limits;
    let mut list = |name: &str, texts: Option<Vec<String>>| {
        if let Some(texts) = texts.filter(|texts| !texts.is_empty()) {
            value[name] = texts.into();
        }
    };
    let of = |kind: EntityKind| {
        let ids = |scopes: &std::collections::BTreeSet<Scope>| {
            let entities = scopes.iter().filter_map(Scope::entity).filter(|at| at.kind() == kind);
            entities.map(|at| at.to_string()).collect::<Vec<_>>()
        };
        limits.scopes.as_ref().map(ids)
    };
    list("workspaces", of(EntityKind::Workspace));
    list("categories", of(EntityKind::Category));
    list("rights", limits.rights.as_ref().map(|all| all.iter().map(ToString::to_string).collect()));
    list("kinds", limits.kinds.as_ref().map(|all| all.iter().map(|kind| kind.name().to_owned()).collect()));
    list("addresses", limits.networks.as_ref().map(|all| all.iter().map(ToString::to_string).collect()));
    if !limits.quota.is_empty() {
        value["quota"] = json!(limits.quota);
    }
    value
}

impl Asked {
    /// Returns the token, and true if an expiry was given.
    async fn token(self, service: &Service) -> Result<(NewToken, bool), Error> {
        let mut scopes = std::collections::BTreeSet::new();
        let is_limited = self.workspaces.is_some() || self.categories.is_some();
        let workspaces = self.workspaces.into_iter().flatten().map(|name| (EntityKind::Workspace, name));
        let categories = self.categories.into_iter().flatten().map(|name| (EntityKind::Category, name));
        for (kind, name) in workspaces.chain(categories) {
            scopes.extend(Scope::of(&service.catalog().resolve(kind, &name).await?));
        }
        let kind = |name: &String| {
            Kind::from_name(name).ok_or_else(|| Error::invalid(format!("`{name}` is no kind of events")))
        };
        let rights = |all: Vec<String>| all.iter().map(|name| Right::parse(name)).collect::<Result<_, _>>();
        let limits = Limits {
            scopes: is_limited.then_some(scopes),
            rights: self.rights.map(rights).transpose()?,
            kinds: self.kinds.map(|all| all.iter().map(kind).collect::<Result<_, _>>()).transpose()?,
            networks: self
                .addresses
                .map(|all| all.iter().map(|text| text.parse()).collect::<Result<_, _>>())
                .transpose()?,
            quota: self.quota.map(Quota::try_from).transpose()?.unwrap_or_default(),
        };
        let wrong = || {
            Error::invalid(format!(
                "expires_in_days: a token is good for 1 to {MAX_DAYS} whole days, or for ever"
            ))
        };
        // 4.0 is a whole number in JSON, too.
        let is_good = |days: &f64| days.fract() == 0.0 && (1.0..=f64::from(MAX_DAYS)).contains(days);
        let lifetime = match self.expires_in_days {
            None => Lifetime::Usual,
            Some(None) => Lifetime::Forever,
            Some(Some(days)) if is_good(&days) => Lifetime::Days(days as u32),
            Some(Some(_)) => return Err(wrong()),
        };
        let expires_at = NewToken::expiry(lifetime, self.once, service.clock().now());
        let names_expiry = lifetime != Lifetime::Usual;
        Ok((NewToken { name: self.name, expires_at, limits, is_once: self.once }, names_expiry))
    }
}

/// Refuses a token beyond the limits of the caller's own one.
fn beyond(caller: &Caller, says: String) -> Response {
    let mut response = Problem::new(StatusCode::FORBIDDEN, says).into_response();
    response.extensions_mut().insert(Refused { principal: Some(Arc::clone(&caller.said().0)) });
    response
}

pub(super) fn segments<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    let Path(path) =
        path.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
    Ok(path)
}

async fn create(
    State(tokening): State<Arc<Tokening>>,
    caller: Option<Extension<Arc<Caller>>>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Asked = json_object(&headers, new)?;
    let principal = tokening.principal(&segments(path)?).await?;
    let (mut new, names_expiry) = new.token(&tokening.service).await?;
    if let Some(Extension(caller)) = &caller {
        new = match caller.passing_on(new, names_expiry) {
            Ok(new) => new,
            Err(says) => return Ok(beyond(caller, says)),
        };
    }
    check_role(tokening.service.catalog(), &principal, &new).await?;
    let now = tokening.service.clock().now();
    let (token, record) = tokening.tokens.create(&principal, new, now).await?;
    let mut value = self::record(&record);
    value["token"] = token.text().into();
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

async fn list(
    State(tokening): State<Arc<Tokening>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let principal = tokening.principal(&segments(path)?).await?;
    let records = tokening.tokens.list(&principal).await?;
    Ok(Json(json!({ "tokens": records.iter().map(record).collect::<Vec<_>>() })).into_response())
}

async fn revoke(
    State(tokening): State<Arc<Tokening>>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Problem> {
    let (principal, id) = segments(path)?;
    let principal = tokening.principal(&principal).await?;
    tokening.tokens.revoke(&principal, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn whoami(caller: Option<Extension<Arc<Caller>>>) -> Response {
    let principal = caller.map(|Extension(caller)| caller.principal.to_string());
    Json(json!({ "principal": principal })).into_response()
}

impl Tokening {
    async fn principal(&self, text: &str) -> Result<EntityId, Error> {
        self.service.principal(text).await
    }
}
