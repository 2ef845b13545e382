//! `almanac token`: makes, lists and revokes tokens.

use std::sync::Arc;

use ::access::{
    Lifetime, Limits, NewToken, Token, Tokens, check_role,
    http::{record, session_record},
};
use ::catalog::{Quota, Service};
use clap::{Args, Subcommand};
use event::{Clock, Error, Kind, Right, Timestamp};
use log::key::{EntityKind, Scope};

use crate::{
    config::Config,
    open,
    shown::{Shown, show},
};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for a user or system, and print it once.
    Create(CreateArgs),
    /// List the tokens of a user or system.
    List {
        /// Whose: user:NAME or system:NAME.
        principal: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Revoke a token; within 5 seconds no service takes it any more.
    Revoke {
        /// Whose: user:NAME or system:NAME.
        principal: String,
        /// The name of the token, or its id.
        token: String,
    },
    /// Print a new token that is stored nowhere, for ALMANAC_ADMIN_TOKEN.
    Generate,
}

/// For how long a new token is good.
#[derive(Debug, Args)]
pub(super) struct LifetimeArgs {
    /// For how many days it is good, or never, when it is not to expire; 90, unless it is given or --once is.
    #[arg(long, value_name = "DAYS|never")]
    days: Option<Lifetime>,
}

impl LifetimeArgs {
    /// Expiry of a token that is made now.
    pub(super) fn expiry(&self, is_once: bool, now: Timestamp) -> Option<Timestamp> {
        NewToken::expiry(self.days.unwrap_or_default(), is_once, now)
    }
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Whose: user:NAME or system:NAME.
    principal: String,
    /// What it is for, in a word.
    #[arg(long)]
    name: String,
    #[command(flatten)]
    lifetime: LifetimeArgs,
    /// Only on this workspace. May be repeated.
    #[arg(long = "workspace", short)]
    workspaces: Vec<String>,
    /// Only on this category and its workspaces. May be repeated.
    #[arg(long = "category", short)]
    categories: Vec<String>,
    /// Only this right: read, append, review, maintain or admin. May be repeated.
    #[arg(long = "right", value_parser = |text: &str| Right::parse(text))]
    rights: Vec<Right>,
    /// Only events of this kind, such as predictions. May be repeated.
    #[arg(long = "kind")]
    kinds: Vec<String>,
    /// Only from these addresses, such as 10.0.0.0/8. May be repeated.
    #[arg(long = "address")]
    addresses: Vec<String>,
    /// How much may be appended with it, such as rows_per_second=1000: requests, rows or bytes, per_second or per_day. May be
    /// repeated.
    #[arg(long = "limit", value_name = "NAME=NUMBER")]
    limits: Vec<String>,
    /// Good for one append, of one kind to one workspace, within a day, or within as many as --days says, 7 at most.
    #[arg(long)]
    once: bool,
}

impl CreateArgs {
    async fn new_token(&self, service: &Service) -> Result<NewToken, Error> {
        let mut scopes = Vec::new();
        for name in &self.workspaces {
            let at = service.catalog().resolve(EntityKind::Workspace, name).await?;
            scopes.push(Scope::Workspace(at.id().clone()));
        }
        for name in &self.categories {
            let at = service.catalog().resolve(EntityKind::Category, name).await?;
            scopes.push(Scope::Category(at.id().clone()));
        }
        let kind = |name: &String| {
            Kind::from_name(name).ok_or_else(|| Error::invalid(format!("`{name}` is no kind of events")))
        };
        let kinds = self.kinds.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        let networks = self.addresses.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
        // A token for a single use may append, so the right need not be given.
        let rights = match self.rights.is_empty() && self.once {
            true => vec![Right::Append],
            false => self.rights.clone(),
        };
        let mut quota = Quota::default();
        self.limits.iter().try_for_each(|pair| quota.set_pair(pair))?;
        let limits = Limits {
            scopes: some(scopes).map(|all| all.into_iter().collect()),
            rights: some(rights).map(|all| all.into_iter().collect()),
            kinds: some(kinds),
            networks: some(networks),
            quota,
        };
        let expires_at = self.lifetime.expiry(self.once, service.clock().now());
        Ok(NewToken { name: self.name.clone(), expires_at, limits, is_once: self.once })
    }
}

/// Returns a list that is not empty.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// Makes, lists and revokes tokens.
pub(crate) async fn tokens(config: &Config, command: TokenCommand) -> anyhow::Result<()> {
    if let TokenCommand::Generate = command {
        println!("{}", Token::new().text());
        return Ok(());
    }
    let table = open::existing(config).await?;
    let (service, tokens) = (Service::new(Arc::clone(&table), Clock::system()), Tokens::new(table));
    match command {
        TokenCommand::Generate => {}
        TokenCommand::Create(args) => {
            let principal = service.principal(&args.principal).await?;
            let new = args.new_token(&service).await?;
            check_role(service.catalog(), &principal, &new).await?;
            let (token, made) = tokens.create(&principal, new, service.clock().now()).await?;
            let until =
                made.expires_at.map_or("never expires".to_owned(), |at| format!("is good until {at}"));
            eprintln!("The token {} ({}) is shown once; it {until}.", made.id, made.name);
            println!("{}", token.text());
        }
        TokenCommand::List { principal, shown } => {
            let principal = service.principal(&principal).await?;
            let rows: Vec<_> = tokens.list(&principal).await?.iter().map(record).collect();
            show(&["id", "name", "created_at", "expires_at", "used_at", "spent_at"], &rows, shown.format);
        }
        TokenCommand::Revoke { principal, token } => {
            let of = service.principal(&principal).await?;
            tokens.revoke(&of, &token).await?;
            println!("the token {token} of {principal} is revoked");
        }
    }
    Ok(())
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions of browsers that a user or system has open.
    List {
        /// Whose: user:NAME or system:NAME.
        principal: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// End a session, or all of a user or system; within 5 seconds no service takes it any more.
    End {
        /// Whose: user:NAME or system:NAME.
        principal: String,
        /// The id of the session.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        session: Option<String>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
}

/// Lists and ends sessions.
pub(crate) async fn sessions(config: &Config, command: SessionCommand) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let (service, tokens) = (Service::new(Arc::clone(&table), Clock::system()), Tokens::new(table));
    match command {
        SessionCommand::List { principal, shown } => {
            let principal = service.principal(&principal).await?;
            let sessions = tokens.sessions(&principal, service.clock().now()).await?;
            let rows: Vec<_> = sessions.iter().map(session_record).collect();
            show(&["id", "opened_at", "used_at", "until"], &rows, shown.format);
        }
        SessionCommand::End { principal, session, all: _ } => {
            let of = service.principal(&principal).await?;
            let ended = tokens.end_sessions(&of, session.as_deref()).await?;
            println!("{ended} of the sessions of {principal} ended");
        }
    }
    Ok(())
}
