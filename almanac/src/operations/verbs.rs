//! Words of the commands that call one operation.

/// A command, and the operation that it calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb {
    /// Its words behind `almanac`.
    pub(super) words: &'static str,
    /// Id of the operation.
    pub(super) operation: &'static str,
    /// Positional words: names of fields, each that may be missing with `?`.
    pub(super) takes: &'static [&'static str],
    /// Fields that have one value in this command; an empty one is never given.
    pub(super) fixed: &'static [(&'static str, &'static str)],
    /// Operations that are called if a part of the path is missing, or nothing is given for the body.
    pub(super) or: &'static [&'static str],
    /// Columns of the table of a list; `settings` has what has no column of its own.
    pub(super) columns: &'static str,
    /// Tables of the answer, where there are several: the path of the lists that each is made of, and its columns.
    pub(super) tables: &'static [(&'static str, &'static str)],
    /// Pointer to the part of the answer that is shown.
    pub(super) within: &'static str,
    /// Field that is printed by itself.
    pub(super) alone: &'static str,
    /// Field whose value false ends the command with the code of a failed check.
    pub(super) check: &'static str,
}

impl Verb {
    pub(super) const fn of(words: &'static str, operation: &'static str) -> Self {
        Self {
            words,
            operation,
            takes: &[],
            fixed: &[],
            or: &[],
            columns: "",
            tables: &[],
            within: "",
            alone: "",
            check: "",
        }
    }

    const fn takes(self, takes: &'static [&'static str]) -> Self {
        Self { takes, ..self }
    }

    const fn with(self, fixed: &'static [(&'static str, &'static str)]) -> Self {
        Self { fixed, ..self }
    }

    const fn or(self, or: &'static [&'static str]) -> Self {
        Self { or, ..self }
    }

    const fn columns(self, columns: &'static str) -> Self {
        Self { columns, ..self }
    }

    const fn tables(self, tables: &'static [(&'static str, &'static str)]) -> Self {
        Self { tables, ..self }
    }

    const fn within(self, within: &'static str) -> Self {
        Self { within, ..self }
    }

    const fn alone(self, alone: &'static str) -> Self {
        Self { alone, ..self }
    }

    const fn checks(self, check: &'static str) -> Self {
        Self { check, ..self }
    }
}

/// Groups of commands.
pub(super) const GROUPS: [(&str, &str); 22] = [
    ("query", "Read a dataset of a window of days"),
    ("plot", "Draw numbers of a dataset over time: on the terminal, or as an SVG image"),
    ("workspace", "Workspaces, their settings, and what is in them"),
    ("workspace category", "Categories of workspaces"),
    ("workspace snapshot", "Snapshots: events of a window, kept as they are known"),
    ("workspace counter", "Counters of any entity, for any purpose"),
    ("workspace consumer", "Programs that follow a workspace under a name, and how far each has read"),
    ("model", "Models, their configurations, and how their predictions are judged"),
    ("model configuration", "Configurations of models"),
    ("release", "Releases: register them, put them live, show what is live"),
    ("release baseline", "Days that a release is measured from"),
    ("run", "Runs: what training jobs are given and measure"),
    ("outcome", "Outcomes without a date: which wait for their predictions, and why"),
    ("review", "Reviews: predictions that people judge one at a time, and arenas of two releases"),
    ("alert", "Alert rules: which numbers are watched, and when they would have fired"),
    ("follow", "What users follow, and its news"),
    ("user", "Users"),
    ("group", "Groups of users and systems"),
    ("system", "Systems: programs that call Almanac"),
    ("access", "Who may do what: give roles, take them away, list them"),
    ("token", "Tokens, by which services know their callers, and sessions of browsers"),
    ("token session", "Sessions of browsers"),
];

/// The commands on one type of entities: the group that it is in, its name, the list of it, the word that names a new one, the parent of a list, and the
/// columns of one.
macro_rules! entity {
    ($under:literal, $kind:literal, $kinds:literal, $named:literal, $of:expr, $columns:literal) => {
        [
            Verb::of(concat!($under, $kind, " create"), concat!("create_", $kind)).takes(&[$named]),
            Verb::of(concat!($under, $kind, " list"), concat!("list_", $kinds)).takes($of).columns($columns),
            Verb::of(concat!($under, $kind, " show"), concat!("show_", $kind)).takes(&[$kind]),
            Verb::of(concat!($under, $kind, " update"), concat!("update_", $kind)).takes(&[$kind]),
            Verb::of(concat!($under, $kind, " delete"), concat!("delete_", $kind)).takes(&[$kind]),
        ]
    };
}

/// The commands of entities, by type.
const ENTITIES: [[Verb; 5]; 9] = [
    entity!("workspace ", "category", "categories", "name", &[], "name id created_at archived_at version"),
    entity!("", "workspace", "workspaces", "path", &["of?"], "path id created_at archived_at version"),
    entity!("", "model", "models", "name", OF, "name task id created_at archived_at version"),
    entity!(
        "model ",
        "configuration",
        "configurations",
        "name",
        OF,
        "name id created_at archived_at version"
    ),
    entity!("workspace ", "snapshot", "snapshots", "name", OF, "name what from to rows id created_at"),
    entity!(
        "",
        "release",
        "releases",
        "name",
        OF,
        "name model configuration id created_at archived_at version"
    ),
    entity!("", "user", "users", "name", &[], "name id created_at archived_at version"),
    entity!("", "group", "groups", "name", &[], "name id created_at archived_at version"),
    entity!("", "system", "systems", "name", &[], "name id created_at archived_at version"),
];

/// The commands on datasets: the group, and what it has.
macro_rules! datasets {
    ($group:literal, $($name:literal)*) => {
        [$(Verb::of(concat!($group, " ", $name), concat!("query_", $name)).takes(ON_WORKSPACE)),*]
    };
}

/// The commands that read datasets.
const QUERIES: [Verb; 15] = datasets!(
    "query", "predictions" "outcomes" "metrics" "releases" "joined" "rollups" "evaluations" "classes" "confusion"
    "drift" "maturity" "estimates" "slices" "head-to-head" "challengers"
);

/// The commands that draw those that have numbers over time.
const PLOTS: [Verb; 8] = datasets!(
    "plot", "rollups" "evaluations" "classes" "confusion" "drift" "maturity" "estimates" "head-to-head"
);

const OF: &[&str] = &["of"];
const ON_WORKSPACE: &[&str] = &["workspace"];
const FOLLOWED: &[&str] = &["user", "workspace?"];

/// The other commands.
const MORE: &[Verb] = &[
    Verb::of("workspace settings", "change_settings").takes(ON_WORKSPACE).or(&["settings"]),
    Verb::of("workspace retention", "change_retention")
        .takes(&["workspace", "days?"])
        .with(&[("day", ""), ("release", ""), ("pinned", "")])
        .or(&["retention"]),
    Verb::of("workspace pin", "change_retention")
        .takes(&["workspace", "day?"])
        .with(&[("days", ""), ("pinned", "true")]),
    Verb::of("workspace unpin", "change_retention")
        .takes(&["workspace", "day?"])
        .with(&[("days", ""), ("pinned", "false")]),
    Verb::of("workspace lineage", "lineage").takes(ON_WORKSPACE),
    Verb::of("workspace counter add", "count").takes(&["type", "entity", "counter", "by"]).alone("value"),
    Verb::of("workspace counter show", "counter").takes(&["type", "entity", "counter"]).alone("value"),
    Verb::of("workspace consumer list", "list_consumers")
        .takes(ON_WORKSPACE)
        .columns("name kind behind_segments behind_since committed_at"),
    Verb::of("workspace consumer show", "list_consumers").takes(&["consumer"]).within("/consumers/0"),
    Verb::of("workspace consumer delete", "delete_consumer").takes(&["consumer"]),
    Verb::of("model define", "define")
        .takes(&["model"])
        .with(&[("release", "")])
        .columns("release task from"),
    Verb::of("model gates", "set_promotion_gates")
        .takes(&["model"])
        .or(&["list_promotion_gates"])
        .tables(&[("gates", "model metric margin min_n completeness second_person days delay environments")]),
    Verb::of("workspace snapshot verify", "verify_snapshot").takes(&["snapshot"]).checks("same"),
    Verb::of("release define", "define")
        .takes(&["release"])
        .with(&[("model", "")])
        .columns("release task from"),
    Verb::of("release promote", "promote")
        .takes(&["release"])
        .columns("action release model environment released_at"),
    Verb::of("release approve", "approve_release")
        .takes(&["release"])
        .columns("release environment principal at note"),
    Verb::of("release rollback", "roll_back")
        .takes(ON_WORKSPACE)
        .columns("action release model environment released_at"),
    Verb::of("release retire", "retire")
        .takes(&["release"])
        .columns("action release model environment released_at"),
    Verb::of("release live", "live").takes(ON_WORKSPACE).columns("environment model release since"),
    Verb::of("release history", "history")
        .takes(ON_WORKSPACE)
        .columns("at what about model environment note"),
    Verb::of("release baseline set", "set_baseline").takes(&["release", "name", "days"]),
    Verb::of("release baseline delete", "set_baseline").takes(&["release", "name"]).with(&[("days", "")]),
    Verb::of("run create", "create_run").takes(ON_WORKSPACE).alone("id"),
    Verb::of("run list", "list_runs")
        .takes(OF)
        .columns("id name experiment status started_at params metrics"),
    Verb::of("run show", "show_run").takes(&["run"]),
    Verb::of("run update", "update_run").takes(&["run"]),
    Verb::of("run history", "metric_history").takes(&["run", "metric"]).columns("step at value"),
    Verb::of("group add", "add_member").takes(&["group", "member"]),
    Verb::of("group remove", "remove_member").takes(&["group", "member"]),
    Verb::of("group members", "show_group")
        .takes(&["group"])
        .tables(&[("members", "user user_name system system_name since")]),
    Verb::of("outcome unmatched", "unmatched_outcomes").takes(ON_WORKSPACE),
    Verb::of("outcome rematch", "rematch_outcomes").takes(ON_WORKSPACE),
    Verb::of("outcome history", "outcome_history").takes(ON_WORKSPACE),
    Verb::of("access grant", "grant").takes(&["principal", "role"]),
    Verb::of("access revoke", "revoke").takes(&["principal"]),
    Verb::of("access list", "list_grants").columns("principal_name principal role since"),
    Verb::of("release leaderboard", "leaderboard")
        .takes(ON_WORKSPACE)
        .columns("place release model environment metric value n wins losses ties"),
    Verb::of("token create", "create_token").takes(&["principal"]).alone("token"),
    Verb::of("token list", "list_tokens")
        .takes(&["principal"])
        .columns("id name created_at expires_at used_at spent_at"),
    Verb::of("token revoke", "revoke_token").takes(&["principal", "token"]),
    Verb::of("token session list", "list_sessions")
        .takes(&["principal"])
        .columns("id opened_at used_at until"),
    Verb::of("token session end", "end_sessions").takes(&["principal", "session"]),
    // A command of its own, so that a session left out does not end all of them.
    Verb::of("token session end-all", "end_sessions").takes(&["principal"]).with(&[("session", "")]),
    Verb::of("alert apply", "apply_alert_rules")
        .takes(&["workspace", "body"])
        .tables(&[("rules", "name created_at"), ("webhooks", "name url url_from format")]),
    Verb::of("alert list", "list_alert_rules")
        .takes(ON_WORKSPACE)
        .with(&[("rule", "")])
        .tables(&[("rules", "name state evaluated_day settings created_at")]),
    Verb::of("alert show", "list_alert_rules").takes(&["rule"]).within("/rules/0"),
    Verb::of("alert delete", "delete_alert_rule").takes(&["rule?"]),
    Verb::of("alert test", "test_alert_rule")
        .takes(&["name", "body?"])
        .tables(&[("", "from to fired"), ("days", "day value n measured state transition")]),
    Verb::of("alert events", "list_transitions").takes(ON_WORKSPACE).columns("day rule what text at"),
    Verb::of("alert raise", "raise_alert").takes(&["workspace", "name", "text"]),
    Verb::of("alert webhooks", "list_alert_rules")
        .takes(ON_WORKSPACE)
        .with(&[("rule", "")])
        .tables(&[("webhooks", "name url url_from format secret digest time_zone")]),
    Verb::of("alert deliveries", "list_deliveries")
        .takes(ON_WORKSPACE)
        .columns("day of rule webhook state tries why next_at"),
    Verb::of("review create", "create_review").takes(&["name"]),
    Verb::of("review list", "list_reviews")
        .takes(ON_WORKSPACE)
        .with(&[("review", "")])
        .columns("name policy from to items judges created_at created_by"),
    Verb::of("review show", "list_reviews").takes(&["review"]).within("/reviews/0"),
    Verb::of("review items", "review_items")
        .takes(&["review"])
        .columns("item key predicted_at label value vote answered_by answered_at"),
    Verb::of("review next", "next_review_item").takes(&["review"]).within("/item"),
    Verb::of("review answer", "answer_review_item").takes(&["review"]),
    Verb::of("review mine", "reviewed_answers").takes(ON_WORKSPACE).tables(&[
        ("answers", "answered_at key predicted_at label value vote"),
        ("releases", "release answers agree differ"),
    ]),
    Verb::of("review refresh", "refresh_arena").takes(&["review"]),
    Verb::of("review ranking", "rank_arena").takes(&["review"]).tables(&[
        ("releases", "release strength lower upper wins losses ties"),
        ("pairs", "release against wins losses ties items live"),
        ("", "votes connected"),
    ]),
    Verb::of("review delete", "delete_review").takes(&["review"]),
    Verb::of("follow add", "follow").takes(FOLLOWED).with(&[("following", "true")]),
    Verb::of("follow remove", "follow").takes(FOLLOWED).with(&[("following", "false")]),
    Verb::of("follow list", "follows").takes(&["user"]).columns("path model_name since"),
    Verb::of("follow followers", "followers").takes(ON_WORKSPACE).columns("name user since"),
    Verb::of("follow feed", "feed")
        .takes(&["user"])
        .columns("seen at path what about model environment note entry"),
    Verb::of("follow seen", "has_seen").takes(&["user", "entry"]),
    Verb::of("follow mark", "mark_seen").takes(&["user"]),
    Verb::of("follow digest", "digest").takes(&["user?"]).tables(&[
        ("digest", "path model.name metric predictions.last predictions.before"),
        (
            "digest.live",
            "path model.name release predictions.last predictions.before last.value last.n change",
        ),
        ("digest.alerts", "path model.name at rule text"),
        ("digest.decided", "path model.name at text"),
        ("users.follows", "name path model_name since"),
    ]),
    Verb::of("audit", "audit").takes(&["workspace?"]),
    Verb::of("sql", "sql").takes(&["sql"]),
];

/// All commands.
pub(super) fn verbs() -> impl Iterator<Item = &'static Verb> {
    ENTITIES.iter().flatten().chain(&QUERIES).chain(&PLOTS).chain(MORE)
}
