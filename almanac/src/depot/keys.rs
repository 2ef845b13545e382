//! Credentials that sign requests to S3: those of the account that the clients of DynamoDB find.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use dynamodb::Account;
use event::{Clock, Result};
use object_store::{
    CredentialProvider,
    aws::{AmazonS3Builder, AwsCredential},
};
use tokio::sync::Mutex;

use super::fault::in_store;

/// Time before their expiry at which credentials are renewed.
const AHEAD_SECONDS: u64 = 5 * 60;

/// Sets the region of an account, and signs with its credentials.
///
/// # Errors
/// `Invalid`, with advice, when there is no region.
pub(super) async fn signed(builder: AmazonS3Builder, region: Option<&str>) -> Result<AmazonS3Builder> {
    let account = Account::find(region).await?;
    let builder = builder.with_region(account.region());
    Ok(builder.with_credentials(Arc::new(Keys::of(account, Clock::system()))))
}

/// Credentials of an account, which are kept as long as they last.
#[derive(Debug)]
struct Keys {
    account: Account,
    clock: Clock,
    held: Mutex<Option<Held>>,
}

#[derive(Clone, Debug)]
struct Held {
    credential: Arc<AwsCredential>,
    /// Second of Unix time until which they are used; `None` for credentials that never expire.
    until: Option<u64>,
}

impl Keys {
    fn of(account: Account, clock: Clock) -> Self {
        Self { account, clock, held: Mutex::default() }
    }
}

#[async_trait]
impl CredentialProvider for Keys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut held = self.held.lock().await;
        let now = self.clock.now().micros().div_euclid(1_000_000).unsigned_abs();
        let lasts = |held: &&Held| held.until.is_none_or(|until| now < until);
        if let Some(held) = held.as_ref().filter(lasts) {
            return Ok(Arc::clone(&held.credential));
        }
        let found = self.account.credentials().await.map_err(in_store)?;
        let credential = Arc::new(AwsCredential {
            key_id: found.access_key_id().to_owned(),
            secret_key: found.secret_access_key().to_owned(),
            token: found.session_token().map(str::to_owned),
        });
        let seconds =
            |expiry: SystemTime| expiry.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let until = found.expiry().map(|expiry| seconds(expiry).saturating_sub(AHEAD_SECONDS));
        *held = Some(Held { credential: Arc::clone(&credential), until });
        Ok(credential)
    }
}
