//! Storage of the files of exports and lakes: a local folder, or objects of S3 under a prefix.

mod address;
mod fault;
#[cfg(feature = "dynamodb")]
mod keys;
#[cfg(not(feature = "dynamodb"))]
#[path = "depot/keys_of_environment.rs"]
mod keys;
mod objects;
mod wire;

use std::{ffi::OsString, fmt, path::PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};

pub(crate) use self::{address::Address, objects::Objects};

/// Form on the command line.
pub(crate) const FORM: &str = "DIR|s3://BUCKET/PREFIX";

/// Storage of files, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Depot {
    Folder(PathBuf),
    S3(Address),
}

impl Depot {
    /// Parses a name; an error states its problem.
    pub(crate) fn parse(named: OsString) -> Result<Self, String> {
        match named.to_str().and_then(|text| Some((text.split_once("://")?, text))) {
            Some((("s3", rest), text)) => {
                Address::parse(rest).map(Self::S3).map_err(|why| format!("`{text}`: {why}"))
            }
            Some(((scheme, _), _)) => {
                Err(format!("`{scheme}://` is not known; name a folder, or s3://BUCKET/PREFIX"))
            }
            None if named.is_empty() => Err("it has no name".into()),
            None => Ok(Self::Folder(named.into())),
        }
    }

    /// Parser for the command line.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(Self::parse)
    }
}

impl fmt::Display for Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::S3(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_prefixes_are_told_apart() {
        let parse = |text: &str| Depot::parse(text.into());
        for folder in ["out", "/srv/out", "s3:out", "s3/out", "./s3:/out", "a b"] {
            assert_eq!(parse(folder), Ok(Depot::Folder(folder.into())));
        }
        assert_eq!(parse("s3://mine/out/").unwrap().to_string(), "s3://mine/out");
        for (text, says) in [
            ("gs://mine/out", "`gs://` is not known"),
            ("https://mine.s3.amazonaws.com/out", "`https://` is not known"),
            ("S3://mine/out", "`S3://` is not known"),
            ("s3://", "no bucket"),
            ("", "no name"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn folder_name_may_be_invalid_unicode() {
        use std::os::unix::ffi::OsStringExt;
        let name = OsString::from_vec(b"out-\xff".to_vec());
        assert_eq!(Depot::parse(name.clone()), Ok(Depot::Folder(name.into())));
    }
}
