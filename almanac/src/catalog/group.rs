//! Commands on groups of users.

use ::catalog::json;
use clap::Subcommand;
use log::key::EntityKind;

use super::{
    existing,
    root::{self, RootCommand},
};
use crate::{
    config::Config,
    shown::{ShowFormat, Shown, aligned, print, print_json},
};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Put a user into a group.
    Add {
        /// The group.
        group: String,
        /// The user.
        user: String,
    },
    /// Remove a user from a group.
    Remove {
        /// The group.
        group: String,
        /// The user.
        user: String,
    },
    /// List the members of a group.
    Members {
        /// The group.
        group: String,
        #[command(flatten)]
        shown: Shown,
    },
    #[command(flatten)]
    Root(RootCommand),
}

pub(crate) async fn command(config: &Config, command: GroupCommand) -> anyhow::Result<()> {
    let (group, user, is_member) = match command {
        GroupCommand::Root(command) => return root::command(config, EntityKind::Group, command).await,
        GroupCommand::Members { group, shown } => {
            let service = existing(config).await?;
            let group = service.catalog().resolve(EntityKind::Group, &group).await?;
            let members = service.catalog().memberships(&group).await?;
            match shown.format {
                ShowFormat::Json => print_json(&members.iter().map(json::membership).collect()),
                ShowFormat::Table => {
                    let mut table = aligned(&["user", "id", "since"], &[]);
                    for member in members {
                        let user = service.catalog().get(&member.user).await?;
                        let name = user.entity().name.clone();
                        table.add_row([name, member.user.to_string(), member.since.to_string()]);
                    }
                    print(&table);
                }
            }
            return Ok(());
        }
        GroupCommand::Add { group, user } => (group, user, true),
        GroupCommand::Remove { group, user } => (group, user, false),
    };
    let service = existing(config).await?;
    let (catalog, now) = (service.catalog(), service.clock().now());
    let in_group = catalog.resolve(EntityKind::Group, &group).await?;
    let of_user = catalog.resolve(EntityKind::User, &user).await?;
    match is_member {
        true => catalog.add_member(&in_group, &of_user, now).await?,
        false => catalog.remove_member(&in_group, &of_user, now).await?,
    }
    println!("{user} is {} {group}", if is_member { "in" } else { "not in" });
    Ok(())
}
