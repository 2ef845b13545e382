//! The clients of the SDK: which region, which endpoint, whose credentials, how patient.

use std::{fmt, time::Duration};

use aws_config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::config::ProvideCredentials;
use event::{Error, Result};
use tokio::time::timeout;

use super::{DynamoConfig, dates::Dates, fault::innermost};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one attempt of a call may take, with up to 4 MB to send.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);

/// How long may be looked for a region and for credentials. Without either the SDK asks an
/// address that only machines at AWS have, and waits for it longer than a person does.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(6);

/// Which table, and where; as errors name it.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// The table's name.
    pub(super) table: String,
    /// The region.
    pub(super) region: String,
    /// The address, where it is not the one of the region.
    pub(super) endpoint: Option<String>,
}

impl Address {
    /// Where the table is, without its name.
    pub(super) fn location(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("at {endpoint} (region {})", self.region),
            None => format!("in {}", self.region),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table `{}` {}", self.table, self.location())
    }
}

/// The way to a table.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Items and tables.
    pub(super) db: aws_sdk_dynamodb::Client,
    /// The change feed.
    pub(super) streams: aws_sdk_dynamodbstreams::Client,
    /// Where it leads.
    pub(super) place: Address,
    /// What its answers say about the time.
    pub(super) dates: Dates,
}

impl Client {
    /// Finds region and credentials; does not call DynamoDB yet.
    ///
    /// # Errors
    /// `Invalid`, saying what to set, when there is no region, or there are no credentials.
    pub(super) async fn new(config: &DynamoConfig) -> Result<Self> {
        let is_address =
            |endpoint: &String| endpoint.starts_with("http://") || endpoint.starts_with("https://");
        if let Some(endpoint) = config.endpoint.as_ref().filter(|endpoint| !is_address(endpoint)) {
            let message =
                format!("the endpoint `{endpoint}` is not an address such as http://localhost:8000");
            return Err(Error::invalid(message));
        }
        let shared = timeout(LOOKUP_TIMEOUT, load(config)).await.map_err(|_| no_region())?;
        let region = shared.region().map(ToString::to_string).filter(|region| !region.is_empty());
        let region = region.ok_or_else(no_region)?;
        check_credentials(&shared).await?;
        let place = Address { table: config.table.clone(), region, endpoint: config.endpoint.clone() };
        Ok(Self::with(&shared, place))
    }

    /// The clients of a configuration.
    pub(super) fn with(shared: &aws_config::SdkConfig, place: Address) -> Self {
        let dates = Dates::default();
        let mut db = aws_sdk_dynamodb::config::Builder::from(shared).interceptor(dates.clone());
        let mut streams = aws_sdk_dynamodbstreams::config::Builder::from(shared).interceptor(dates.clone());
        // Only here, not for all services: credentials may have to be fetched from another one.
        if let Some(endpoint) = &place.endpoint {
            db = db.endpoint_url(endpoint);
            streams = streams.endpoint_url(endpoint);
        }
        Self {
            db: aws_sdk_dynamodb::Client::from_conf(db.build()),
            streams: aws_sdk_dynamodbstreams::Client::from_conf(streams.build()),
            place,
            dates,
        }
    }
}

async fn load(config: &DynamoConfig) -> aws_config::SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        // See `retry` for why the SDK must not do it.
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts);
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    loader.load().await
}

async fn check_credentials(shared: &aws_config::SdkConfig) -> Result<()> {
    let found = match shared.credentials_provider() {
        Some(provider) => timeout(LOOKUP_TIMEOUT, provider.provide_credentials()).await,
        None => return Err(no_credentials("")),
    };
    match found {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(no_credentials(&innermost(&error))),
        Err(_) => Err(no_credentials("looking for them took too long")),
    }
}

fn no_credentials(why: &str) -> Error {
    // When nothing is set at all, the SDK tells at length where it has looked for it.
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
