//! Clients of the SDK, for an account and an endpoint.

use std::fmt;

use event::{Error, Result};

use super::{Account, DynamoConfig, dates::Dates};

/// Table and location, as named in errors.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// Name of the table.
    pub(super) table: String,
    /// Region.
    pub(super) region: String,
    /// Endpoint, if it is not that of the region.
    pub(super) endpoint: Option<String>,
}

impl Address {
    /// Returns the location of the table, without its name.
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

/// Clients for a table.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Items and tables.
    pub(super) db: aws_sdk_dynamodb::Client,
    /// The change feed.
    pub(super) streams: aws_sdk_dynamodbstreams::Client,
    /// Address of the table.
    pub(super) place: Address,
    /// Dates of the answers.
    pub(super) dates: Dates,
}

impl Client {
    /// Finds region and credentials; does not call DynamoDB yet.
    ///
    /// # Errors
    /// `Invalid` if there is no region, or there are no credentials, with instructions.
    pub(super) async fn new(config: &DynamoConfig) -> Result<Self> {
        let is_address =
            |endpoint: &String| endpoint.starts_with("http://") || endpoint.starts_with("https://");
        if let Some(endpoint) = config.endpoint.as_ref().filter(|endpoint| !is_address(endpoint)) {
            let message =
                format!("the endpoint `{endpoint}` is not an address such as http://localhost:8000");
            return Err(Error::invalid(message));
        }
        let account = Account::find(config.region.as_deref()).await?;
        account.credentials().await?;
        let (table, region) = (config.table.clone(), account.region().to_owned());
        let place = Address { table, region, endpoint: config.endpoint.clone() };
        Ok(Self::with(account.shared(), place))
    }

    /// Creates the clients of a configuration.
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
