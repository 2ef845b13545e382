//! Entities as JSON.

use event::{CustomMetric, Definition, Error, Result, Said, Timestamp, Window};
use log::key::{Counted, EntityId, EntityKind, Followed};
use serde_json::{Map, Value, json};
use table::item::Number;

use crate::{
    Activity, AnsweredReview, AnyEntity, Baselines, Entity, Follow, FreeCounters, Grant, LiveState,
    Membership, Names, Release, SNAPSHOT_WORDS, Snapshot, SnapshotContent, UserPage, Workspace,
    WorkspacePage, attributes, counts::Counts,
};

fn time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| at.to_string().into())
}

/// Fields common to all entities, with the id as people see it.
fn entity(at: &EntityId, entity: &Entity) -> Value {
    json!({
        "id": at.to_string(),
        "name": entity.name,
        "created_at": entity.created_at.to_string(),
        "updated_at": entity.updated_at.to_string(),
        "archived_at": time(entity.archived_at),
        "version": entity.version,
        "attributes": attributes::to_json(&entity.attributes),
    })
}

fn number(number: &Number) -> Value {
    serde_json::from_str(number.as_str()).unwrap_or(Value::Null)
}

/// The baselines of a release, in an answer.
pub fn baselines_json(release: &str, baselines: &Baselines) -> Value {
    json!({ "release": release, "baselines": baselines_by_name(baselines) })
}

/// The days of each baseline, by name.
fn baselines_by_name(baselines: &Baselines) -> Value {
    baselines.iter().map(|(name, days)| (name.clone(), json!(days.to_string()))).collect()
}

fn release_parts(release: &Release, value: &mut Value) {
    let details = &release.details;
    let metrics: Map<String, Value> =
        details.metrics.iter().map(|(name, value)| (name.clone(), number(value))).collect();
    let model = EntityId::Model(release.workspace.clone(), release.model_id.clone());
    for (name, part) in [
        ("model", json!(release.model)),
        ("model_id", json!(model.to_string())),
        ("configuration", json!(release.configuration)),
        ("environment", json!(release.environment)),
        ("commit", json!(details.commit)),
        ("artefact_uri", json!(details.artefact_uri)),
        ("artefact_digest", json!(details.artefact_digest)),
        ("snapshot", json!(details.tuned_on.as_ref().map(|on| &on.name))),
        ("snapshot_from", json!(details.snapshot.map(|window| window.from().to_string()))),
        ("snapshot_to", json!(details.snapshot.map(|window| window.to().to_string()))),
        ("metrics", Value::Object(metrics)),
        ("secrets", json!(details.secrets)),
        ("notes", json!(details.notes)),
        ("author", json!(details.author)),
        ("baselines", baselines_by_name(&release.baselines)),
    ] {
        value[name] = part;
    }
}

/// Fields of a snapshot beyond the common ones.
const OF_SNAPSHOT: [&str; 16] = [
    "workspace",
    "what",
    "from",
    "to",
    "release",
    "where",
    "tag",
    "key",
    "limit",
    "sample",
    "order",
    "columns",
    "as_of",
    "rows",
    "digest",
    "read_version",
];

fn snapshot_parts(content: &SnapshotContent, value: &mut Value) {
    for name in SNAPSHOT_WORDS {
        value[name] = json!(content.words.get(name));
    }
    for (name, part) in [
        ("what", json!(content.what)),
        ("columns", json!(content.columns)),
        ("as_of", json!(content.as_of.to_string())),
        ("rows", json!(content.rows)),
        ("digest", json!(content.digest)),
        ("read_version", json!(content.read_version().ok().map(|read_version| read_version.to_string()))),
    ] {
        value[name] = part;
    }
}

/// Entity as JSON.
pub fn any(any: &AnyEntity) -> Value {
    let at = any.at();
    let mut value = entity(&at, any.entity());
    let children = any.children();
    for kind in at.kind().children() {
        if let Some(counter) = kind.counter() {
            value[counter] = children.get(&kind).copied().unwrap_or_default().into();
        }
    }
    if let Some(parent) = any.parent() {
        value[parent.kind().name()] = parent.to_string().into();
    }
    match any {
        AnyEntity::Workspace(workspace) => value["path"] = workspace.path.as_str().into(),
        AnyEntity::Model(model) => {
            let said = definition(&model.definition);
            of_model().for_each(|name| value[name] = said.get(name).cloned().unwrap_or_default());
        }
        AnyEntity::Snapshot(snapshot) => snapshot_parts(&snapshot.content, &mut value),
        AnyEntity::Release(release) => release_parts(release, &mut value),
        _ => {}
    }
    value
}

/// Definition by its fields: the dimensions as a list, the metrics by name, numbers as they are.
pub fn definition(of: &Definition) -> Map<String, Value> {
    let said = of.said().into_iter().map(|(name, said)| {
        let value = match said {
            Said::Number(number) => number.into(),
            Said::Text(_) if name == "dimensions" => {
                of.dimensions.iter().map(|dimension| json!(dimension.to_string())).collect()
            }
            Said::Text(_) if name == "custom_metrics" => json!(CustomMetric::texts(&of.custom_metrics)),
            Said::Text(text) => text.into(),
        };
        (name.to_owned(), value)
    });
    said.collect()
}

/// Fields of a definition that a model shows.
fn of_model() -> impl Iterator<Item = &'static str> {
    Definition::FIELDS.into_iter().filter(|name| *name != "effective_from")
}

/// Prefix of the name of an attribute in a list of fields.
pub const ATTRIBUTE_PREFIX: &str = "attributes.";

/// Parses a list of fields separated by commas.
///
/// # Errors
/// `Invalid`, when an entity of this type has no such field.
pub fn parse_fields(kind: EntityKind, text: &str) -> Result<Vec<String>> {
    let known = fields(kind);
    let is_known = |name: &str| {
        let attribute = name.strip_prefix(ATTRIBUTE_PREFIX);
        known.contains(&name) || attribute.is_some_and(|attribute| !attribute.is_empty())
    };
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !is_known(name)) {
        None => Ok(names),
        Some(wrong) => {
            let known = known.join(", ");
            Err(Error::invalid(format!(
                "a {kind} has no field `{wrong}`; it has {known}, and `{ATTRIBUTE_PREFIX}NAME` for a single attribute"
            )))
        }
    }
}

/// Reduces an entity to some fields, also single attributes; its id and name always stay.
pub fn only(value: Value, fields: Option<&[String]>) -> Value {
    let (Value::Object(all), Some(fields)) = (&value, fields) else { return value };
    let has = |name: &str| fields.iter().any(|field| field == name);
    let of_attribute = |name: &str| has(&format!("{ATTRIBUTE_PREFIX}{name}"));
    let is_wanted = |name: &str| matches!(name, "id" | "name") || has(name);
    let mut some: Map<String, Value> = all
        .iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !has("attributes") && fields.iter().any(|field| field.starts_with(ATTRIBUTE_PREFIX)) {
        let attributes = all.get("attributes").and_then(Value::as_object).into_iter().flatten();
        let wanted = attributes.filter(|(name, _)| of_attribute(name));
        let wanted: Map<String, Value> = wanted.map(|(name, value)| (name.clone(), value.clone())).collect();
        some.insert("attributes".to_owned(), wanted.into());
    }
    some.into()
}

/// Membership, with the names of its group and member.
pub fn membership(one: &Membership, names: &Names) -> Value {
    let kind = one.member.kind();
    let mut value = json!({
        "group": one.group.to_string(), "group_name": names.get(one.group.id()), "since": one.since.to_string(),
    });
    value[kind.name()] = one.member.to_string().into();
    value[format!("{kind}_name")] = json!(names.get(one.member.id()));
    value
}

/// Grant on a workspace, on a category, or on the server; with the names of both sides.
pub fn grant(one: &Grant, names: &Names) -> Value {
    let name = names.get(one.principal.id());
    let mut value = json!({
        "principal": one.principal.to_string(),
        "principal_name": name.map(|name| format!("{}:{name}", one.principal.kind())),
        "role": one.role.name(),
        "since": one.since.to_string(),
    });
    if let Some(at) = one.scope.entity() {
        value[at.kind().name()] = at.to_string().into();
        let named = if at.kind() == EntityKind::Workspace { "path" } else { "category_name" };
        value[named] = json!(names.get(at.id()));
    }
    value
}

/// Followed thing, with its names.
pub fn followed(of: &Followed, names: &Names) -> Value {
    let workspace = EntityId::Workspace(of.workspace().clone());
    let mut value = json!({ "workspace": workspace.to_string(), "path": names.get(of.workspace()) });
    if let Some(model) = of.model() {
        value["model"] = model.to_string().into();
        value["model_name"] = json!(names.get(model.id()));
    }
    value
}

/// Follow of a user, with its names and the time at which it began.
pub fn follow(one: &Follow, names: &Names) -> Value {
    let mut value = followed(&one.followed, names);
    value["since"] = one.since.to_string().into();
    value
}

/// Answers of a user in reviews, by day and review, and their sums over a week.
fn answered(all: &[AnsweredReview], week: Window, names: &Names) -> (Value, Value) {
    let row = |one: &AnsweredReview| {
        json!({
            "day": one.day.to_string(),
            "workspace": EntityId::Workspace(one.workspace.clone()).to_string(),
            "path": names.get(&one.workspace),
            "review": one.review,
            "answers": one.answers,
            "agree": one.agree,
            "differ": one.differ,
            "said": one.said,
        })
    };
    let sum = |of: fn(&AnsweredReview) -> u64| all.iter().map(of).sum::<u64>();
    let results = json!({
        "from": week.from().to_string(),
        "to": week.to().to_string(),
        "answers": sum(|one| one.answers),
        "agree": sum(|one| one.agree),
        "differ": sum(|one| one.differ),
    });
    (all.iter().map(row).collect(), results)
}

fn activity(one: &Activity) -> Value {
    json!({ "at": one.at.to_string(), "what": one.what, "about": one.about })
}

/// Live releases of an environment, a row for each model.
pub fn live<'a>(environment: &'a str, state: &'a LiveState) -> impl Iterator<Item = Value> + 'a {
    state.iter().map(move |(model, live)| {
        json!({
            "environment": environment, "model": model, "release": live.release,
            "since": live.since.to_string(),
        })
    })
}

/// Workspace with everything that belongs to it, and the names of the principals with roles there.
pub fn workspace_page(page: &WorkspacePage, names: &Names) -> Value {
    let counts = |value: &mut Value, of: &dyn Fn(&Counts) -> Value| {
        if let Some(counts) = &page.counts {
            value["counts"] = of(counts);
        }
    };
    let of_counted =
        |counts: &Counts, counted: &Counted| counts.get(counted).map_or(json!({}), |counts| json!(counts));
    let counters = |at: &EntityId| -> FreeCounters {
        page.counters.get(&(at.kind(), at.id().clone())).cloned().unwrap_or_default()
    };
    let own = |entity: AnyEntity| {
        let mut value = any(&entity);
        value["counters"] = json!(counters(&entity.at()));
        value
    };
    let models = page.models.iter().map(|model| {
        let mut value = own(AnyEntity::Model(model.clone()));
        counts(&mut value, &|_| json!(page.model_counts(&model.entity.name)));
        value
    });
    let releases = page.releases.iter().map(|release| {
        let mut value = own(AnyEntity::Release(release.clone()));
        let counted = Counted::Release(release.entity.name.clone());
        counts(&mut value, &|counts| of_counted(counts, &counted));
        value
    });
    let configurations = page.configurations.iter().map(|one| own(AnyEntity::Configuration(one.clone())));
    let snapshots = page.snapshots.iter().map(|one| {
        // Leaves the read version out: it is long, and there may be many.
        let content = SnapshotContent { read_version: Vec::new(), ..one.content.clone() };
        own(AnyEntity::Snapshot(Snapshot { content, ..one.clone() }))
    });
    let mut value = own(AnyEntity::Workspace(page.workspace.clone()));
    value["models"] = models.collect();
    value["configurations"] = configurations.collect();
    value["snapshots"] = snapshots.collect();
    value["releases"] = releases.collect();
    value["grants"] = page.grants.iter().map(|one| grant(one, names)).collect();
    value["live"] = page.live.iter().flat_map(|(environment, state)| live(environment, state)).collect();
    counts(&mut value, &|counts| of_counted(counts, &Counted::Workspace));
    value
}

/// User with everything recorded about them, with names.
pub fn user_page(page: &UserPage, names: &Names) -> Value {
    let mut value = any(&AnyEntity::User(page.user.clone()));
    // Newest first.
    value["follows"] = page.follows.iter().rev().map(|one| follow(one, names)).collect();
    value["groups"] = page.groups.iter().map(|one| membership(one, names)).collect();
    value["grants"] = page.grants.iter().map(|one| grant(one, names)).collect();
    value["counters"] = json!(page.counters);
    (value["answered"], value["week"]) = answered(&page.answered, page.week, names);
    value["activity"] = page.activity.iter().map(activity).collect();
    value
}

/// Workspace by itself.
pub fn workspace(workspace: &Workspace) -> Value {
    any(&AnyEntity::Workspace(workspace.clone()))
}

/// Fields that an entity of a type may have.
pub fn fields(kind: EntityKind) -> Vec<&'static str> {
    let own: &[&'static str] = match kind {
        EntityKind::Category => &["count_of_workspaces"],
        EntityKind::Workspace => &[
            "category",
            "path",
            "count_of_models",
            "count_of_configurations",
            "count_of_snapshots",
            "count_of_releases",
        ],
        EntityKind::Model | EntityKind::Configuration => &["workspace"],
        EntityKind::Snapshot => &OF_SNAPSHOT,
        EntityKind::Release => &[
            "workspace",
            "model",
            "model_id",
            "configuration",
            "environment",
            "commit",
            "artefact_uri",
            "artefact_digest",
            "snapshot",
            "snapshot_from",
            "snapshot_to",
            "metrics",
            "secrets",
            "notes",
            "author",
            "baselines",
        ],
        EntityKind::User | EntityKind::Group | EntityKind::System => &[],
    };
    let common = ["id", "name", "created_at", "updated_at", "archived_at", "version", "attributes"];
    let judged = of_model().filter(|_| kind == EntityKind::Model);
    common.into_iter().chain(own.iter().copied()).chain(judged).collect()
}
