//! Credentials that sign requests to S3 in a build without DynamoDB: those of the environment, since the search in profiles and
//! roles comes with the client of DynamoDB.

use event::{Error, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};

/// Sets the region; the builder has the credentials of the environment already.
///
/// # Errors
/// `Invalid`, with advice, when there are no credentials, or there is no region.
pub(super) async fn signed(builder: AmazonS3Builder, region: Option<&str>) -> Result<AmazonS3Builder> {
    let is_given = |key| builder.get_config_value(&key).is_some_and(|value| !value.is_empty());
    if !(is_given(Key::AccessKeyId) && is_given(Key::SecretAccessKey)) {
        return Err(Error::invalid(
            "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (this almanac is built without \
             DynamoDB, so it knows no profiles and no roles)",
        ));
    }
    let none = || Error::invalid("there is no AWS region: set AWS_REGION, or name one with --region");
    Ok(builder.with_region(region.ok_or_else(none)?))
}
