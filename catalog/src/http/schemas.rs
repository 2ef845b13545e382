//! Schemas of entities, in answers and requests.

use event::{Task, custom::CUSTOM_METRICS, fields::MAX_WORDS_BYTES, id::MAX_NAME_BYTES};
use fold::metric::{LoggedStatistic, METRIC_PREFIX, Metric};
use log::key::EntityKind;
use web::{
    openapi::{
        RefOr, Schema, Type,
        schema::{Object, ObjectBuilder, SchemaType},
    },
    schema,
};

use super::judging::of_task;
use crate::{
    ALERT, Action, DECIDED, MAX_ATTRIBUTES_BYTES, MAX_BASELINES, MAX_DETAIL_BYTES, MAX_METRICS,
    MAX_NOTES_BYTES, MAX_SECRETS, MAX_URI_BYTES, Role, SNAPSHOT_WORDS, SNAPSHOTS_OF, json,
    secret::{SECRET_NAME_PATTERN, SECRET_VERSION_PATTERN},
};

/// Metrics by which releases are ranked.
pub fn ranking_metrics() -> RefOr<Schema> {
    schema::any_of([
        schema::one_of(Metric::ranking_ones().map(|metric| metric.name)).into(),
        schema::string().pattern(Some(CUSTOM_METRICS.pattern())).into(),
        logged_metrics(),
    ])
}

/// The statistics of logged metrics.
fn logged_metrics() -> RefOr<Schema> {
    let statistics = LoggedStatistic::ALL.map(LoggedStatistic::name).join(", ");
    schema::string()
        .pattern(Some(format!("^{}.", METRIC_PREFIX.replace('.', "\\."))))
        .description(Some(format!(
            "A logged metric: `metric.NAME` is the mean of its observations, `metric.NAME:STATISTIC` their {statistics}."
        )))
        .into()
}

/// Name of the component of an entity of a type.
pub(super) fn name(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Category => "Category",
        EntityKind::Workspace => "Workspace",
        EntityKind::Model => "Model",
        EntityKind::Configuration => "Configuration",
        EntityKind::Snapshot => "Snapshot",
        EntityKind::Release => "Release",
        EntityKind::User => "User",
        EntityKind::Group => "Group",
        EntityKind::System => "System",
    }
}

pub(super) fn maybe(schema: ObjectBuilder, kind: Type) -> RefOr<Schema> {
    schema.schema_type(schema::types(&[kind], true)).into()
}

pub(super) fn text(most: usize) -> ObjectBuilder {
    schema::string().min_length(Some(1)).max_length(Some(most))
}

/// Schema of attributes: any JSON under any names.
fn attributes() -> ObjectBuilder {
    let any: RefOr<Schema> = Object::builder().schema_type(SchemaType::AnyValue).into();
    let says = format!(
        "Any JSON by name, in at most {MAX_ATTRIBUTES_BYTES} bytes; `{{\"$set\": [...]}}` is a set of texts or numbers."
    );
    schema::map(Some(schema::string().min_length(Some(1))), any).description(Some(says))
}

fn numbers(most: usize) -> ObjectBuilder {
    let number = ObjectBuilder::new().schema_type(Type::Number);
    schema::map(Some(schema::name()), number).max_properties(Some(most))
}

fn integers() -> RefOr<Schema> {
    schema::map(Some(schema::name()), ObjectBuilder::new().schema_type(Type::Integer)).into()
}

/// References to secrets.
fn secrets() -> ObjectBuilder {
    let matching = |pattern: &str| schema::string().pattern(Some(pattern));
    schema::map(Some(matching(SECRET_NAME_PATTERN)), matching(SECRET_VERSION_PATTERN))
        .max_properties(Some(MAX_SECRETS))
        .description(Some(
            "The secrets that a release needs: the version of each, by its name. What looks like a secret itself is refused.",
        ))
}

/// Schema of the baselines of a release, by name.
pub fn baselines_schema() -> RefOr<Schema> {
    schema::map(Some(schema::name()), schema::days()).max_properties(Some(MAX_BASELINES)).into()
}

fn field(kind: EntityKind, field: &str) -> RefOr<Schema> {
    if kind == EntityKind::Snapshot
        && let Some(schema) = of_snapshot(field)
    {
        return schema;
    }
    match field {
        "id" | "category" | "workspace" | "model_id" => schema::id().into(),
        "name" => schema::name().into(),
        "model" => schema::name().into(),
        "path" => schema::path().into(),
        "created_at" | "updated_at" => schema::time().into(),
        "archived_at" => maybe(schema::time(), Type::String),
        "version" => schema::count().minimum(Some(1)).into(),
        "attributes" => attributes().into(),
        "task" => schema::one_of(Task::NAMES).into(),
        "positive_label" => maybe(text(MAX_NAME_BYTES), Type::String),
        "threshold" | "interval_level" => maybe(ObjectBuilder::new(), Type::Number),
        "costs" => maybe(text(MAX_WORDS_BYTES), Type::String),
        "dimensions" => {
            schema::array(schema::string()).schema_type(schema::types(&[Type::Array], true)).into()
        }
        "custom_metrics" => {
            schema::map(None, schema::string()).schema_type(schema::types(&[Type::Object], true)).into()
        }
        "configuration" | "environment" | "snapshot" => maybe(schema::name(), Type::String),
        "snapshot_from" | "snapshot_to" => maybe(schema::day(), Type::String),
        "metrics" => numbers(MAX_METRICS).into(),
        "secrets" => secrets().into(),
        "baselines" => baselines_schema(),
        "artefact_uri" => maybe(text(MAX_URI_BYTES), Type::String),
        "notes" => maybe(text(MAX_NOTES_BYTES), Type::String),
        "commit" | "artefact_digest" | "author" => maybe(text(MAX_DETAIL_BYTES), Type::String),
        _ => {
            debug_assert!(kind.children().any(|child| child.counter() == Some(field)), "{kind}: {field}");
            schema::count().into()
        }
    }
}

/// Own fields of a snapshot.
fn of_snapshot(field: &str) -> Option<RefOr<Schema>> {
    Some(match field {
        "what" => schema::one_of(SNAPSHOTS_OF).into(),
        "columns" => schema::array(schema::string()).into(),
        "as_of" => schema::time().into(),
        "rows" => schema::count().into(),
        "digest" => schema::string()
            .description(Some("Of the rows, in their order: `verify` reads them again and compares it."))
            .into(),
        "read_version" => {
            let read_version = schema::string().description(Some(
                "What the rows are read from, for the parameter `read-version`; null on the page of a workspace.",
            ));
            maybe(read_version, Type::String)
        }
        word if SNAPSHOT_WORDS.contains(&word) => maybe(schema::string(), Type::String),
        _ => return None,
    })
}

/// Schema of a new snapshot: the words of a query.
fn new_snapshot() -> ObjectBuilder {
    let new = schema::object([("workspace", schema::workspace()), ("name", schema::name().into())]);
    let text = |says: &str| {
        let text = schema::string().min_length(Some(1)).description(Some(says.to_owned()));
        maybe(text, Type::String)
    };
    let what = schema::one_of(SNAPSHOTS_OF).schema_type(schema::types(&[Type::String], true));
    let columns = schema::array(schema::string()).min_items(Some(1));
    let new = new
        .property("what", what.default(Some(SNAPSHOTS_OF[0].into())))
        .property("columns", columns.schema_type(schema::types(&[Type::Array], true)))
        .property("last", text("How long the window is that ends now, in place of `from` and `to`."))
        .property("as_of", text("Only what had been appended by then."));
    let numbers = ["limit", "sample"];
    let words = SNAPSHOT_WORDS.into_iter().filter(|word| !numbers.contains(word));
    let new = words.fold(new, |new, word| new.property(word, text("As the parameter of a query.")));
    new.property("limit", maybe(schema::integer(1..=u32::MAX as usize), Type::Integer))
        .property("sample", maybe(ObjectBuilder::new(), Type::Number))
}

/// Schema of an entity in an answer: a list may be asked for fewer fields, and the page of one has more.
fn entity(kind: EntityKind) -> ObjectBuilder {
    let fields = json::fields(kind).into_iter();
    let entity = fields.fold(schema::closed(), |entity, name| entity.property(name, field(kind, name)));
    let entity = entity.property("counters", integers()).required("id").required("name");
    match kind {
        EntityKind::Workspace => counted(of_workspace_page(entity)),
        EntityKind::Model | EntityKind::Release => counted(entity),
        EntityKind::User => of_user_page(entity),
        EntityKind::Group => entity.property("members", schema::array(schema::component("Membership"))),
        _ => entity,
    }
}

fn counted(entity: ObjectBuilder) -> ObjectBuilder {
    let counts = schema::map(None, schema::count());
    let says = "Events that were counted, by kind; where `counts` asks for it.";
    entity.property("counts", counts.description(Some(says)))
}

fn with<'a>(base: ObjectBuilder, more: impl IntoIterator<Item = (&'a str, RefOr<Schema>)>) -> ObjectBuilder {
    more.into_iter().fold(base, |base, (name, schema)| base.property(name, schema).required(name))
}

/// Schema of an entity to create.
pub(super) fn new_entity(kind: EntityKind) -> RefOr<Schema> {
    let attributes = || maybe(attributes(), Type::Object);
    let workspace = || -> RefOr<Schema> { schema::workspace() };
    let name = || -> RefOr<Schema> { schema::name().into() };
    match kind {
        EntityKind::Workspace => {
            schema::object([("path", schema::path().into())]).property("attributes", attributes()).into()
        }
        EntityKind::Model => {
            let new = || {
                schema::object([("workspace", workspace()), ("name", name())])
                    .property("attributes", attributes())
            };
            schema::any_of(Task::NAMES.map(|task| of_task(new(), task)))
        }
        EntityKind::Configuration => schema::object([("workspace", workspace()), ("name", name())])
            .property("attributes", attributes())
            .into(),
        EntityKind::Snapshot => new_snapshot().property("attributes", attributes()).into(),
        EntityKind::Release => {
            let new = schema::object([("workspace", workspace()), ("name", name()), ("model", name())]);
            let parts = [
                "configuration",
                "environment",
                "commit",
                "artefact_uri",
                "artefact_digest",
                "snapshot",
                "snapshot_from",
                "snapshot_to",
                "notes",
                "author",
            ];
            parts
                .into_iter()
                .fold(new, |new, part| new.property(part, field(kind, part)))
                .property("metrics", maybe(numbers(MAX_METRICS), Type::Object))
                .property("from_run", schema::nullable(schema::string().pattern(Some("^[0-9A-Za-z]{27}$"))))
                .property("secrets", maybe(secrets(), Type::Object))
                .property("attributes", attributes())
                .into()
        }
        _ => schema::object([("name", name())]).property("attributes", attributes()).into(),
    }
}

/// Schema of a change.
pub(super) fn change() -> RefOr<Schema> {
    let archived = ObjectBuilder::new().schema_type(schema::types(&[Type::Boolean], true));
    schema::closed()
        .property("name", maybe(schema::name(), Type::String))
        .property("archived", archived)
        .property("attributes", maybe(attributes(), Type::Object))
        .into()
}

pub(super) fn role() -> RefOr<Schema> {
    schema::one_of(Role::ALL.map(Role::name)).into()
}

fn of_workspace_page(workspace: ObjectBuilder) -> ObjectBuilder {
    let parts = [
        ("models", "Model"),
        ("configurations", "Configuration"),
        ("snapshots", "Snapshot"),
        ("releases", "Release"),
        ("live", "Live"),
        ("grants", "Grant"),
    ];
    parts.into_iter().fold(workspace, |workspace, (name, of)| {
        workspace.property(name, schema::array(schema::component(of)))
    })
}

fn of_user_page(user: ObjectBuilder) -> ObjectBuilder {
    let activity = schema::object([
        ("at", schema::time().into()),
        ("what", schema::string().into()),
        ("about", schema::id().into()),
    ]);
    let follows = schema::array(schema::component("Follow"))
        .description(Some("What the user follows, the newest first."));
    let results = || {
        let agree = "How often a release had said the same label.";
        [
            ("answers", schema::count().into()),
            ("agree", schema::count().description(Some(agree)).into()),
            ("differ", schema::count().into()),
        ]
    };
    let said = schema::map(None, schema::count())
        .description(Some("How often each label was said, or each vote given."));
    let answered = with(
        schema::object([
            ("day", schema::day().into()),
            ("workspace", schema::id().into()),
            ("path", schema::nullable(schema::string()).into()),
            ("review", schema::name().into()),
            ("said", said.into()),
        ]),
        results(),
    );
    let answered = schema::array(answered).description(Some(
        "What the user answered in reviews in the week, by day and review, the last day first.",
    ));
    let week = schema::object([("from", schema::day().into()), ("to", schema::day().into())]);
    let week = with(week, results()).description(Some("What the answers of the week come to."));
    let activity = schema::array(activity).description(Some("What happened lately, the newest first."));
    user.property("groups", schema::array(schema::component("Membership")))
        .property("grants", schema::array(schema::component("Grant")))
        .property("follows", follows)
        .property("answered", answered)
        .property("week", week)
        .property("activity", activity)
}

/// Schemas to which the operations refer.
pub(super) fn all() -> Vec<(String, RefOr<Schema>)> {
    let mut schemas: Vec<(String, RefOr<Schema>)> = Vec::new();
    for kind in EntityKind::ALL {
        schemas.push((name(kind).to_owned(), entity(kind).into()));
    }
    let id = || -> RefOr<Schema> { schema::id().into() };
    let since = || -> RefOr<Schema> { schema::time().into() };
    let text = || -> RefOr<Schema> { schema::nullable(schema::string()).into() };
    schemas.push((
        "Membership".to_owned(),
        schema::object([("group", id()), ("group_name", text()), ("since", since())])
            .property("user", id())
            .property("user_name", text())
            .property("system", id())
            .property("system_name", text())
            .description(Some("A user or a system in a group."))
            .into(),
    ));
    schemas.push((
        "Grant".to_owned(),
        schema::object([
            ("principal", id()),
            ("principal_name", text()),
            ("role", role()),
            ("since", since()),
        ])
        .property("workspace", id())
        .property("path", text())
        .property("category", id())
        .property("category_name", text())
        .description(Some(
            "It holds on a workspace, on a category with its workspaces, or else on the server.",
        ))
        .into(),
    ));
    let value: RefOr<Schema> = ObjectBuilder::new().schema_type(Type::Integer).into();
    schemas.push((
        "Counter".to_owned(),
        schema::object([("name", schema::name().into()), ("value", value)]).into(),
    ));
    schemas
}

/// Schema of what a happening is.
pub(crate) fn what_schema() -> ObjectBuilder {
    schema::one_of(Action::ALL.map(Action::name).into_iter().chain([ALERT, DECIDED]))
}
