//! Authorization of requests: the permission required by the route against the rights of the caller.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    extract::{MatchedPath, Query, RawPathParams, Request, State, rejection::RawPathParamsRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, uri::Authority},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use catalog::{Catalog, Sight};
use event::{Error, Kind, Right, Rights};
use log::key::EntityKind;
use web::{About, Demands, Need, Problem, Refused, Requester, RequiredPermission, Routes};

use super::{once, params::Params, session};
use crate::{
    authenticator::{Access, Refusal},
    caller::Caller,
    oidc::Oidc,
    token::Token,
};

/// The authentication scheme.
const BEARER: &str = "bearer";

/// Parameters by which other services take tokens.
const SECRETS: [&str; 4] = ["access_token", "id_token", "api_key", "authorization"];

/// State of the guard.
#[derive(Debug)]
struct AuthLayer {
    access: Arc<Access>,
    demands: Demands,
}

/// Puts each route behind authorization. Routes without a required permission are open to everybody.
pub fn guard(routes: Routes, access: Arc<Access>) -> Routes {
    let guard = Arc::new(AuthLayer { access, demands: routes.demands().clone() });
    routes.map_router(|router| router.layer(from_fn_with_state(guard, guarded)))
}

/// Closes the routes of a service without tokens to pages of other origins: such a page, visited by a user, could have
/// the browser read and change everything. Reads without a required permission stay open, so that links lead to the
/// dashboard.
pub fn refuse_foreign_pages(routes: Routes) -> Routes {
    let guard = Arc::new(routes.demands().clone());
    routes.map_router(|router| router.layer(from_fn_with_state(guard, own_pages)))
}

async fn own_pages(
    State(demands): State<Arc<Demands>>,
    matched: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let demand = matched.as_ref().and_then(|matched| demand_of(&demands, matched.as_str(), request.method()));
    match request.method().is_safe() && demand.is_some_and(RequiredPermission::is_nothing) {
        true => next.run(request).await,
        false => of_own_page(request, next).await,
    }
}

/// Answers an anonymous request, unless a page of another origin sent it.
async fn of_own_page(request: Request, next: Next) -> Response {
    if !session::is_foreign(request.headers()) {
        return next.run(request).await;
    }
    let detail = "this service asks nobody for a token, so it answers no page of another origin; ask it from its own pages, \
                  have a proxy pass the header Host on, or make a token by `almanac init`";
    Problem::new(StatusCode::FORBIDDEN, detail).into_response()
}

async fn guarded(
    State(guard): State<Arc<AuthLayer>>,
    matched: Option<MatchedPath>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let demand =
        matched.as_ref().and_then(|matched| demand_of(&guard.demands, matched.as_str(), request.method()));
    // A path has only methods that declare their permission.
    let Some(demand) = demand else { return next.run(request).await };
    let path = path.map_err(|rejection| rejection.body_text());
    if has_secret(request.uri(), &path) {
        return Problem::new(
            StatusCode::BAD_REQUEST,
            "a token has no place in a URL; revoke it, since URLs are logged",
        )
        .into_response();
    }
    if demand.is_nothing() && request.method().is_safe() {
        return next.run(request).await;
    }
    match guard.access.is_open().await {
        Ok(true) => return of_own_page(request, next).await,
        Ok(false) if demand.is_nothing() => return next.run(request).await,
        Ok(false) => {}
        Err(error) => return Problem::from(error).into_response(),
    }
    let again = demand.waits().then(|| head_of(&request));
    let request = match guard.let_in(demand, &path, request).await {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let mut response = match request.extensions().get::<Arc<Caller>>().and_then(|caller| caller.once) {
        Some(digest) => once::used(&guard.access, digest, request, next).await,
        None => next.run(request).await,
    };
    // A request that waited is refused if its caller has lost the right meanwhile.
    if let Some(again) = again
        && let Err(refused) = guard.let_in(demand, &path, again).await
    {
        return *refused;
    }
    if let Some(session::Closed(session)) = response.extensions_mut().remove() {
        guard.access.forget(&session);
    }
    response
}

/// Copies a request without its body: the parts that name the caller and the resource.
fn head_of(request: &Request) -> Request {
    let mut head = Request::new(Body::empty());
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    if let Some(requester) = request.extensions().get::<Requester>() {
        head.extensions_mut().insert(requester.clone());
    }
    head
}

/// Returns the bearer token of the header, if there is exactly one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Refusal::Malformed);
    }
    let (scheme, bearer) =
        value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(Refusal::Malformed)?;
    if scheme.eq_ignore_ascii_case(BEARER) { Ok(Some(bearer.trim())) } else { Err(Refusal::Malformed) }
}

/// Returns whether a URL, which would be logged on its way, has a token: one of Almanac or of an issuer, or a parameter
/// named like one. It checks the text as written and decoded.
fn has_secret(uri: &Uri, path: &Result<RawPathParams, String>) -> bool {
    let says_so = |name: &str| SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
    let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let pairs = query.map(|Query(pairs)| pairs).unwrap_or_default();
    let written = [Some(uri.path()), uri.query(), uri.authority().map(Authority::as_str)];
    let of_path = path.iter().flat_map(|path| path.iter()).map(|(_, value)| value);
    let of_query = pairs.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    written.into_iter().flatten().chain(of_path).chain(of_query).any(Token::is_in)
        || pairs.iter().any(|(name, value)| says_so(name) || Oidc::is_alike(value))
}

fn demand_of<'a>(demands: &'a Demands, path: &str, method: &Method) -> Option<&'a RequiredPermission> {
    let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
    demands.get(path)?.get(method)
}

fn unknown(refusal: &Refusal, is_encrypted: bool) -> Response {
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, refusal.to_string()).into_response();
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"almanac\""));
    response.extensions_mut().insert(Refused::default());
    if *refusal == Refusal::Ended { session::without_cookie(response, is_encrypted) } else { response }
}

fn forbidden(right: Right, on: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, format!("this needs the right `{right}` on {on}"))
}

impl AuthLayer {
    /// Finds the caller: by the bearer token, else by the session.
    async fn caller(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
        is_encrypted: bool,
        is_use: bool,
    ) -> Result<Result<Arc<Caller>, Refusal>, Error> {
        let session = match bearer(headers) {
            Ok(None) => session::of(headers, is_encrypted),
            Ok(bearer) => return self.access.caller(bearer, address).await,
            Err(refusal) => Err(refusal),
        };
        match session {
            Ok(Some(session)) => self.access.caller_in(&session, address, is_use).await,
            Ok(None) => self.access.caller(None, address).await,
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Returns the request if the caller may have it done, else the answer.
    async fn let_in(
        &self,
        demand: &RequiredPermission,
        path: &Result<RawPathParams, String>,
        request: Request,
    ) -> Result<Request, Box<Response>> {
        let refuse = |problem: Problem| Box::new(problem.into_response());
        let requester = request.extensions().get::<Requester>();
        let (address, is_encrypted) =
            requester.map_or((None, false), |requester| (requester.address, requester.is_encrypted));
        let found = self.caller(request.headers(), address, is_encrypted, demand.is_use()).await;
        let found = found.map_err(|error| refuse(error.into()))?;
        let caller = found.map_err(|refusal| Box::new(unknown(&refusal, is_encrypted)))?;
        let refuse = |problem: Problem| {
            let is_refusal = [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&problem.status());
            let mut refused = refuse(problem);
            if is_refusal {
                let principal = Some(Arc::clone(&caller.said().0));
                refused.extensions_mut().insert(Refused { principal });
            }
            refused
        };
        let path = path.as_ref();
        let path = path.map_err(|says| refuse(Problem::new(StatusCode::BAD_REQUEST, says.clone())))?;
        let (words, mut request) = Params::read(demand, path, request).await.map_err(refuse)?;
        let mut is_admin = true;
        let has_parameter = |name: &str| words.has_parameter(name);
        for need in demand.needs_with(has_parameter) {
            is_admin &= self.check(&caller, need, &words).await.map_err(refuse)?.has(Right::Admin);
        }
        let of_path = demand.kind_parameter().and_then(|name| Kind::from_name(words.in_path(name)?));
        let mut kinds = demand.kinds().iter().copied().chain(of_path);
        if let Some(kind) = kinds.find(|kind| !caller.limits.has_kind(*kind)) {
            let detail = format!("the token is not for {kind}");
            return Err(refuse(Problem::new(StatusCode::FORBIDDEN, detail)));
        }
        if caller.once.is_some() && !demand.is_append() {
            let detail = "the token is for one append and nothing else";
            return Err(refuse(Problem::new(StatusCode::FORBIDDEN, detail)));
        }
        let sight = caller.sight();
        if **sight != Sight::Everything {
            request.extensions_mut().insert(Arc::clone(sight));
        }
        let requester = request.extensions_mut().get_or_insert_default::<Requester>();
        let (principal, token) = caller.said();
        (requester.principal, requester.token) = (Some(Arc::clone(principal)), token.clone());
        requester.is_admin = is_admin;
        requester.is_of_some_kinds = Kind::ALL.iter().any(|kind| !caller.limits.has_kind(*kind));
        if let Some(quota) = &caller.quota {
            request.extensions_mut().insert(Arc::clone(quota));
        }
        request.extensions_mut().insert(caller);
        Ok(request)
    }

    /// Returns the rights of the caller on the resource of a need, if they include the needed one.
    async fn check(&self, caller: &Caller, need: &Need, words: &Params<'_>) -> Result<Rights, Problem> {
        let demanded = |rights: Rights| match rights.has(need.right) {
            true => Ok(rights),
            false => Err(forbidden(need.right, &need.says())),
        };
        match need.about {
            About::Caller => Ok(Rights::NONE),
            About::Visible => match caller.limits.rights().has(need.right) {
                true => Ok(Rights::NONE),
                false => Err(forbidden(need.right, &need.says())),
            },
            About::Server | About::ServerUnless(_) => demanded(caller.rights_on_server()),
            About::Entity(kind, place) => {
                let (kind, text) = (EntityKind::parse(kind)?, words.at(place).unwrap_or_default());
                demanded(self.rights_on(caller, kind, text).await?)
            }
            About::ParentOf(kind, place) => match words.at(place) {
                Some(text) => {
                    let kind = catalog::http::parent_kind(EntityKind::parse(kind)?, text)?;
                    demanded(self.rights_on(caller, kind, text).await?)
                }
                // The operation itself shows what is visible, or says that the parent is missing.
                None => Ok(Rights::NONE),
            },
            About::CategoryOf(place) => {
                let path = words.at(place).unwrap_or_default();
                let category = path.split_once('/').map_or(path, |(category, _)| category);
                // A right on the whole server also covers a category that will be made.
                if caller.rights_on_server().has(need.right) {
                    return Ok(caller.rights_on_server());
                }
                demanded(self.rights_on(caller, EntityKind::Category, category).await?)
            }
            About::Followed(_) if words.unfollows() => Ok(Rights::NONE),
            About::Followed(place) => {
                let text = words.at(place).unwrap_or_default();
                demanded(self.rights_on(caller, EntityKind::Workspace, text).await?)
            }
            About::Renamed(kind, place) => {
                let (kind, text) = (EntityKind::parse(kind)?, words.at(place).unwrap_or_default());
                match words.name() {
                    Some(_) => demanded(self.rights_to_create(caller, kind, text).await?),
                    None => Ok(Rights::NONE),
                }
            }
            About::Typed(kind, entity) => {
                let kind = EntityKind::parse(words.in_path(kind).unwrap_or_default())?;
                let text = words.in_path(entity).unwrap_or_default();
                match kind {
                    EntityKind::User | EntityKind::Group | EntityKind::System => {
                        self.check_own(caller, need, kind, text).await
                    }
                    _ => demanded(self.rights_on(caller, kind, text).await?),
                }
            }
            About::Own(kind, place) => {
                let text = words.at(place).unwrap_or_default();
                let (kind, name) = match kind {
                    Some(kind) => (kind, text),
                    None => text.split_once(':').unwrap_or_default(),
                };
                let kind = EntityKind::parse(kind)?;
                self.check_own(caller, need, kind, name).await
            }
        }
    }

    /// Returns the rights on an entity that the caller may see.
    async fn rights_on(&self, caller: &Caller, kind: EntityKind, text: &str) -> Result<Rights, Error> {
        let rights = self.access.rights_on(caller, kind, text).await?;
        rights.ok_or_else(|| Catalog::missing(kind, text))
    }

    /// Returns the rights on the parent of a new entity: the category of a workspace, the server if it has none.
    async fn rights_to_create(&self, caller: &Caller, kind: EntityKind, text: &str) -> Result<Rights, Error> {
        if kind.parent().is_none() {
            return Ok(caller.rights_on_server());
        }
        let place = self.access.catalog().place(kind, text).await?;
        let category = place.map(|place| catalog::Place { workspace: None, ..place });
        Ok(category.map_or(Rights::NONE, |category| caller.rights_at(&category)))
    }

    /// Checks a right on a user, group or system. The principal itself has it, within its token's limits; so has any
    /// caller with the right on the server.
    async fn check_own(
        &self,
        caller: &Caller,
        need: &Need,
        kind: EntityKind,
        text: &str,
    ) -> Result<Rights, Problem> {
        if caller.rights_on_server().has(need.right) {
            return Ok(caller.rights_on_server());
        }
        let found = self.access.catalog().principal_named(kind, text).await?;
        match found {
            Some(at) if caller.is(&at) && caller.rights_on_own().has(need.right) => Ok(Rights::NONE),
            Some(at) if caller.is(&at) || caller.rights_on_server().has(Right::Read) => {
                Err(forbidden(need.right, &need.says()))
            }
            _ => Err(Catalog::missing(kind, text).into()),
        }
    }
}
