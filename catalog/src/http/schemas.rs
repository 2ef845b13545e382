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
    ALERT, Action, DECIDED, MAX_BASELINES, MAX_DETAIL_BYTES, MAX_METRICS, MAX_NOTES_BYTES, MAX_SECRETS,
    MAX_URI_BYTES, Role, SNAPSHOT_WORDS, SNAPSHOTS_OF, json,
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

/// Name of the component of an entity in a list, which may have fewer fields.
pub(super) fn listed_name(kind: EntityKind) -> String {
    format!("{}.listed", name(kind))
}

/// Name of the component of an entity with everything that belongs to it.
pub(super) fn page_name(kind: EntityKind) -> String {
    format!("{}Page", name(kind))
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
    schema::map(Some(schema::string().min_length(Some(1))), any)
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

/// Schema of an entity in an answer.
fn entity(kind: EntityKind) -> ObjectBuilder {
    schema::object(json::fields(kind).into_iter().map(|name| (name, field(kind, name))))
}

/// Schema of an entity in a list, perhaps with fewer fields.
fn listed(kind: EntityKind) -> ObjectBuilder {
    let fields = json::fields(kind).into_iter();
    let listed = fields.fold(schema::closed(), |listed, name| listed.property(name, field(kind, name)));
    listed.required("id").required("name")
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

fn workspace_page() -> RefOr<Schema> {
    let counts = || -> RefOr<Schema> {
        schema::map(None, schema::count())
            .description(Some("Events that were counted, by kind; where `counts` asks for it."))
            .into()
    };
    let own = |kind, counted: bool| {
        let own = with(entity(kind), [("counters", integers())]);
        if counted { own.property("counts", counts()) } else { own }
    };
    with(
        own(EntityKind::Workspace, true),
        [
            ("models", schema::array(own(EntityKind::Model, true)).into()),
            ("configurations", schema::array(own(EntityKind::Configuration, false)).into()),
            ("snapshots", schema::array(own(EntityKind::Snapshot, false)).into()),
            ("releases", schema::array(own(EntityKind::Release, true)).into()),
            ("live", schema::array(schema::component("Live")).into()),
            ("grants", schema::array(schema::component("Grant")).into()),
        ],
    )
    .into()
}

fn user_page() -> RefOr<Schema> {
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
    with(
        entity(EntityKind::User),
        [
            ("groups", schema::array(schema::component("Membership")).into()),
            ("grants", schema::array(schema::component("Grant")).into()),
            ("follows", follows.into()),
            ("answered", answered.into()),
            ("week", week.into()),
            ("counters", integers()),
            (
                "activity",
                schema::array(activity).description(Some("What happened lately, the newest first.")).into(),
            ),
        ],
    )
    .into()
}

/// Schemas to which the operations refer.
pub(super) fn all() -> Vec<(String, RefOr<Schema>)> {
    let mut schemas: Vec<(String, RefOr<Schema>)> = Vec::new();
    for kind in EntityKind::ALL {
        schemas.push((name(kind).to_owned(), entity(kind).into()));
        schemas.push((listed_name(kind), listed(kind).into()));
    }
    for kind in EntityKind::ALL {
        let page = match kind {
            EntityKind::Workspace => workspace_page(),
            EntityKind::User => user_page(),
            _ => with(entity(kind), [("counters", integers())]).into(),
        };
        schemas.push((page_name(kind), page));
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
