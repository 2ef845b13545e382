//! The keys of tokens, of the sessions that they open, and of what says that callers must have one.

use event::Id;
use table::{Key, KeyRange};

use super::EntityId;

/// What the partitions of tokens begin with.
const TOKEN: &str = "token#";

/// What the sort keys of sessions begin with.
const SESSION: &str = "session#";

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A token, by the SHA-256 of its text.
pub fn token(digest: &[u8; 32]) -> Key {
    Key::new(format!("{TOKEN}{}", hex(digest)), "token")
}

/// A session, by what opened it (the SHA-256 of the digest of that) and its number among those of the same opener.
pub fn session(opener: &[u8; 32], number: u8) -> Key {
    Key::new(sessions_of(opener).pk, format!("{SESSION}{number:02}"))
}

/// The sessions of an opener.
pub fn sessions_of(opener: &[u8; 32]) -> KeyRange {
    KeyRange::prefix(format!("{TOKEN}opened#{}", hex(opener)), SESSION)
}

/// Whether a key is one of [`session`].
pub fn is_session(key: &Key) -> bool {
    is_secret(key) && key.sk.starts_with(SESSION)
}

/// A token of a principal, by its id. It leads to the token itself.
pub fn token_of(principal: &EntityId, id: &Id) -> Key {
    Key::new(format!("{TOKEN}of#{}", principal.token()), format!("id#{id}"))
}

/// The tokens of a principal.
pub fn tokens_of(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(format!("{TOKEN}of#{}", principal.token()), "id#")
}

/// A session of a principal, by its id. It leads to the session itself.
pub fn session_of(principal: &EntityId, id: &Id) -> Key {
    Key::new(tokens_of(principal).pk, format!("opened#{id}"))
}

/// The sessions of a principal.
pub fn sessions_by(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(tokens_of(principal).pk, "opened#")
}

/// How often tokens were made for a principal, which keeps two from being made at once.
pub fn tokens_made(principal: &EntityId) -> Key {
    Key::new(tokens_of(principal).pk, "made")
}

/// Whether an item is secret and never shown: those in the partitions of tokens.
pub fn is_secret(key: &Key) -> bool {
    key.pk.starts_with(TOKEN)
}

/// Whether a key is one of [`token`].
pub fn is_token(key: &Key) -> bool {
    is_secret(key) && key.sk == "token"
}

/// What says that the server asks its callers who they are, since the first token was made.
pub fn access() -> Key {
    Key::new("sys/access", "access")
}
