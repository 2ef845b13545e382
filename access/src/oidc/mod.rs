//! Bearer tokens signed by an OpenID Connect issuer (JSON Web Tokens).

mod claims;
mod keys;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr, sync::Arc};

use event::{Error, Result, Timestamp};
use futures::future::BoxFuture;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header, errors::ErrorKind};
use serde_json::{Map, Value};

pub(crate) use self::claims::Claims;
use self::keys::Keys;

/// Maximum bytes of a bearer.
const MAX_BEARER_BYTES: usize = 16 * 1024;

/// Maximum difference between the clocks of an issuer and of this machine, in seconds.
const SKEW_SECONDS: i64 = 60;

/// Names of the supported algorithms. All use a public key, so a published key of an issuer is never also a secret; `none` and
/// those of the HMAC family are not among them.
const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Client for URLs of the issuer.
pub trait Fetch: fmt::Debug + Send + Sync {
    /// Returns the body of a successful answer to `GET url`.
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>>>;
}

/// Algorithm of the signature of bearers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signing(Algorithm);

impl Signing {
    /// Returns the algorithms that are accepted by default.
    pub fn usual() -> Vec<Self> {
        vec![Self(Algorithm::RS256), Self(Algorithm::ES256), Self(Algorithm::EdDSA)]
    }
}

impl FromStr for Signing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = ALGORITHMS.iter().find(|(name, _)| *name == text);
        known.map(|(_, algorithm)| Self(*algorithm)).ok_or_else(|| {
            let names = ALGORITHMS.map(|(name, _)| name).join(", ");
            Error::invalid(format!("`{text}` is no algorithm with a public key: {names}"))
        })
    }
}

impl fmt::Display for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Trusted issuer, and the meaning of its claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// Issuer, as its bearers name it.
    pub issuer: String,
    /// Audiences of bearers for Almanac; one of them is enough.
    pub audiences: Vec<String>,
    /// URL of its keys, if `/.well-known/openid-configuration` does not name it.
    pub jwks_url: Option<String>,
    /// Accepted algorithms.
    pub algorithms: Vec<Signing>,
    /// Claim that names the user.
    pub principal_claim: String,
    /// Claim that names the system, in bearers of programs; without one no bearer is a system's.
    pub system_claim: Option<String>,
    /// Domain of addresses such as `ann@example.com` in the claim; the part before it names the user.
    pub domain: Option<String>,
    /// Claim that names groups.
    pub groups_claim: Option<String>,
    /// True if an unknown name becomes a user.
    pub creates_users: bool,
    /// True if bearers have the right `admin` when the roles of their principals give it.
    pub admins: bool,
}

impl OidcSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// `Invalid`, with the problem.
    pub fn check(&self) -> Result<()> {
        if self.audiences.is_empty() || self.algorithms.is_empty() || self.principal_claim.is_empty() {
            let message = "an issuer needs an audience, an algorithm and the claim that names the principal";
            return Err(Error::invalid(message));
        }
        check_url(&self.issuer, &self.issuer)?;
        self.jwks_url.as_ref().map_or(Ok(()), |url| check_url(url, &self.issuer))
    }
}

/// Checks a URL. Unencrypted answers could be forged on the way, so http is only for issuers on this machine.
fn check_url(url: &str, issuer: &str) -> Result<()> {
    let is_good = match url.split_once("://") {
        Some(("https", rest)) => !rest.is_empty() && !rest.starts_with('/'),
        Some(("http", _)) => is_loopback(url) && is_loopback(issuer),
        _ => false,
    };
    if is_good && !url.contains('@') {
        return Ok(());
    }
    Err(Error::invalid(format!("`{url}` should begin with https://, or be on this machine like its issuer")))
}

fn is_loopback(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Error of a bearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No JSON Web Token, or too long.
    Form,
    /// Algorithm that is not accepted.
    Algorithm,
    /// Key that the issuer does not have.
    Key,
    /// Signature that the key does not verify.
    Signature,
    /// Another issuer.
    Issuer,
    /// Another audience.
    Audience,
    /// Expired.
    Expired,
    /// Not valid yet.
    Early,
    /// Claim that is missing, or unusable.
    Claim(String),
    /// Unknown user or system, with its type.
    Principal(String),
    /// Unknown user, in a process that creates none.
    NotCreated(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("it is no JSON Web Token"),
            Self::Algorithm => f.write_str("it is signed by an algorithm that is not taken"),
            Self::Key => f.write_str("the issuer has no such key"),
            Self::Signature => f.write_str("its signature is wrong"),
            Self::Issuer => f.write_str("another issuer made it"),
            Self::Audience => f.write_str("it is for another audience"),
            Self::Expired => f.write_str("it has expired"),
            Self::Early => f.write_str("it is not good yet"),
            Self::Claim(name) => write!(f, "its claim `{name}` is missing or cannot be used"),
            Self::Principal(named) => write!(f, "there is no {named}"),
            Self::NotCreated(name) => write!(
                f,
                "there is no user `{name}` yet, and what only answers queries creates none; send POST /v1/session with this bearer once, or sign \
                 in to the dashboard"
            ),
        }
    }
}

/// Trusted issuer of bearers.
#[derive(Debug)]
pub struct Oidc {
    settings: OidcSettings,
    keys: Arc<Keys>,
}

impl Oidc {
    /// Makes the issuer of `settings`, which `fetch` asks for its keys.
    ///
    /// # Errors
    /// Errors of [`OidcSettings::check`].
    pub fn new(settings: OidcSettings, fetch: Arc<dyn Fetch>) -> Result<Self> {
        settings.check()?;
        let keys = Arc::new(Keys::new(&settings, fetch));
        Ok(Self { settings, keys })
    }

    /// Settings of the issuer.
    pub fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// Returns whether a text looks like a bearer of an issuer.
    pub(crate) fn is_alike(text: &str) -> bool {
        text.starts_with("ey") && text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Returns the claims of a valid bearer.
    ///
    /// # Errors
    /// `Unavailable`, when the keys of the issuer are not known.
    pub(crate) async fn verify(&self, bearer: &str, now: Timestamp) -> Result<Result<Claims, Wrong>> {
        if bearer.len() > MAX_BEARER_BYTES {
            return Ok(Err(Wrong::Form));
        }
        let header = match decode_header(bearer) {
            Ok(header) => header,
            Err(error) => return Ok(Err(wrong(error.kind(), Wrong::Form))),
        };
        // Critical extensions are not supported.
        if header.crit.is_some() {
            return Ok(Err(Wrong::Form));
        }
        if !self.settings.algorithms.contains(&Signing(header.alg)) {
            return Ok(Err(Wrong::Algorithm));
        }
        let Some(key) = self.keys.find(header.kid.as_deref(), header.alg).await? else {
            return Ok(Err(Wrong::Key));
        };
        let decoded = decode::<Map<String, Value>>(bearer, &key, &self.validation(header.alg));
        Ok(match decoded {
            Ok(decoded) => Claims::read(&decoded.claims, &self.settings, now),
            Err(error) => Err(wrong(error.kind(), Wrong::Signature)),
        })
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&self.settings.audiences);
        // Checked by our clock, in `Claims::read`.
        validation.validate_exp = false;
        validation
    }
}

fn wrong(kind: &ErrorKind, else_: Wrong) -> Wrong {
    match kind {
        // A word that is no algorithm, such as `none`, is an error of JSON.
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => Wrong::Algorithm,
        ErrorKind::InvalidIssuer => Wrong::Issuer,
        ErrorKind::InvalidAudience => Wrong::Audience,
        ErrorKind::MissingRequiredClaim(name) | ErrorKind::InvalidClaimFormat(name) => {
            Wrong::Claim(name.clone())
        }
        ErrorKind::InvalidSignature => Wrong::Signature,
        _ => else_,
    }
}
