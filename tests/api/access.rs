//! Tokens and callers: validity, rights and expiry. The clock is moved, nothing waits.

use std::{collections::BTreeSet, sync::Arc};

use access::{Access, Caller, Limits, NewToken, Refusal, Token, Tokens};
use catalog::{Catalog, New, NewEntity, Place, Role};
use event::{Clock, Id, Kind, Right};
use log::key::{self, EntityId, EntityKind, Scope};
use table::Table;
use tests::{
    between::{Between, Call, Happens},
    conformance::{TestClock, eventually},
    counted::Counted,
    engine::{Engine, Fresh},
    on_both_engines,
};

mod failing;

on_both_engines!(
    Server::on:
    token_works_until_expiry_or_revocation,
    what_is_no_token_is_refused,
    simultaneous_tokens_of_one_name_conflict,
    group_and_role_changes_apply_within_five_seconds,
    an_archived_group_gives_no_rights,
    token_is_bound_by_its_limits,
    a_caller_that_is_known_costs_no_read,
    token_use_is_recorded_once_an_hour,
    who_is_gone_is_nobody,
    missing_and_existing_names_cost_equal_reads,
);

/// A server with two workspaces of two categories, and the user ann.
struct Server {
    counted: Arc<Counted>,
    clock: TestClock,
    catalog: Catalog,
    tokens: Tokens,
    access: Access,
    ann: EntityId,
    own: Place,
    other: Place,
    _fresh: Fresh,
}

impl Server {
    async fn on(engine: Engine) -> Self {
        // DynamoDB deletes expired items, so the time must be that of the engine.
        let clock = TestClock::new(Clock::system().now());
        let fresh = engine.fresh(clock.clock()).await;
        let counted = Arc::new(Counted::new(Arc::clone(&fresh.table)));
        let table: Arc<dyn Table> = Arc::<Counted>::clone(&counted);
        let catalog = Catalog::new(Arc::clone(&table));
        let place = async |path: &str| {
            let workspace = catalog.ensure_workspace(path, clock.now()).await.unwrap();
            Place { category: workspace.category.clone(), workspace: Some(workspace.entity.id) }
        };
        let (own, other) = (place("credit/prod").await, place("rival/secret").await);
        let ann = catalog.create(NewEntity::new("ann", New::User), clock.now()).await.unwrap().at();
        Self {
            tokens: Tokens::new(Arc::clone(&table)),
            access: Access::new(Arc::clone(&table), clock.clock()),
            counted,
            clock,
            catalog,
            ann,
            own,
            other,
            _fresh: fresh,
        }
    }

    fn workspace(&self) -> Scope {
        Scope::Workspace(self.own.workspace.clone().unwrap())
    }

    async fn grant(&self, scope: &Scope, principal: &EntityId, role: Role) {
        self.catalog.grant(scope, principal, role, self.clock.now()).await.unwrap();
    }

    async fn token(&self, name: &str, days: Option<i64>, limits: Limits) -> Token {
        let expires_at = days.map(|days| self.clock.now().plus_seconds(days * 86_400));
        let new = NewToken { name: name.to_owned(), expires_at, limits, is_once: false };
        self.tokens.create(&self.ann, new, self.clock.now()).await.unwrap().0
    }

    async fn caller(&self, text: &str) -> Result<Arc<Caller>, Refusal> {
        self.access.caller(Some(text), None).await.unwrap()
    }
}

async fn token_works_until_expiry_or_revocation(server: Server) {
    assert!(!server.tokens.are_asked_for().await.unwrap());
    server.grant(&server.workspace(), &server.ann, Role::Reader).await;
    let [short, long] = [
        server.token("short", Some(1), Limits::default()).await,
        server.token("long", None, Limits::default()).await,
    ];
    assert!(server.tokens.are_asked_for().await.unwrap(), "from the first token on callers are asked");
    assert!(server.caller(short.text()).await.is_ok());
    // It is valid to the last second, although it was cached before.
    server.clock.forward(86_399);
    assert!(server.caller(short.text()).await.is_ok());
    server.clock.forward(1);
    assert_eq!(server.caller(short.text()).await, Err(Refusal::Unknown), "it has expired");
    assert!(server.caller(long.text()).await.is_ok());
    server.tokens.revoke(&server.ann, "long").await.unwrap();
    server.clock.forward(5);
    assert_eq!(server.caller(long.text()).await, Err(Refusal::Unknown), "it was revoked 5 seconds ago");
    assert!(server.tokens.revoke(&server.ann, "long").await.is_err(), "there is none any more");
    let again = NewToken {
        name: "again".into(),
        expires_at: Some(server.clock.now()),
        limits: Limits::default(),
        is_once: false,
    };
    assert!(
        server.tokens.create(&server.ann, again, server.clock.now()).await.is_err(),
        "it would be good never"
    );
}

async fn simultaneous_tokens_of_one_name_conflict(server: Server) {
    let (tokens, ann, now) = (server.tokens.clone(), server.ann.clone(), server.clock.now());
    let new = |name: &str| NewToken {
        name: name.into(),
        expires_at: None,
        limits: Limits::default(),
        is_once: false,
    };
    let (same, another) = (new("laptop"), new("desktop"));
    let mut meanwhile = vec![another, same];
    let table = Between::new(Arc::<Counted>::clone(&server.counted), move |call| {
        let Call::Write(_) = call else { return None };
        let (tokens, ann, new) = (tokens.clone(), ann.clone(), meanwhile.pop()?);
        Some(Box::pin(async move { drop(tokens.create(&ann, new, now).await.unwrap()) }) as Happens)
    });
    let overtaken = Tokens::new(Arc::new(table));
    let error = overtaken.create(&server.ann, new("laptop"), now).await.unwrap_err();
    assert!(
        error.is_conflict() && error.to_string().contains("has a token called `laptop` already"),
        "{error}"
    );
    overtaken.create(&server.ann, new("phone"), now).await.unwrap();
    let names = async || {
        let tokens = server.tokens.list(&server.ann).await.unwrap();
        tokens.into_iter().map(|token| token.name).collect::<BTreeSet<_>>()
    };
    let all = ["desktop", "laptop", "phone"].map(str::to_owned);
    assert_eq!(names().await, BTreeSet::from(all));
    assert_eq!(server.tokens.list(&server.ann).await.unwrap().len(), 3);
    let nobody = EntityId::User(Id::new(now));
    let error = server.tokens.create(&nobody, new("phone"), now).await.unwrap_err();
    assert_eq!(error.kind(), event::ErrorKind::NotFound);
}

async fn what_is_no_token_is_refused(server: Server) {
    let token = server.token("laptop", None, Limits::default()).await;
    let foreign = Token::new();
    let cut = &token.text()[..token.text().len() - 1];
    for (text, refusal) in [
        ("", Refusal::Malformed),
        ("alm_", Refusal::Malformed),
        (cut, Refusal::Malformed),
        (&*format!("{}x", token.text()), Refusal::Malformed),
        (&*token.text().to_uppercase(), Refusal::Malformed),
        (&*token.text().replace("alm_", "ghp_"), Refusal::Malformed),
        (foreign.text(), Refusal::Unknown),
    ] {
        assert_eq!(server.caller(text).await, Err(refusal), "{} letters", text.len());
    }
    assert_eq!(server.access.caller(None, None).await.unwrap(), Err(Refusal::Nothing));
    let twice =
        NewToken { name: "laptop".into(), expires_at: None, limits: Limits::default(), is_once: false };
    assert!(server.tokens.create(&server.ann, twice, server.clock.now()).await.unwrap_err().is_conflict());
    let group =
        server.catalog.create(NewEntity::new("risk", New::Group), server.clock.now()).await.unwrap().at();
    let of_group =
        NewToken { name: "all".into(), expires_at: None, limits: Limits::default(), is_once: false };
    assert!(
        server.tokens.create(&group, of_group, server.clock.now()).await.is_err(),
        "a group calls nobody"
    );
    // The stored text is not the token, and dumps of the table hide even that.
    let item = server.counted_item(&token).await;
    assert!(key::is_secret(&item.key) && !format!("{item:?}").contains(token.text()));
}

impl Server {
    async fn counted_item(&self, token: &Token) -> table::Item {
        let table: Arc<dyn Table> = Arc::<Counted>::clone(&self.counted);
        table.get(&key::token(&token.digest())).await.unwrap().unwrap()
    }
}

async fn group_and_role_changes_apply_within_five_seconds(server: Server) {
    let now = server.clock.now();
    let group = server.catalog.create(NewEntity::new("risk", New::Group), now).await.unwrap().at();
    server.grant(&server.workspace(), &group, Role::Writer).await;
    let token = server.token("laptop", None, Limits::default()).await;
    let may = async |right| server.caller(token.text()).await.unwrap().rights_at(&server.own).has(right);
    assert!(!may(Right::Append).await);
    server.catalog.add_member(&group, &server.ann, now).await.unwrap();
    server.clock.forward(5);
    assert!(may(Right::Append).await, "5 seconds after ann joined the group");
    server.grant(&Scope::Category(server.own.category.clone()), &group, Role::Maintainer).await;
    server.clock.forward(5);
    assert!(may(Right::Maintain).await, "5 seconds after the group became maintainer of the category");
    server.catalog.remove_member(&group, &server.ann, now).await.unwrap();
    server.clock.forward(5);
    assert!(!may(Right::Read).await, "5 seconds after ann left the group");
    assert!(server.caller(token.text()).await.unwrap().rights_on_server().is_empty());
}

async fn an_archived_group_gives_no_rights(server: Server) {
    let now = server.clock.now();
    let group = server.catalog.create(NewEntity::new("risk", New::Group), now).await.unwrap().at();
    server.grant(&server.workspace(), &group, Role::Writer).await;
    server.grant(&Scope::Server, &server.ann, Role::Reader).await;
    server.catalog.add_member(&group, &server.ann, now).await.unwrap();
    let token = server.token("laptop", None, Limits::default()).await;
    let may = async |right| server.caller(token.text()).await.unwrap().rights_at(&server.own).has(right);
    assert!(may(Right::Append).await);
    for is_archived in [true, false] {
        let patch = catalog::Patch::archive(is_archived);
        server.catalog.change(&group, &patch, None, server.clock.now()).await.unwrap();
        server.clock.forward(5);
        assert_eq!(may(Right::Append).await, !is_archived);
        assert!(may(Right::Read).await, "by ann's own role");
    }
}

async fn token_is_bound_by_its_limits(server: Server) {
    server.grant(&Scope::Server, &server.ann, Role::Admin).await;
    let limits = Limits {
        scopes: Some(BTreeSet::from([server.workspace()])),
        rights: Some(BTreeSet::from([Right::Read, Right::Append])),
        kinds: Some(vec![Kind::Predictions]),
        networks: Some(vec!["10.0.0.0/8".parse().unwrap()]),
        quota: {
            let mut quota = catalog::Quota::default();
            quota.set("rows_per_day", Some(7)).unwrap();
            quota
        },
    };
    let token = server.token("upload", None, limits.clone()).await;
    let from = async |address: Option<&str>| {
        server.access.caller(Some(token.text()), address.map(|text| text.parse().unwrap())).await.unwrap()
    };
    assert_eq!(from(None).await, Err(Refusal::Address));
    assert_eq!(from(Some("192.0.2.1")).await, Err(Refusal::Address));
    let caller = from(Some("10.1.2.3")).await.unwrap();
    assert_eq!(caller.limits, limits, "it is read as it was written");
    assert!(
        caller.rights_at(&server.own).has(Right::Append)
            && !caller.rights_at(&server.own).has(Right::Maintain)
    );
    assert!(caller.rights_at(&server.other).is_empty() && caller.rights_on_server().is_empty());
    assert!(caller.limits.has_kind(Kind::Predictions) && !caller.limits.has_kind(Kind::Outcomes));
    let append = Limits { rights: Some(BTreeSet::from([Right::Append])), ..Limits::default() };
    let token = server.token("append", None, append).await;
    let caller = server.caller(token.text()).await.unwrap();
    let rights =
        server.access.rights_on(&caller, EntityKind::Workspace, "credit/prod").await.unwrap().unwrap();
    assert!(rights.has(Right::Append) && !rights.has(Right::Read), "it appends to what it cannot read");
    assert_eq!(**caller.sight(), catalog::Sight::Only(BTreeSet::new()));
    let empty = NewToken {
        name: "none".into(),
        expires_at: None,
        limits: Limits { rights: Some(BTreeSet::new()), ..Limits::default() },
        is_once: false,
    };
    assert!(
        server.tokens.create(&server.ann, empty, server.clock.now()).await.is_err(),
        "a limit says something"
    );
}

async fn a_caller_that_is_known_costs_no_read(server: Server) {
    server.grant(&server.workspace(), &server.ann, Role::Writer).await;
    let token = server.token("laptop", None, Limits::default()).await;
    let ask = async || {
        let caller = server.caller(token.text()).await.unwrap();
        server.access.rights_on(&caller, EntityKind::Workspace, "credit/prod").await.unwrap().unwrap()
    };
    assert!(ask().await.has(Right::Append));
    server.counted.take_reads();
    for _ in 0..100 {
        ask().await;
    }
    let reads = server.counted.take_reads();
    assert_eq!((reads.gets, reads.queries), (0, 0));
}

async fn token_use_is_recorded_once_an_hour(server: Server) {
    let token = server.token("laptop", None, Limits::default()).await;
    let used = async |at| {
        eventually(at, || async { Ok(server.tokens.list(&server.ann).await?[0].used_at) }).await.unwrap();
    };
    used(None).await;
    let first = server.clock.now();
    for _ in 0..10 {
        server.caller(token.text()).await.unwrap();
        server.clock.forward(6);
    }
    used(Some(first)).await;
    server.clock.forward(60 * 60);
    server.caller(token.text()).await.unwrap();
    used(Some(server.clock.now())).await;
    server.counted.take_writes();
    let table: Arc<dyn Table> = Arc::<Counted>::clone(&server.counted);
    let reader = Access::new(table, server.clock.clock()).reading_only();
    server.clock.forward(2 * 60 * 60);
    reader.caller(Some(token.text()), None).await.unwrap().unwrap();
    assert_eq!(server.counted.take_writes(), 0, "who only reads notes nothing");
}

async fn who_is_gone_is_nobody(server: Server) {
    let token = server.token("laptop", None, Limits::default()).await;
    assert!(server.caller(token.text()).await.is_ok());
    server
        .catalog
        .change(&server.ann, &catalog::Patch::archive(true), None, server.clock.now())
        .await
        .unwrap();
    server.clock.forward(5);
    assert_eq!(server.caller(token.text()).await, Err(Refusal::Unknown), "ann is archived");
    server.catalog.delete(&server.ann, None, server.clock.now()).await.unwrap();
    server.clock.forward(5);
    assert_eq!(server.caller(token.text()).await, Err(Refusal::Unknown), "ann is deleted");
    let new = NewToken { name: "again".into(), expires_at: None, limits: Limits::default(), is_once: false };
    assert!(server.tokens.create(&server.ann, new, server.clock.now()).await.is_err());
}

async fn missing_and_existing_names_cost_equal_reads(server: Server) {
    let w = server.other.workspace.clone().unwrap();
    let catalog = &server.catalog;
    let task = event::Task::Regression;
    let model = catalog.ensure_model(&w, "risk", &task, server.clock.now()).await.unwrap().entity.id;
    let nobody = Id::new(server.clock.now());
    for (kind, there, missing) in [
        (
            EntityKind::Workspace,
            "rival/secret".to_owned(),
            vec!["rival/nobody".to_owned(), "nobody/secret".into()],
        ),
        (EntityKind::Workspace, format!("w_{w}"), vec![format!("w_{nobody}")]),
        (
            EntityKind::Model,
            "rival/secret/risk".into(),
            vec!["nobody/secret/risk".into(), "rival/nobody/risk".into()],
        ),
        (EntityKind::Model, format!("m_{model}"), vec![format!("m_{nobody}")]),
        (EntityKind::Category, "rival".into(), vec!["nobody".into()]),
        (EntityKind::Category, format!("wc_{}", server.other.category), vec![format!("wc_{nobody}")]),
    ] {
        let reads = async |text: &str| {
            server.counted.take_reads();
            let found = catalog.place(kind, text).await.unwrap();
            let reads = server.counted.take_reads();
            (found.is_some(), reads.gets, reads.queries)
        };
        let (is_found, gets, queries) = reads(&there).await;
        assert!(is_found, "{there}");
        for missing in missing {
            assert_eq!(reads(&missing).await, (false, gets, queries), "{missing}");
        }
    }
}
