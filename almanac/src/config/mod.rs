//! The configuration: flags over the environment over a file over defaults.
//!
//! Each setting has one name: `store` is the flag `--store`, the variable `ALMANAC_STORE` and the key
//! `store` of the file. A value keeps its origin, for `almanac config show` and for the line that refuses it. The settings of the
//! table `oidc` have no flags. There are no secrets among them: credentials of AWS are found by its SDK.

use std::{
    ffi::OsString,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, ValueHint, parser::ValueSource};
use event::{Clock, Error, Result, Share};
use table::engine::Surroundings;

pub(crate) use self::{
    place::Store,
    show::{ConfigCommand, show},
    values::{Size, SizeOrNone, Switch},
};
use crate::telemetry::logs::LogFormat;

pub(crate) mod file;
mod oidc;
mod place;
mod show;
#[cfg(test)]
mod tests;
mod values;

/// Default file, which is read if it is there.
const DEFAULT_FILE: &str = "./almanac.toml";
/// Default folder of the data.
const DEFAULT_DATA: &str = "./almanac-data";
/// Default address to listen on.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7171);

/// Names of a setting.
#[derive(Debug)]
struct Name {
    key: &'static str,
    flag: &'static str,
    variable: &'static str,
}

const CONFIG: Name = Name { key: "config", flag: "--config", variable: "ALMANAC_CONFIG" };
const STORE: Name = Name { key: "store", flag: "--store", variable: "ALMANAC_STORE" };
const DATA: Name = Name { key: "data", flag: "--data", variable: "ALMANAC_DATA" };
const URL: Name = Name { key: "url", flag: "--url", variable: "ALMANAC_URL" };
const REGION: Name = Name { key: "region", flag: "--region", variable: "ALMANAC_REGION" };
const ENDPOINT: Name = Name { key: "endpoint", flag: "--endpoint", variable: "ALMANAC_ENDPOINT" };
const LISTEN: Name = Name { key: "listen", flag: "--listen", variable: "ALMANAC_LISTEN" };
const LOG_FORMAT: Name = Name { key: "log_format", flag: "--log-format", variable: "ALMANAC_LOG_FORMAT" };
const COMPACT: Name = Name { key: "compact", flag: "--compact", variable: "ALMANAC_COMPACT" };
const FEATURE_SAMPLE: Name =
    Name { key: "feature_sample", flag: "--feature-sample", variable: "ALMANAC_FEATURE_SAMPLE" };
const SEGMENT_CACHE_MEMORY: Name = Name {
    key: "segment_cache_memory",
    flag: "--segment-cache-memory",
    variable: "ALMANAC_SEGMENT_CACHE_MEMORY",
};
const QUERY_MEMORY: Name =
    Name { key: "query_memory", flag: "--query-memory", variable: "ALMANAC_QUERY_MEMORY" };

/// The settings on the command line and in the environment; each is good with every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct Flags {
    /// The configuration file [default: ./almanac.toml, if it is there].
    #[arg(long, global = true, env = CONFIG.variable, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<OsString>,
    #[arg(long, global = true, env = STORE.variable, value_name = "STORE", help = place::help())]
    store: Option<OsString>,
    /// The folder that holds the data [default: ./almanac-data].
    #[arg(long, global = true, env = DATA.variable, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<OsString>,
    /// The address of a service that commands call, such as https://almanac.example.com, in place of opening the table; ALMANAC_TOKEN holds their
    /// token.
    #[arg(long, global = true, env = URL.variable, value_name = "URL")]
    url: Option<OsString>,
    /// The AWS region of a DynamoDB table [default: as AWS's own tools find it].
    #[arg(long, global = true, env = REGION.variable, value_name = "REGION")]
    region: Option<OsString>,
    /// Another address of DynamoDB than its region's, such as an emulator's.
    #[arg(long, global = true, env = ENDPOINT.variable, hide_env_values = true, value_name = "URL")]
    endpoint: Option<OsString>,
    /// The address that `up` listens on [default: 127.0.0.1:7171].
    #[arg(long, global = true, env = LISTEN.variable, value_name = "ADDRESS")]
    listen: Option<OsString>,
    /// How log lines look: text or json [default: text].
    #[arg(long, global = true, env = LOG_FORMAT.variable, value_name = "FORMAT")]
    log_format: Option<OsString>,
    /// How much memory the queries of `up` may hold together, and those of a command that asks, such as 512MiB or 2GiB [default: 512MiB].
    #[arg(long, global = true, env = QUERY_MEMORY.variable, value_name = "SIZE")]
    query_memory: Option<OsString>,
    /// How much of what it appended `up` may hold for its projector, such as 64MiB, or 0 to have it read all [default: 64MiB].
    #[arg(long, global = true, env = SEGMENT_CACHE_MEMORY.variable, value_name = "SIZE")]
    segment_cache_memory: Option<OsString>,
    /// The share of keys whose features are kept when events are appended, from 0 to 1 [default: 1].
    #[arg(long, global = true, env = FEATURE_SAMPLE.variable, value_name = "SHARE")]
    feature_sample: Option<OsString>,
    /// Whether `up` and `projector` merge small segments of days that are over: on or off [default: on].
    #[arg(long, global = true, env = COMPACT.variable, value_name = "SWITCH")]
    compact: Option<OsString>,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(&'static str),
    /// A file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
    },
    /// Not set anywhere.
    Default,
}

impl Origin {
    /// Name of the value of `key` in the line that refuses it.
    fn subject(&self, key: &str) -> String {
        match self {
            Origin::Flag(name) | Origin::Environment(name) => (*name).to_owned(),
            Origin::File { path, line } => format!("{}, line {line}: {key}", path.display()),
            Origin::Default => key.to_owned(),
        }
    }

    /// Resolves `path`: one in a file is relative to the folder of that file, so that it does not depend on the working
    /// directory.
    fn locate(&self, path: &Path) -> PathBuf {
        match self {
            Origin::File { path: file, .. } => {
                let path = path.strip_prefix("./").unwrap_or(path);
                file.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
            }
            _ => path.to_owned(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "flag {name}"),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::File { path, line } => write!(f, "file {}, line {line}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A value, and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    /// Value.
    pub(crate) value: T,
    /// Origin of the value.
    pub(crate) origin: Origin,
}

/// Values given by flags and in the environment.
#[derive(Debug, Default)]
struct Given {
    config: Option<Setting<OsString>>,
    store: Option<Setting<OsString>>,
    data: Option<Setting<OsString>>,
    url: Option<Setting<OsString>>,
    region: Option<Setting<OsString>>,
    endpoint: Option<Setting<OsString>>,
    listen: Option<Setting<OsString>>,
    log_format: Option<Setting<OsString>>,
    query_memory: Option<Setting<OsString>>,
    segment_cache_memory: Option<Setting<OsString>>,
    feature_sample: Option<Setting<OsString>>,
    compact: Option<Setting<OsString>>,
    oidc: oidc::Values,
}

/// Effective values.
#[derive(Debug)]
pub(crate) struct Config {
    /// File that was read, if any.
    pub(crate) file: Setting<Option<PathBuf>>,
    /// Place of the table.
    pub(crate) store: Setting<Store>,
    /// Folder that holds the data.
    pub(crate) data: Setting<PathBuf>,
    /// Address of a service that commands call in place of opening the table.
    pub(crate) url: Setting<Option<String>>,
    /// AWS region; when `None`, the one that AWS's own tools find.
    pub(crate) region: Setting<Option<String>>,
    /// Address of DynamoDB, if other than its region's.
    pub(crate) endpoint: Setting<Option<String>>,
    /// Address that `up` listens on.
    pub(crate) listen: Setting<SocketAddr>,
    /// Format of log lines.
    pub(crate) log_format: Setting<LogFormat>,
    /// Maximum bytes that all queries of a service may hold together, and the queries of a command.
    pub(crate) query_memory: Setting<Size>,
    /// Maximum bytes of appended events that are held for the projector; 0 when none are.
    pub(crate) segment_cache_memory: Setting<SizeOrNone>,
    /// Share of keys whose features are kept.
    pub(crate) feature_sample: Setting<Share>,
    /// Switch for merging small segments of days that are over.
    pub(crate) compact: Setting<Switch>,
    /// Trusted issuer of bearers.
    pub(crate) oidc: oidc::Oidc,
    /// Options of the command line that every command takes, quoted for a shell, each behind a space.
    pub(crate) again: String,
}

impl Flags {
    /// Resolves the effective configuration of this process.
    ///
    /// # Errors
    /// `Invalid`, in one line that names the wrong value and its origin.
    pub(crate) fn resolve(&self, matches: &ArgMatches) -> Result<Config> {
        let given = Given {
            config: given(&CONFIG, self.config.as_ref(), matches),
            store: given(&STORE, self.store.as_ref(), matches),
            data: given(&DATA, self.data.as_ref(), matches),
            url: given(&URL, self.url.as_ref(), matches),
            region: given(&REGION, self.region.as_ref(), matches),
            endpoint: given(&ENDPOINT, self.endpoint.as_ref(), matches),
            listen: given(&LISTEN, self.listen.as_ref(), matches),
            log_format: given(&LOG_FORMAT, self.log_format.as_ref(), matches),
            query_memory: given(&QUERY_MEMORY, self.query_memory.as_ref(), matches),
            segment_cache_memory: given(&SEGMENT_CACHE_MEMORY, self.segment_cache_memory.as_ref(), matches),
            feature_sample: given(&FEATURE_SAMPLE, self.feature_sample.as_ref(), matches),
            compact: given(&COMPACT, self.compact.as_ref(), matches),
            oidc: oidc::in_environment(),
        };
        Config::resolve(given, Path::new(DEFAULT_FILE))
    }
}

/// A given value. An empty variable counts as none, as it does with most tools.
fn given(name: &Name, value: Option<&OsString>, matches: &ArgMatches) -> Option<Setting<OsString>> {
    let value = value?.clone();
    match matches.value_source(name.key) {
        Some(ValueSource::EnvVariable) if value.is_empty() => None,
        Some(ValueSource::EnvVariable) => Some(Setting { value, origin: Origin::Environment(name.variable) }),
        _ => Some(Setting { value, origin: Origin::Flag(name.flag) }),
    }
}

impl Config {
    /// Settings of engines besides the table.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let (region, endpoint) = (self.region.value.clone(), self.endpoint.value.clone());
        Surroundings { clock: Clock::system(), region, endpoint }
    }

    /// Lays the given values over the named file, or over `default_file` if it is there.
    fn resolve(given: Given, default_file: &Path) -> Result<Self> {
        let again = given.again();
        let (file, keys) = file::read(given.config, default_file)?;
        let data = match given.data.or(keys.data) {
            Some(setting) => path(&DATA, setting)?,
            None => Setting { value: PathBuf::from(DEFAULT_DATA), origin: Origin::Default },
        };
        let store = match given.store.or(keys.store) {
            Some(setting) => parse(&STORE, setting, place::parse)?,
            None => Setting { value: Store::sqlite(data.value.join(place::FILE)), origin: Origin::Default },
        };
        refuse_idle_data(&data, &store)?;
        let url = optional(&URL, given.url.or(keys.url), check_url)?;
        refuse_idle_place(&url, &data.origin, &store.origin)?;
        let region = optional(&REGION, given.region.or(keys.region), check_region)?;
        let endpoint = optional(&ENDPOINT, given.endpoint.or(keys.endpoint), check_endpoint)?;
        let listen = match given.listen.or(keys.listen) {
            Some(setting) => parse(&LISTEN, setting, listen_address)?,
            None => Setting { value: DEFAULT_LISTEN, origin: Origin::Default },
        };
        let log_format = match given.log_format.or(keys.log_format) {
            Some(setting) => parse(&LOG_FORMAT, setting, |text, _| text.parse())?,
            None => Setting { value: LogFormat::default(), origin: Origin::Default },
        };
        let query_memory = match given.query_memory.or(keys.query_memory) {
            Some(setting) => parse(&QUERY_MEMORY, setting, |text, _| text.parse())?,
            None => Setting { value: Size::default(), origin: Origin::Default },
        };
        let segment_cache_memory = match given.segment_cache_memory.or(keys.segment_cache_memory) {
            Some(setting) => parse(&SEGMENT_CACHE_MEMORY, setting, |text, _| text.parse())?,
            None => Setting { value: SizeOrNone::default(), origin: Origin::Default },
        };
        let feature_sample = match given.feature_sample.or(keys.feature_sample) {
            Some(setting) => parse(&FEATURE_SAMPLE, setting, |text, _| {
                text.parse().map_err(|error: Error| error.to_string())
            })?,
            None => Setting { value: Share::ALL, origin: Origin::Default },
        };
        let compact = match given.compact.or(keys.compact) {
            Some(setting) => parse(&COMPACT, setting, |text, _| text.parse())?,
            None => Setting { value: Switch::ON, origin: Origin::Default },
        };
        let oidc = oidc::resolve(given.oidc, keys.oidc)?;
        Ok(Self {
            file,
            store,
            data,
            url,
            region,
            endpoint,
            listen,
            log_format,
            query_memory,
            segment_cache_memory,
            feature_sample,
            compact,
            oidc,
            again,
        })
    }
}

/// A user who types --data means to use that folder. A store of lower precedence would use another place.
fn refuse_idle_data(data: &Setting<PathBuf>, store: &Setting<Store>) -> Result<()> {
    let is_idle = matches!(data.origin, Origin::Flag(_))
        && matches!(store.origin, Origin::Environment(_) | Origin::File { .. });
    if is_idle {
        return Err(Error::invalid(format!(
            "--data would have no effect, since the store is {} ({}); name another one with --store",
            store.value, store.origin
        )));
    }
    Ok(())
}

/// A command calls a service, or opens a table.
fn refuse_idle_place(url: &Setting<Option<String>>, data: &Origin, store: &Origin) -> Result<()> {
    let idle = [data, store].into_iter().find_map(|origin| match origin {
        Origin::Flag(flag) => Some(*flag),
        _ => None,
    });
    match (&url.origin, idle) {
        (Origin::Flag(_), Some(flag)) => Err(Error::invalid(format!(
            "--url calls a service, so {flag} would have no effect; leave one of them out"
        ))),
        _ => Ok(()),
    }
}

/// Reads a value; an error of `read` states the problem.
fn parse<T>(
    name: &Name,
    setting: Setting<OsString>,
    read: impl Fn(&str, &Origin) -> Result<T, String>,
) -> Result<Setting<T>> {
    let Setting { value, origin } = setting;
    let value = match value.to_str() {
        Some(text) => read(text, &origin),
        None => Err("is not text in UTF-8".to_owned()),
    };
    match value {
        Ok(value) => Ok(Setting { value, origin }),
        Err(why) => Err(Error::invalid(format!("{} {why}", origin.subject(name.key)))),
    }
}

fn optional(
    name: &Name,
    setting: Option<Setting<OsString>>,
    check: fn(&str) -> Result<(), String>,
) -> Result<Setting<Option<String>>> {
    match setting {
        Some(setting) => parse(name, setting, |text, _| check(text).map(|()| Some(text.to_owned()))),
        None => Ok(Setting { value: None, origin: Origin::Default }),
    }
}

fn path(name: &Name, setting: Setting<OsString>) -> Result<Setting<PathBuf>> {
    let Setting { value, origin } = setting;
    if value.is_empty() {
        return Err(Error::invalid(format!("{} is empty", origin.subject(name.key))));
    }
    Ok(Setting { value: origin.locate(Path::new(&value)), origin })
}

fn listen_address(text: &str, _: &Origin) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address such as {DEFAULT_LISTEN}"))
}

fn check_region(text: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if text.is_empty() || !text.chars().all(is_plain) {
        return Err(format!("`{text}` is not a region such as eu-west-1"));
    }
    Ok(())
}

fn check_endpoint(text: &str) -> Result<(), String> {
    let credentials = "credentials are found as AWS's own tools find them";
    host(text, credentials, "http://localhost:8000").map(|_| ())
}

fn check_url(text: &str) -> Result<(), String> {
    let host = host(text, "put the token into ALMANAC_TOKEN", "https://almanac.example.com")?;
    if text.contains(['?', '#']) {
        return Err(format!("`{text}` should be the address of a service, without `?` and `#`"));
    }
    match host.rsplit_once(':') {
        // An address of IPv6 has colons of its own.
        Some((_, port)) if !port.ends_with(']') && port.parse::<u16>().is_err() => {
            Err(format!("`{text}`: there is no port `{port}`"))
        }
        _ => Ok(()),
    }
}

/// Returns the host of an address, with its port.
fn host<'a>(text: &'a str, credentials: &str, example: &str) -> Result<&'a str, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = host.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        // The value is not repeated, since it may hold a secret.
        Some(host) if host.contains('@') => Err(format!("must not hold a user or a password; {credentials}")),
        Some(host) if !host.is_empty() => Ok(host),
        _ => Err(format!("`{text}` is not an address such as {example}")),
    }
}
