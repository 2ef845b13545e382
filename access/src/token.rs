//! Text of tokens: a prefix, 32 random letters and a checksum, so that secret scanners find them and a mistyped token
//! is detected without a read of the table.

use std::fmt;

use event::id::{LETTERS, random_letters};
use sha2::{Digest as _, Sha256};

/// Prefix of every token.
pub const PREFIX: &str = "alm_";

/// Number of random letters: 190 bits.
const RANDOM: usize = 32;

/// Letters of the checksum: CRC-32 in base 62.
const CHECK: usize = 6;

/// Length of a token, in bytes.
pub const TOKEN_BYTES: usize = PREFIX.len() + RANDOM + CHECK;

/// SHA-256 of a token, which is stored: its letters are random, so the token cannot be guessed from it.
pub type Digest = [u8; 32];

/// Prefix of a digest as text.
const DIGEST_PREFIX: &str = "sha256:";

/// Parses a digest from `sha256:` and 64 hexadecimal digits, as of `printf %s TOKEN | sha256sum`.
pub fn parse_digest(text: &str) -> Option<Digest> {
    let digits = text.strip_prefix(DIGEST_PREFIX)?.as_bytes();
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(value(high)? * 16 + value(low)?).ok(),
        _ => None,
    });
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// A token. Its text is shown once, when it is made, and never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Makes a random token.
    pub fn new() -> Self {
        let chance = random_letters(RANDOM);
        Self(format!("{PREFIX}{chance}{}", checksum(&chance)))
    }

    /// Parses a token.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX).filter(|_| text.len() == TOKEN_BYTES)?;
        if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let (chance, check) = rest.split_at(RANDOM);
        (checksum(chance) == check).then(|| Self(text.to_owned()))
    }

    /// Returns whether `text` contains a token, such as a URL that somebody put one into.
    pub fn is_in(text: &str) -> bool {
        let token = |(at, _)| text.get(at..at + TOKEN_BYTES).and_then(Self::parse);
        text.match_indices(PREFIX).any(|found| token(found).is_some())
    }

    /// Text of the token, to be shown once.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Digest of the token.
    pub fn digest(&self) -> Digest {
        Sha256::digest(&self.0).into()
    }
}

impl Default for Token {
    fn default() -> Self {
        Self::new()
    }
}

/// Omits its text.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Compares two digests in constant time.
pub(crate) fn is_same(one: &Digest, other: &Digest) -> bool {
    one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// CRC-32 of a text as letters, the most significant first.
fn checksum(text: &str) -> String {
    let mut rest = crc32fast::hash(text.as_bytes()) as usize;
    let mut letters = [b'0'; CHECK];
    for letter in letters.iter_mut().rev() {
        *letter = LETTERS[rest % LETTERS.len()];
        rest /= LETTERS.len();
    }
    letters.map(char::from).iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issued tokens stay valid: the form never changes.
    const GOLDEN: &str = "alm_0123456789ABCDEFGHIJKLMNOPQRSTUV1ggZdL";

    #[test]
    fn the_form_is_what_it_was() {
        let check = checksum("0123456789ABCDEFGHIJKLMNOPQRSTUV");
        assert_eq!(format!("alm_0123456789ABCDEFGHIJKLMNOPQRSTUV{check}"), GOLDEN);
        let token = Token::parse(GOLDEN).unwrap();
        let hex: String = token.digest().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex.len(), 64);
        assert_eq!(parse_digest(&format!("sha256:{hex}")), Some(token.digest()));
        for wrong in [
            hex.clone(),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:{hex}0"),
            format!("sha256:{}g", &hex[1..]),
        ] {
            assert_eq!(parse_digest(&wrong), None, "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn token_parses_and_rejects_typing_errors() {
        let token = Token::new();
        assert_eq!((token.text().len(), Token::parse(token.text())), (TOKEN_BYTES, Some(token.clone())));
        assert_ne!(token, Token::new());
        for at in 0..TOKEN_BYTES {
            let mut wrong = token.text().as_bytes().to_vec();
            wrong[at] = if wrong[at] == b'x' { b'y' } else { b'x' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert!(wrong == token.text() || Token::parse(&wrong).is_none(), "another letter at {at}");
            assert_eq!(Token::parse(&token.text()[..at]), None, "cut at {at}");
        }
        assert_eq!(Token::parse(&format!("{}x", token.text())), None);
        assert!(Token::is_in(&format!("/v1/x?token={}&b", token.text())));
        assert!(!Token::is_in("/v1/x?token=alm_x") && !Token::is_in("alm_é"));
    }

    #[test]
    fn digests_are_compared_whole() {
        let (one, mut other) = (Token::new().digest(), [0; 32]);
        assert!(is_same(&one, &one.clone()) && !is_same(&one, &other));
        other.copy_from_slice(&one);
        other[31] ^= 1;
        assert!(!is_same(&one, &other));
    }
}
