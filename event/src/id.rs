//! Ids that sort by the time of their creation (KSUIDs), and names that people give.

use std::fmt;

use svix_ksuid::{KsuidLike, KsuidMs};

use crate::{Error, Result, Timestamp};

/// Maximum number of bytes of a name.
pub const MAX_NAME_BYTES: usize = 128;

/// Epoch of KSUIDs, 2014-05-13; an earlier clock makes ids of that second.
const EPOCH_MILLIS: i64 = 1_400_000_000_000;

/// KSUID: 27 characters that sort by the time of creation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

impl Id {
    /// Creates an id at `now`. The order of ids is that of their creation to about 4 ms.
    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    pub fn new(now: Timestamp) -> Self {
        let millis = now.micros().div_euclid(1_000).max(EPOCH_MILLIS);
        Self(KsuidMs::from_millis(Some(millis), None).to_string())
    }

    /// Returns the least and the greatest id that could be made at `at`, to about 4 ms.
    pub fn bounds(at: Timestamp) -> (Self, Self) {
        let millis = at.micros().div_euclid(1_000).max(EPOCH_MILLIS);
        let of = |filler: u8| Self(KsuidMs::from_bytes(stamped(millis, filler)).to_string());
        (of(0), of(u8::MAX))
    }

    /// Reads an id.
    ///
    /// # Errors
    /// `Invalid` if the text is not a KSUID.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |_| Error::invalid(format!("`{text}` is not an id (27 letters and digits)"));
        text.parse::<KsuidMs>().map_err(wrong)?;
        Ok(Self(text.to_owned()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Letters used by [`random_letters`].
pub const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns random letters and digits, all equally likely, from the operating system's source for secrets.
#[expect(clippy::disallowed_methods, reason = "the one place that is random")]
pub fn random_letters(length: usize) -> String {
    // Greater bytes would make some letters likelier.
    const EVEN: u8 = u8::MAX - u8::MAX % LETTERS.len() as u8;
    let mut letters = String::with_capacity(length);
    while letters.len() < length {
        let id = KsuidMs::from_millis(Some(EPOCH_MILLIS), None);
        let chance = id.bytes().iter().skip(RANDOM_FROM).filter(|byte| **byte < EVEN);
        let more = chance.map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
        let missing = length - letters.len();
        letters.extend(more.take(missing));
    }
    letters
}

/// First random byte of an id.
const RANDOM_FROM: usize = 5;

/// Returns the bytes of an id: seconds since the epoch of KSUIDs, a byte of 4 ms, and filler.
fn stamped(millis: i64, filler: u8) -> [u8; 20] {
    let since = millis - EPOCH_MILLIS;
    let seconds = u32::try_from(since / 1_000).unwrap_or(u32::MAX);
    let mut bytes = [filler; 20];
    bytes[..4].copy_from_slice(&seconds.to_be_bytes());
    bytes[4] = u8::try_from(since % 1_000 / 4).unwrap_or(u8::MAX);
    bytes
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks a name that people give to a workspace, model, configuration, release or environment: letters, digits, `.`,
/// `_` and `-`, beginning with a letter or digit, at most [`MAX_NAME_BYTES`]. So a name can be used unchanged in a
/// key, a path and a URL.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let wrong = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "is longer than 128 bytes"
    } else if !name.as_bytes()[0].is_ascii_alphanumeric() {
        "does not begin with a letter or digit"
    } else if !name.bytes().all(allowed) {
        "holds something else than letters, digits, `.`, `_` and `-`"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("the name `{name}` {wrong}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_and_sort_by_second() {
        let at = |text| Timestamp::parse(text).unwrap();
        let early = Id::new(at("2026-01-01T00:00:00Z"));
        let late = Id::new(at("2026-01-01T00:00:01Z"));
        assert!(early < late);
        assert_ne!(early, Id::new(at("2026-01-01T00:00:00Z")));
        assert_eq!(Id::parse(early.as_str()).unwrap(), early);
        assert!(Id::parse("flights").is_err());
    }

    #[test]
    fn random_letters_use_whole_alphabet_and_differ() {
        let text = random_letters(20_000);
        assert_eq!(text.len(), 20_000);
        for letter in LETTERS {
            let count = text.bytes().filter(|byte| byte == letter).count();
            assert!((150..550).contains(&count), "{} comes {count} times", char::from(*letter));
        }
        assert_ne!(random_letters(32), random_letters(32));
    }

    #[test]
    fn id_lies_within_its_time_bounds() {
        for micros in [1_400_000_000_000_000, 1_780_000_000_123_456, 1_780_000_000_999_999] {
            let now = Timestamp::from_micros(micros).unwrap();
            let (least, greatest) = Id::bounds(now);
            let id = Id::new(now);
            assert!(least <= id && id <= greatest, "{least} {id} {greatest}");
            let (later, _) = Id::bounds(Timestamp::from_micros(micros + 5_000).unwrap());
            assert!(greatest < later);
        }
    }

    #[test]
    fn names_cannot_hold_separators() {
        for wrong in ["", "a/b", "a#b", "-a", "a b", "é", &"x".repeat(129)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
        check_name("late-arrival_2.1").unwrap();
    }
}
