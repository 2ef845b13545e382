use std::sync::Arc;

use event::{Clock, Day, Task};
use fold::metric::Direction;
use log::{
    audit::{Author, by},
    key::EntityId,
};
use proptest::prelude::*;
use table::sqlite::SqliteTable;

use super::*;
use crate::{AnyEntity, Catalog, ReleaseSpec};

fn window() -> Window {
    let day = |text: &str| text.parse::<Day>().unwrap();
    Window::new(day("2026-06-01"), day("2026-06-07")).unwrap()
}

fn all() -> PromotionGatesBody {
    PromotionGatesBody {
        days: Some(14),
        environments: vec!["production".into()],
        min_n: Some(500),
        metric: Some("accuracy".into()),
        margin: Some(0.01),
        completeness: Some(0.9),
        second_person: true,
        ..PromotionGatesBody::default()
    }
}

fn evidence<'a>(measured: Measured, approvals: &'a [Approval]) -> Evidence<'a> {
    Evidence {
        environment: "production",
        window: window(),
        measured,
        champion: Some("v1"),
        requester: "user:ann",
        created_by: Some("user:bob"),
        approvals,
    }
}

fn approval(environment: &str, principal: &str) -> Approval {
    let (environment, principal) = (environment.into(), principal.into());
    Approval { environment, principal, at: Timestamp::default(), note: None }
}

fn good() -> Measured {
    Measured { judged: 500, value: Some(0.79), of_champion: Some(0.8), completeness: Some(0.9) }
}

#[test]
fn each_gate_explains_why_a_release_fails() {
    let gates = PromotionGates::read(&all()).unwrap().unwrap();
    let ok = [approval("production", "user:eve")];
    // Of 0.8 and 0.79 the difference is not 0.01 in binary, and yet it is taken.
    assert_eq!(gates.judge(&evidence(good(), &ok)), []);
    let few = Measured { judged: 499, ..good() };
    let worse = Measured { value: Some(0.789), ..good() };
    let none = Measured { value: None, completeness: None, ..good() };
    let unlabelled = Measured { of_champion: None, completeness: Some(0.25), ..good() };
    let nan = Measured { value: Some(f64::NAN), ..good() };
    let mut said = Vec::new();
    for measured in [few, worse, none, unlabelled, nan] {
        said.push(gates.judge(&evidence(measured, &ok)));
    }
    let alone = [
        approval("production", "user:ann"),
        approval("production", "user:bob"),
        approval("test", "user:eve"),
        approval("production", "anonymous"),
    ];
    said.push(gates.judge(&evidence(good(), &alone)));
    said.push(gates.judge(&Evidence { created_by: None, ..evidence(Measured::default(), &[]) }));
    insta::assert_debug_snapshot!(said);
    // Where none is live, there is nothing to be as good as.
    let first =
        Evidence { champion: None, ..evidence(Measured { of_champion: None, value: None, ..good() }, &ok) };
    assert_eq!(gates.judge(&first), []);
}

#[test]
fn invalid_promotion_gates_are_refused_by_field() {
    let wrong = |change: fn(&mut PromotionGatesBody)| {
        let mut body = all();
        change(&mut body);
        PromotionGates::read(&body).unwrap_err().to_string()
    };
    let lines = [
        wrong(|body| body.days = Some(0)),
        wrong(|body| body.days = Some(32)),
        wrong(|body| body.delay = Some(91)),
        wrong(|body| body.environments = vec!["a b".into()]),
        wrong(|body| body.environments = vec!["a".into(); 17]),
        wrong(|body| body.metric = Some("beauty".into())),
        wrong(|body| body.metric = None),
        wrong(|body| body.margin = Some(-0.1)),
        wrong(|body| body.margin = Some(f64::NAN)),
        wrong(|body| body.direction = Some("up".into())),
        wrong(|body| body.completeness = Some(1.5)),
        wrong(|body| *body = PromotionGatesBody { days: Some(3), ..PromotionGatesBody::default() }),
    ];
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(PromotionGates::read(&PromotionGatesBody::default()).unwrap(), None);
}

proptest! {
    /// A release passes exactly where its score is not below that of the champion by more than the margin.
    #[test]
    fn the_champion_is_met_within_the_margin(
        value in -1e3..1e3f64, other in -1e3..1e3f64, margin in 0.0..100.0f64, is_max in any::<bool>(),
    ) {
        let direction = Some(if is_max { "max" } else { "min" }.to_owned());
        let body = PromotionGatesBody { margin: Some(margin), direction, metric: all().metric, ..PromotionGatesBody::default() };
        let gates = PromotionGates::read(&body).unwrap().unwrap();
        prop_assert_eq!(gates.champion.as_ref().unwrap().metric.direction, if is_max { Direction::Max } else { Direction::Min });
        let found = gates.judge(&evidence(Measured { value: Some(value), of_champion: Some(other), ..good() }, &[]));
        let worse_by = if is_max { other - value } else { value - other };
        prop_assume!((worse_by - margin).abs() > 1e-6);
        prop_assert_eq!(found.is_empty(), worse_by <= margin);
    }
}

#[tokio::test]
async fn gates_and_approvals_are_stored_with_their_entities() {
    let folder = tempfile::tempdir().unwrap();
    let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
    let catalog = Catalog::new(Arc::new(table));
    let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
    let workspace = catalog.ensure_workspace("credit/prod", now).await.unwrap().entity.id;
    let model = catalog.ensure_model(&workspace, "m", &Task::Regression, now).await.unwrap().entity.id;
    let model = EntityId::Model(workspace.clone(), model);
    let gates = PromotionGates::read(&all()).unwrap();
    catalog.set_promotion_gates(&model, gates.as_ref(), true, now).await.unwrap();
    let found = catalog.get(&model).await.unwrap();
    let AnyEntity::Model(with) = &found else { panic!("{found:?}") };
    assert_eq!((&with.gates, with.entity.version), (&gates, 2));
    insta::assert_debug_snapshot!(found.to_item().attributes[GATES]);
    let wrong = found.to_item().with(GATES, 1);
    assert!(AnyEntity::from_item(&wrong).is_err());

    let spec = ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
    let bob = Arc::new(Author::named("user:bob"));
    let release = by(Arc::clone(&bob), catalog.ensure_release(&workspace, &spec, now)).await.unwrap();
    let at = EntityId::Release(workspace.clone(), release.entity.id);
    for who in ["user:eve", "user:bob", "user:eve"] {
        let who = Arc::new(Author::named(who));
        by(who, catalog.approve(&at, ("production", Some("Read.")), false, now)).await.unwrap();
    }
    by(Arc::clone(&bob), catalog.approve(&at, ("production", None), true, now)).await.unwrap();
    let again =
        by(Arc::clone(&bob), catalog.approve(&at, ("production", None), true, now)).await.unwrap_err();
    assert_eq!(again.to_string(), "user:bob has not approved `v1` for production");
    let found = catalog.get(&at).await.unwrap();
    let AnyEntity::Release(with) = &found else { panic!("{found:?}") };
    assert_eq!(with.created_by, "user:bob");
    assert_eq!(
        with.approvals,
        [Approval { at: now, note: Some("Read.".into()), ..approval("production", "user:eve") }]
    );
    insta::assert_debug_snapshot!(found.to_item().attributes[APPROVALS]);
    for number in 1..MAX_APPROVALS {
        let who = Arc::new(Author::named(format!("user:{number}")));
        by(who, catalog.approve(&at, ("production", None), false, now)).await.unwrap();
    }
    let full = by(bob, catalog.approve(&at, ("production", None), false, now)).await.unwrap_err();
    assert_eq!(full.to_string(), "`v1` has 16 approvals, and no more are kept");
    catalog.set_promotion_gates(&model, None, true, now).await.unwrap();
    assert!(!catalog.get(&model).await.unwrap().to_item().attributes.contains_key(GATES));
}
