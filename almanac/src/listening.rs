//! Listener of a service: TLS, trusted proxies, and the request to stop.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ::access::Network;
use anyhow::bail;
use clap::{Args, builder::RangedU64ValueParser};
use event::Error;

use crate::{
    proxies::Proxies,
    serve::{DRAIN, KEEP_ALIVE, MAX_CONNECTIONS},
    tls::Tls,
};

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
    /// How many seconds the body of a request may take to come.
    #[arg(long, value_name = "SECONDS", env = "ALMANAC_BODY_SECONDS", default_value_t = ingest::BODY_WITHIN.as_secs(), value_parser = seconds())]
    body_seconds: u64,
    /// How many seconds a connection may be idle. Behind a load balancer it must be more than there, or some requests fail with 502.
    #[arg(long, value_name = "SECONDS", env = "ALMANAC_KEEP_ALIVE_SECONDS", default_value_t = KEEP_ALIVE.as_secs(), value_parser = seconds())]
    keep_alive_seconds: u64,
    /// How many seconds requests that were begun may take after the service was asked to stop.
    #[arg(long, value_name = "SECONDS", env = "ALMANAC_DRAIN_SECONDS", default_value_t = DRAIN.as_secs(), value_parser = seconds())]
    drain_seconds: u64,
}

/// Parser of a time in seconds: 1 to 3,600.
fn seconds() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=3_600)
}

/// Maximum times of requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Maximum time for the body of a request to arrive.
    pub body: Duration,
    /// Maximum time of an idle connection, and of the headers of a request.
    pub keep_alive: Duration,
    /// Maximum time of started requests after the service was asked to stop.
    pub drain: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { body: ingest::BODY_WITHIN, keep_alive: KEEP_ALIVE, drain: DRAIN }
    }
}

impl ListenArgs {
    /// Certificate, if one is given.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<Arc<Tls>>> {
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        match (given(&self.tls_cert), given(&self.tls_key)) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Arc::new(Tls::load(certificate, key)?))),
            _ => bail!(Error::invalid("--tls-cert and --tls-key are given together, or neither of them")),
        }
    }

    /// Maximum times of requests and connections.
    pub(crate) fn times(&self) -> Times {
        let seconds = Duration::from_secs;
        Times {
            body: seconds(self.body_seconds),
            keep_alive: seconds(self.keep_alive_seconds),
            drain: seconds(self.drain_seconds),
        }
    }

    /// Returns whether any proxies are trusted.
    pub(crate) fn has_proxies(&self) -> bool {
        self.trusted_proxies.iter().any(|text| !text.trim().is_empty())
    }

    /// Trusted proxies.
    pub(crate) fn proxies(&self) -> anyhow::Result<Proxies> {
        let all = self.trusted_proxies.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        Ok(Proxies::new(all.map(str::parse::<Network>).collect::<Result<_, _>>()?))
    }
}

/// Listens from this call on for ctrl-c and SIGTERM; the future completes at the first of them.
pub(crate) fn asked_to_stop() -> impl Future<Output = ()> {
    #[cfg(unix)]
    let asked = {
        use tokio::signal::unix::{SignalKind, signal};
        let [mut interrupt, mut terminate] =
            [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok());
        async move {
            // A signal without a handler ends the process as usual.
            tokio::select! {
                Some(_) = async { interrupt.as_mut()?.recv().await } => {}
                Some(_) = async { terminate.as_mut()?.recv().await } => {}
                else => std::future::pending().await,
            }
        }
    };
    #[cfg(not(unix))]
    let asked = tokio::signal::ctrl_c();
    async move {
        _ = asked.await;
        tracing::info!("stopping");
    }
}

/// Makes writes beyond the limit of file sizes (`ulimit -f`) fail like those on a full disk, from this call on; SIGXFSZ would end
/// the process without a message.
pub(crate) fn outlive_size_limit() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // A signal with a handler no longer ends the process, even if nobody awaits it.
        _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

/// Number of open files of a process beside its connections.
const OTHER_FILES: u64 = 256;

/// Raises the limit of open files (`ulimit -n`) as far as allowed and needed for connections, and returns the number of
/// connections that fit.
pub(crate) fn room_for_connections() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let wanted = MAX_CONNECTIONS as u64 + OTHER_FILES;
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        // `None` stands for no limit.
        let Some(mut files) = current.filter(|files| *files < wanted) else { return MAX_CONNECTIONS };
        let raised = maximum.map_or(wanted, |most| most.min(wanted));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).is_ok() {
            files = raised;
        }
        if files >= wanted {
            return MAX_CONNECTIONS;
        }
        // With few files, half are for connections.
        let room = files.saturating_sub(OTHER_FILES).max(files / 2);
        tracing::warn!(
            "this process may have {files} files open, so it takes {room} connections at most; {wanted} are enough for all (ulimit -n, LimitNOFILE)"
        );
        usize::try_from(room).unwrap_or(MAX_CONNECTIONS)
    }
    #[cfg(not(unix))]
    MAX_CONNECTIONS
}
