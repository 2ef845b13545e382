//! Runs and experiments over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Kind, Right, fields::MAX_STEP};
use log::key;
use serde::Deserialize;
use serde_json::{Value, json};
use table::Cursor;
use web::{
    About, Operation, Place, Problem, QueryParams, RequiredPermission, Routes, Whole, answer, content,
    in_path, json_object,
    openapi::{
        RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn},
        schema::ObjectBuilder,
    },
    parameter, schema,
};

use super::api::JSON;
use crate::{
    MAX_PAGE, MAX_POINTS, MAX_RUN_NAME_BYTES, MAX_RUN_VALUE_BYTES, NewRunBody, RunChangeBody, RunQuery,
    RunStatus, Service,
};

/// The run of the examples.
const RUN: &str = "2NBs0tD5Ihm2PVFzM3kZvMYdQX9";

/// Default number of runs, and of values, in an answer.
const RUNS: usize = 100;
const POINTS: usize = 10_000;

/// Returns the permission that operations on one run require.
fn demand(right: Right) -> RequiredPermission {
    RequiredPermission::entity(right, "workspace", Place::Path("workspace"))
}

/// Returns the permission that lists require.
fn of_list() -> RequiredPermission {
    RequiredPermission::of(Right::Read, About::ParentOf("model", Place::Query("of")))
}

/// The routes of runs and experiments.
pub(super) fn add(routes: Routes<Arc<Service>>) -> Routes<Arc<Service>> {
    let creates = RequiredPermission::of(Right::Append, About::Entity("workspace", Place::Body("workspace")));
    let with_metrics = |demand: RequiredPermission| demand.of_kinds(&[Kind::Metrics]);
    routes
        .add(create_operation(), creates, create)
        .add(list_operation(), with_metrics(of_list()), list)
        .add(show_operation(), with_metrics(demand(Right::Read)), show)
        .add(change_operation(), demand(Right::Append), change)
        .add(history_operation(), with_metrics(demand(Right::Read)), history)
        .add(experiments_operation(), of_list(), experiments)
        .schema("Run", run_schema(false))
        .schema("RunWithMetrics", run_schema(true))
        .schema("Experiment", experiment_schema())
}

fn id() -> ObjectBuilder {
    schema::string().pattern(Some("^[0-9A-Za-z]{27}$"))
}

fn name() -> ObjectBuilder {
    schema::line().max_length(Some(MAX_RUN_NAME_BYTES))
}

fn texts(values: ObjectBuilder) -> ObjectBuilder {
    schema::map(Some(name()), values)
}

fn value() -> ObjectBuilder {
    schema::string().max_length(Some(MAX_RUN_VALUE_BYTES))
}

fn status() -> ObjectBuilder {
    schema::one_of(RunStatus::ALL.map(RunStatus::name))
}

fn or_null(object: ObjectBuilder) -> ObjectBuilder {
    object.schema_type(schema::types(&[Type::Object], true))
}

fn step() -> RefOr<Schema> {
    let whole = ObjectBuilder::new().schema_type(schema::types(&[Type::Integer], true));
    whole.minimum(Some(-MAX_STEP as isize)).maximum(Some(MAX_STEP as isize)).into()
}

/// A number, or the name of what JSON has no number for.
fn number() -> RefOr<Schema> {
    let number = ObjectBuilder::new().schema_type(schema::types(&[Type::Number, Type::String], false));
    number.pattern(Some("^(NaN|-?Infinity)$")).into()
}

fn measured() -> ObjectBuilder {
    schema::object([("value", number()), ("at", schema::time().into()), ("step", step())])
}

fn run_schema(with_metrics: bool) -> RefOr<Schema> {
    let text = || -> RefOr<Schema> { schema::string().into() };
    let run = schema::object([
        ("id", id().into()),
        ("workspace", schema::id().into()),
        ("experiment", text()),
        ("experiment_id", text()),
        ("name", text()),
        ("status", status().into()),
        ("started_at", schema::time().into()),
        ("ended_at", schema::nullable(schema::time()).into()),
        ("parent", schema::nullable(id()).into()),
        ("snapshot", schema::nullable(schema::string()).into()),
        ("params", schema::map(None, schema::string()).into()),
        ("tags", schema::map(None, schema::string()).into()),
        ("created_at", schema::time().into()),
        ("archived_at", schema::nullable(schema::time()).into()),
        ("version", schema::count().into()),
    ]);
    match with_metrics {
        false => run.into(),
        true => {
            let metrics = schema::map(None, measured());
            let says = "The latest value of each metric: that of the greatest step, and of it the latest.";
            run.property("metrics", metrics.description(Some(says))).required("metrics").into()
        }
    }
}

fn experiment_schema() -> RefOr<Schema> {
    schema::object([
        ("id", schema::string().into()),
        ("name", schema::string().into()),
        ("tags", schema::map(None, schema::string()).into()),
        ("created_at", schema::time().into()),
        ("updated_at", schema::time().into()),
        ("archived_at", schema::nullable(schema::time()).into()),
        ("version", schema::count().into()),
    ])
    .into()
}

fn create_operation() -> Operation {
    let new = schema::object([("workspace", schema::workspace())])
        .property("id", schema::nullable(id()))
        .property("experiment", schema::nullable(name()))
        .property("name", schema::nullable(name()))
        .property("started_at", schema::nullable(schema::time()))
        .property("parent", schema::nullable(id()))
        .property("snapshot", schema::nullable(name()))
        .property("params", or_null(texts(value())))
        .property("tags", or_null(texts(value())));
    let example = json!({
        "workspace": "credit/prod", "id": RUN, "experiment": "depths", "name": "depth 6",
        "started_at": "2026-06-01T00:00:00Z", "params": { "depth": "6" }, "tags": { "team": "lending" },
    });
    Operation::post("/v1/runs", "create_run")
        .tag("runs")
        .summary("Create a run")
        .description("Its experiment is created when it is new. Metrics name the run by its id. A caller that chooses the id can create the run again without having it twice.")
        .body("What it is.", [(JSON, content(new, Some(example)))])
        .answers(StatusCode::CREATED, answer("It, as it is now.", JSON, schema::component("Run")))
}

fn query(name: &str, schema: impl Into<RefOr<Schema>>, says: &str) -> ParameterBuilder {
    parameter(ParameterIn::Query, name, schema, says)
}

fn of() -> ParameterBuilder {
    let of = query("of", schema::workspace(), "The workspace, by id or path.");
    of.required(Required::True).example(Some("credit/prod".into()))
}

fn list_operation() -> Operation {
    let list = schema::object([
        ("runs", schema::array(schema::component("RunWithMetrics")).into()),
        ("next_cursor", schema::nullable(schema::string()).into()),
    ]);
    Operation::get("/v1/runs", "list_runs")
        .tag("runs")
        .summary("List runs with the latest values of their metrics")
        .takes(of())
        .takes(
            query("experiment", name(), "Only runs of this experiment, by name.")
                .example(Some("depths".into())),
        )
        .takes(query(
            "limit",
            schema::integer(1..=MAX_PAGE),
            "The most in an answer; 100 when it is not given.",
        ))
        .takes(query("cursor", schema::string(), "Go on after an answer, by its `next_cursor`."))
        .takes(query(
            "order",
            schema::one_of(["oldest", "newest"]),
            "Which come first; the newest when it is not given.",
        ))
        .answers(StatusCode::OK, answer("By the time of their creation.", JSON, list))
}

fn of_run(operation: Operation) -> Operation {
    operation
        .tag("runs")
        .takes(in_path("workspace", schema::workspace(), "credit/prod", "The workspace, by id or path."))
        .takes(in_path("run", id().into(), RUN, "The run, by its id."))
}

fn show_operation() -> Operation {
    of_run(Operation::get("/v1/runs/{workspace}/{run}", "show_run"))
        .summary("Show a run with the latest values of its metrics")
        .answers(StatusCode::OK, answer("It is.", JSON, schema::component("RunWithMetrics")))
}

fn change_operation() -> Operation {
    let nothing_or = |text: ObjectBuilder| text.schema_type(schema::types(&[Type::String], true));
    let statuses = RunStatus::ALL.map(|status| Value::from(status.name())).into_iter().chain([Value::Null]);
    let change = schema::closed()
        .property("name", schema::nullable(name()))
        .property("status", schema::nullable(ObjectBuilder::new()).enum_values(Some(statuses)))
        .property("ended_at", schema::nullable(schema::time()))
        .property("params", or_null(texts(value())))
        .property("tags", or_null(texts(nothing_or(value()))))
        .property("archived", ObjectBuilder::new().schema_type(schema::types(&[Type::Boolean], true)));
    let example = json!({ "status": "finished", "tags": { "team": "risk" } });
    of_run(Operation::patch("/v1/runs/{workspace}/{run}", "update_run"))
        .summary("End a run, tag it, or say its parameters")
        .description("A parameter never changes once it is said. A tag that is null is taken away. A status that ends the run without `ended_at` ends it now.")
        .body("What is to be changed.", [(JSON, content(change, Some(example)))])
        .answers(StatusCode::OK, answer("It, as it is now.", JSON, schema::component("Run")))
}

fn history_operation() -> Operation {
    let page = schema::object([
        ("points", schema::array(measured()).into()),
        ("next_cursor", schema::nullable(schema::string()).into()),
    ]);
    of_run(Operation::get("/v1/runs/{workspace}/{run}/metrics/{metric}", "metric_history"))
        .takes(in_path("metric", name().into(), "loss", "The metric, by name."))
        .takes(query("limit", schema::integer(1..=MAX_POINTS), "The most values in an answer; 10,000 when it is not given."))
        .takes(query("cursor", schema::string(), "Go on after an answer, by its `next_cursor`."))
        .summary("Show all values of a metric of a run")
        .description("In the order in which they were appended. Values of days that have expired are left out; the latest value stays with the run.")
        .answers(StatusCode::OK, answer("They are.", JSON, page))
}

fn experiments_operation() -> Operation {
    let list = schema::object([("experiments", schema::array(schema::component("Experiment")).into())]);
    Operation::get("/v1/experiments", "list_experiments")
        .tag("runs")
        .summary("List experiments")
        .takes(of())
        .answers(StatusCode::OK, answer("By the time of their creation.", JSON, list))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    of: String,
    experiment: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
    order: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryParams {
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentParams {
    of: String,
}

async fn create(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let new: NewRunBody = json_object(&headers, body)?;
    let workspace = service.catalog().workspace(&new.workspace).await?;
    workspace.check_open()?;
    let run = service.catalog().create_run(workspace.id(), new.run()?, service.clock().now()).await?;
    Ok((StatusCode::CREATED, Json(run.to_json())).into_response())
}

async fn list(
    State(service): State<Arc<Service>>,
    QueryParams(words): QueryParams<ListParams>,
) -> Result<Response, Problem> {
    let newest_first = match words.order.as_deref() {
        None | Some("newest") => true,
        Some("oldest") => false,
        Some(_) => {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "`order` should be `oldest` or `newest`"));
        }
    };
    words
        .experiment
        .as_deref()
        .map_or(Ok(()), |name| crate::run::check_run_name("name of an experiment", name))?;
    let workspace = service.catalog().workspace(&words.of).await?;
    let asked = RunQuery {
        experiment: words.experiment.as_deref().map(key::experiment_id),
        limit: words.limit.unwrap_or(RUNS),
        after: words.cursor.as_deref().map(Cursor::from_text).transpose()?,
        newest_first,
    };
    let page = service.catalog().runs(workspace.id(), &asked).await?;
    let runs: Vec<Value> = page.runs.iter().map(crate::RunWithMetrics::to_json).collect();
    let next = page.next.map(|cursor| cursor.to_text());
    Ok(Json(json!({ "runs": runs, "next_cursor": next })).into_response())
}

async fn show(
    State(service): State<Arc<Service>>,
    Path((workspace, run)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let run = service.catalog().run_named(workspace.id(), &run).await?;
    let run = service.catalog().run_with_metrics(workspace.id(), &run.id).await?;
    Ok(Json(run.to_json()).into_response())
}

async fn change(
    State(service): State<Arc<Service>>,
    Path((workspace, run)): Path<(String, String)>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let change: RunChangeBody = json_object(&headers, body)?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let run = service.catalog().run_named(workspace.id(), &run).await?;
    let (change, now) = (change.change()?, service.clock().now());
    let run = service.catalog().change_run(workspace.id(), &run.id, &change, now).await?;
    Ok(Json(run.to_json()).into_response())
}

async fn history(
    State(service): State<Arc<Service>>,
    Path((workspace, run, metric)): Path<(String, String, String)>,
    QueryParams(words): QueryParams<HistoryParams>,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let run = service.catalog().run_named(workspace.id(), &run).await?;
    let page = (words.limit.unwrap_or(POINTS), words.cursor.as_deref());
    let page = service.catalog().metric_history(&run, &metric, page, service.clock().now()).await?;
    Ok(Json(page.to_json()).into_response())
}

async fn experiments(
    State(service): State<Arc<Service>>,
    QueryParams(words): QueryParams<ExperimentParams>,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&words.of).await?;
    let all = service.catalog().experiments(workspace.id()).await?;
    let all: Vec<Value> = all.iter().map(crate::Experiment::to_json).collect();
    Ok(Json(json!({ "experiments": all })).into_response())
}
