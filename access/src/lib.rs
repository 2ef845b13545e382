//! Access control: tokens, callers, and the authorization of requests.
//!
//! A [`Token`] is 38 letters that only its holder has; the table has its SHA-256 ([`Tokens`]). A [`Caller`] is the
//! principal of a token, with the rights of its roles on workspaces, categories and the server. [`Access`] finds it and
//! caches it for 5 seconds, so a request costs no read. [`http::guard`] checks each request against the permission that
//! its route requires.
//!
//! ```
//! use almanac_access::{Limits, NewToken, Token, Tokens};
//! use catalog::{Catalog, New, NewEntity};
//! use event::Clock;
//! use table::sqlite::SqliteTable;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("almanac.db");
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let (clock, now) = (Clock::system(), Clock::system().now());
//! let table = std::sync::Arc::new(SqliteTable::open(&path, clock)?);
//! let ann = Catalog::new(table.clone()).create(NewEntity::new("ann", New::User), now).await?;
//! let tokens = Tokens::new(table);
//! let new = NewToken { name: "laptop".into(), expires_at: None, limits: Limits::default(), is_once: false };
//! let (token, record) = tokens.create(&ann.at(), new, now).await?;
//! assert_eq!(Token::parse(token.text()).as_ref(), Some(&token));
//! assert_eq!(tokens.find(&token.digest()).await?, Some(record));
//! # Ok::<(), event::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A caller may also authenticate with a bearer token of an OpenID Connect issuer ([`oidc`]). A browser uses a
//! [`Session`], opened with either.
//!
//! The crate does not depend on ingest, projector or query.

mod authenticator;
mod caller;
pub mod http;
mod limits;
mod network;
pub mod oidc;
mod once;
mod session;
mod token;
mod tokens;
mod uses;

pub use authenticator::{Access, Refusal};
pub use caller::{Caller, Principal};
pub use limits::{Limits, MAX_LISTED};
pub use network::Network;
pub use once::{MAX_DAYS_ONCE, Use, check_role};
pub use session::{IDLE_SECONDS, MAX_SESSIONS, SESSION_SECONDS, Session, SessionRecord};
pub use token::{Digest, PREFIX, TOKEN_BYTES, Token, parse_digest};
pub use tokens::{Lifetime, MAX_DAYS, MAX_TOKENS, NewToken, TokenRecord, Tokens, USUAL_DAYS};
