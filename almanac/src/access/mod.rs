//! Authentication of callers, and the commands on tokens and roles.

mod init;
#[cfg(test)]
mod tests;

use std::{fs, net::IpAddr, path::PathBuf, sync::Arc};

use ::access::{
    Access, Digest, Token, Tokens,
    oidc::{Oidc, OidcSettings},
    parse_digest,
};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use event::{Clock, Error};
use table::Table;

use crate::http_client::Web;

pub(crate) use self::init::{InitArgs, init};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Print a new token that is stored nowhere, for ALMANAC_ADMIN_TOKEN.
    Generate,
}

/// Variable that holds the token of a service that is started with one. It is no flag, since other users of a machine can read
/// the flags of a process.
const ADMIN_TOKEN: &str = "ALMANAC_ADMIN_TOKEN";

/// Whether callers are asked who they are.
#[derive(Debug, Default, Args)]
pub(crate) struct Asking {
    /// Ask nobody who they are, whatever the address and whether there are tokens or not.
    #[arg(long)]
    insecure: bool,
    /// A file with a token that may do everything, or `sha256:` and its SHA-256; ALMANAC_ADMIN_TOKEN can hold the same.
    #[arg(long, value_name = "FILE", env = "ALMANAC_ADMIN_TOKEN_FILE")]
    admin_token_file: Option<PathBuf>,
}

impl Asking {
    /// Returns the authentication of callers; `None` if it is disabled. On a service that only this machine reaches, no caller
    /// needs a token until there is one. A process that never `writes` does not note the use of tokens.
    ///
    /// # Errors
    /// If other machines could call and no caller would be authenticated.
    pub(crate) async fn access(
        &self,
        table: &Arc<dyn Table>,
        listen: IpAddr,
        oidc: Option<&OidcSettings>,
        writes: bool,
    ) -> anyhow::Result<Option<Arc<Access>>> {
        let preset = self.preset()?;
        if self.insecure {
            return Ok(None);
        }
        let access = Access::new(Arc::clone(table), Clock::system());
        let access = if writes { access } else { access.reading_only() };
        if preset.is_some() || oidc.is_some() || Tokens::new(Arc::clone(table)).are_asked_for().await? {
            let access = access.with_preset(preset).with_oidc(oidc.map(issuer).transpose()?);
            return Ok(Some(Arc::new(access)));
        }
        if !listen.is_loopback() {
            bail!(Error::invalid(format!(
                "others could reach {listen}, and there is no token yet to know them by: `almanac init` makes the first one, \
                 {ADMIN_TOKEN} can hold one, an issuer of bearers can be named, and --insecure lets everybody do everything"
            )));
        }
        Ok(Some(Arc::new(access.open_at_first())))
    }

    /// The digest of the token that the process is started with, given as the token or as its digest.
    fn preset(&self) -> anyhow::Result<Option<Digest>> {
        let given = std::env::var(ADMIN_TOKEN).ok().filter(|text| !text.is_empty());
        let file = self.admin_token_file.as_ref().filter(|path| !path.as_os_str().is_empty());
        let (text, place) = match (given, file) {
            (Some(_), Some(_)) => {
                bail!(Error::invalid(format!("{ADMIN_TOKEN} and a file of a token are given; leave one out")))
            }
            (None, None) => return Ok(None),
            (Some(text), None) => (text, ADMIN_TOKEN.to_owned()),
            (None, Some(path)) => {
                let text =
                    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                (text, path.display().to_string())
            }
        };
        // The text is not repeated, since it may be a secret all the same.
        let wrong = || Error::invalid(format!("{place} holds no token; `almanac token generate` prints one"));
        let text = text.trim();
        let digest = Token::parse(text).map(|token| token.digest()).or_else(|| parse_digest(text));
        Ok(Some(digest.ok_or_else(wrong)?))
    }
}

/// Line about authentication at the start of a service.
pub(crate) fn says(access: Option<&Access>) -> &'static str {
    match access.map(Access::opens_at_first) {
        None => "INSECURE: every caller may do everything",
        Some(true) => "nobody is asked for a token until there is one, since only this machine reaches it",
        Some(false) => "callers need a token",
    }
}

/// Issuer of OIDC bearers. It is asked for its keys when the first bearer comes.
fn issuer(settings: &OidcSettings) -> anyhow::Result<Arc<Oidc>> {
    // A key is never asked for without encryption, unless the issuer itself is on this machine.
    let has_tls = !settings.issuer.starts_with("http://");
    let web = Web::new(has_tls).context("no certificates of authorities to know the issuer by")?;
    Ok(Arc::new(Oidc::new(settings.clone(), Arc::new(web))?))
}
