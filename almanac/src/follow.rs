//! `almanac follow|unfollow|feed|digest`: who follows what, and what is new in it.

use clap::{Args, Subcommand};
use serde_json::json;
use store::{
    Clock, Error,
    catalog::Catalog,
    key::{EntityKind, Followed},
};

use crate::{
    cli::ShowFormat,
    config::Config,
    life::{happening, show},
    open,
};

/// What there is for those who follow.
#[derive(Debug, Subcommand)]
pub(crate) enum FollowCommand {
    /// Make a user follow a workspace, or one of its models.
    Follow(FollowArgs),
    /// End that a user follows a workspace or a model.
    Unfollow(FollowArgs),
    /// Show what is new in what a user follows, what was not seen first.
    Feed {
        /// The user, by name or id.
        user: String,
        /// At most so many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Mark what is shown as seen.
        #[arg(long)]
        mark_seen: bool,
        /// How to print it.
        #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
        format: ShowFormat,
    },
    /// Show all users with what they follow.
    Digest {
        /// How to print it.
        #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
        format: ShowFormat,
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
            let (user, followed) = resolve(&catalog, &args).await?;
            let is_new = catalog.follow(&user, &followed, now).await?;
            let count = catalog.followers(&followed).await?;
            println!("{} follows it{}; {count} do", args.user, if is_new { "" } else { " already" });
        }
        FollowCommand::Unfollow(args) => {
            let (user, followed) = resolve(&catalog, &args).await?;
            let is_new = catalog.unfollow(&user, &followed).await?;
            println!("{} {} it", args.user, if is_new { "no longer follows" } else { "does not follow" });
        }
        FollowCommand::Feed { user, limit, mark_seen, format } => {
            let user = catalog.resolve(EntityKind::User, &user).await?;
            let feed = catalog.feed(user.id(), limit).await?;
            let rows: Vec<_> = feed
                .iter()
                .map(|entry| {
                    let mut row = happening(&entry.happening);
                    row["new"] = if entry.is_seen { json!("-") } else { json!("new") };
                    row
                })
                .collect();
            show(&["new", "at", "what", "about", "model", "environment", "note"], &rows, format);
            if mark_seen {
                let unseen = feed.into_iter().filter(|entry| !entry.is_seen);
                let names: Vec<String> = unseen.map(|entry| entry.happening.name).collect();
                for some in names.chunks(store::catalog::MAX_MARKS) {
                    catalog.mark_seen(user.id(), some, now).await?;
                }
            }
        }
        FollowCommand::Digest { format } => {
            let (mut rows, mut cursor) = (Vec::new(), None);
            loop {
                let page = catalog.digest(cursor).await?;
                for (user, follows) in page.users {
                    rows.extend(
                        follows.iter().map(
                            |followed| json!({ "user": user.as_str(), "follows": followed.to_string() }),
                        ),
                    );
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            show(&["user", "follows"], &rows, format);
        }
    }
    Ok(())
}

async fn resolve(catalog: &Catalog, args: &FollowArgs) -> Result<(store::Id, Followed), Error> {
    let user = catalog.resolve(EntityKind::User, &args.user).await?.id().clone();
    let workspace = catalog.workspace(&args.workspace).await?;
    let followed = match &args.model {
        Some(model) => {
            Followed::Model(workspace.id().clone(), catalog.model_named(workspace.id(), model).await?)
        }
        None => Followed::Workspace(workspace.id().clone()),
    };
    Ok((user, followed))
}
