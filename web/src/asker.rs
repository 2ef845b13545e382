//! Who asks: what handlers need to know of it.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::{extract::FromRequestParts, http::request::Parts};

/// Who sent a request, and by which id the request is found in logs. It travels in the extensions of the request: the
/// listener notes the address, the outermost layer the id, and the guard the principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The user or system as people write it, such as `user:ann`; `preset` for the token that the service was started with; `None`,
    /// where callers are not asked who they are.
    pub principal: Option<Arc<str>>,
    /// The id of the token, if it is one of the table.
    pub token: Option<Arc<str>>,
    /// Whether it may administer what the request is about.
    pub is_admin: bool,
    /// Whether the token is for events of some kinds alone: texts that are made of events of any kind are not for it.
    pub is_of_some_kinds: bool,
    /// The id of the request.
    pub request_id: Arc<str>,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// Whether the client called over TLS, as far as is known.
    pub is_encrypted: bool,
}

impl Asker {
    /// Whether it may do what only administrators may: everybody may, where callers are not asked who they are.
    pub fn may_administer(&self) -> bool {
        self.principal.is_none() || self.is_admin
    }
}

/// What an answer carries whose request was refused for who sent it. Outer layers take note of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The caller, if it was known.
    pub principal: Option<Arc<str>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}
