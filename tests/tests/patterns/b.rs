//! B: item collections and an overloaded index.

use store::catalog::Task;

use crate::world::{World, at, cost, rows};

rows!(b1_workspace_page);

async fn b1_workspace_page(world: World) {
    let now = at("2026-06-10T00:00:00Z");
    let workspace = world.catalog.ensure_workspace("credit/prod", now).await.unwrap();
    world.catalog.ensure_model(workspace.id(), "churn", &Task::Regression, now).await.unwrap();
    let (page, reads) = world.reads(world.catalog.page(workspace.id())).await;
    assert_eq!(cost(reads), (0, 1), "one query");
    assert_eq!(page.unwrap().models.len(), 1);
}
