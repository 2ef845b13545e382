//! TLS by files: a certificate and its key, read again when they change.

use std::{
    fmt, fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

/// Interval between looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Texts of a certificate with its chain, and of its key.
#[derive(Clone, PartialEq, Eq)]
struct Texts {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Configuration of new connections.
struct Current {
    config: Arc<ServerConfig>,
    /// Files read last, good or bad, so that each change is tried once.
    tried: Texts,
}

/// Certificate in files. A change does not affect open connections.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

/// Omits the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Texts {
    fn read(certificate: &PathBuf, key: &PathBuf) -> anyhow::Result<Self> {
        let read = |path: &PathBuf| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        Ok(Self { certificate: read(certificate)?, key: read(key)? })
    }

    fn config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let certificates = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.context("the certificate is no PEM")?;
        anyhow::ensure!(!certificates.is_empty(), "there is no certificate in the file");
        let key = PrivateKeyDer::from_pem_slice(&self.key).context("there is no key in the file")?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .context("the certificate and the key do not go together")?;
        Ok(Arc::new(config))
    }
}

impl Tls {
    /// Loads the certificate of these files.
    ///
    /// # Errors
    /// Files that cannot be read, or do not match.
    pub fn load(certificate: PathBuf, key: PathBuf) -> anyhow::Result<Self> {
        let tried = Texts::read(&certificate, &key)?;
        let config =
            tried.config().with_context(|| format!("{} and {}", certificate.display(), key.display()))?;
        Ok(Self { certificate, key, current: Mutex::new(Current { config, tried }) })
    }

    /// Acceptor for a new connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.lock().config))
    }

    /// Reads the files again. An unusable certificate is logged, and the previous good one stays.
    pub(crate) fn look_again(&self) {
        let texts = match Texts::read(&self.certificate, &self.key) {
            Ok(texts) => texts,
            Err(error) => {
                tracing::warn!("the certificate stays as it was: {error:#}");
                return;
            }
        };
        let mut current = self.lock();
        if current.tried == texts {
            return;
        }
        match texts.config() {
            Ok(config) => {
                current.config = config;
                tracing::info!(certificate = %self.certificate.display(), "there is a new certificate");
            }
            // Perhaps only the first of two files has been replaced.
            Err(error) => tracing::warn!("the certificate stays as it was: {error:#}"),
        }
        current.tried = texts;
    }

    /// Looks at the files at intervals, until `end`.
    pub(crate) async fn keep_up(self: Arc<Self>, end: impl Future<Output = ()>) {
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let this = Arc::clone(&self);
            // A panic in it leaves the certificate unchanged.
            _ = tokio::task::spawn_blocking(move || this.look_again()).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
