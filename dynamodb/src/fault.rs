//! Errors of calls, classified by the next action.
//!
//! DynamoDB has many names for one error. This is the only list of the names.

use std::error::Error as StdError;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use event::{Error, ErrorKind};

/// Meaning of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A condition does not hold.
    Refused,
    /// Too much at once: retry, but slower.
    Throttled,
    /// There was no answer, or no meaningful one: the call may or may not have been executed.
    Unanswered,
    /// These credentials lack the permission.
    Forbidden,
    /// The table, the stream or the shard does not exist.
    Missing,
    /// The table exists already, or is just being changed.
    InUse,
    /// The iterator is too old.
    Expired,
    /// The start of the iterator is no longer available.
    Trimmed,
    /// The request is wrong.
    Invalid,
}

const THROTTLED: [&str; 14] = [
    "LimitExceededException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestLimitExceededException",
    "Throttling",
    "ThrottlingError",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgress",
    "TransactionInProgressException",
];

const FORBIDDEN: [&str; 12] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

const UNANSWERED: [&str; 4] =
    ["InternalFailure", "InternalServerError", "ServiceUnavailable", "ServiceUnavailableException"];

impl Class {
    /// Returns the class of an error code, of a call or of one write in a transaction. `None` for an unknown code.
    pub(super) fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "ConditionalCheckFailed" | "ConditionalCheckFailedException" => Class::Refused,
            "ResourceNotFoundException" | "TableNotFoundException" => Class::Missing,
            "ResourceInUseException" | "TableAlreadyExistsException" => Class::InUse,
            "ExpiredIteratorException" => Class::Expired,
            "TrimmedDataAccessException" => Class::Trimmed,
            _ if THROTTLED.contains(&code) => Class::Throttled,
            _ if FORBIDDEN.contains(&code) => Class::Forbidden,
            _ if UNANSWERED.contains(&code) => Class::Unanswered,
            "ValidationError" | "ValidationException" | "ItemCollectionSizeLimitExceeded" => Class::Invalid,
            _ => return None,
        })
    }

    /// Returns whether a retry of the call may succeed a moment later.
    pub(super) fn is_passing(self) -> bool {
        matches!(self, Class::Throttled | Class::Unanswered)
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Meaning of the failure.
    pub(super) class: Class,
    /// Message of DynamoDB, or the error of the connection; one line.
    pub(super) what: String,
    /// Index of the write of a transaction at fault.
    pub(super) at: Option<usize>,
}

impl Fault {
    /// Creates a fault with a message.
    pub(super) fn new(class: Class, what: impl AsRef<str>) -> Self {
        Self { class, what: one_line(what.as_ref()), at: None }
    }

    /// Classifies an error of the SDK.
    pub(super) fn of<E>(error: &SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        match error {
            SdkError::ServiceError(service) => {
                let status = service.raw().status();
                Self::answered(service.err().code(), service.err().message(), status.is_server_error())
                    .unwrap_or_else(|| {
                        Self::new(Class::Unanswered, format!("an answer {status} without a reason"))
                    })
            }
            SdkError::ConstructionFailure(_) => Self::new(Class::Invalid, innermost(error)),
            // A time-out, a connection that failed or broke, a malformed answer.
            _ => Self::new(Class::Unanswered, innermost(error)),
        }
    }

    /// Classifies an answer by its code; `None` without a code: it does not come from DynamoDB.
    fn answered(code: Option<&str>, message: Option<&str>, server_failed: bool) -> Option<Self> {
        let code = code?;
        let unknown = if server_failed { Class::Unanswered } else { Class::Invalid };
        let class = Class::of_code(code).unwrap_or(unknown);
        Some(match message {
            Some(message) => Self::new(class, format!("{code}: {message}")),
            None => Self::new(class, code),
        })
    }

    /// Returns the error for callers. `subject` is the subject of the call: a table, or an item; for
    /// [`Class::Missing`] it is the table, whose items are all out of reach. (Callers that read a table itself, or
    /// its stream, handle that class first.)
    pub(super) fn error(&self, subject: impl std::fmt::Display) -> Error {
        let kind = match self.class {
            Class::Refused => ErrorKind::Conflict,
            Class::Throttled => ErrorKind::Throttled,
            Class::Unanswered | Class::InUse => ErrorKind::Unavailable,
            Class::Forbidden => ErrorKind::Denied,
            Class::Missing => return Error::unavailable(format!("{subject} is missing ({})", self.what)),
            Class::Expired | Class::Trimmed | Class::Invalid => ErrorKind::Invalid,
        };
        Error::new(kind, format!("{subject}: {}", self.what))
    }
}

/// Returns the first cause. The text around it ("dispatch failure", "client error") is useless.
pub(super) fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    one_line(&error.to_string())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: &str) -> ErrorKind {
        Fault::answered(Some(code), Some("because"), false).unwrap().error("item p / s").kind()
    }

    #[test]
    fn codes_are_sorted_by_the_next_move() {
        let cases = [
            ("ConditionalCheckFailedException", ErrorKind::Conflict),
            ("ProvisionedThroughputExceededException", ErrorKind::Throttled),
            ("RequestLimitExceeded", ErrorKind::Throttled),
            ("ThrottlingException", ErrorKind::Throttled),
            ("TransactionInProgressException", ErrorKind::Throttled),
            ("TransactionConflictException", ErrorKind::Throttled),
            ("InternalServerError", ErrorKind::Unavailable),
            ("AccessDeniedException", ErrorKind::Denied),
            ("ResourceNotFoundException", ErrorKind::Unavailable),
            ("ValidationException", ErrorKind::Invalid),
            ("SomethingNewException", ErrorKind::Invalid),
        ];
        for (code, expected) in cases {
            assert_eq!(kind(code), expected, "{code}");
        }
    }

    #[test]
    fn unknown_server_failure_counts_as_unanswered() {
        let fault = Fault::answered(Some("SomethingNewException"), None, true).unwrap();
        assert_eq!((fault.class, fault.what.as_str()), (Class::Unanswered, "SomethingNewException"));
    }

    #[test]
    fn time_outs_may_have_happened() {
        type Sdk = SdkError<aws_sdk_dynamodb::operation::put_item::PutItemError>;
        let fault = Fault::of(&Sdk::timeout_error("timed out\n after 8s"));
        assert_eq!((fault.class, fault.what.as_str()), (Class::Unanswered, "timed out after 8s"));
        assert_eq!(Fault::of(&Sdk::construction_failure("no region")).class, Class::Invalid);
    }

    #[test]
    fn no_code_stands_in_two_lists() {
        for code in THROTTLED {
            assert_eq!(Class::of_code(code), Some(Class::Throttled));
        }
        for code in FORBIDDEN {
            assert_eq!(Class::of_code(code), Some(Class::Forbidden));
        }
        for code in UNANSWERED {
            assert_eq!(Class::of_code(code), Some(Class::Unanswered));
        }
    }
}
