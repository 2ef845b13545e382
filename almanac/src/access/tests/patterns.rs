//! Access patterns as HTTP serves them, with the reads that each costs: on both engines.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use catalog::{Alert, Catalog, New, NewEntity, Role};
use event::Clock;
use log::{
    key::{EntityId, EntityKind, Scope},
    store::Store,
};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::Scene,
    world::{World, cost},
};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::up::{Options, Services};

struct House {
    scene: Scene,
    catalog: Catalog,
    router: Router,
    _stop: watch::Sender<bool>,
}

impl House {
    async fn on(world: World) -> Self {
        let scene = Scene::new(world).await;
        let options = Options::new(Clock::system());
        let (stop, stopping) = watch::channel(false);
        let table = scene.world.table();
        let router =
            Services::new(Store::over(Arc::clone(&table)), &options).routes(&options, stopping).into_router();
        Self { catalog: scene.world.catalog.clone(), scene, router, _stop: stop }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
        let answer = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Returns the answer, the number of items read by key and the number of pages queried.
    async fn get(&self, path: &str) -> (Value, (u64, u64)) {
        let ((status, body), reads) = self.scene.world.reads(self.send("GET", path, &Value::Null)).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        (body, cost(reads))
    }

    async fn made(&self, name: &str, what: New) -> EntityId {
        self.catalog.create(NewEntity::new(name, what), Clock::system().now()).await.unwrap().at()
    }
}

on_both_engines!(
    World::on:
    workspace_and_user_pages_take_one_query_each,
    followed_workspaces_come_newest_first_with_times,
    reading_seen_position_takes_one_lookup,
    counters_are_shown_with_every_entity,
    lists_have_single_attributes_and_refuse_unknown_fields,
    an_operation_without_parameters_refuses_them,
    a_group_has_users_and_systems_by_name,
);

/// Access pattern B1.
async fn workspace_and_user_pages_take_one_query_each(world: World) {
    let house = House::on(world).await;
    let (catalog, now) = (&house.catalog, Clock::system().now());
    let (ann, risk) = (house.made("ann", New::User).await, house.made("risk", New::Group).await);
    let workspace = EntityId::Workspace(house.scene.id().clone());
    let scope = Scope::of(&workspace).unwrap();
    catalog.add_member(&risk, &ann, now).await.unwrap();
    catalog.grant(&scope, &ann, Role::Writer, now).await.unwrap();
    catalog.grant(&Scope::Server, &ann, Role::Reader, now).await.unwrap();
    catalog.count(&workspace, "visits", 2, None).await.unwrap();
    for model in [json!(null), json!("m")] {
        let body = json!({ "workspace": "credit/prod", "model": model, "following": true });
        assert_eq!(house.send("PUT", "/v1/users/ann/follows", &body).await.0, StatusCode::OK);
    }
    house.scene.predict("2026-06-02", "v1", 0.5).await;
    house.scene.project().await;

    let path = format!("/v1/workspaces/-/{workspace}");
    let (page, (_, queries)) = house.get(&path).await;
    assert_eq!(queries, 1, "one query, and look-ups of names");
    assert_eq!((&page["counters"]["visits"], &page["models"][0]["name"]), (&json!(2), &json!("m")));
    assert_eq!((&page["grants"][0]["principal_name"], &page["counts"]), (&json!("user:ann"), &Value::Null));
    let (page, (_, queries)) = house.get(&format!("{path}?counts=true")).await;
    assert_eq!((queries, &page["counts"]["predictions"]), (2, &json!(1)), "counts are one query more");
    assert_eq!(page["releases"][0]["counts"]["predictions"], 1);

    let (page, (_, queries)) = house.get("/v1/users/ann").await;
    assert_eq!(queries, 1, "one query, and look-ups of names");
    assert_eq!(page["groups"][0]["group_name"], "risk");
    let grants = page["grants"].as_array().unwrap();
    let named: Vec<_> =
        grants.iter().map(|one| (one["role"].as_str().unwrap(), one["path"].as_str())).collect();
    assert_eq!(named, [("reader", None), ("writer", Some("credit/prod"))]);
    let follows = page["follows"].as_array().unwrap();
    let named: Vec<_> =
        follows.iter().map(|one| (one["path"].as_str(), one["model_name"].as_str())).collect();
    assert_eq!(named, [(Some("credit/prod"), Some("m")), (Some("credit/prod"), None)]);
    assert_eq!((&page["answered"], &page["week"]["answers"]), (&json!([]), &json!(0)));
    // Names are current ones.
    let renamed = json!({ "name": "hazard" });
    assert_eq!(house.send("PATCH", "/v1/groups/risk", &renamed).await.0, StatusCode::OK);
    assert_eq!(house.get("/v1/users/ann").await.0["groups"][0]["group_name"], "hazard");
}

/// Access pattern E4.
async fn followed_workspaces_come_newest_first_with_times(world: World) {
    let house = House::on(world).await;
    house.made("ann", New::User).await;
    for name in ["b", "c", "a"] {
        let path = format!("credit/{name}");
        assert_eq!(
            house.send("POST", "/v1/workspaces", &json!({ "path": path })).await.0,
            StatusCode::CREATED
        );
        let body = json!({ "workspace": path, "following": true });
        assert_eq!(house.send("PUT", "/v1/users/ann/follows", &body).await.0, StatusCode::OK);
    }
    let listed = async |query: &str| {
        let (body, (_, queries)) = house.get(&format!("/v1/users/ann/follows{query}")).await;
        assert_eq!(queries, 1);
        let follows = body["follows"].as_array().unwrap().clone();
        let since: Vec<_> = follows.iter().map(|one| one["since"].as_str().unwrap().to_owned()).collect();
        assert_eq!(since.is_sorted(), query.ends_with("oldest"), "{since:?}");
        follows.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, ["credit/a", "credit/c", "credit/b"]);
    assert_eq!(listed("?order=newest").await, ["credit/a", "credit/c", "credit/b"]);
    assert_eq!(listed("?order=oldest").await, ["credit/b", "credit/c", "credit/a"]);
    for wrong in ["order=key", "limit=1"] {
        let (status, said) = house.send("GET", &format!("/v1/users/ann/follows?{wrong}"), &Value::Null).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
    }
}

/// Access pattern E3.
async fn reading_seen_position_takes_one_lookup(world: World) {
    let house = House::on(world).await;
    let (ann, now) = (house.made("ann", New::User).await, Clock::system().now());
    let alert = Alert { at: now, name: "drift".into(), model: None, text: "The scores moved.".into() };
    house.catalog.raise(house.scene.id(), &alert).await.unwrap();
    let follow = json!({ "workspace": "credit/prod", "following": true });
    house.send("PUT", &format!("/v1/users/{ann}/follows"), &follow).await;
    let (feed, _) = house.get(&format!("/v1/users/{ann}/feed")).await;
    let (entry, path) = (&feed["entries"][0]["entry"], &feed["entries"][0]["path"]);
    assert_eq!(path, "credit/prod");
    let asked = format!("/v1/users/{ann}/seen?entry={}", entry.as_str().unwrap());
    let resolved = house.get(&format!("/v1/users/{ann}/follows")).await.1.0 - 1;
    let (told, reads) = house.get(&asked).await;
    assert_eq!((told, reads), (json!({ "entry": entry, "seen": false }), (resolved + 1, 0)));
    house.send("POST", &format!("/v1/users/{ann}/seen"), &json!({ "entries": [entry] })).await;
    assert_eq!(house.get(&asked).await.0["seen"], true);
    for wrong in ["", "?entry=none", &format!("?entry={}&x=1", entry.as_str().unwrap())] {
        let path = format!("/v1/users/{ann}/seen{wrong}");
        assert_eq!(house.send("GET", &path, &Value::Null).await.0, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

/// Access pattern A4.
async fn counters_are_shown_with_every_entity(world: World) {
    let house = House::on(world).await;
    for (name, what) in [("ann", New::User), ("risk", New::Group), ("nightly", New::System)] {
        house.made(name, what).await;
    }
    let named = [
        "credit",
        "credit/prod",
        "credit%2Fprod%2Fm",
        "credit%2Fprod%2Fdeep",
        "",
        "credit%2Fprod%2Fv1",
        "ann",
        "risk",
        "nightly",
    ];
    let configuration = json!({ "workspace": "credit/prod", "name": "deep" });
    assert_eq!(house.send("POST", "/v1/configurations", &configuration).await.0, StatusCode::CREATED);
    for (kind, name) in EntityKind::ALL.into_iter().zip(named).filter(|(_, name)| !name.is_empty()) {
        let counter = format!("/v1/counters/{kind}/{}/reviews", name.replace('/', "%2F"));
        let (status, said) = house.send("POST", &counter, &json!({ "by": 3 })).await;
        assert_eq!(status, StatusCode::OK, "{counter}: {said}");
        let (shown, _) = house.get(&format!("/v1/{}/{name}", kind.plural())).await;
        assert_eq!(shown["counters"], json!({ "reviews": 3 }), "{kind}");
    }
}

/// Access pattern A6.
async fn lists_have_single_attributes_and_refuse_unknown_fields(world: World) {
    let house = House::on(world).await;
    for (name, owner) in [("deep", "ann"), ("flat", "bob")] {
        let attributes = json!({ "owner": owner, "large": "x".repeat(1_000), "dotted.name": 7 });
        let body = json!({ "workspace": "credit/prod", "name": name, "attributes": attributes });
        assert_eq!(house.send("POST", "/v1/configurations", &body).await.0, StatusCode::CREATED);
    }
    let list = "/v1/configurations?of=credit/prod&fields=";
    let (listed, (_, queries)) =
        house.get(&format!("{list}attributes.owner,attributes.dotted.name,version")).await;
    assert_eq!(queries, 1);
    // Entities made within one second come in any order.
    let listed = listed["configurations"].as_array().unwrap();
    let first = listed.iter().find(|one| one["name"] == "deep").unwrap();
    let expected = json!({
        "id": first["id"], "name": "deep", "version": 1, "attributes": { "owner": "ann", "dotted.name": 7 },
    });
    assert_eq!(*first, expected);
    let (listed, _) = house.get(&format!("{list}attributes.none")).await;
    assert_eq!(listed["configurations"][1]["attributes"], json!({}));
    for wrong in ["owner", "attributes.", "name,task"] {
        let (status, said) = house.send("GET", &format!("{list}{wrong}"), &Value::Null).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(
            said["detail"].as_str().unwrap().contains("`attributes.NAME` for a single attribute"),
            "{said}"
        );
    }
}

/// Access pattern A6.
async fn an_operation_without_parameters_refuses_them(world: World) {
    let house = House::on(world).await;
    house.made("ann", New::User).await;
    for path in [
        "/v1/models/credit%2Fprod%2Fm",
        "/v1/users/ann",
        "/v1/releases/credit%2Fprod%2Fv1",
        "/v1/categories/credit",
    ] {
        house.get(path).await;
        let (status, said) = house.send("GET", &format!("{path}?fields=name"), &Value::Null).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(said["detail"], "unknown parameter `fields`: this operation takes none", "{path}");
    }
    let (status, said) = house.send("GET", "/v1/workspaces/credit/prod?count=true", &Value::Null).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
    let (status, said) = house.send("PATCH", "/v1/users/ann?dry=1", &json!({ "name": "eve" })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
    house.get("/v1/users/ann").await;
}

/// Access pattern A11.
async fn a_group_has_users_and_systems_by_name(world: World) {
    let house = House::on(world).await;
    for (name, what) in
        [("ann", New::User), ("nightly", New::System), ("risk", New::Group), ("other", New::Group)]
    {
        house.made(name, what).await;
    }
    for member in ["ann", "system:nightly"] {
        let path = format!("/v1/groups/risk/members/{member}");
        assert_eq!(house.send("PUT", &path, &Value::Null).await.0, StatusCode::NO_CONTENT);
        assert_eq!(house.send("PUT", &path, &Value::Null).await.0, StatusCode::NO_CONTENT);
    }
    let (status, said) = house.send("PUT", "/v1/groups/risk/members/group:other", &Value::Null).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
    let (listed, (_, queries)) = house.get("/v1/groups/risk").await;
    assert_eq!(queries, 2, "its counters and its members");
    let named =
        |one: &Value| (one["user_name"].clone(), one["system_name"].clone(), one["group_name"].clone());
    let named: Vec<_> = listed["members"].as_array().unwrap().iter().map(named).collect();
    let none = Value::Null;
    assert_eq!(named, [(none.clone(), json!("nightly"), json!("risk")), (json!("ann"), none, json!("risk"))]);
    assert_eq!(
        house.send("DELETE", "/v1/groups/risk", &Value::Null).await.0,
        StatusCode::CONFLICT,
        "it has members"
    );
    // A deleted system is in no group.
    assert_eq!(house.send("DELETE", "/v1/systems/nightly", &Value::Null).await.0, StatusCode::NO_CONTENT);
    let (listed, _) = house.get("/v1/groups/risk").await;
    assert_eq!(listed["members"].as_array().unwrap().len(), 1);
}
