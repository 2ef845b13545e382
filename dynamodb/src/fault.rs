//! What went wrong in a call, sorted by what to do next.
//!
//! DynamoDB spells one and the same thing in many ways. Here is the only list of the spellings.

use std::error::Error as StdError;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use event::{Error, ErrorKind};

/// What a failed call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A condition does not hold.
    Refused,
    /// Too much at once: again, but slower.
    Throttled,
    /// There was no answer, or none that tells anything: it may have happened or not.
    Unanswered,
    /// These credentials may not do that.
    Forbidden,
    /// The table, the stream or the shard does not exist.
    Missing,
    /// The table is there already, or is just being changed.
    InUse,
    /// The iterator is too old.
    Expired,
    /// What the iterator should begin with is no longer kept.
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
    /// The class of an error code, of a call or of one write in a transaction. `None` for a code
    /// that is not known here.
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

    /// Whether the same call may succeed a moment later.
    pub(super) fn is_passing(self) -> bool {
        matches!(self, Class::Throttled | Class::Unanswered)
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What it means.
    pub(super) class: Class,
    /// What DynamoDB says, or what became of the connection; one line.
    pub(super) what: String,
    /// Which write of a transaction is at fault.
    pub(super) at: Option<usize>,
}

impl Fault {
    /// A fault that says `what`.
    pub(super) fn new(class: Class, what: impl AsRef<str>) -> Self {
        Self { class, what: one_line(what.as_ref()), at: None }
    }

    /// What an error of the SDK means.
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
            // A time-out, a connection that failed or broke, an answer that makes no sense.
            _ => Self::new(Class::Unanswered, innermost(error)),
        }
    }

    /// `None` for an answer without a code: it does not come from DynamoDB.
    fn answered(code: Option<&str>, message: Option<&str>, server_failed: bool) -> Option<Self> {
        let code = code?;
        let unknown = if server_failed { Class::Unanswered } else { Class::Invalid };
        let class = Class::of_code(code).unwrap_or(unknown);
        Some(match message {
            Some(message) => Self::new(class, format!("{code}: {message}")),
            None => Self::new(class, code),
        })
    }

    /// The error that callers see. `subject` is what the call was about: a table, or an item; when something is
    /// missing, that is the table, of which all items are out of reach. (Who looks at a table itself, or at its stream,
    /// asks for the class before.)
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

/// The first cause. What stands around it ("dispatch failure", "client error") tells nothing.
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
    fn an_unknown_failure_of_the_server_is_no_fault_of_the_caller() {
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
