//! Commands on groups of users and systems.

use ::catalog::{Membership, json};
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
    /// Put a user or system into a group.
    Add {
        /// The group.
        group: String,
        /// Who: user:NAME or system:NAME, or only the NAME of a user.
        member: String,
    },
    /// Remove a user or system from a group.
    Remove {
        /// The group.
        group: String,
        /// Who, likewise.
        member: String,
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
    let (group, member, is_member) = match command {
        GroupCommand::Root(command) => return root::command(config, EntityKind::Group, command).await,
        GroupCommand::Members { group, shown } => {
            let service = existing(config).await?;
            let group = service.catalog().resolve(EntityKind::Group, &group).await?;
            let members = service.catalog().memberships(&group).await?;
            let names = service.catalog().names(members.iter().flat_map(Membership::entities)).await?;
            match shown.format {
                ShowFormat::Json => {
                    print_json(&members.iter().map(|one| json::membership(one, &names)).collect());
                }
                ShowFormat::Table => {
                    let mut table = aligned(&["member", "type", "id", "since"], &[]);
                    for Membership { member, since, .. } in members {
                        let name = names.get(member.id()).cloned().unwrap_or_else(|| "-".into());
                        let kind = member.kind().name().to_owned();
                        table.add_row([name, kind, member.to_string(), since.to_string()]);
                    }
                    print(&table);
                }
            }
            return Ok(());
        }
        GroupCommand::Add { group, member } => (group, member, true),
        GroupCommand::Remove { group, member } => (group, member, false),
    };
    let service = existing(config).await?;
    let (catalog, now) = (service.catalog(), service.clock().now());
    let (in_group, at) = service.membership(&group, &member).await?;
    match is_member {
        true => catalog.add_member(&in_group, &at, now).await?,
        false => catalog.remove_member(&in_group, &at, now).await?,
    }
    println!("{member} is {} {group}", if is_member { "in" } else { "not in" });
    Ok(())
}
