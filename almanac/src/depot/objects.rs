//! Objects of S3 or of a compatible service: list, read, and put whole files, or put them only if there is none.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    sync::Arc,
    time::Duration,
};

use event::{Error, ErrorKind, Result};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{
    BackoffConfig, ClientConfigKey, Error as Fault, ObjectStore, ObjectStoreExt, PutMode, RetryConfig,
    WriteMultipart,
    aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, S3ConditionalPut},
};

use super::{Address, fault, keys::signed, wire::Wire};

/// Bytes of a part of a file; a file up to this length is sent as one.
const PART_BYTES: u64 = 8 << 20;

/// Number of parts sent side by side; as many are in memory.
const PARTS: usize = 4;

/// Maximum bytes of a text that is read into memory.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// Maximum tries to put a text that may have been sent but did not arrive, and the pause between two tries.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Values of AWS variables that mean yes.
const YES: [&str; 5] = ["1", "true", "on", "yes", "y"];

/// Region of services that have no regions.
const ANY_REGION: &str = "us-east-1";

/// Objects of a bucket under a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    address: Address,
}

/// Entries under a prefix.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Files in it, with their bytes.
    pub(crate) files: Vec<(String, u64)>,
    /// Folders in it, which hold other files.
    pub(crate) folders: Vec<String>,
}

impl Objects {
    /// Opens the objects at an address. Endpoint, encryption and more come from the variables of AWS. So does the region, unless
    /// one is given. The credentials come from there, from a profile or from the role of this machine.
    ///
    /// # Errors
    /// `Invalid`, with advice, when that is not enough.
    pub(crate) async fn open(address: &Address, region: Option<&str>) -> Result<Self> {
        let wrong = |error| fault::failed(address, "", error);
        let builder = AmazonS3Builder::from_env();
        let given = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = given(Key::S3Endpoint).or_else(|| given(Key::Endpoint));
        let has_tls = endpoint.as_ref().is_none_or(|endpoint| !endpoint.starts_with("http://"));
        let may = given(Key::Client(ClientConfigKey::AllowHttp))
            .is_some_and(|may| YES.contains(&&*may.to_lowercase()));
        if !has_tls && !may {
            return Err(Error::invalid(format!(
                "the endpoint {} is called without encryption; if it may be, set AWS_ALLOW_HTTP=true",
                endpoint.unwrap_or_default()
            )));
        }
        let region = given(Key::Region).or_else(|| region.map(str::to_owned));
        let region = region.or_else(|| endpoint.is_some().then(|| ANY_REGION.to_owned()));
        let store = signed(builder, region.as_deref())
            .await?
            .with_bucket_name(address.bucket())
            .with_http_connector(Wire { has_tls })
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(RetryConfig {
                backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
                max_retries: 8,
                retry_timeout: Duration::from_secs(60),
            })
            .build()
            .map_err(wrong)?;
        Ok(Self::of(Arc::new(store), address.clone()))
    }

    /// Takes the objects of a store.
    pub(crate) fn of(store: Arc<dyn ObjectStore>, address: Address) -> Self {
        Self { store, address }
    }

    /// Address of the objects.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    fn failed(&self, name: &str) -> impl Fn(Fault) -> Error {
        move |error| fault::failed(&self.address, name, error)
    }

    /// Lists a folder; all objects, when its name is empty.
    ///
    /// # Errors
    /// Errors of S3.
    pub(crate) async fn list(&self, folder: &str) -> Result<Listed> {
        let prefix = self.address.key(folder);
        let is_all = prefix.as_ref().is_empty();
        let found = self.store.list_with_delimiter((!is_all).then_some(&prefix)).await;
        let found = found.map_err(self.failed(folder))?;
        // The prefix itself may be an object, of no bytes, if somebody has made it a folder.
        let name =
            |key: &object_store::path::Path| Some(key.prefix_match(&prefix)?.next()?.as_ref().to_owned());
        Ok(Listed {
            files: found.objects.iter().filter_map(|of| Some((name(&of.location)?, of.size))).collect(),
            folders: found.common_prefixes.iter().filter_map(name).collect(),
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// `NotFound`, when there is none; `TooLarge`; errors of S3.
    pub(crate) async fn read(&self, name: &str) -> Result<String> {
        let found = self.store.get(&self.address.key(name)).await.map_err(self.failed(name))?;
        if found.meta.size > MAX_TEXT_BYTES {
            return Err(Error::too_large(format!(
                "{} has {} bytes, more than any such file",
                self.address.of(name),
                found.meta.size
            )));
        }
        let bytes = found.bytes().await.map_err(self.failed(name))?;
        let wrong = |error| Error::corrupt(format!("{} is no text", self.address.of(name))).because(error);
        String::from_utf8(bytes.to_vec()).map_err(wrong)
    }

    /// Reads the bytes of a file, piece by piece.
    ///
    /// # Errors
    /// Errors of S3 and of `to`.
    pub(crate) async fn fetch(&self, name: &str, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let found = self.store.get(&self.address.key(name)).await.map_err(self.failed(name))?;
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.try_next().await.map_err(self.failed(name))? {
            to(&piece)?;
        }
        Ok(())
    }

    /// Puts a text under the condition that there is no such file; returns true if it was put.
    ///
    /// # Errors
    /// Errors of S3; then the text may have been put.
    pub(crate) async fn put_new(&self, name: &str, text: &str) -> Result<bool> {
        let (key, mut tries) = (self.address.key(name), 1);
        loop {
            let put = self.store.put_opts(&key, text.to_owned().into(), PutMode::Create.into());
            let error = match put.await {
                Ok(_) => return Ok(true),
                Err(error @ (Fault::AlreadyExists { .. } | Fault::Generic { .. })) => error,
                Err(error) => return Err(self.failed(name)(error)),
            };
            // If an answer was lost or the request sent again, the text found may be this one.
            match self.read(name).await {
                Ok(found) => return Ok(found == text),
                // The put has had no effect yet. If it has one later, the next try finds it.
                Err(missing) if missing.kind() == ErrorKind::NotFound && tries < TRIES => tries += 1,
                Err(_) => return Err(self.failed(name)(error)),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Puts a local file, from its beginning to its end, over an existing one. A long file is sent in parts, and appears when all
    /// of them are sent.
    ///
    /// # Errors
    /// Failure to read the local file; errors of S3.
    pub(crate) async fn put(&self, name: &str, mut file: &File) -> Result<()> {
        let key = self.address.key(name);
        let unread = |error| Error::unavailable("a temporary file cannot be read").because(error);
        let rewound = file.seek(SeekFrom::Start(0)).and_then(|_| file.metadata());
        let next = || part(file);
        if rewound.map_err(unread)?.len() <= PART_BYTES {
            let bytes = next().map_err(unread)?;
            self.store.put(&key, bytes.into()).await.map_err(self.failed(name))?;
            return Ok(());
        }
        let upload = self.store.put_multipart(&key).await.map_err(self.failed(name))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES as usize);
        loop {
            let sent = upload.wait_for_capacity(PARTS).await.map_err(self.failed(name));
            match sent.and_then(|()| next().map_err(unread)) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => upload.put(bytes.into()),
                Err(error) => {
                    // If that fails as well, the parts stay until the bucket's own rule deletes them.
                    _ = upload.abort().await;
                    return Err(error);
                }
            }
        }
        upload.finish().await.map(drop).map_err(self.failed(name))
    }

    /// Deletes files.
    ///
    /// # Errors
    /// Errors of S3.
    pub(crate) async fn delete(&self, names: &[String]) -> Result<()> {
        let keys: Vec<_> = names.iter().map(|name| Ok(self.address.key(name))).collect();
        let deleted = self.store.delete_stream(stream::iter(keys).boxed());
        deleted.try_for_each(async |_| Ok(())).await.map_err(self.failed(""))
    }
}

/// Reads the next part of a file; an empty one at its end.
fn part(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(PART_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
