//! The configuration file, in TOML.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use event::{Error, Result};
use serde::Deserialize;
use toml::Spanned;

use super::{CONFIG, Origin, Setting, oidc};

/// Keys of the file. Another key is an error.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    store: Option<Spanned<String>>,
    data: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    region: Option<Spanned<String>>,
    endpoint: Option<Spanned<String>>,
    listen: Option<Spanned<String>>,
    log_format: Option<Spanned<String>>,
    query_memory: Option<Spanned<String>>,
    segment_cache_memory: Option<Spanned<String>>,
    feature_sample: Option<Spanned<String>>,
    compact: Option<Spanned<String>>,
    #[serde(default)]
    oidc: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
}

/// Values of a file, each with its line.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) store: Option<Setting<OsString>>,
    pub(super) data: Option<Setting<OsString>>,
    pub(super) url: Option<Setting<OsString>>,
    pub(super) region: Option<Setting<OsString>>,
    pub(super) endpoint: Option<Setting<OsString>>,
    pub(super) listen: Option<Setting<OsString>>,
    pub(super) log_format: Option<Setting<OsString>>,
    pub(super) query_memory: Option<Setting<OsString>>,
    pub(super) segment_cache_memory: Option<Setting<OsString>>,
    pub(super) feature_sample: Option<Setting<OsString>>,
    pub(super) compact: Option<Setting<OsString>>,
    pub(super) oidc: oidc::Values,
}

/// Reads the named file, or `default` if it is there.
///
/// # Errors
/// `Invalid`, when a named file is not there, or a file cannot be parsed.
pub(super) fn read(
    named: Option<Setting<OsString>>,
    default: &Path,
) -> Result<(Setting<Option<PathBuf>>, Keys)> {
    let is_named = named.is_some();
    let (path, origin) = match named {
        Some(Setting { value, origin }) => (PathBuf::from(value), origin),
        None => (default.to_owned(), Origin::Default),
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        // A link that leads nowhere stands for a file that should be read.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named && !path.is_symlink() => {
            return Ok((Setting { value: None, origin }, Keys::default()));
        }
        Err(error) => {
            let subject = if is_named { origin.subject(CONFIG.key) } else { "the configuration".to_owned() };
            let link = fs::read_link(&path).ok().filter(|_| error.kind() == io::ErrorKind::NotFound);
            let link = link.map_or_else(String::new, |to| format!(", a link to {}", to.display()));
            return Err(Error::invalid(format!("{subject}: cannot read {}{link}: {error}", path.display())));
        }
    };
    let keys = parse(&path, &text)?;
    Ok((Setting { value: Some(path), origin }, keys))
}

fn parse(path: &Path, text: &str) -> Result<Keys> {
    let line = |at: usize| line_of(text, at);
    let found: Text = toml::from_str(text).map_err(|error| {
        let problem = toml_problem(path, text, &error);
        Error::invalid(problem.replace(": unknown field", ": unknown key"))
    })?;
    let setting = |value: Option<Spanned<String>>| {
        value.map(|value| {
            let line = line(value.span().start);
            Setting { value: value.into_inner().into(), origin: Origin::File { path: path.to_owned(), line } }
        })
    };
    let mut of_oidc = oidc::Values::new();
    for (name, value) in found.oidc {
        let line = line(name.span().start);
        let wrong = |what: &str| {
            Error::invalid(format!("{}, line {line}: oidc.{}: {what}", path.display(), name.get_ref()))
        };
        let key = oidc::key(name.get_ref()).ok_or_else(|| wrong("unknown key"))?;
        let value = plain(value.into_inner())
            .ok_or_else(|| wrong("neither text, nor a list of texts, nor true or false"))?;
        let origin = Origin::File { path: path.to_owned(), line };
        of_oidc.insert(key, Setting { value: value.into(), origin });
    }
    Ok(Keys {
        store: setting(found.store),
        data: setting(found.data),
        url: setting(found.url),
        region: setting(found.region),
        endpoint: setting(found.endpoint),
        listen: setting(found.listen),
        log_format: setting(found.log_format),
        query_memory: setting(found.query_memory),
        segment_cache_memory: setting(found.segment_cache_memory),
        feature_sample: setting(found.feature_sample),
        compact: setting(found.compact),
        oidc: of_oidc,
    })
}

/// A value in the form of an environment variable.
fn plain(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Array(all) => Some(all.into_iter().map(plain).collect::<Option<Vec<_>>>()?.join(",")),
        _ => None,
    }
}

/// Message of an error in TOML, with the name of the file and the line.
pub(crate) fn toml_problem(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let place = error.span().map_or_else(String::new, |span| format!(", line {}", line_of(text, span.start)));
    format!("{}{place}: {}", path.display(), error.message().replace('\n', " "))
}

/// Line of a byte in a text, counted from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
