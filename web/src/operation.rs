//! Operations, as described in the OpenAPI document.

use axum::http::StatusCode;
use serde_json::Value;
use utoipa::{
    IntoParams,
    openapi::{
        Content, ContentBuilder, Header, HttpMethod, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
        path::{Operation as Described, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
        request_body::RequestBodyBuilder,
    },
};

use crate::{Need, RequiredPermission, schema};

/// Operation of the API: its path, its parameters and its answers, as the document describes them.
#[derive(Clone)]
pub struct Operation {
    method: &'static str,
    path: String,
    described: Described,
}

impl Operation {
    /// Begins an operation that reads, with the id `id`.
    pub fn get(path: impl Into<String>, id: &str) -> Self {
        Self::new("GET", path.into(), id)
    }

    /// Begins an operation that adds, with the id `id`.
    pub fn post(path: impl Into<String>, id: &str) -> Self {
        Self::new("POST", path.into(), id)
    }

    /// Begins an operation that sets, with the id `id`.
    pub fn put(path: impl Into<String>, id: &str) -> Self {
        Self::new("PUT", path.into(), id)
    }

    /// Begins an operation that changes a part, with the id `id`.
    pub fn patch(path: impl Into<String>, id: &str) -> Self {
        Self::new("PATCH", path.into(), id)
    }

    /// Begins an operation that removes, with the id `id`.
    pub fn delete(path: impl Into<String>, id: &str) -> Self {
        Self::new("DELETE", path.into(), id)
    }

    fn new(method: &'static str, path: String, id: &str) -> Self {
        let is_on_workspace = path.starts_with("/v1/workspaces/{category}/{name}");
        let described = OperationBuilder::new()
            .operation_id(Some(id))
            .response("default", Ref::from_response_name(PROBLEM))
            .build();
        let operation = Self { method, path, described };
        if !is_on_workspace {
            return operation;
        }
        let category = schema::any_of([schema::one_of(["-"]).into(), schema::name().into()]);
        operation
            .takes(in_path("category", category, "credit", "The category of the workspace, or `-`."))
            .takes(in_path(
                "name",
                schema::name().into(),
                "prod",
                "Its name in the category, or behind `-` its id.",
            ))
    }

    /// Sets its summary, in a few words.
    pub fn summary(self, text: impl Into<String>) -> Self {
        self.with(|described| described.summary(Some(text)))
    }

    /// Sets its description, beyond the summary.
    pub fn description(self, text: impl Into<String>) -> Self {
        self.with(|described| described.description(Some(text)))
    }

    /// Sets the group that it belongs to.
    pub fn tag(self, tag: &str) -> Self {
        self.with(|described| described.tag(tag))
    }

    /// A parameter, in the place of one of the same name.
    pub fn takes(mut self, parameter: impl Into<Parameter>) -> Self {
        let parameter = parameter.into();
        let parameters = self.described.parameters.get_or_insert_default();
        let place = |one: &Parameter| (one.name.clone(), one.parameter_in.clone());
        parameters.retain(|other| place(other) != place(&parameter));
        parameters.push(parameter);
        self
    }

    /// Takes the query parameters that are the fields of a type.
    pub fn query<T: IntoParams>(self) -> Self {
        T::into_params(|| Some(ParameterIn::Query)).into_iter().fold(self, Self::takes)
    }

    /// Sets the body, in one or more media types.
    pub fn body(
        self,
        description: &str,
        contents: impl IntoIterator<Item = (&'static str, Content)>,
    ) -> Self {
        let body = RequestBodyBuilder::new().description(Some(description)).required(Some(Required::True));
        let body = contents.into_iter().fold(body, |body, (media, content)| body.content(media, content));
        self.with(|described| described.request_body(Some(body.build())))
    }

    /// Adds an answer for success.
    pub fn answers(self, status: StatusCode, response: impl Into<RefOr<Response>>) -> Self {
        self.with(|described| described.response(status.as_str(), response))
    }

    fn with(self, change: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Self {
        Self { described: change(self.described.into()).build(), ..self }
    }

    /// Returns the method, in the form of requests.
    pub(crate) fn method(&self) -> &'static str {
        self.method
    }

    /// Adds its demand on callers to the document.
    pub(crate) fn demanding(self, demand: &RequiredPermission) -> Self {
        if demand.is_nothing() {
            return self;
        }
        let need = |need: &Need| format!("`{}` on {}", need.right, demand.says(need));
        let needs = demand.needs().iter().map(need).collect::<Vec<_>>().join(" and ");
        let said = self.described.description.as_deref().map_or_else(String::new, |said| format!("{said} "));
        self.description(format!("{said}Needs {needs}."))
    }

    /// Returns true if it takes parameters in its query.
    pub(crate) fn takes_parameters(&self) -> bool {
        let of_query = |parameter: &Parameter| parameter.parameter_in == ParameterIn::Query;
        self.described.parameters.iter().flatten().any(of_query)
    }

    /// Returns the method, the path and the description.
    pub(crate) fn into_parts(self) -> (HttpMethod, String, Described) {
        let method = match self.method {
            "PUT" => HttpMethod::Put,
            "POST" => HttpMethod::Post,
            "PATCH" => HttpMethod::Patch,
            "DELETE" => HttpMethod::Delete,
            _ => HttpMethod::Get,
        };
        (method, self.path, self.described)
    }

    /// Returns the path, with its parameters in braces.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// A parameter that is a segment of the path.
pub fn in_path(name: &str, schema: RefOr<Schema>, example: &str, says: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(says))
        .schema(Some(schema))
        .example(Some(example.into()))
}

/// Builds a parameter in the query or in a header.
pub fn parameter(
    at: ParameterIn,
    name: &str,
    schema: impl Into<RefOr<Schema>>,
    says: &str,
) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(at)
        .required(Required::False)
        .description(Some(says))
        .schema(Some(schema))
}

/// Builds a body of one media type, with an example of it.
pub fn content(schema: impl Into<RefOr<Schema>>, example: Option<Value>) -> Content {
    ContentBuilder::new().schema(Some(schema)).example(example).build()
}

/// Builds an answer of one media type.
pub fn answer(description: &str, media_type: &str, schema: impl Into<RefOr<Schema>>) -> ResponseBuilder {
    ResponseBuilder::new().description(description).content(media_type, content(schema, None))
}

/// The name of [`problem_response`] among the answers that the document says once.
pub const PROBLEM: &str = "Problem";

/// The problems that an operation may answer: what their statuses mean here.
const PROBLEMS: [(StatusCode, &str); 13] = [
    (StatusCode::BAD_REQUEST, "Something in the request is wrong; `detail` says what."),
    (StatusCode::UNAUTHORIZED, "The request brings no token that is good; see `Authorization: Bearer`."),
    (StatusCode::FORBIDDEN, "The caller may not do this; `detail` says which right is missing."),
    (StatusCode::NOT_FOUND, "There is no such thing; `detail` says what is missing."),
    (StatusCode::REQUEST_TIMEOUT, "The body did not come in time. Nothing was stored."),
    (
        StatusCode::CONFLICT,
        "It was done before in another way, or something stands against it; `detail` says what.",
    ),
    (StatusCode::GONE, "What it asks for was deleted when it expired; `detail` says what there is instead."),
    (
        StatusCode::PRECONDITION_FAILED,
        "It has changed since it was read: its version is not that of `If-Match`.",
    ),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than a limit, or has more rows. Nothing was stored."),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The content type or the content encoding is not known."),
    (
        StatusCode::UNPROCESSABLE_ENTITY,
        "The body is wrong; `errors` names the first bad rows. Nothing was stored.",
    ),
    (
        StatusCode::TOO_MANY_REQUESTS,
        "Too many requests of this workspace are under way; send this one later.",
    ),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "Too many requests are under way, or the service is stopping; send it later.",
    ),
];

/// The answer that is a problem: every operation refers to it.
pub fn problem_response() -> Response {
    let says = PROBLEMS.map(|(status, says)| format!("- `{}`: {says}", status.as_u16())).join("\n");
    ResponseBuilder::new()
        .description(format!("A problem, by its status:\n\n{says}"))
        .content("application/problem+json", content(schema::component("Problem"), None))
        .header("Retry-After", retry_after())
        .build()
}

fn retry_after() -> Header {
    let mut header = Header::new(schema::count());
    header.description = Some("After how many seconds to try again, of `429` and `503`.".into());
    header
}
