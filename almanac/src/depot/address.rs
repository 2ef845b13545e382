//! `s3://bucket/prefix`.

use std::fmt;

use object_store::path::Path;

/// Bucket of S3, and the prefix of the files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    bucket: String,
    prefix: Path,
}

impl Address {
    /// Parses the text after `s3://`; an error states its problem.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
        if bucket.is_empty() {
            return Err("it names no bucket; write s3://BUCKET/PREFIX".into());
        }
        let is_known = |letter: u8| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, b'.' | b'-')
        };
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_known) {
            return Err(format!(
                "`{bucket}` is no name of a bucket: it has 3 to 63 small letters, digits, dots and hyphens"
            ));
        }
        if prefix.starts_with('/') {
            return Err("between two slashes there must be a name".into());
        }
        let prefix = Path::parse(prefix).map_err(|error| error.to_string())?;
        Ok(Self { bucket: bucket.to_owned(), prefix })
    }

    /// Name of the bucket.
    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Key of a file, whose name may hold slashes; the prefix when the name is empty.
    pub(super) fn key(&self, name: &str) -> Path {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.prefix.clone(), |key, part| key.join(part))
    }

    /// Address of a file.
    pub(crate) fn of(&self, name: &str) -> String {
        format!("s3://{}/{}", self.bucket, self.key(name))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix.as_ref() {
            "" => write!(f, "s3://{}", self.bucket),
            prefix => write!(f, "s3://{}/{prefix}", self.bucket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_under_the_prefix() {
        for (text, shown, file) in [
            ("mine", "s3://mine", "s3://mine/a/day=1/b.json"),
            ("mine/", "s3://mine", "s3://mine/a/day=1/b.json"),
            ("my.bucket-1/x/y z/", "s3://my.bucket-1/x/y z", "s3://my.bucket-1/x/y z/a/day=1/b.json"),
            // Percent-encoded text stays as it is.
            ("mine/a%20b", "s3://mine/a%20b", "s3://mine/a%20b/a/day=1/b.json"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.of("a/day=1/b.json"), file);
            assert_eq!(Address::parse(shown.strip_prefix("s3://").unwrap()).unwrap(), address);
        }
        assert_eq!(Address::parse("mine/out").unwrap().key("").as_ref(), "out");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, says) in [
            ("", "no bucket"),
            ("/out", "no bucket"),
            ("Mine/out", "no name of a bucket"),
            ("ab", "no name of a bucket"),
            ("my_bucket", "no name of a bucket"),
            ("user@mine/out", "no name of a bucket"),
            ("mine//out", "between two slashes"),
            ("mine/out//", "empty path segment"),
            ("mine/../out", ".."),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.to_lowercase().contains(says), "{text}: {error}");
        }
    }
}
