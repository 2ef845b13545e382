//! Region and credentials, from the environment, a profile or the role of this machine. The files of exports and
//! lakes are put into S3 with the same account.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials};
use event::{Error, Result};
use tokio::time::timeout;

use super::fault::innermost;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time of one attempt of a call, with up to 4 MB to send.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum time to look for a region and for credentials. Without either the SDK asks an address that exists only on
/// machines at AWS, and waits for it longer than a person does.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(6);

/// An account at AWS, seen from a region.
#[derive(Clone, Debug)]
pub struct Account {
    shared: SdkConfig,
    region: String,
}

impl Account {
    /// Finds the account, and its region if none is given. Credentials are not looked up yet.
    ///
    /// # Errors
    /// `Invalid` if there is no region, with instructions.
    pub async fn find(region: Option<&str>) -> Result<Self> {
        let shared = timeout(LOOKUP_TIMEOUT, load(region)).await.map_err(|_| no_region())?;
        let region = shared.region().map(ToString::to_string).filter(|region| !region.is_empty());
        Ok(Self { region: region.ok_or_else(no_region)?, shared })
    }

    /// Returns the region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the configuration for the clients of the SDK.
    pub(super) fn shared(&self) -> &SdkConfig {
        &self.shared
    }

    /// Returns the current credentials.
    ///
    /// # Errors
    /// `Invalid` if there are none, with instructions.
    pub async fn credentials(&self) -> Result<Credentials> {
        let found = match self.shared.credentials_provider() {
            Some(provider) => timeout(LOOKUP_TIMEOUT, provider.provide_credentials()).await,
            None => return Err(no_credentials("")),
        };
        match found {
            Ok(Ok(credentials)) => Ok(credentials),
            Ok(Err(error)) => Err(no_credentials(&innermost(&error))),
            Err(_) => Err(no_credentials("looking for them took too long")),
        }
    }
}

async fn load(region: Option<&str>) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        // The SDK must not retry: see `retry`.
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts);
    if let Some(region) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    loader.load().await
}

fn no_credentials(why: &str) -> Error {
    // Without any configuration, the SDK lists at length all places where it looked.
    let why =
        if why.is_empty() || why.contains("found in chain") { String::new() } else { format!(" ({why})") };
    Error::invalid(format!(
        "there are no AWS credentials{why}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, \
         or give this machine a role"
    ))
}

fn no_region() -> Error {
    Error::invalid("no AWS region is set; give one, or set AWS_REGION, or a region in the AWS profile")
}
