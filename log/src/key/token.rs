//! Keys of tokens, of the sessions that they open, and of the switch that requires one.

use event::Id;
use table::{Key, KeyRange};

use super::EntityId;

/// Prefix of the partitions of tokens.
const TOKEN: &str = "token#";

/// Prefix of the sort keys of sessions.
const SESSION: &str = "session#";

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Token, by the SHA-256 of its text.
pub fn token(digest: &[u8; 32]) -> Key {
    Key::new(format!("{TOKEN}{}", hex(digest)), "token")
}

/// Session, by its opener (the SHA-256 of the opener's digest) and its number among those of the same opener.
pub fn session(opener: &[u8; 32], number: u8) -> Key {
    Key::new(sessions_of(opener).pk, format!("{SESSION}{number:02}"))
}

/// Sessions of an opener.
pub fn sessions_of(opener: &[u8; 32]) -> KeyRange {
    KeyRange::prefix(format!("{TOKEN}opened#{}", hex(opener)), SESSION)
}

/// Returns whether a key is one of [`session`].
pub fn is_session(key: &Key) -> bool {
    is_secret(key) && key.sk.starts_with(SESSION)
}

/// Token of a principal, by its id. It leads to the token itself.
pub fn token_of(principal: &EntityId, id: &Id) -> Key {
    Key::new(format!("{TOKEN}of#{}", principal.token()), format!("id#{id}"))
}

/// Tokens of a principal.
pub fn tokens_of(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(format!("{TOKEN}of#{}", principal.token()), "id#")
}

/// Session of a principal, by its id. It leads to the session itself.
pub fn session_of(principal: &EntityId, id: &Id) -> Key {
    Key::new(tokens_of(principal).pk, format!("opened#{id}"))
}

/// Sessions of a principal.
pub fn sessions_by(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(tokens_of(principal).pk, "opened#")
}

/// Number of times that tokens were made for a principal, which keeps two from being made at once.
pub fn tokens_made(principal: &EntityId) -> Key {
    Key::new(tokens_of(principal).pk, "made")
}

/// Returns whether an item is secret and never shown: it stands in a partition of tokens.
pub fn is_secret(key: &Key) -> bool {
    key.pk.starts_with(TOKEN)
}

/// Returns whether a key is one of [`token`].
pub fn is_token(key: &Key) -> bool {
    is_secret(key) && key.sk == "token"
}

/// Switch that makes the server authenticate its callers, set when the first token was made.
pub fn access() -> Key {
    Key::new("sys/access", "access")
}
