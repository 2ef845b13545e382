//! Follows of users, and their news.

use std::sync::Arc;

use catalog::{Alert, Attributes, FeedEntry, Follow, Followers, New, NewEntity, Sight};
use event::{Id, Timestamp};
use log::key::Followed;
use tests::{
    on_both_engines,
    scene::Scene,
    world::{World, at, cost},
};

on_both_engines!(
    World::on:
    digests_of_all_users_take_one_index_query,
    followers_are_counted_exactly,
    followers_are_listed_in_order_of_following,
    followed_entities_are_listed_in_followed_order,
    feed_has_at_most_n_per_publisher,
    a_feed_skips_what_was_seen,
    whether_something_was_seen_is_one_look_up,
);

async fn user(scene: &Scene, name: &str) -> Id {
    let new = NewEntity { name: name.into(), attributes: Attributes::new(), what: New::User };
    scene.world.catalog.create(new, Timestamp::default()).await.unwrap().entity().id.clone()
}

/// Access pattern B2.
async fn digests_of_all_users_take_one_index_query(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, now) = (&scene.world.catalog, at("2026-06-02T00:00:00Z"));
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    let targets = [Followed::Workspace(scene.id().clone()), Followed::Model(scene.id().clone(), model)];
    let (ann, bob, _idle) =
        (user(&scene, "ann").await, user(&scene, "bob").await, user(&scene, "idle").await);
    catalog.follow(&ann, &targets[0], now).await.unwrap();
    catalog.follow(&ann, &targets[1], now).await.unwrap();
    catalog.follow(&bob, &targets[1], now).await.unwrap();
    let (digest, reads) = scene.world.reads(catalog.digest(None)).await;
    let digest = digest.unwrap();
    assert_eq!((cost(reads), reads.items), ((0, 1), 3), "one query, of nothing but follows");
    let follow = |followed: &Followed| Follow { since: now, followed: followed.clone() };
    let follows = |of: &[Followed]| of.iter().map(follow).collect::<Vec<_>>();
    let mut expected = vec![(ann, follows(&targets)), (bob, follows(&targets[1..]))];
    expected.sort();
    assert_eq!(digest.users, expected);
    assert!(digest.next.is_none());
}

/// Access pattern E4.
async fn followers_are_counted_exactly(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, now) = (Arc::new(scene.world.catalog.clone()), at("2026-06-02T00:00:00Z"));
    let target = Followed::Workspace(scene.id().clone());
    let mut users = Vec::new();
    for name in 0..5 {
        users.push(user(&scene, &format!("user-{name}")).await);
    }
    // Three concurrent follows of each user: one of them is new.
    let mut tries = tokio::task::JoinSet::new();
    for user in users.iter().cycle().take(15) {
        let (catalog, user, target) = (Arc::clone(&catalog), user.clone(), target.clone());
        tries.spawn(async move {
            loop {
                match catalog.follow(&user, &target, now).await {
                    // Transactions on one counter at one time get into each other's way; a client tries again.
                    Err(error) if error.kind() != event::ErrorKind::Invalid => tokio::task::yield_now().await,
                    other => return other.unwrap(),
                }
            }
        });
    }
    let news = tries.join_all().await.into_iter().filter(|is_new| *is_new).count();
    let (followers, reads) = scene.world.reads(catalog.followers(&target)).await;
    assert_eq!((news, followers.unwrap(), cost(reads)), (5, 5, (1, 0)));
    assert!(catalog.unfollow(&users[0], &target).await.unwrap());
    assert!(!catalog.unfollow(&users[0], &target).await.unwrap());
    assert_eq!(catalog.followers(&target).await.unwrap(), 4);
    assert!(catalog.follows(&users[0]).await.unwrap().is_empty());
    // Neither an unknown user can follow, nor can an unknown workspace be followed.
    assert!(catalog.follow(&Id::new(now), &target, now).await.is_err());
    let nothing = Followed::Workspace(Id::new(now));
    assert!(catalog.follow(&users[0], &nothing, now).await.is_err());
    assert_eq!(catalog.followers(&target).await.unwrap(), 4);
    // The name, the path and the children of the workspace are unchanged.
    assert_eq!(catalog.workspace("credit/prod").await.unwrap().id(), scene.id());
}

/// Access pattern E4.
async fn followers_are_listed_in_order_of_following(world: World) {
    let scene = Scene::new(world).await;
    let catalog = &scene.world.catalog;
    let target = Followed::Workspace(scene.id().clone());
    let model = Followed::Model(scene.id().clone(), catalog.model_named(scene.id(), "m").await.unwrap());
    let now = |second: i64| at("2026-06-02T00:00:00Z").plus_seconds(second);
    // Their ids, and their names, are in another order.
    let mut users = Vec::new();
    for name in ["e", "d", "c", "b", "a"] {
        users.push(user(&scene, name).await);
    }
    users.reverse();
    for (second, user) in (0..).zip(&users) {
        catalog.follow(user, &target, now(second)).await.unwrap();
        catalog.follow(user, &model, now(100 - second)).await.unwrap();
    }
    // One leaves and comes again, and is the last then.
    catalog.unfollow(&users[1], &target).await.unwrap();
    catalog.follow(&users[1], &target, now(60)).await.unwrap();
    let came = [0, 2, 3, 4, 1].map(|number| users[number].clone());
    let page = async |limit, after| {
        let (page, reads) = scene.world.reads(catalog.followers_page(&target, limit, after)).await;
        (page.unwrap(), reads)
    };
    let (first, reads) = page(3, None).await;
    assert_eq!((cost(reads), reads.items), ((0, 1), 3), "one query, of nothing but these");
    let ids = |page: &Followers| page.users.iter().map(|(user, _)| user.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&first), came[..3]);
    assert_eq!(first.users[1].1, now(2));
    let (rest, reads) = page(3, first.next.clone()).await;
    assert_eq!((cost(reads), ids(&rest), rest.next), ((0, 1), came[3..].to_vec(), None));
    let of_model = catalog.followers_page(&model, 10, None).await.unwrap();
    assert_eq!(ids(&of_model), users.iter().rev().cloned().collect::<Vec<_>>());
}

/// Access pattern E4.
async fn followed_entities_are_listed_in_followed_order(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, ann) = (&scene.world.catalog, user(&scene, "ann").await);
    let mut targets =
        vec![Followed::Model(scene.id().clone(), catalog.model_named(scene.id(), "m").await.unwrap())];
    for name in ["credit/later", "credit/earlier", "credit/again"] {
        let workspace = catalog.ensure_workspace(name, at("2026-06-01T00:00:00Z")).await.unwrap();
        targets.push(Followed::Workspace(workspace.entity.id));
    }
    targets.push(Followed::Workspace(scene.id().clone()));
    targets.sort();
    targets.reverse();
    let now = |second: i64| at("2026-06-02T00:00:00Z").plus_seconds(second);
    for (second, target) in (0..).zip(&targets) {
        catalog.follow(&ann, target, now(second)).await.unwrap();
    }
    // A repeat changes no time; a renewed follow is the last.
    assert!(!catalog.follow(&ann, &targets[0], now(50)).await.unwrap());
    catalog.unfollow(&ann, &targets[1]).await.unwrap();
    catalog.follow(&ann, &targets[1], now(60)).await.unwrap();
    let (follows, reads) = scene.world.reads(catalog.follows(&ann)).await;
    assert_eq!((cost(reads), reads.items), ((0, 1), 5), "one query, of nothing but these");
    let expected = [(0, 0), (2, 2), (3, 3), (4, 4), (1, 60)];
    let expected =
        expected.map(|(target, second)| Follow { since: now(second), followed: targets[target].clone() });
    assert_eq!(follows.unwrap(), expected);
}

/// Access pattern E5.
async fn feed_has_at_most_n_per_publisher(world: World) {
    let scene = Scene::new(world).await;
    happenings(&scene).await;
    let (catalog, now) = (&scene.world.catalog, at("2026-06-03T00:00:00Z"));
    let other = catalog.ensure_workspace("credit/other", now).await.unwrap();
    for hour in 0..4 {
        let alert = Alert {
            at: at(&format!("2026-06-01T0{hour}:00:00Z")),
            name: format!("late-{hour}"),
            model: None,
            text: "Late.".into(),
        };
        for workspace in [scene.id(), other.id()] {
            catalog.raise(workspace, &alert).await.unwrap();
        }
    }
    let ann = user(&scene, "ann").await;
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    for followed in [
        Followed::Workspace(scene.id().clone()),
        Followed::Model(scene.id().clone(), model),
        Followed::Workspace(other.id().clone()),
    ] {
        catalog.follow(&ann, &followed, now).await.unwrap();
    }
    let (feed, reads) = scene.world.reads(catalog.feed(&ann, 100, Some(2), &Sight::Everything)).await;
    assert_eq!(cost(reads), (0, 5), "what is followed, one of each of three, and what was seen");
    let feed = feed.unwrap();
    let of = |workspace: &Id, feed: &[FeedEntry]| -> Vec<String> {
        let of_it = feed.iter().filter(|entry| entry.happening.workspace == *workspace);
        of_it.map(|entry| entry.happening.about.clone()).collect()
    };
    // Two of the model, two of the workspace beside it, two of the other one: the newest of each.
    assert_eq!(of(scene.id(), &feed), ["v1", "drift", "late-3", "late-2"]);
    assert_eq!(of(other.id(), &feed), ["late-3", "late-2"]);
    // Unseen entries come first, for each publisher.
    let seen: Vec<String> = feed.iter().map(|entry| entry.happening.name.clone()).collect();
    catalog.mark_seen(&ann, &seen, now).await.unwrap();
    let next = catalog.feed(&ann, 100, Some(2), &Sight::Everything).await.unwrap();
    assert_eq!(of(other.id(), &next), ["late-1", "late-0"]);
    assert_eq!(catalog.feed(&ann, 3, Some(2), &Sight::Everything).await.unwrap().len(), 3);
    assert!(catalog.feed(&ann, 3, Some(0), &Sight::Everything).await.is_err());
    assert_eq!(catalog.feed(&ann, 100, None, &Sight::Everything).await.unwrap().len(), 12);
}

async fn happenings(scene: &Scene) {
    for (hour, release) in ["v1", "v2", "v1"].into_iter().enumerate() {
        let now = at(&format!("2026-06-02T0{hour}:00:00Z"));
        scene.ingest(now).promote(&scene.workspace, release, "production", None).await.unwrap();
    }
    let alert = Alert {
        at: at("2026-06-02T01:30:00Z"),
        name: "drift".into(),
        model: Some("m".into()),
        text: "The scores moved.".into(),
    };
    scene.world.catalog.raise(scene.id(), &alert).await.unwrap();
    scene.world.catalog.raise(scene.id(), &alert).await.unwrap();
}

fn names(feed: &[FeedEntry]) -> Vec<(&str, &str, bool)> {
    feed.iter()
        .map(|entry| (entry.happening.what.as_str(), entry.happening.about.as_str(), entry.is_seen))
        .collect()
}

/// Access pattern E5.
async fn a_feed_skips_what_was_seen(world: World) {
    let scene = Scene::new(world).await;
    happenings(&scene).await;
    let (catalog, now) = (&scene.world.catalog, at("2026-06-03T00:00:00Z"));
    let ann = user(&scene, "ann").await;
    assert_eq!(catalog.feed(&ann, 10, None, &Sight::Everything).await.unwrap(), [], "nothing is followed");
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    catalog.follow(&ann, &Followed::Workspace(scene.id().clone()), now).await.unwrap();
    catalog.follow(&ann, &Followed::Model(scene.id().clone(), model), now).await.unwrap();
    let (feed, reads) = scene.world.reads(catalog.feed(&ann, 10, None, &Sight::Everything)).await;
    let feed = feed.unwrap();
    assert_eq!(cost(reads), (0, 4), "what is followed, one of each, and what was seen");
    let all = [("promote", "v1"), ("alert", "drift"), ("promote", "v2"), ("promote", "v1")];
    assert_eq!(names(&feed), all.map(|(what, about)| (what, about, false)), "newest first, each once");
    assert_eq!(names(&catalog.feed(&ann, 2, None, &Sight::Everything).await.unwrap()).len(), 2);
    // Seen entries come last, and are left out when there are enough new ones.
    let seen = vec![feed[0].happening.name.clone(), feed[1].happening.name.clone()];
    catalog.mark_seen(&ann, &seen, now).await.unwrap();
    catalog.mark_seen(&ann, &seen, now).await.unwrap();
    let after = catalog.feed(&ann, 3, None, &Sight::Everything).await.unwrap();
    let order: Vec<_> = after.iter().map(|entry| (entry.happening.name.clone(), entry.is_seen)).collect();
    let name = |at: usize| feed[at].happening.name.clone();
    assert_eq!(order, [(name(2), false), (name(3), false), (name(0), true)]);
    let bob = user(&scene, "bob").await;
    catalog.follow(&bob, &Followed::Workspace(scene.id().clone()), now).await.unwrap();
    assert!(
        catalog.feed(&bob, 10, None, &Sight::Everything).await.unwrap().iter().all(|entry| !entry.is_seen),
        "marks are one's own"
    );
}

/// Access pattern E3.
async fn whether_something_was_seen_is_one_look_up(world: World) {
    let scene = Scene::new(world).await;
    happenings(&scene).await;
    let (catalog, now) = (&scene.world.catalog, at("2026-06-03T00:00:00Z"));
    let ann = user(&scene, "ann").await;
    catalog.follow(&ann, &Followed::Workspace(scene.id().clone()), now).await.unwrap();
    let name = catalog.feed(&ann, 1, None, &Sight::Everything).await.unwrap().remove(0).happening.name;
    let (seen, reads) = scene.world.reads(catalog.has_seen(&ann, &name)).await;
    assert_eq!((seen.unwrap(), cost(reads)), (false, (1, 0)));
    catalog.mark_seen(&ann, std::slice::from_ref(&name), now).await.unwrap();
    let (seen, reads) = scene.world.reads(catalog.has_seen(&ann, &name)).await;
    assert_eq!((seen.unwrap(), cost(reads)), (true, (1, 0)));
    assert!(catalog.has_seen(&ann, "no name").await.is_err());
    // Predictions are counted by release, beside the workspace, so that its page stays small.
    scene.predict("2026-06-02", "v1", 0.5).await;
    scene.project().await;
    let (page, reads) = scene.world.reads(catalog.page_with_counts(scene.id())).await;
    assert_eq!(cost(reads), (0, 2), "the page and its counters");
    assert_eq!(page.unwrap().model_counts("m")["predictions"], 1);
}
