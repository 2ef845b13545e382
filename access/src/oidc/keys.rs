//! Published keys of an issuer, in a recent state.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use event::{Error, Result};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{Fetch, OidcSettings, check_url};

/// Age of the keys at which the issuer is asked again.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// Maximum age of the keys while the issuer is away.
const MAX_AGE_WITHOUT_ISSUER: Duration = Duration::from_secs(24 * 60 * 60);

/// Minimum time between two questions to the issuer, even if many bearers name an unknown key.
const ASK_EVERY: Duration = Duration::from_secs(30);

/// Minimum time between two questions to the issuer as long as no keys are known.
const FIRST_ASK_EVERY: Duration = Duration::from_secs(2);

/// Maximum keys of an issuer.
const MAX_KEYS: usize = 100;

/// Path of the issuer's metadata.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Key that verifies signatures.
struct Key {
    id: Option<String>,
    /// The one algorithm of the key, if it names one.
    algorithm: Option<KeyAlgorithm>,
    decoding: Arc<DecodingKey>,
}

/// Known keys.
#[derive(Clone, Default)]
struct Known {
    keys: Option<Arc<Vec<Key>>>,
    /// Time of the question that brought the keys.
    since: Option<Instant>,
    /// Time of the last question, with or without success.
    asked: Option<Instant>,
}

/// Keys of an issuer.
pub(super) struct Keys {
    issuer: String,
    jwks_url: Option<String>,
    fetch: Arc<dyn Fetch>,
    known: Mutex<Known>,
    /// Lock of the request that asks the issuer.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Key {
    /// Parses a key, if it is one for signatures.
    fn read(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let decoding = Arc::new(DecodingKey::from_jwk(&jwk).ok()?);
        let common = jwk.common;
        let is_public = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
        let verifies = common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
        (is_public && verifies).then(|| Self { id: common.key_id, algorithm: common.key_algorithm, decoding })
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.decoding.family() == algorithm.family()
            && self.algorithm.is_none_or(|own| own == KeyAlgorithm::from(algorithm))
    }
}

impl Known {
    /// Finds the key of a bearer. One that names no key is verified by the only one for its algorithm.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<DecodingKey>> {
        let mut fitting = self
            .keys
            .iter()
            .flat_map(|keys| keys.iter())
            .filter(|key| key.is_for(algorithm) && (id.is_none() || key.id.as_deref() == id));
        let found = fitting.next()?;
        (id.is_some() || fitting.next().is_none()).then(|| Arc::clone(&found.decoding))
    }

    fn is_within(&self, age: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() < age)
    }

    /// Returns whether the issuer may be asked now.
    fn may_ask(&self) -> bool {
        let every = if self.keys.is_some() { ASK_EVERY } else { FIRST_ASK_EVERY };
        self.asked.is_none_or(|asked| asked.elapsed() >= every)
    }
}

impl Keys {
    pub(super) fn new(settings: &OidcSettings, fetch: Arc<dyn Fetch>) -> Self {
        Self {
            issuer: settings.issuer.clone(),
            jwks_url: settings.jwks_url.clone(),
            fetch,
            known: Mutex::default(),
            asking: Arc::default(),
        }
    }

    /// Finds the key of this id, for this algorithm.
    ///
    /// # Errors
    /// `Unavailable`, when no keys are known, or they are too old.
    pub(super) async fn find(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<DecodingKey>>> {
        let known = self.known();
        let found = known.find(id, algorithm);
        if found.is_some() && known.is_within(MAX_AGE) {
            return Ok(found);
        }
        if known.may_ask() {
            match Arc::clone(&self.asking).try_lock_owned() {
                Ok(asking) => self.ask(asking).await,
                // Another request asks. Keys that are merely old are used meanwhile.
                Err(_) if found.is_some() && known.is_within(MAX_AGE_WITHOUT_ISSUER) => return Ok(found),
                Err(_) => drop(self.asking.lock().await),
            }
        } else if found.is_none() {
            // The question of another request may bring the key.
            drop(self.asking.lock().await);
        }
        let known = self.known();
        if !known.is_within(MAX_AGE_WITHOUT_ISSUER) {
            let message = format!("the keys of the issuer {} cannot be had", self.issuer);
            return Err(Error::unavailable(message));
        }
        Ok(known.find(id, algorithm))
    }

    /// Asks the issuer, even if the request that wanted it is given up: else forged bearers could block all questions.
    async fn ask(self: &Arc<Self>, asking: tokio::sync::OwnedMutexGuard<()>) {
        let this = Arc::clone(self);
        let asked = tokio::spawn(async move {
            let _asking = asking;
            // Another request may have asked since the check.
            if !this.known().may_ask() {
                return;
            }
            let since = Instant::now();
            this.lock().asked = Some(since);
            match this.fetch().await {
                Ok(keys) => {
                    let mut known = this.lock();
                    known.keys = Some(Arc::new(keys));
                    known.since = Some(since);
                }
                Err(error) => {
                    tracing::warn!(%error, issuer = this.issuer, "the keys of the issuer cannot be had");
                }
            }
        });
        // A panic in it leaves the keys as they were.
        _ = asked.await;
    }

    async fn fetch(&self) -> Result<Vec<Key>> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = read(&url, &self.fetch.get(&url).await?)?;
        let keys: Vec<Key> = set.keys.into_iter().take(MAX_KEYS).filter_map(Key::read).collect();
        if keys.is_empty() {
            return Err(Error::unavailable(format!("{url} has no key that can be used")));
        }
        Ok(keys)
    }

    async fn discover(&self) -> Result<String> {
        #[derive(Deserialize)]
        struct Discovered {
            issuer: String,
            jwks_uri: String,
        }
        let url = format!("{}{DISCOVERY}", self.issuer.trim_end_matches('/'));
        let found: Discovered = read(&url, &self.fetch.get(&url).await?)?;
        if found.issuer != self.issuer {
            return Err(Error::unavailable(format!("{url} is of another issuer, {}", found.issuer)));
        }
        check_url(&found.jwks_uri, &self.issuer)?;
        Ok(found.jwks_uri)
    }

    fn known(&self) -> Known {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<T: for<'a> Deserialize<'a>>(url: &str, body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        Error::unavailable(format!("{url} does not answer as an issuer does")).because(error)
    })
}
