//! OpenAPI descriptions of groups, roles and counters.

use axum::http::StatusCode;
use log::key::EntityKind;
use serde_json::json;
use web::{
    Operation, answer, content, in_path,
    openapi::{Response, Type, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::{
    api::JSON,
    people::{MOST, ScopeParams},
    schemas,
};
use crate::MAX_COUNTER_KEY_BYTES;

fn done(says: &str) -> Response {
    Response::new(says)
}

fn member(method: fn(String, &str) -> Operation, id: &str) -> Operation {
    let says = "Who: `user:` or `system:` and an id or a name; without either a user.";
    method("/v1/groups/{group}/members/{member}".to_owned(), id)
        .tag("people")
        .takes(in_path("group", schema::string().into(), "risk", "The group, by id or name."))
        .takes(in_path("member", schema::string().into(), "ann", says))
        .answers(StatusCode::NO_CONTENT, done("It is so."))
}

pub(super) fn add_member() -> Operation {
    member(Operation::put, "add_member").summary("Put a user or system into a group")
}

pub(super) fn remove_member() -> Operation {
    member(Operation::delete, "remove_member").summary("Take a user or system out of a group")
}

fn role(method: fn(String, &str) -> Operation, id: &str) -> Operation {
    let principal = schema::string().pattern(Some("^(user|group|system):[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"));
    let says = "Who: `user:`, `group:` or `system:` and an id or a name.";
    method("/v1/grants/{principal}".to_owned(), id)
        .tag("people")
        .takes(in_path("principal", principal.into(), "user:ann", says))
        .query::<ScopeParams>()
        .answers(StatusCode::NO_CONTENT, done("It is so."))
}

pub(super) fn grant() -> Operation {
    let body = content(schema::object([("role", schemas::role())]), Some(json!({ "role": "admin" })));
    role(Operation::put, "grant")
        .summary("Give a role on a workspace, a category or the whole server")
        .description("In place of the one that was given before there. It counts within 5 seconds.")
        .body("The role.", [(JSON, body)])
}

pub(super) fn revoke() -> Operation {
    role(Operation::delete, "revoke")
        .summary("Take a role on a workspace, a category or the whole server away")
}

pub(super) fn grants() -> Operation {
    let grants = schema::array(schema::component("Grant"));
    Operation::get("/v1/grants", "list_grants")
        .tag("people")
        .query::<ScopeParams>()
        .summary("List who has which role on a workspace, a category or the whole server")
        .answers(StatusCode::OK, answer("The roles.", JSON, schema::object([("grants", grants.into())])))
}

fn of_counter(method: fn(String, &str) -> Operation, id: &str) -> Operation {
    let kind = schema::one_of(EntityKind::ALL.map(EntityKind::name)).into();
    method("/v1/counters/{type}/{entity}/{counter}".to_owned(), id)
        .tag("catalog")
        .takes(in_path("type", kind, "model", "The type of the entity."))
        .takes(in_path("entity", schema::string().into(), "credit/prod/churn", "The entity, by id or path."))
        .takes(in_path("counter", schema::name().into(), "reviews", "The name of the counter."))
        .answers(StatusCode::OK, answer("The counter.", JSON, schema::component("Counter")))
}

pub(super) fn count() -> Operation {
    let by = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(-MOST as isize))
        .maximum(Some(MOST as isize));
    let body = content(schema::object([("by", by.into())]), Some(json!({ "by": 1 })));
    let key = schema::string().pattern(Some("^[!-~]+$")).max_length(Some(MAX_COUNTER_KEY_BYTES));
    of_counter(Operation::post, "count")
        .summary("Add to a free counter of an entity")
        .description("A counter is 0 before it is first added to; `by` may be negative. Under an idempotency key it is added once: a repetition is answered as before, as long as the change is among the latest hundred of the counter.")
        .takes(
            parameter(ParameterIn::Header, "Idempotency-Key", key, "Names the change.")
                .example(Some(json!("review-17"))),
        )
        .body("How much.", [(JSON, body)])
}

pub(super) fn counter() -> Operation {
    of_counter(Operation::get, "counter").summary("Read a free counter of an entity")
}
