//! Posts transitions to webhooks, signed as <https://www.standardwebhooks.com> specifies (version 1.0.0, symmetric).

use std::{
    fs::File,
    io::Read,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use catalog::check_webhook_url;
use clap::Args;
use event::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use hyper::{Uri, header::HeaderName};
use projector::deliver::{Parcel, Posted, WebhookSender};
use sha2::Sha256;

use crate::{
    http_client::{self, Web},
    ssrf::Names,
};

/// Prefix of the variables that hold secrets; the name follows in capitals.
const VARIABLE: &str = "ALMANAC_WEBHOOK_SECRET_";

/// Prefix of the variables that list the workspaces which may use a secret.
const WORKSPACES: &str = "ALMANAC_WEBHOOK_WORKSPACES_";

/// Prefix of a secret that signs deliveries.
const PREFIX: &str = "whsec_";

/// Number of bytes of such a secret.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Maximum bytes that are read of a secret.
const MAX_SECRET_BYTES: u64 = 4 * 1024;

/// Status of a receiver that wants no more deliveries.
const GONE: u16 = 410;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// How what crossed is posted to webhooks.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WebhookArgs {
    /// Post to webhooks at private addresses and over http:// as well; without it only to public ones over https://.
    #[arg(long, env = "ALMANAC_WEBHOOKS_TO_PRIVATE")]
    webhooks_to_private: bool,
    /// A folder with a file for each secret that webhooks name, and a file NAME.workspaces with the workspaces that may use it; or
    /// ALMANAC_WEBHOOK_SECRET_<NAME> and ALMANAC_WEBHOOK_WORKSPACES_<NAME> hold them.
    #[arg(long, value_name = "DIR", env = "ALMANAC_WEBHOOK_SECRETS")]
    webhook_secrets: Option<PathBuf>,
}

impl WebhookArgs {
    /// Makes the sender.
    pub(crate) fn sender(&self) -> Arc<dyn WebhookSender> {
        let folder = self.webhook_secrets.clone().filter(|folder| !folder.as_os_str().is_empty());
        let secrets = Secrets { folder };
        Arc::new(Post { web: OnceLock::new(), secrets, allows_private: self.webhooks_to_private })
    }
}

/// Secrets that webhooks name.
#[derive(Debug)]
struct Secrets {
    folder: Option<PathBuf>,
}

impl Secrets {
    /// Finds the secret of a name, which the catalog has checked, if the workspace at `path` may use it. It is read each time, so
    /// a new one is used at once.
    fn find(&self, name: &str, path: &str) -> Result<String, String> {
        let (variable, own) = (variable(VARIABLE, name), variable(WORKSPACES, name));
        let secret = self.read(&variable, name)?;
        let secret = secret.ok_or_else(|| {
            format!(
                "there is no secret `{name}`: {variable} is not set, nor a file of that name in --webhook-secrets"
            )
        })?;
        let workspaces = self.read(&own, &format!("{name}.workspaces"))?.unwrap_or_default();
        let mut workspaces = workspaces.split([',', ' ', '\n']).map(str::trim);
        let category = path.split_once('/').map_or(path, |(category, _)| category);
        let is_own = |listed: &str| {
            listed == path || listed == "*" || listed.strip_suffix("/*").is_some_and(|own| own == category)
        };
        if workspaces.any(is_own) {
            return Ok(secret);
        }
        Err(format!(
            "the secret `{name}` is not for {path}: {own}, or the file {name}.workspaces in --webhook-secrets, lists the workspaces \
             that may use it, such as {path} or {category}/*"
        ))
    }

    /// Text of a variable, else of a file in the folder.
    fn read(&self, variable: &str, file: &str) -> Result<Option<String>, String> {
        if let Some(value) = std::env::var(variable).ok().filter(|value| !value.is_empty()) {
            return Ok(Some(value.trim().to_owned()));
        }
        let opened = self.folder.as_ref().and_then(|folder| File::open(folder.join(file)).ok());
        let Some(opened) = opened else { return Ok(None) };
        let mut text = String::new();
        let read = opened.take(MAX_SECRET_BYTES).read_to_string(&mut text);
        read.map_err(|_| format!("the file `{file}` of --webhook-secrets cannot be read as text"))?;
        Ok(Some(text.trim().to_owned()))
    }
}

/// Variable of a secret, with this prefix.
fn variable(begin: &str, name: &str) -> String {
    format!("{begin}{}", name.to_ascii_uppercase())
}

/// Signatures of a body by a secret; during a change of secrets, two signatures by two secrets beside one another.
///
/// # Errors
/// The problem of the secret, without its text.
fn signatures(secret: &str, id: &str, seconds: i64, body: &str) -> Result<String, String> {
    let wrong = || format!("the secret is not {PREFIX} and 24 to 64 random bytes in Base64");
    let sign = |secret: &str| {
        let key = secret.strip_prefix(PREFIX).and_then(|key| STANDARD.decode(key).ok());
        let key = key.filter(|key| SECRET_BYTES.contains(&key.len())).ok_or_else(wrong)?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| wrong())?;
        mac.update(format!("{id}.{seconds}.{body}").as_bytes());
        Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    };
    let all = secret.split_whitespace().map(sign).collect::<Result<Vec<_>, String>>()?;
    if all.is_empty() { Err(wrong()) } else { Ok(all.join(" ")) }
}

/// Id of a delivery in a header: `.` separates the signed parts, and names may contain it. No name contains `:`.
fn header_id(id: &str) -> String {
    id.replace('.', ":")
}

/// WebhookSender over HTTP.
#[derive(Debug)]
struct Post {
    /// Client, made at the first post, since it reads the certificates of the machine.
    web: OnceLock<Result<Web, String>>,
    secrets: Secrets,
    allows_private: bool,
}

impl Post {
    fn web(&self) -> Result<&Web, String> {
        let made = self.web.get_or_init(|| {
            let names = || if self.allows_private { Names::any() } else { Names::public() };
            let web = Web::for_strangers(true, names()).or_else(|error| {
                tracing::warn!(%error, "there are no certificates of authorities to know webhooks by: nothing is posted over https://");
                Web::for_strangers(false, names())
            });
            web.map_err(|error| error.to_string())
        });
        made.as_ref().map_err(String::clone)
    }

    /// Address and headers of a parcel.
    fn addressed(&self, parcel: &Parcel) -> Result<(Uri, Vec<(HeaderName, String)>), String> {
        let webhook = &parcel.webhook;
        let url = match (&webhook.url, &webhook.url_from) {
            (Some(url), _) => url.clone(),
            (None, Some(name)) => self.secrets.find(name, &parcel.path)?,
            (None, None) => return Err("it has no URL".to_owned()),
        };
        check_webhook_url(&url).map_err(|why| format!("its URL {why}"))?;
        let url: Uri = url.parse().map_err(|_| "its URL is none".to_owned())?;
        if url.scheme_str() != Some("https") && !self.allows_private {
            return Err(
                "its URL should begin with https://, unless --webhooks-to-private is given".to_owned()
            );
        }
        let (id, seconds) = (header_id(&parcel.id), seconds(parcel.at));
        let mut headers = vec![(TIMESTAMP, seconds.to_string())];
        if let Some(name) = &webhook.secret {
            let signed = signatures(&self.secrets.find(name, &parcel.path)?, &id, seconds, &parcel.body);
            headers.push((SIGNATURE, signed.map_err(|why| format!("secret `{name}`: {why}"))?));
        }
        headers.push((ID, id));
        Ok((url, headers))
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.micros().div_euclid(1_000_000)
}

#[async_trait]
impl WebhookSender for Post {
    async fn post(&self, parcel: &Parcel) -> Posted {
        let request = self.addressed(parcel);
        let request =
            request.and_then(|(url, headers)| http_client::posted(&url, headers, parcel.body.clone()));
        let request = match request {
            Ok(request) => request,
            Err(why) => return Posted::Down(why),
        };
        // Only the status of the answer is used: the rest is never read, and never shown.
        let web = match self.web() {
            Ok(web) => web,
            Err(why) => return Posted::Down(why),
        };
        match web.send(request).await.map(|answer| answer.status()) {
            Ok(status) if status.is_success() => Posted::Taken,
            Ok(status) if status.as_u16() == GONE => Posted::Gone(status.to_string()),
            Ok(status) if status.is_redirection() => {
                Posted::Refused(format!("{status}: redirects are not followed"))
            }
            Ok(status) if status.is_server_error() || status.as_u16() == http_client::TOO_MANY => {
                Posted::Down(status.to_string())
            }
            Ok(status) => Posted::Refused(status.to_string()),
            Err(why) => Posted::Down(why),
        }
    }
}

#[cfg(test)]
mod tests;
