//! `almanac access`: roles of principals.

use ::catalog::{Grant, Role, Service, json};
use clap::{Args, Subcommand};
use event::Clock;
use log::key::{EntityKind, Scope};

use crate::{
    config::Config,
    open,
    shown::{ShowFormat, Shown, aligned, print, print_json},
};

/// Where a role holds: on the whole server, unless a workspace or a category is named.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// Only on this workspace.
    #[arg(long, short, conflicts_with = "category")]
    workspace: Option<String>,
    /// Only on this category and its workspaces.
    #[arg(long, short)]
    category: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Give a role to a user, group or system.
    Grant {
        /// Who: user:NAME, group:NAME or system:NAME.
        principal: String,
        /// reader, writer, reviewer, maintainer or admin.
        role: String,
        #[command(flatten)]
        at: Where,
    },
    /// Take a role away.
    Revoke {
        /// Who: user:NAME, group:NAME or system:NAME.
        principal: String,
        #[command(flatten)]
        at: Where,
    },
    /// List who has which role.
    List {
        #[command(flatten)]
        at: Where,
        #[command(flatten)]
        shown: Shown,
    },
}

impl Where {
    async fn scope(&self, service: &Service) -> anyhow::Result<Scope> {
        let named = match (&self.workspace, &self.category) {
            (Some(workspace), _) => (EntityKind::Workspace, workspace),
            (None, Some(category)) => (EntityKind::Category, category),
            (None, None) => return Ok(Scope::Server),
        };
        let at = service.catalog().resolve(named.0, named.1).await?;
        Ok(match named.0 {
            EntityKind::Workspace => Scope::Workspace(at.id().clone()),
            _ => Scope::Category(at.id().clone()),
        })
    }

    fn says(&self) -> &str {
        self.workspace.as_deref().or(self.category.as_deref()).unwrap_or("the server")
    }
}

/// Gives, takes away and lists roles.
pub(crate) async fn roles(config: &Config, command: AccessCommand) -> anyhow::Result<()> {
    let service = Service::new(open::existing(config).await?, Clock::system());
    match command {
        AccessCommand::Grant { principal, role, at } => {
            let (scope, role) = (at.scope(&service).await?, Role::parse(&role)?);
            let to = service.principal(&principal).await?;
            service.catalog().grant(&scope, &to, role, service.clock().now()).await?;
            println!("{principal} is {} of {}", role.name(), at.says());
        }
        AccessCommand::Revoke { principal, at } => {
            let scope = at.scope(&service).await?;
            let of = service.principal(&principal).await?;
            service.catalog().revoke(&scope, &of).await?;
            println!("{principal} has no role on {}", at.says());
        }
        AccessCommand::List { at, shown } => {
            let grants = service.catalog().grants(&at.scope(&service).await?).await?;
            show_grants(&service, &grants, shown.format).await?;
        }
    }
    Ok(())
}

/// Prints grants: principals and their roles.
async fn show_grants(service: &Service, grants: &[Grant], format: ShowFormat) -> anyhow::Result<()> {
    let names = service.catalog().names(grants.iter().flat_map(Grant::entities)).await?;
    match format {
        ShowFormat::Json => print_json(&grants.iter().map(|one| json::grant(one, &names)).collect()),
        ShowFormat::Table => {
            let mut table = aligned(&["principal", "type", "role", "since"], &[]);
            for grant in grants {
                let who = names.get(grant.principal.id()).cloned().unwrap_or_else(|| "-".into());
                let kind = grant.principal.kind().name().to_owned();
                table.add_row([who, kind, grant.role.name().to_owned(), grant.since.to_string()]);
            }
            print(&table);
        }
    }
    Ok(())
}
