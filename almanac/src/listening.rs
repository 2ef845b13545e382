//! How a service listens: with TLS or without, and behind which proxies.

use std::{path::PathBuf, sync::Arc};

use ::access::Network;
use anyhow::bail;
use clap::Args;
use event::Error;

use crate::{proxies::Proxies, tls::Tls};

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// A file with the certificate (PEM) to listen with TLS; a changed file is read again.
    #[arg(long, value_name = "FILE", env = "ALMANAC_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The file with its key.
    #[arg(long, value_name = "FILE", env = "ALMANAC_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// The addresses of a proxy whose X-Forwarded-For says who the client is, such as 10.0.0.0/8. May be repeated.
    #[arg(
        long = "trusted-proxy",
        value_name = "CIDR",
        env = "ALMANAC_TRUSTED_PROXIES",
        value_delimiter = ','
    )]
    trusted_proxies: Vec<String>,
}

impl ListenArgs {
    /// The certificate, if there is one.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<Arc<Tls>>> {
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        match (given(&self.tls_cert), given(&self.tls_key)) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Arc::new(Tls::load(certificate, key)?))),
            _ => bail!(Error::invalid("--tls-cert and --tls-key are given together, or neither of them")),
        }
    }

    /// The proxies that are trusted.
    pub(crate) fn proxies(&self) -> anyhow::Result<Proxies> {
        let all = self.trusted_proxies.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        Ok(Proxies::new(all.map(str::parse::<Network>).collect::<Result<_, _>>()?))
    }
}
