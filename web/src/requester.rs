//! The sender of a request, for handlers.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::{extract::FromRequestParts, http::request::Parts};

/// The sender of a request, with the id by which the request is found in logs. It travels in the extensions of the request: the
/// listener notes the address, the outermost layer the id, and the guard the principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The user or system as people write it, such as `user:ann`; `preset` for the token that the service was started with;
    /// `None`, if callers need not identify themselves.
    pub principal: Option<Arc<str>>,
    /// The id of the token, if it is stored in the table.
    pub token: Option<Arc<str>>,
    /// True if it may administer the subject of the request.
    pub is_admin: bool,
    /// True if the token is limited to events of some kinds: it gives no access to texts made from events of any kind.
    pub is_of_some_kinds: bool,
    /// The id of the request.
    pub request_id: Arc<str>,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// True if the client called over TLS, as far as is known.
    pub is_encrypted: bool,
}

impl Requester {
    /// Returns true if it may act as an administrator: everybody may, if callers need not identify themselves.
    pub fn may_administer(&self) -> bool {
        self.principal.is_none() || self.is_admin
    }
}

/// Extension of the answer to a request that was refused for its sender. Outer layers take note of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The caller, if it was known.
    pub principal: Option<Arc<str>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Requester {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}
