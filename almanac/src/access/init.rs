//! `almanac init`: the first user and its token.

use std::sync::Arc;

use ::access::{Lifetime, Limits, NewToken, Tokens};
use catalog::{Catalog, Role, new::NewRoot};
use clap::Args;
use event::{Clock, Error};
use log::key::{EntityKind, Scope};

use crate::{config::Config, open};

/// Name of the first token.
const FIRST: &str = "first";

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The name of the user who may do everything.
    #[arg(long, default_value = "admin")]
    user: String,
    /// For how many days the token is good, or never, when it is not to expire; 90, unless it is given.
    #[arg(long, value_name = "DAYS|never")]
    days: Option<Lifetime>,
}

/// Makes a user who may do everything, and prints its token.
pub(crate) async fn init(config: &Config, args: &InitArgs) -> anyhow::Result<()> {
    let (table, now) = (open::to_write(config).await?, Clock::system().now());
    let (catalog, tokens) = (Catalog::new(Arc::clone(&table)), Tokens::new(table));
    if tokens.are_asked_for().await? {
        let message = "there are tokens already; `almanac token create` makes more";
        return Err(Error::conflict(message).into());
    }
    let user = match catalog.principal_named(EntityKind::User, &args.user).await? {
        Some(user) => user,
        None => {
            let new = NewRoot { name: args.user.clone(), attributes: None };
            new.create(EntityKind::User, &catalog, now).await?.at()
        }
    };
    catalog.grant(&Scope::Server, &user, Role::Admin, now).await?;
    let expires_at = NewToken::expiry(args.days.unwrap_or_default(), false, now);
    let new = NewToken { name: FIRST.to_owned(), expires_at, limits: Limits::default(), is_once: false };
    let (token, _) = tokens.create(&user, new, now).await?;
    eprintln!(
        "The user {} may do everything, by this token. It is shown once, and {}; services ask for tokens from now on.",
        args.user,
        expires_at.map_or("never expires".to_owned(), |at| format!("is good until {at}"))
    );
    println!("{}", token.text());
    Ok(())
}
