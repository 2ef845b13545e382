//! Routes that declare their required permissions, and operations that describe themselves for the OpenAPI document.

use std::collections::BTreeMap;

use axum::{
    Router,
    extract::{Query, Request},
    handler::Handler,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use utoipa::openapi::{Paths, RefOr, Schema};

use crate::{Operation, Problem, RequiredPermission};

/// Demands of each operation on its caller, by path and then by method.
pub type Demands = BTreeMap<String, BTreeMap<&'static str, RequiredPermission>>;

/// A router, what the OpenAPI document says of it, and what its operations demand of their callers.
#[derive(Clone)]
pub struct Routes<S = ()> {
    router: Router<S>,
    paths: Paths,
    demands: Demands,
    schemas: BTreeMap<String, RefOr<Schema>>,
    reads_only: bool,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self {
            router: Router::new(),
            paths: Paths::new(),
            demands: Demands::new(),
            schemas: BTreeMap::new(),
            reads_only: false,
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// No routes yet; of what is added, operations that change something are left out.
    pub fn reads() -> Self {
        Self { reads_only: true, ..Self::default() }
    }

    /// An operation, what it demands of its caller, and what answers it. One that takes no parameters refuses them.
    pub fn add<H, T>(mut self, operation: Operation, demand: RequiredPermission, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        if self.reads_only && operation.method() != "GET" {
            return self;
        }
        let route = on(filter(operation.method()), handler);
        let route = match operation.takes_parameters() {
            true => route,
            false => route.layer(from_fn(without_parameters)),
        };
        self = self.route(operation.method(), operation.path(), demand.clone(), route);
        let (method, path, described) = operation.demanding(&demand).into_parts();
        self.paths.add_path_operation(path, vec![method], described);
        self
    }

    /// Adds a route outside of the API (a page, a probe, another protocol), which the document does not describe.
    pub fn serve<H, T>(self, method: &'static str, path: &str, demand: RequiredPermission, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(method, path, demand, on(filter(method), handler))
    }

    fn route(
        mut self,
        method: &'static str,
        path: &str,
        demand: RequiredPermission,
        route: MethodRouter<S>,
    ) -> Self {
        self.router = self.router.route(path, route);
        self.demands.entry(path.to_owned()).or_default().insert(method, demand);
        self
    }

    /// A schema that operations refer to by its name.
    pub fn schema(mut self, name: impl Into<String>, schema: impl Into<RefOr<Schema>>) -> Self {
        self.schemas.insert(name.into(), schema.into());
        self
    }

    /// The operations of `other`, after these.
    pub fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        for (path, item) in other.paths.paths {
            self.paths.paths.entry(path).or_default().merge_operations(item);
        }
        for (path, demands) in other.demands {
            self.demands.entry(path).or_default().extend(demands);
        }
        self.schemas.extend(other.schemas);
        self
    }

    /// Changes the router but not its routes: adds layers, for example.
    pub fn map_router(self, change: impl FnOnce(Router<S>) -> Router<S>) -> Self {
        Self { router: change(self.router), ..self }
    }

    /// Gives the handlers their state.
    pub fn with_state(self, state: S) -> Routes {
        let Self { router, paths, demands, schemas, reads_only } = self;
        Routes { router: router.with_state(state), paths, demands, schemas, reads_only }
    }

    /// The paths of the document, in the order in which they were added.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Demands of each operation on its caller.
    pub fn demands(&self) -> &Demands {
        &self.demands
    }

    /// The schemas, by name.
    pub fn schemas(&self) -> &BTreeMap<String, RefOr<Schema>> {
        &self.schemas
    }

    /// The router.
    pub fn into_router(self) -> Router<S> {
        self.router
    }
}

fn filter(method: &str) -> MethodFilter {
    match method {
        "PUT" => MethodFilter::PUT,
        "POST" => MethodFilter::POST,
        "PATCH" => MethodFilter::PATCH,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

/// Refuses a request with parameters to an operation that takes none: they would have no effect.
async fn without_parameters(request: Request, next: Next) -> Response {
    let parameters = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    match parameters.ok().and_then(|Query(all)| all.into_iter().next()) {
        None => next.run(request).await,
        Some((name, _)) => {
            let says = format!("unknown parameter `{name}`: this operation takes none");
            Problem::new(StatusCode::BAD_REQUEST, says).into_response()
        }
    }
}
