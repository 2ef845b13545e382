//! `almanac follow|unfollow|follows|followers|feed|seen|digest`: the follows of users, and their news.

use catalog::{Catalog, FeedEntry, Happening, Sight, json};
use clap::{Args, Subcommand};
use event::{Clock, Error, Id, Timestamp};
use log::key::{EntityId, EntityKind, Followed};
use serde_json::{Value, json};
use table::Cursor;

use crate::{
    config::Config,
    named::InWorkspace,
    open,
    shown::{ShowFormat, Shown, show, show_one},
};

/// What there is for those who follow.
#[derive(Debug, Subcommand)]
pub(crate) enum FollowCommand {
    /// Make a user follow a workspace, or one of its models.
    Follow(FollowArgs),
    /// Make a user stop following a workspace or a model.
    Unfollow(FollowArgs),
    /// List what a user follows, the newest first.
    Follows {
        /// The user, by name or id.
        user: String,
        /// The oldest first.
        #[arg(long)]
        oldest_first: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// List the followers of a workspace, or of one of its models, in the order in which they came.
    Followers {
        #[command(flatten)]
        workspace: InWorkspace,
        /// Only this model of it.
        #[arg(long, short)]
        model: Option<String>,
        /// The most to show.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        /// Continue from the cursor that the page before ended with.
        #[arg(long)]
        cursor: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show what is new in what a user follows, unseen entries first.
    Feed {
        /// The user, by name or id.
        user: String,
        /// The most to show.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// The most entries of each workspace or model that the user follows.
        #[arg(long, value_name = "N")]
        per_publisher: Option<usize>,
        /// Mark what is shown as seen.
        #[arg(long)]
        mark_seen: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Tell whether a user has seen an entry of the feed.
    Seen {
        /// The user, by name or id.
        user: String,
        /// The entry, as feed names it.
        entry: String,
        /// Mark it as seen.
        #[arg(long)]
        mark: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show what happened in the last 7 days in what a user follows; without a user, all users with what they follow.
    Digest {
        /// The user, by name or id.
        user: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
}

#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// The user, by name or id.
    user: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// Only this model of it.
    #[arg(long, short)]
    model: Option<String>,
}

pub(crate) async fn command(config: &Config, command: FollowCommand) -> anyhow::Result<()> {
    let catalog = Catalog::new(open::existing(config).await?);
    let now = Clock::system().now();
    match command {
        FollowCommand::Follow(args) => {
            let (user, followed) = args.resolve(&catalog).await?;
            let is_new = catalog.follow(&user, &followed, now).await?;
            let count = catalog.followers(&followed).await?;
            println!("{} follows it{}; {count} do", args.user, if is_new { "" } else { " already" });
        }
        FollowCommand::Unfollow(args) => {
            let (user, followed) = args.resolve(&catalog).await?;
            let is_new = catalog.unfollow(&user, &followed).await?;
            println!("{} {} it", args.user, if is_new { "no longer follows" } else { "does not follow" });
        }
        FollowCommand::Followers { workspace, model, limit, cursor, shown: Shown { format } } => {
            let followed = followed(&catalog, &workspace, model.as_deref()).await?;
            followers(&catalog, &followed, limit.into(), cursor.as_deref(), format).await?;
        }
        FollowCommand::Follows { user, oldest_first, shown: Shown { format } } => {
            follows(&catalog, &user, oldest_first, format).await?;
        }
        FollowCommand::Feed { user, limit, per_publisher, mark_seen, shown: Shown { format } } => {
            let user = catalog.resolve(EntityKind::User, &user).await?;
            let feed = catalog.feed(user.id(), limit, per_publisher, &Sight::Everything).await?;
            show_feed(&catalog, &feed, format).await?;
            if mark_seen {
                let unseen = feed.into_iter().filter(|entry| !entry.is_seen);
                let names: Vec<String> = unseen.map(|entry| entry.happening.name).collect();
                for some in names.chunks(catalog::MAX_MARKS) {
                    catalog.mark_seen(user.id(), some, now).await?;
                }
            }
        }
        FollowCommand::Seen { user, entry, mark, shown: Shown { format } } => {
            let user = catalog.resolve(EntityKind::User, &user).await?;
            if mark {
                catalog.mark_seen(user.id(), std::slice::from_ref(&entry), now).await?;
            }
            let seen = mark || catalog.has_seen(user.id(), &entry).await?;
            show_one(&json!({ "entry": entry, "seen": seen }), format);
        }
        FollowCommand::Digest { user: Some(user), shown: Shown { format } } => {
            let user = catalog.resolve(EntityKind::User, &user).await?;
            let digest = catalog.digest_of(user.id(), &Sight::Everything, now).await?;
            show_digest(&digest.iter().map(|week| json!(week)).collect::<Vec<_>>(), format);
        }
        FollowCommand::Digest { user: None, shown: Shown { format } } => {
            all_follows(&catalog, format).await?
        }
    }
    Ok(())
}

/// Columns for the workspace and model of a follow.
const FOLLOWED: [&str; 2] = ["path", "model_name"];

async fn follows(
    catalog: &Catalog,
    user: &str,
    oldest_first: bool,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let user = catalog.resolve(EntityKind::User, user).await?;
    let mut follows = catalog.follows(user.id()).await?;
    if !oldest_first {
        follows.reverse();
    }
    let names = catalog.names(follows.iter().flat_map(|one| one.followed.entities())).await?;
    let rows: Vec<Value> = follows.iter().map(|one| json::follow(one, &names)).collect();
    show(&[FOLLOWED[0], FOLLOWED[1], "since"], &rows, format);
    Ok(())
}

/// Shows all users with their follows.
async fn all_follows(catalog: &Catalog, format: ShowFormat) -> anyhow::Result<()> {
    let (mut rows, mut cursor) = (Vec::new(), None);
    loop {
        let page = catalog.digest(cursor).await?;
        let names = catalog.names(page.entities()).await?;
        for (user, follows) in &page.users {
            rows.extend(follows.iter().map(|one| {
                let mut row = json::follow(one, &names);
                row["user"] = json!(names.get(user));
                row
            }));
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    show(&["user", FOLLOWED[0], FOLLOWED[1], "since"], &rows, format);
    Ok(())
}

/// Shows a feed, each entry with its workspace.
async fn show_feed(catalog: &Catalog, feed: &[FeedEntry], format: ShowFormat) -> anyhow::Result<()> {
    let workspaces = feed.iter().map(|entry| EntityId::Workspace(entry.happening.workspace.clone()));
    let names = catalog.names(workspaces).await?;
    let row = |entry: &FeedEntry| {
        let mut row = happening(&entry.happening);
        row["new"] = if entry.is_seen { json!("-") } else { json!("new") };
        row["entry"] = entry.happening.name.as_str().into();
        row["workspace"] = json!(names.get(&entry.happening.workspace));
        row
    };
    let rows: Vec<Value> = feed.iter().map(row).collect();
    show(
        &["new", "at", "workspace", "what", "about", "model", "environment", "note", "entry"],
        &rows,
        format,
    );
    Ok(())
}

/// Row of a happening.
fn happening(of: &Happening) -> Value {
    json!({
        "at": of.at.to_string(), "what": of.what, "about": of.about, "model": of.model,
        "environment": of.environment, "note": of.note,
    })
}

impl FollowArgs {
    async fn resolve(&self, catalog: &Catalog) -> Result<(Id, Followed), Error> {
        let user = catalog.resolve(EntityKind::User, &self.user).await?.id().clone();
        Ok((user, followed(catalog, &self.workspace, self.model.as_deref()).await?))
    }
}

async fn followed(catalog: &Catalog, workspace: &str, model: Option<&str>) -> Result<Followed, Error> {
    let workspace = catalog.workspace(workspace).await?;
    Ok(match model {
        Some(model) => {
            Followed::Model(workspace.id().clone(), catalog.model_named(workspace.id(), model).await?)
        }
        None => Followed::Workspace(workspace.id().clone()),
    })
}

/// Shows a digest: unchanged as JSON; as a table of live releases, then the alerts.
fn show_digest(digest: &[Value], format: ShowFormat) {
    if let ShowFormat::Json = format {
        return show(&[], digest, format);
    }
    let (mut rows, mut alerts, mut decided) = (Vec::new(), Vec::new(), Vec::new());
    for week in digest {
        let of = match week["model"]["name"].as_str() {
            Some(model) => json!(format!("{}/{model}", week["path"].as_str().unwrap_or_default())),
            None => week["path"].clone(),
        };
        let row = |predictions: &Value| json!({ "of": of, "metric": week["metric"], "predictions": predictions["last"], "before": predictions["before"] });
        let whole = row(&week["predictions"]);
        rows.push(whole);
        for live in week["live"].as_array().into_iter().flatten() {
            let mut one = row(&live["predictions"]);
            one["release"] = live["release"].clone();
            one["value"] = live["last"]["value"].clone();
            one["n"] = live["last"]["n"].clone();
            one["change"] = live["change"].clone();
            rows.push(one);
        }
        for alert in week["alerts"].as_array().into_iter().flatten() {
            alerts.push(json!({ "of": of, "at": alert["at"], "rule": alert["rule"], "text": alert["text"] }));
        }
        for one in week["decided"].as_array().into_iter().flatten() {
            decided.push(json!({ "of": of, "at": one["at"], "decided": one["text"] }));
        }
    }
    show(&["of", "release", "predictions", "before", "metric", "value", "n", "change"], &rows, format);
    if !alerts.is_empty() {
        println!();
        show(&["of", "at", "rule", "text"], &alerts, format);
    }
    if !decided.is_empty() {
        println!();
        show(&["of", "at", "decided"], &decided, format);
    }
}

async fn followers(
    catalog: &Catalog,
    followed: &Followed,
    limit: usize,
    cursor: Option<&str>,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let page = catalog.followers_page(followed, limit, cursor.map(Cursor::from_text).transpose()?).await?;
    let names = catalog.names(page.users.iter().map(|(user, _)| EntityId::User(user.clone()))).await?;
    let row = |(user, since): &(Id, Timestamp)| {
        let id = EntityId::User(user.clone()).to_string();
        json!({ "user": names.get(user), "id": id, "since": since.to_string() })
    };
    let rows: Vec<Value> = page.users.iter().map(row).collect();
    show(&["user", "id", "since"], &rows, format);
    if let Some(next) = page.next {
        eprintln!("there is more; continue with --cursor {}", next.to_text());
    }
    Ok(())
}
