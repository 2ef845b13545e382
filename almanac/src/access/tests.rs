//! Calls of every route by every role, on the caller's own data, on another tenant's and on data that is not there.

use std::{collections::BTreeSet, sync::Arc};

use ::access::{Access, Limits, NewToken, Tokens, http::guard};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{Method, StatusCode},
    middleware::{Next, from_fn},
};
use catalog::{Catalog, New, NewEntity, Role};
use event::{Clock, Task};
use log::{
    key::{EntityId, EntityKind, Scope},
    store::Store,
};
use table::Table;
use tests::{counted::Counted, engine::Engine, on_both_engines};
use tokio::sync::watch;
use tower::ServiceExt;
use web::{About, Demands, Place, RequiredPermission};

use self::expected::{is_tried, refused};
use crate::up::{Options, Services};

mod expected;
mod ground;
mod hostile;
mod limits;
mod notifications;
mod oidc;
mod once;
mod patterns;
mod quota;
mod session;

/// Header of an answer whose request the guard has let in.
const LET_IN: &str = "let-in";

/// Subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Own,
    Other,
    Nothing,
}

/// Scope of the caller's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Workspace,
    Category,
    Server,
}

/// Role of a caller, if it has one.
type Given = Option<(Role, Held)>;

impl Target {
    /// Names of a category, a workspace and a person, equally long for another tenant's and for absent ones.
    fn names(self) -> [&'static str; 3] {
        match self {
            Target::Own => ["credit", "prod", "ann"],
            Target::Other => ["rivals", "velvet", "mallory"],
            Target::Nothing => ["nobody", "absent", "nemonas"],
        }
    }

    /// Value of a parameter of a path.
    fn parameter(self, path: &str, name: &str, caller: &str) -> String {
        let [category, workspace, person] = self.names();
        match name {
            "category" => category.to_owned(),
            "name" => workspace.to_owned(),
            "workspace" => format!("{category}%2F{workspace}"),
            "model" | "configuration" | "snapshot" => format!("{category}%2F{workspace}%2Frisk"),
            "entity" => format!("{category}%2F{workspace}%2Frisk"),
            "release" => format!("{category}%2F{workspace}%2Frisk@v1"),
            "user" | "member" if self == Target::Own => caller.to_owned(),
            "user" | "member" | "group" | "system" => person.to_owned(),
            // Nobody takes its own role away.
            "principal" if self == Target::Own && !path.contains("/grants") => format!("user:{caller}"),
            "principal" => format!("user:{person}"),
            "type" if path.ends_with("/events/{type}") => "predictions".to_owned(),
            "type" => "model".to_owned(),
            "counter" | "token" | "metric" => "spare".to_owned(),
            "run" => "2NBs0tD5Ihm2PVFzM3kZvMYdQX9".to_owned(),
            // A file of the dashboard, equal for all callers.
            "file" => "main.js".to_owned(),
            other => panic!("the path has a parameter `{other}`, of which this test knows nothing"),
        }
    }
}

/// A service with two tenants, and a caller for each role.
struct House {
    router: Router,
    demands: Demands,
    counted: Arc<Counted>,
    /// Callers: their names, their tokens, and their roles.
    callers: Vec<(String, String, Given)>,
    /// Texts that only the other tenant may see.
    secrets: Vec<String>,
    engine: Engine,
    _fresh: tests::engine::Fresh,
    _stop: watch::Sender<bool>,
}

async fn furnish(catalog: &Catalog, target: Target) -> Vec<EntityId> {
    let [category, workspace, person] = target.names();
    let now = Clock::system().now();
    let workspace = catalog.ensure_workspace(&format!("{category}/{workspace}"), now).await.unwrap();
    let id = workspace.id().clone();
    let model = catalog.ensure_model(&id, "risk", &Task::Regression, now).await.unwrap().entity.id;
    let configuration = catalog.ensure_configuration(&id, "risk", now).await.unwrap().entity.id;
    let release = New::Release {
        workspace: id.clone(),
        model: "risk".into(),
        configuration: None,
        environment: None,
        details: Box::default(),
    };
    let release = catalog.create(NewEntity::new("v1", release), now).await.unwrap().at();
    let snapshot = tests::world::snapshot(&EntityId::Workspace(id.clone()));
    let snapshot = catalog.create(NewEntity::new("risk", snapshot), now).await.unwrap().at();
    let mut made = vec![
        EntityId::Workspace(id.clone()),
        EntityId::Category(workspace.category.clone()),
        EntityId::Model(id.clone(), model),
        EntityId::Configuration(id.clone(), configuration),
        snapshot,
        release,
    ];
    for what in [New::User, New::Group, New::System] {
        made.push(catalog.create(NewEntity::new(person, what), now).await.unwrap().at());
    }
    made
}

impl House {
    async fn on(engine: Engine) -> Self {
        let fresh = engine.fresh(Clock::system()).await;
        let counted = Arc::new(Counted::new(Arc::clone(&fresh.table)));
        let table: Arc<dyn Table> = Arc::<Counted>::clone(&counted);
        let (catalog, now) = (Catalog::new(Arc::clone(&table)), Clock::system().now());
        let own = furnish(&catalog, Target::Own).await;
        let other = furnish(&catalog, Target::Other).await;
        let mut secrets: Vec<String> = other.iter().map(|at| at.id().to_string()).collect();
        secrets.extend(Target::Other.names().map(str::to_owned));
        let tokens = Tokens::new(Arc::clone(&table));
        let mut callers = Vec::new();
        let roles = Role::ALL
            .iter()
            .flat_map(|role| [Held::Workspace, Held::Category, Held::Server].map(|held| Some((*role, held))));
        for given in roles.chain([None]) {
            let name = format!("caller{}", callers.len());
            let at = catalog.create(NewEntity::new(&name, New::User), now).await.unwrap().at();
            if let Some((role, held)) = given {
                let scope = match held {
                    Held::Workspace => Scope::of(&own[0]).unwrap(),
                    Held::Category => Scope::of(&own[1]).unwrap(),
                    Held::Server => Scope::Server,
                };
                catalog.grant(&scope, &at, role, now).await.unwrap();
            }
            let new = NewToken {
                name: "first".into(),
                expires_at: None,
                limits: Limits::default(),
                is_once: false,
            };
            let (token, _) = tokens.create(&at, new, now).await.unwrap();
            callers.push((name, token.text().to_owned(), given));
        }
        let options = Options::new(Clock::system());
        let (stop, stopping) = watch::channel(false);
        let services = Services::new(Store::over(Arc::clone(&table)), &options);
        // What looks for events in the background would be counted among the reads of a call.
        services.end_waiting();
        let routes = services.routes(&options, stopping);
        let demands = routes.demands().clone();
        let mark = async |request: Request, next: Next| {
            let mut response = next.run(request).await;
            response.headers_mut().insert(LET_IN, "yes".parse().unwrap());
            response
        };
        let routes = routes.map_router(|router| router.layer(from_fn(mark)));
        let access = Arc::new(Access::new(table, Clock::system()));
        let router = guard(routes, access).into_router();
        Self { router, demands, counted, callers, secrets, engine, _fresh: fresh, _stop: stop }
    }

    /// Calls a route.
    async fn call(
        &self,
        route: (&str, &str, Option<&str>),
        target: Target,
        caller: Option<(&str, &str)>,
    ) -> Called {
        let (method, path, named) = route;
        let [category, workspace, _] = target.names();
        let demand = &self.demands[path][method];
        let name = caller.map_or("ann", |(name, _)| name);
        let segments = path.split('/').map(|segment| {
            let parameter = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            // A caller changes another principal, except on its own data.
            parameter.map_or_else(|| segment.to_owned(), |parameter| target.parameter(path, parameter, name))
        });
        let mut uri = segments.collect::<Vec<_>>().join("/");
        let parameter = named.or(lists_within(demand).then_some("of"));
        if let Some(parameter) = parameter {
            let value = match (parameter, path) {
                ("category", _) | ("of", "/v1/workspaces") => category.to_owned(),
                ("user", _) => target.parameter(path, "user", name),
                _ => format!("{category}/{workspace}"),
            };
            uri += &format!("?{parameter}={value}");
        }
        let body = serde_json::json!({
            "workspace": format!("{category}/{workspace}"), "path": format!("{category}/spare"), "of": "this test",
        });
        // Changes and deletions fail on the wrong version, so the data stays.
        let mut request = Request::builder().method(method).uri(uri).header("If-Match", "\"999999\"");
        if let Some((_, token)) = caller {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let request =
            request.header("Content-Type", "application/json").body(Body::from(body.to_string())).unwrap();
        self.counted.take_reads();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = String::from_utf8_lossy(&to_bytes(body, usize::MAX).await.unwrap()).into_owned();
        let reads = self.counted.take_reads();
        let is_let_in = head.headers.contains_key(LET_IN);
        Called {
            status: head.status,
            headers: format!("{:?}", head.headers),
            body,
            is_let_in,
            reads: reads.gets + reads.queries,
        }
    }

    /// All routes: each with every parameter by which its query may name a subject, and without.
    fn routes(&self) -> Vec<(Route<'_>, &RequiredPermission)> {
        let mut routes = Vec::new();
        for (path, methods) in &self.demands {
            for (method, demand) in methods {
                routes.push(((*method, path.as_str(), None), demand));
                let named = named(demand).map(|name| ((*method, path.as_str(), Some(name)), demand));
                routes.extend(named);
            }
        }
        routes
    }
}

/// Method, path, and the parameter by which the query names a subject.
type Route<'a> = (&'a str, &'a str, Option<&'static str>);

struct Called {
    status: StatusCode,
    headers: String,
    body: String,
    is_let_in: bool,
    reads: u64,
}

/// Parameters by which the query of a route may name its subject.
fn named(demand: &RequiredPermission) -> impl Iterator<Item = &'static str> {
    demand.needs().iter().filter_map(|need| match need.about {
        About::Entity(_, Place::Query(name)) | About::Own(_, Place::Query(name)) => Some(name),
        _ => None,
    })
}

/// True for a list of what is within an entity.
fn lists_within(demand: &RequiredPermission) -> bool {
    demand.needs().iter().any(|need| matches!(need.about, About::ParentOf(_, Place::Query(_))))
}

on_both_engines!(
    House::on:
    each_role_has_exactly_its_listed_permissions,
    nobody_without_a_good_token_gets_in,
    lists_and_feeds_show_only_permitted_entries,
    twisted_queries_give_no_rights_elsewhere,
);

async fn each_role_has_exactly_its_listed_permissions(house: House) {
    let mut tried = BTreeSet::new();
    for (route, demand) in house.routes() {
        let (method, path, named) = route;
        for (name, token, given) in
            house.callers.iter().filter(|(_, _, given)| is_tried(house.engine, *given))
        {
            let call = async |target| house.call(route, target, Some((name, token))).await;
            let [own, other, nothing] =
                [call(Target::Own).await, call(Target::Other).await, call(Target::Nothing).await];
            for (target, called) in
                [(Target::Own, &own), (Target::Other, &other), (Target::Nothing, &nothing)]
            {
                let mut needs = demand.needs_with(|name| named == Some(name));
                let refusal = needs.find_map(|need| refused(need, target, *given));
                let what = format!("{route:?} {target:?} by {given:?}: {} {}", called.status, called.body);
                assert_eq!(called.is_let_in, refusal.is_none(), "{what}");
                assert!(refusal.is_none_or(|status| called.status == status), "{what}");
                if !demand.is_nothing() {
                    tried.insert((called.is_let_in, called.status));
                }
            }
            if !matches!(given, Some((_, Held::Server))) {
                let seen = format!("{} {}", own.headers, own.body);
                let leaked = house.secrets.iter().find(|secret| seen.contains(secret.as_str()));
                assert_eq!(leaked, None, "{method} {path} by {given:?}: {seen}");
                if !demand.is_nothing() && !other.is_let_in {
                    let named = |text: &str| {
                        let pairs = Target::Other.names().into_iter().zip(Target::Nothing.names());
                        pairs.fold(text.to_owned(), |text, (other, nothing)| text.replace(other, nothing))
                    };
                    assert_eq!(named(&other.body), nothing.body, "{method} {path} by {given:?}");
                    assert_eq!(
                        (other.status, &other.headers, other.body.len()),
                        (nothing.status, &nothing.headers, nothing.body.len()),
                        "{method} {path} by {given:?}"
                    );
                    // Every 5 seconds one call reads its caller again; the next call does not.
                    let mut reads = (other.reads, nothing.reads);
                    for _ in 0..3 {
                        if reads.0 == reads.1 {
                            break;
                        }
                        reads = (call(Target::Other).await.reads, call(Target::Nothing).await.reads);
                    }
                    assert_eq!(reads.0, reads.1, "{method} {path} by {given:?}");
                }
            }
        }
    }
    for status in [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND] {
        assert!(tried.contains(&(false, status)), "{status} came up");
    }
    assert!(tried.iter().any(|(is_let_in, status)| *is_let_in && status.is_success()));
    assert!(tried.iter().all(|(_, status)| !status.is_server_error()), "{tried:?}");
}

async fn nobody_without_a_good_token_gets_in(house: House) {
    let token = &house.callers[0].1;
    let cut = &token[..token.len() - 1];
    let foreign = ::access::Token::new().text().to_owned();
    for (route, demand) in house.routes() {
        let (method, path, _) = route;
        for bad in [None, Some(("ann", "")), Some(("ann", cut)), Some(("ann", foreign.as_str()))] {
            let called = house.call(route, Target::Own, bad).await;
            assert_eq!(called.is_let_in, demand.is_nothing(), "{method} {path}");
            if !demand.is_nothing() {
                assert_eq!(called.status, StatusCode::UNAUTHORIZED, "{method} {path}: {}", called.body);
                assert!(called.headers.contains("Bearer realm"), "{}", called.headers);
                assert!(!called.body.contains(cut) && !called.body.contains(&foreign), "{}", called.body);
            }
        }
    }
    let get = async |uri: String, headers: &[(&str, String)]| {
        let mut request = Request::builder().method(Method::GET).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        house.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    };
    let bearer = |scheme: &str| ("Authorization", format!("{scheme} {token}"));
    let whoami = || "/v1/whoami".to_owned();
    assert_eq!(get(whoami(), &[bearer("bearer")]).await, StatusCode::OK, "the scheme is in any case");
    assert_eq!(get(whoami(), &[bearer("Basic")]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(get(whoami(), &[bearer("Bearer"), bearer("Bearer")]).await, StatusCode::UNAUTHORIZED);
    let in_url = get(format!("/v1/whoami?access_token={token}"), &[bearer("Bearer")]).await;
    assert_eq!(in_url, StatusCode::BAD_REQUEST, "a token has no place in a URL, good as it is");
    for query in ["access_token=x", "limit=1&Access_Token=", "of=eyJhbGciOiJub25lIn0.e30.c2ln"] {
        let status = get(format!("/v1/workspaces?{query}"), &[bearer("Bearer")]).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
    }
}

async fn lists_and_feeds_show_only_permitted_entries(house: House) {
    let called = |held: Option<Held>| {
        let is = |given: &Given| *given == held.map(|held| (Role::Reader, held));
        let (name, token, _) = house.callers.iter().find(|(_, _, given)| is(given)).unwrap();
        (name.as_str(), token.as_str())
    };
    for (path, field) in [("/v1/workspaces", "workspaces"), ("/v1/categories", "categories")] {
        let list = async |held| {
            let uri = Request::builder().uri(path);
            let request = uri
                .header("Authorization", format!("Bearer {}", called(held).1))
                .body(Body::empty())
                .unwrap();
            let body = house.router.clone().oneshot(request).await.unwrap().into_body();
            let body: serde_json::Value =
                serde_json::from_slice(&to_bytes(body, usize::MAX).await.unwrap()).unwrap();
            let names =
                body[field].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        let [own, other] = match field {
            "workspaces" => ["prod", "velvet"],
            _ => ["credit", "rivals"],
        };
        assert_eq!(list(Some(Held::Server)).await, [own, other]);
        assert_eq!(list(Some(Held::Category)).await, [own]);
        assert_eq!(list(None).await, [""; 0]);
        let of_workspace = list(Some(Held::Workspace)).await;
        assert_eq!(of_workspace, if field == "workspaces" { vec![own] } else { vec![] });
    }
    let kinds: Vec<&str> = EntityKind::ALL.iter().map(|kind| kind.plural()).collect();
    for path in kinds.iter().map(|plural| format!("/v1/{plural}")) {
        assert!(house.demands.contains_key(&path), "{path} is a list");
    }
}

/// An administrator of a workspace, and queries that name its scope in ways that the guard and the handler could read differently.
async fn twisted_queries_give_no_rights_elsewhere(house: House) {
    let is = |given: &Given| *given == Some((Role::Admin, Held::Workspace));
    let (_, token, _) = house.callers.iter().find(|(_, _, given)| is(given)).unwrap();
    let call = async |method: &str, path: &str, query: &str| {
        let request = Request::builder().method(method).uri(format!("{path}?{query}"));
        let request = request.header("Authorization", format!("Bearer {token}"));
        let request = request.header("Content-Type", "application/json");
        let answer = house.router.clone().oneshot(request.body(Body::from(r#"{"role":"admin"}"#)).unwrap());
        answer.await.unwrap().status()
    };
    for query in [
        "",
        "workspace=",
        "workspace",
        "category=",
        "workspace=&category=",
        "Workspace=credit/prod",
        "workspace=credit/prod&category=",
        "workspace=credit/prod&category=credit",
        "workspace=credit/prod&workspace=rivals/velvet",
        "workspace=credit/prod&%77orkspace=rivals/velvet",
        "%77orkspace=rivals/velvet",
        "category=credit",
        "user=",
    ] {
        for (method, path) in
            [("PUT", "/v1/grants/user:ann"), ("DELETE", "/v1/grants/user:mallory"), ("GET", "/v1/grants")]
        {
            let status = call(method, path, query).await;
            assert!(status.is_client_error(), "{method} {path}?{query}: {status}");
        }
        for path in ["/v1/audit", "/v1/digest"] {
            let status = call("GET", path, query).await;
            assert!(status.is_client_error(), "{path}?{query}: {status}");
        }
    }
    let status = call("PUT", "/v1/grants/user:ann", "%77orkspace=credit%2Fprod").await;
    assert_eq!(status, StatusCode::NO_CONTENT, "its own workspace, however it is escaped");
}
