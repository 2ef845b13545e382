//! Errors of S3, with advice.

use std::error::Error as StdError;

use event::{Error, ErrorKind};
use object_store::Error as Fault;

use super::Address;
use crate::fetch::root;

/// Wraps an error of ours for the client of S3.
pub(super) fn in_store(error: Error) -> Fault {
    Fault::Generic { store: "S3", source: Box::new(error) }
}

/// Error of a file that cannot be read or written; an empty name stands for all of them.
pub(super) fn failed(address: &Address, name: &str, error: Fault) -> Error {
    let chain: Vec<&(dyn StdError + 'static)> = chain(&error).collect();
    if let Some(ours) = chain.iter().find_map(|error| error.downcast_ref::<Error>()) {
        return ours.clone();
    }
    let text: String = chain.iter().map(|error| format!("{error} ")).collect();
    let (code, said) = (tag(&text, "Code"), tag(&text, "Message"));
    let shown = if name.is_empty() { address.to_string() } else { address.of(name) };
    let said = match (code, said) {
        (Some(code), Some(said)) => format!(" ({code}: {})", said.trim_end_matches('.')),
        (Some(code), None) => format!(" ({code})"),
        _ => String::new(),
    };
    let bucket = address.bucket();
    match (&error, code) {
        (_, Some("NoSuchBucket")) => {
            Error::not_found(format!("{shown}: there is no bucket `{bucket}`; make it, or name another one"))
        }
        (
            _,
            Some("AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException"),
        ) => region(&shown, &said),
        _ if text.contains("incorrectly configured region") => region(&shown, &said),
        (Fault::NotFound { .. }, _) => Error::not_found(format!("{shown} is not there")),
        (
            _,
            Some(
                "ExpiredToken"
                | "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "InvalidToken"
                | "TokenRefreshRequired",
            ),
        ) => Error::new(
            ErrorKind::Denied,
            format!(
                "{shown}: the AWS credentials are not taken{said}; give others, or look at the clock of this machine"
            ),
        ),
        (Fault::PermissionDenied { .. } | Fault::Unauthenticated { .. }, _) | (_, Some("AccessDenied")) => {
            Error::new(
                ErrorKind::Denied,
                format!(
                    "{shown}: access is denied{said}; the credentials need s3:ListBucket on the bucket `{bucket}`, and s3:GetObject, s3:PutObject, \
                 s3:DeleteObject and s3:AbortMultipartUpload on what is in it"
                ),
            )
        }
        _ if said.is_empty() => {
            Error::unavailable(format!("{shown} cannot be read or written: {}", root(&error)))
        }
        _ => Error::unavailable(format!("{shown} cannot be read or written{said}")),
    }
}

fn region(shown: &str, said: &str) -> Error {
    Error::invalid(format!("{shown}: the bucket is in another region{said}; set AWS_REGION to that one"))
}

/// An error and its causes.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Content of a tag in an answer of S3.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address::parse("mine/out").unwrap()
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
    }

    #[test]
    fn what_is_not_answered_says_why() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let error = failed(&address(), "", Fault::Generic { store: "S3", source: Box::new(refused) });
        assert_eq!(error.to_string(), "s3://mine/out cannot be read or written: connection refused");
    }
}
