//! Storage of the files of exports and lakes: a local folder, or objects of S3 under a prefix.

use std::{
    error::Error as StdError,
    ffi::OsString,
    fmt,
    fs::{self, File, Permissions, TryLockError},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use clap::builder::{OsStringValueParser, TypedValueParser};
use event::{Error, ErrorKind, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use object_store::{
    ClientConfigKey, ClientOptions, Error as Fault, ObjectStore, ObjectStoreExt, PutMode, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey as Key},
    buffered::BufWriter,
    client::{
        HttpClient, HttpConnector as Connect, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpResponseBody, HttpService,
    },
    path::Path,
    prefix::PrefixStore,
};
use tokio::{
    io::AsyncWriteExt,
    time::{error::Elapsed, timeout},
};

use crate::http_client::{over, root};

/// Form of an address on the command line.
pub(crate) const FORM: &str = "DIR|s3://BUCKET/PREFIX";

/// Maximum bytes of a file that is read into memory.
const MAX_READ_BYTES: u64 = 64 << 20;

/// Bytes of a part of an object; a shorter object is sent as one.
const PART_BYTES: usize = 8 << 20;

/// Number of parts sent side by side; as many are in memory.
const PARTS: usize = 4;

/// Bytes that are read at once from a file to be put.
const PIECE_BYTES: u64 = 1 << 20;

/// Maximum tries to put a text that may have been sent but did not arrive, and the pause between two tries.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Beginning of the names of files that are not whole yet. Readers of lakes ignore names that begin with a dot.
const DRAFT: &str = ".draft-";

/// Codes of S3 for a bucket of another region, and for credentials that it does not take.
const REGION_CODES: [&str; 3] =
    ["AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"];
const CREDENTIALS_CODES: [&str; 5] =
    ["ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "TokenRefreshRequired"];

/// Region of services that have no regions.
const ANY_REGION: &str = "us-east-1";

/// Maximum time after which a request is not sent again.
const RETRY_WITHIN: Duration = Duration::from_secs(60);

/// Maximum time to connect to S3.
const CONNECT: Duration = Duration::from_secs(5);

/// Maximum time until an answer begins, with a part of an object to send, and between two pieces of it.
const WITHIN: Duration = Duration::from_secs(60);

/// Address of a blob store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Folder(PathBuf),
    S3 { bucket: String, prefix: Path },
}

impl Address {
    /// Parses an address; an error states its problem.
    fn parse(named: OsString) -> Result<Self, String> {
        let Some((scheme, rest)) = named.to_str().and_then(|text| text.split_once("://")) else {
            return if named.is_empty() {
                Err("it has no name".into())
            } else {
                Ok(Self::Folder(named.into()))
            };
        };
        if scheme != "s3" {
            return Err(format!("`{scheme}://` is not known; name a folder, or s3://BUCKET/PREFIX"));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_known = |letter| matches!(letter, 'a'..='z' | '0'..='9' | '.' | '-');
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_known) {
            return Err(format!(
                "`{bucket}` is no name of a bucket, which has 3 to 63 small letters, digits, dots and hyphens; \
                 write s3://BUCKET/PREFIX"
            ));
        }
        let prefix = Path::parse(format!("/{prefix}")).map_err(|error| error.to_string())?;
        Ok(Self::S3 { bucket: bucket.to_owned(), prefix })
    }

    /// Parser for the command line.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(Self::parse)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::S3 { bucket, prefix } if prefix.as_ref().is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// Files by their names, which may hold slashes. Each appears as a whole.
#[derive(Clone, Debug)]
pub(crate) struct BlobStore {
    address: Address,
    /// The folder, when it is one.
    root: PathBuf,
    /// Objects of S3 under the prefix; `None` for a folder.
    objects: Option<Arc<dyn ObjectStore>>,
}

impl fmt::Display for BlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl BlobStore {
    /// Opens the files at an address. A folder need not exist. The account, the endpoint, the encryption and the region of S3, unless
    /// one is given, come from the variables of AWS; the credentials also from a profile or the role of this machine.
    ///
    /// # Errors
    /// `Invalid`, with advice, when that is not enough.
    pub(crate) async fn open(address: &Address, region: Option<&str>) -> Result<Self> {
        let bucket = match address {
            Address::Folder(root) => {
                return Ok(Self { address: address.clone(), root: root.clone(), objects: None });
            }
            Address::S3 { bucket, .. } => bucket,
        };
        let builder = AmazonS3Builder::from_env();
        let given = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = given(Key::S3Endpoint).or_else(|| given(Key::Endpoint));
        let has_tls = endpoint.as_ref().is_none_or(|endpoint| !endpoint.starts_with("http://"));
        let may = given(Key::Client(ClientConfigKey::AllowHttp));
        if !has_tls && !may.is_some_and(|may| may.eq_ignore_ascii_case("true")) {
            return Err(Error::invalid(format!(
                "the endpoint {} is called without encryption; if it may be, set AWS_ALLOW_HTTP=true",
                endpoint.unwrap_or_default()
            )));
        }
        let region = given(Key::Region).or_else(|| region.map(str::to_owned));
        let region = region.or_else(|| endpoint.is_some().then(|| ANY_REGION.to_owned()));
        let store = keys::signed(builder, region.as_deref())
            .await?
            .with_bucket_name(bucket)
            .with_http_connector(Wire { has_tls })
            .with_retry(RetryConfig { retry_timeout: RETRY_WITHIN, ..RetryConfig::default() })
            .build()
            .map_err(|error| failed(address, "", error))?;
        Ok(Self::of(Arc::new(store), address))
    }

    /// Takes the objects of a store under the prefix of an address.
    pub(crate) fn of(store: Arc<dyn ObjectStore>, address: &Address) -> Self {
        let prefix = if let Address::S3 { prefix, .. } = address { prefix.clone() } else { Path::default() };
        let objects: Arc<dyn ObjectStore> = Arc::new(PrefixStore::new(store, prefix));
        Self { address: address.clone(), root: PathBuf::new(), objects: Some(objects) }
    }

    /// Word for what holds the files.
    pub(crate) fn kind(&self) -> &'static str {
        if self.objects.is_none() { "folder" } else { "prefix" }
    }

    fn failed(&self, name: &str, error: impl Into<io::Error>) -> Error {
        failed(&self.address, name, error)
    }

    /// Prepares it for a command that writes. A folder is made, freed of the drafts of a killed command, and locked as long as the
    /// returned file is kept, if the file system can lock folders. Objects have no lock.
    ///
    /// # Errors
    /// `Unavailable`, when another process has locked it; a folder that cannot be made.
    pub(crate) fn lock(&self, command: &str) -> Result<Option<File>> {
        if self.objects.is_some() {
            return Ok(None);
        }
        let locked = || -> io::Result<_> {
            fs::create_dir_all(&self.root)?;
            // The names of new folders are made durable where the file system lets us.
            for above in fs::canonicalize(&self.root)?.ancestors().skip(1) {
                _ = File::open(above).and_then(|above| above.sync_all());
            }
            let lock = File::open(&self.root)?;
            if let Err(TryLockError::WouldBlock) = lock.try_lock() {
                return Ok(None);
            }
            for entry in fs::read_dir(&self.root)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(DRAFT) {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(Some(lock))
        };
        match locked().map_err(|error| self.failed("", error))? {
            None => Err(Error::unavailable(format!(
                "another `almanac admin {command}` works in {self}; wait until it is done, or name another folder"
            ))),
            lock => Ok(lock),
        }
    }

    /// Lists the names in a folder with the bytes of the files; none, when there is no such folder.
    ///
    /// # Errors
    /// A folder that cannot be read; errors of S3.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>> {
        let listed = async || -> io::Result<_> {
            let Some(objects) = &self.objects else {
                let entries = match fs::read_dir(self.root.join(folder)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                    entries => entries?,
                };
                let named = entries.map(|entry| {
                    let entry = entry?;
                    Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()))
                });
                return named.collect();
            };
            let prefix = Path::from(folder);
            let found = objects.list_with_delimiter((!folder.is_empty()).then_some(&prefix)).await?;
            // The prefix itself may be an object, of no bytes, if somebody has made it a folder.
            let name = |key: &Path| Some(key.prefix_match(&prefix)?.next()?.as_ref().to_owned());
            let files = found.objects.iter().filter_map(|of| Some((name(&of.location)?, of.size)));
            let folders = found.common_prefixes.iter().filter_map(|key| Some((name(key)?, 0)));
            Ok(files.chain(folders).collect())
        };
        listed().await.map_err(|error| self.failed(folder, error))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `NotFound`, when there is none; `TooLarge`; a file that cannot be read; errors of S3.
    pub(crate) async fn get(&self, name: &str) -> Result<Vec<u8>> {
        let fits = |bytes| match bytes {
            0..=MAX_READ_BYTES => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
        };
        let read = async || -> io::Result<_> {
            let Some(objects) = &self.objects else {
                let path = self.root.join(name);
                fits(fs::metadata(&path)?.len())?;
                return fs::read(path);
            };
            let found = objects.get(&Path::from(name)).await?;
            fits(found.meta.size)?;
            Ok(found.bytes().await?.into())
        };
        read().await.map_err(|error| self.failed(name, error))
    }

    /// Puts a file if there is none; returns true if it was put.
    ///
    /// # Errors
    /// A file that cannot be written; errors of S3, after which the file may have been put.
    pub(crate) async fn put_new(&self, name: &str, text: &str) -> Result<bool> {
        let Some(objects) = &self.objects else { return self.write(name, text.as_bytes(), false) };
        let (key, mut tries) = (Path::from(name), 1);
        loop {
            let put = objects.put_opts(&key, text.to_owned().into(), PutMode::Create.into());
            let error = match put.await {
                Ok(_) => return Ok(true),
                Err(error @ (Fault::AlreadyExists { .. } | Fault::Generic { .. })) => error,
                Err(error) => return Err(self.failed(name, error)),
            };
            // If an answer was lost or the request sent again, the text found may be this one.
            match self.get(name).await {
                Ok(found) => return Ok(found == text.as_bytes()),
                // The put has had no effect yet. If it has one later, the next try finds it.
                Err(missing) if missing.kind() == ErrorKind::NotFound && tries < TRIES => tries += 1,
                Err(_) => return Err(self.failed(name, error)),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Puts a file, over an existing one. A long object is sent in parts.
    ///
    /// # Errors
    /// Failure to read `from`; a file that cannot be written; errors of S3.
    pub(crate) async fn put(&self, name: &str, mut from: impl Read) -> Result<()> {
        let Some(objects) = &self.objects else { return self.write(name, from, true).map(drop) };
        let mut to = BufWriter::with_capacity(Arc::clone(objects), Path::from(name), PART_BYTES)
            .with_max_concurrency(PARTS);
        let mut send = async || -> io::Result<()> {
            loop {
                let mut piece = Vec::new();
                if from.by_ref().take(PIECE_BYTES).read_to_end(&mut piece)? == 0 {
                    return Ok(());
                }
                to.put(piece.into()).await?;
            }
        };
        let sent = match send().await {
            Ok(()) => to.shutdown().await,
            Err(error) => {
                // If that fails as well, the parts stay until the bucket's own rule deletes them.
                _ = to.abort().await;
                Err(error)
            }
        };
        sent.map_err(|error| self.failed(name, error))
    }

    /// Writes a draft, which then gets its name; returns false if that is taken, and may not be replaced.
    fn write(&self, name: &str, mut from: impl Read, may_replace: bool) -> Result<bool> {
        let root = &self.root;
        let mut put = || -> io::Result<bool> {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            let mut draft = tempfile::Builder::new();
            let mut draft =
                draft.prefix(DRAFT).permissions(Permissions::from_mode(0o666)).tempfile_in(root)?;
            io::copy(&mut from, &mut draft)?;
            draft.as_file().sync_all()?;
            let named = if may_replace { draft.persist(&path) } else { draft.persist_noclobber(&path) };
            match named {
                Err(taken) if !may_replace && taken.error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(false);
                }
                named => named?,
            };
            // The folders on the way may be new, or have been made by a killed process.
            let mut on_the_way = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
            on_the_way.try_for_each(|folder| File::open(folder)?.sync_all())?;
            Ok(true)
        };
        put().map_err(|error| self.failed(name, error))
    }

    /// Returns an empty local file without a name, for a file that is put later.
    ///
    /// # Errors
    /// A failure to make it.
    pub(crate) fn draft(&self) -> Result<File> {
        let made = match self.objects {
            None => tempfile::tempfile_in(&self.root),
            Some(_) => tempfile::tempfile(),
        };
        made.map_err(|error| Error::unavailable("a temporary file cannot be made").because(error))
    }

    /// Deletes files.
    ///
    /// # Errors
    /// A file that cannot be deleted; errors of S3.
    pub(crate) async fn delete(&self, names: &[String]) -> Result<()> {
        let Some(objects) = &self.objects else {
            let mut paths = names.iter().map(|name| self.root.join(name));
            return paths.try_for_each(fs::remove_file).map_err(|error| self.failed("", error));
        };
        let keys: Vec<_> = names.iter().map(|name| Ok(Path::from(name.as_str()))).collect();
        let deleted = objects.delete_stream(stream::iter(keys).boxed());
        deleted.try_for_each(async |_| Ok(())).await.map_err(|error| self.failed("", error))
    }
}

/// Formats bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Error of a file that cannot be read or written, with advice; an empty name stands for all of them.
fn failed(address: &Address, name: &str, error: impl Into<io::Error>) -> Error {
    let shown = if name.is_empty() { address.to_string() } else { format!("{address}/{name}") };
    let error: io::Error = error.into();
    let (Address::S3 { bucket, .. }, Some(fault)) = (address, error.get_ref()) else {
        return match error.kind() {
            io::ErrorKind::NotFound => Error::not_found(format!("{shown} is not there")),
            io::ErrorKind::FileTooLarge => Error::too_large(format!("{shown} is longer than any such file")),
            _ => Error::unavailable(format!("{shown} cannot be read or written")).because(error),
        };
    };
    let first: &(dyn StdError + 'static) = fault;
    let chain: Vec<_> = std::iter::successors(Some(first), |error| (*error).source()).collect();
    if let Some(ours) = chain.iter().find_map(|error| error.downcast_ref::<Error>()) {
        return ours.clone();
    }
    let text: String = chain.iter().map(|error| format!("{error} ")).collect();
    let (code, said) = (tag(&text, "Code").unwrap_or_default(), tag(&text, "Message").unwrap_or_default());
    let said = match code {
        "" => format!(": {}", root(first)),
        code => format!(" ({code}: {})", said.trim_end_matches('.')),
    };
    let (kind, advice) = match (first.downcast_ref::<Fault>(), code) {
        (_, "NoSuchBucket") => {
            (ErrorKind::NotFound, format!(": there is no bucket `{bucket}`; make it, or name another one"))
        }
        _ if REGION_CODES.contains(&code) || text.contains("incorrectly configured region") => {
            let advice = format!(": the bucket is in another region{said}; set AWS_REGION to that one");
            (ErrorKind::Invalid, advice)
        }
        (Some(Fault::NotFound { .. }), _) => (ErrorKind::NotFound, " is not there".into()),
        _ if CREDENTIALS_CODES.contains(&code) => {
            let advice = "give others, or look at the clock of this machine";
            (ErrorKind::Denied, format!(": the AWS credentials are not taken{said}; {advice}"))
        }
        (Some(Fault::PermissionDenied { .. } | Fault::Unauthenticated { .. }), _) | (_, "AccessDenied") => {
            let rights =
                "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on what is in it";
            let advice = format!("the credentials need s3:ListBucket on the bucket `{bucket}`, and {rights}");
            (ErrorKind::Denied, format!(": access is denied{said}; {advice}"))
        }
        _ => (ErrorKind::Unavailable, format!(" cannot be read or written{said}")),
    };
    Error::new(kind, shown + &advice)
}

/// Content of a tag in an answer of S3.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

/// Wraps an error of ours for the client of S3.
fn in_store(error: Error) -> Fault {
    Fault::Generic { store: "S3", source: Box::new(error) }
}

/// HTTP client for S3, on the stack that also calls webhooks; over TLS when it has to.
#[derive(Debug)]
struct Wire {
    has_tls: bool,
}

impl Connect for Wire {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        let connector = over(connector, self.has_tls).map_err(|error| {
            in_store(Error::unavailable(format!("S3 cannot be called over TLS: {error:#}")))
        })?;
        Ok(HttpClient::new(Http(Client::builder(TokioExecutor::new()).build(connector))))
    }
}

fn late(error: Elapsed) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, error)
}

#[derive(Debug)]
struct Http(Client<HttpsConnector<HttpConnector>, HttpRequestBody>);

#[async_trait]
impl HttpService for Http {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = timeout(WITHIN, self.0.request(request)).await.map_err(late)?;
        // A request without an answer may have been sent. Its sender decides whether to send it again.
        let answer = answer.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
            HttpError::new(kind, error)
        })?;
        let (head, body) = answer.into_parts();
        let frames = stream::try_unfold(body, async |mut body: Incoming| {
            let frame = timeout(WITHIN, body.frame()).await.map_err(late)?;
            let frame =
                frame.transpose().map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
            Ok(frame.map(|frame| (frame, body)))
        });
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(StreamBody::new(frames))))
    }
}

/// Credentials that sign requests to S3: those of the account that the clients of DynamoDB find.
#[cfg(feature = "dynamodb")]
mod keys {
    use std::{sync::Arc, time::UNIX_EPOCH};

    use async_trait::async_trait;
    use dynamodb::Account;
    use event::{Clock, Result};
    use object_store::{
        CredentialProvider,
        aws::{AmazonS3Builder, AwsCredential},
    };
    use tokio::sync::Mutex;

    /// Time before their expiry at which credentials are renewed.
    const AHEAD_SECONDS: u64 = 5 * 60;

    /// Sets the region of an account, and signs with its credentials.
    ///
    /// # Errors
    /// `Invalid`, with advice, when there is no region.
    pub(super) async fn signed(builder: AmazonS3Builder, region: Option<&str>) -> Result<AmazonS3Builder> {
        let account = Account::find(region).await?;
        let builder = builder.with_region(account.region());
        Ok(builder.with_credentials(Arc::new(Keys { account, held: Mutex::default() })))
    }

    /// Credentials of an account, with the second of Unix time until which they are used, unless they never expire.
    #[derive(Debug)]
    struct Keys {
        account: Account,
        held: Mutex<Option<(Arc<AwsCredential>, Option<u64>)>>,
    }

    #[async_trait]
    impl CredentialProvider for Keys {
        type Credential = AwsCredential;

        async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
            let mut held = self.held.lock().await;
            let now = Clock::system().now().micros().div_euclid(1_000_000).unsigned_abs();
            if let Some((credential, until)) = &*held
                && until.is_none_or(|until| now < until)
            {
                return Ok(Arc::clone(credential));
            }
            let found = self.account.credentials().await.map_err(super::in_store)?;
            let credential = Arc::new(AwsCredential {
                key_id: found.access_key_id().to_owned(),
                secret_key: found.secret_access_key().to_owned(),
                token: found.session_token().map(str::to_owned),
            });
            let until = found.expiry().map(|expiry| {
                let seconds = expiry.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                seconds.saturating_sub(AHEAD_SECONDS)
            });
            *held = Some((Arc::clone(&credential), until));
            Ok(credential)
        }
    }
}

/// Credentials of the environment: the search in profiles and roles comes with the client of DynamoDB.
#[cfg(not(feature = "dynamodb"))]
mod keys {
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
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Seek, Write},
        sync::atomic::{AtomicBool, Ordering},
    };

    use futures::{future::join_all, stream::BoxStream};
    use object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions,
        PutOptions, PutPayload, PutResult, Result as Answer, memory::InMemory,
    };

    use super::*;

    fn address() -> Address {
        Address::parse("s3://mine/out".into()).unwrap()
    }

    #[test]
    fn folders_and_prefixes_are_told_apart() {
        let parse = |text: &str| Address::parse(text.into());
        for folder in ["out", "/srv/out", "s3:out", "s3/out", "./s3:/out", "a b"] {
            assert_eq!(parse(folder), Ok(Address::Folder(folder.into())));
        }
        for (text, shown) in [
            ("s3://mine", "s3://mine"),
            ("s3://mine/", "s3://mine"),
            ("s3://my.bucket-1/x/y z/", "s3://my.bucket-1/x/y z"),
            // Percent-encoded text stays as it is.
            ("s3://mine/a%20b", "s3://mine/a%20b"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown);
            assert_eq!(parse(text), parse(shown));
        }
        for (text, says) in [
            ("gs://mine/out", "`gs://` is not known"),
            ("https://mine.s3.amazonaws.com/out", "`https://` is not known"),
            ("S3://mine/out", "`S3://` is not known"),
            ("", "no name"),
            ("s3://", "no name of a bucket"),
            ("s3:///out", "no name of a bucket"),
            ("s3://Mine/out", "no name of a bucket"),
            ("s3://ab", "no name of a bucket"),
            ("s3://my_bucket", "no name of a bucket"),
            ("s3://user@mine/out", "no name of a bucket"),
            ("s3://mine//out", "empty path segment"),
            ("s3://mine/out//", "empty path segment"),
            ("s3://mine/../out", ".."),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_lowercase().contains(&says.to_lowercase()), "{text}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn folder_name_may_be_invalid_unicode() {
        use std::os::unix::ffi::OsStringExt;
        let name = OsString::from_vec(b"out-\xff".to_vec());
        assert_eq!(Address::parse(name.clone()), Ok(Address::Folder(name.into())));
    }

    fn answer(status: &str, code: &str) -> Box<dyn StdError + Send + Sync> {
        format!(
            "Error performing PUT https://s3.amazonaws.com/mine/out/a in 1ms - Server returned non-2xx status code: {status}: \
             <?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>It is so.</Message></Error>"
        )
        .into()
    }

    #[test]
    fn a_refusal_says_where_and_what_to_do() {
        let path = || "out/a".to_owned();
        let generic = |status, code| Fault::Generic { store: "S3", source: answer(status, code) };
        for (fault, kind, says) in [
            (
                Fault::NotFound { path: path(), source: answer("404", "NoSuchKey") },
                ErrorKind::NotFound,
                "s3://mine/out/a is not there",
            ),
            (
                Fault::NotFound { path: path(), source: answer("404", "NoSuchBucket") },
                ErrorKind::NotFound,
                "s3://mine/out/a: there is no bucket `mine`; make it",
            ),
            (
                Fault::PermissionDenied { path: path(), source: answer("403", "AccessDenied") },
                ErrorKind::Denied,
                "access is denied (AccessDenied: It is so); the credentials need s3:ListBucket on the bucket `mine`",
            ),
            (
                Fault::PermissionDenied { path: path(), source: answer("403", "InvalidAccessKeyId") },
                ErrorKind::Denied,
                "the AWS credentials are not taken (InvalidAccessKeyId: It is so)",
            ),
            // Refusal of a list.
            (generic("403", "AccessDenied"), ErrorKind::Denied, "access is denied (AccessDenied: It is so)"),
            (generic("400", "ExpiredToken"), ErrorKind::Denied, "the AWS credentials are not taken"),
            (generic("301", "PermanentRedirect"), ErrorKind::Invalid, "set AWS_REGION"),
            (generic("503", "SlowDown"), ErrorKind::Unavailable, "written (SlowDown: It is so)"),
            (
                in_store(Error::invalid("there are no AWS credentials")),
                ErrorKind::Invalid,
                "there are no AWS",
            ),
        ] {
            let error = failed(&address(), "a", fault);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused");
        let error = failed(&address(), "", Fault::Generic { store: "S3", source: Box::new(refused) });
        assert_eq!(error.to_string(), "s3://mine/out cannot be read or written: connection refused");
    }

    /// A store that puts or drops a file on demand, and answers neither.
    #[derive(Debug, Default)]
    struct Deaf {
        store: InMemory,
        puts: AtomicBool,
    }

    impl fmt::Display for Deaf {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("deaf")
        }
    }

    #[async_trait]
    impl ObjectStore for Deaf {
        async fn put_opts(&self, key: &Path, payload: PutPayload, options: PutOptions) -> Answer<PutResult> {
            if self.puts.load(Ordering::Relaxed) {
                self.store.put_opts(key, payload, options).await?;
            }
            Err(Fault::Generic { store: "S3", source: "no answer".into() })
        }

        async fn put_multipart_opts(
            &self,
            key: &Path,
            options: PutMultipartOptions,
        ) -> Answer<Box<dyn MultipartUpload>> {
            self.store.put_multipart_opts(key, options).await
        }

        async fn get_opts(&self, key: &Path, options: GetOptions) -> Answer<GetResult> {
            self.store.get_opts(key, options).await
        }

        fn delete_stream(&self, keys: BoxStream<'static, Answer<Path>>) -> BoxStream<'static, Answer<Path>> {
            self.store.delete_stream(keys)
        }

        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Answer<ObjectMeta>> {
            self.store.list(prefix)
        }

        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Answer<ListResult> {
            self.store.list_with_delimiter(prefix).await
        }

        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Answer<()> {
            self.store.copy_opts(from, to, options).await
        }
    }

    fn in_folder(folder: &tempfile::TempDir, name: &str) -> BlobStore {
        let root = folder.path().join(name);
        BlobStore { address: Address::Folder(root.clone()), root, objects: None }
    }

    /// A folder and a prefix, which do the same.
    fn both(folder: &tempfile::TempDir) -> [BlobStore; 2] {
        [in_folder(folder, "new/store"), BlobStore::of(Arc::new(InMemory::new()), &address())]
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_many_that_put_a_text_one_does() {
        let folder = tempfile::tempdir().unwrap();
        for store in both(&folder) {
            _ = store.lock("export").unwrap();
            let texts: Vec<String> = (0..16).map(|number| format!("text {number}")).collect();
            let put = join_all(texts.iter().map(|text| store.put_new("t/_delta_log/0.json", text))).await;
            let put = put.into_iter().map(Result::unwrap);
            let won: Vec<&String> =
                texts.iter().zip(put).filter(|(_, won)| *won).map(|(text, _)| text).collect();
            assert_eq!(won.len(), 1);
            assert_eq!(store.get("t/_delta_log/0.json").await.unwrap(), won[0].as_bytes());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_put_is_settled_by_reading() {
        let deaf = Arc::new(Deaf::default());
        let store = BlobStore::of(deaf.clone(), &address());
        let error = store.put_new("a", "one").await.unwrap_err();
        assert!(error.may_pass() && error.to_string().contains("s3://mine/out/a"), "{error}");
        deaf.puts.store(true, Ordering::Relaxed);
        assert!(store.put_new("a", "one").await.unwrap());
        assert!(!store.put_new("a", "two").await.unwrap());
        assert_eq!(store.get("a").await.unwrap(), b"one");
    }

    #[tokio::test]
    async fn files_of_any_length_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        for store in both(&folder) {
            let _lock = store.lock("export").unwrap();
            assert_eq!(store.list("a").await.unwrap(), []);
            // Files of one part, of whole parts, and of whole parts and a bit.
            for bytes in [0, 1, PART_BYTES, PART_BYTES + 1, 6 * PART_BYTES, 6 * PART_BYTES + 7] {
                let text: Vec<u8> = (0..bytes).map(|at| (at * 7 / 5) as u8).collect();
                let mut draft = store.draft().unwrap();
                draft.write_all(&text).unwrap();
                draft.rewind().unwrap();
                store.put("a/b", &draft).await.unwrap();
                assert!(store.get("a/b").await.unwrap() == text, "{bytes} bytes");
                assert_eq!(store.list("a").await.unwrap(), [("b".to_owned(), bytes as u64)]);
            }
            let names: Vec<String> =
                store.list("").await.unwrap().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["a"]);
            store.delete(&["a/b".to_owned()]).await.unwrap();
            assert_eq!(store.list("a").await.unwrap(), []);
            let error = store.get("a/b").await.unwrap_err();
            assert_eq!(error.to_string(), format!("{store}/a/b is not there"));
        }
    }

    #[tokio::test]
    async fn folder_is_locked_and_freed_of_drafts() {
        let folder = tempfile::tempdir().unwrap();
        let [store, _] = both(&folder);
        let lock = store.lock("lake sync").unwrap();
        let refused = store.lock("lake sync").unwrap_err().to_string();
        assert!(refused.contains("another `almanac admin lake sync` works in"), "{refused}");
        fs::write(folder.path().join("new/store/.draft-1"), "half").unwrap();
        store.put("a", &b"whole"[..]).await.unwrap();
        drop(lock);
        let _lock = store.lock("lake sync").unwrap();
        assert_eq!(store.list("").await.unwrap(), [("a".to_owned(), 5)]);
        fs::write(folder.path().join("file"), "").unwrap();
        for no_folder in ["file", "file/lake"] {
            assert!(in_folder(&folder, no_folder).lock("export").is_err(), "{no_folder}");
        }
    }
}
