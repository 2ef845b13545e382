//! Parameters of a request that name its subject, read as the operation itself will read them.

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{RawPathParams, Request},
    http::StatusCode,
};
use serde::Deserialize;
use web::{About, Need, Place, Problem, QueryParams, RequiredPermission, json_object, named_in};

/// The parameters of paths that name a workspace: by its category and its own name, or both in one.
const WORKSPACE_NAMES: [&str; 3] = ["workspace", "category", "name"];

/// Parameters of a request, as far as they are needed.
#[derive(Debug, Default)]
pub(super) struct Params<'a> {
    path: Vec<(&'a str, &'a str)>,
    /// Workspace in the path, when something is named by it.
    workspace: String,
    query: Vec<(String, String)>,
    body: Named,
}

/// Fields of a body that may name something. A repeated field is an error here and for the operation.
#[derive(Debug, Default, Deserialize)]
struct Named {
    workspace: Option<String>,
    path: Option<String>,
    name: Option<String>,
    following: Option<bool>,
}

fn place(about: About) -> Option<Place> {
    match about {
        About::Entity(_, place)
        | About::ParentOf(_, place)
        | About::CategoryOf(place)
        | About::Followed(place)
        | About::Renamed(_, place)
        | About::Own(_, place) => Some(place),
        About::ServerUnless(names) => names.first().copied().map(Place::Query),
        About::Caller | About::Visible | About::Server | About::Typed(..) => None,
    }
}

impl<'a> Params<'a> {
    /// Reads the words of a request, and returns it unchanged.
    pub(super) async fn read(
        demand: &RequiredPermission,
        path: &'a RawPathParams,
        request: Request,
    ) -> Result<(Self, Request), Problem> {
        let mut words = Self { path: path.iter().collect(), ..Self::default() };
        let mut request = request;
        for place in demand.needs().iter().filter_map(|need| place(need.about)) {
            match place {
                Place::WorkspaceOfPath => {
                    let of_workspace = words.path.iter().filter(|(name, _)| WORKSPACE_NAMES.contains(name));
                    let values: Vec<&str> = of_workspace.map(|(_, value)| *value).collect();
                    words.workspace = named_in(&values);
                }
                Place::Path(_) => {}
                Place::Query(name) => {
                    let QueryParams(query) = QueryParams::<Vec<(String, String)>>::of(request.uri())?;
                    if query.iter().filter(|(known, _)| known == name).count() > 1 {
                        let detail = format!("{name}: it is given twice");
                        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
                    }
                    words.query = query;
                }
                Place::Body(name) => {
                    request = words.read_body(request).await?;
                    if words.at(place).is_none() {
                        let detail = format!("{name}: it is missing");
                        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
                    }
                }
            }
        }
        let names_anew = |need: &Need| matches!(need.about, About::Renamed(..));
        if demand.needs().iter().any(names_anew) {
            request = words.read_body(request).await?;
        }
        Ok((words, request))
    }

    /// Reads the fields of the body, and returns the request unchanged.
    async fn read_body(&mut self, request: Request) -> Result<Request, Problem> {
        let (body, whole) = body_of(request).await?;
        self.body = json_object(whole.headers(), Ok(body))?;
        Ok(whole)
    }

    /// Returns whether the body ends a follow.
    pub(super) fn unfollows(&self) -> bool {
        self.body.following == Some(false)
    }

    /// Name in the body.
    pub(super) fn name(&self) -> Option<&str> {
        self.body.name.as_deref()
    }

    /// Word at a place.
    pub(super) fn at(&self, place: Place) -> Option<&str> {
        let find =
            |pairs: &'_ [(String, String)], name: &str| pairs.iter().position(|(known, _)| known == name);
        match place {
            Place::WorkspaceOfPath => Some(&self.workspace),
            Place::Path(name) => self.in_path(name),
            Place::Query(name) => find(&self.query, name).map(|at| self.query[at].1.as_str()),
            Place::Body("path") => self.body.path.as_deref(),
            Place::Body(_) => self.body.workspace.as_deref(),
        }
    }

    /// Returns true if the query has a parameter.
    pub(super) fn has_parameter(&self, name: &str) -> bool {
        self.query.iter().any(|(known, _)| known == name)
    }

    /// Parameter of the path.
    pub(super) fn in_path(&self, name: &str) -> Option<&str> {
        self.path.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Reads the body, and returns the request with it.
async fn body_of(request: Request) -> Result<(Bytes, Request), Problem> {
    let (head, body) = request.into_parts();
    let most = catalog::http::MAX_BODY_BYTES;
    let read = to_bytes(body, most).await;
    let too_long = |_| {
        let detail = format!("the body is longer than {most} bytes, or it broke off");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let body = read.map_err(too_long)?;
    Ok((body.clone(), Request::from_parts(head, Body::from(body))))
}
