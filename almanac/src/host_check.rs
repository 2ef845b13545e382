//! Host names of a service without authentication, which only this machine reaches.
//!
//! A page of any site may have its name lead to this machine once it is loaded (DNS rebinding), and the browser then takes the
//! service for that site. The header `Host` reveals it: it names the site.

use std::net::Ipv6Addr;

use axum::{
    extract::Request,
    http::{header::HOST, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use web::Problem;

/// Endings of names that cannot be registered in the public DNS: RFC 6761, RFC 6762, and the resolution of ICANN on `.internal`
/// of 2024.
const PRIVATE: [&str; 3] = [".localhost", ".local", ".internal"];

/// Refuses requests under a name that may belong to somebody other than the owner of this machine.
pub(crate) async fn only_of_this_machine(request: Request, next: Next) -> Response {
    let in_header = || request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default());
    // Browsers always send a name.
    let named = request.uri().authority().map(Authority::as_str).or_else(in_header);
    match named {
        Some(name) if !is_private(name) => refused(name).into_response(),
        _ => next.run(request).await,
    }
}

fn refused(name: &str) -> Problem {
    web::misdirected(format!(
        "this service asks nobody for a token, so it answers under names of this machine alone: localhost, or an address, and not `{name}`; \
         `almanac init` makes a token, and `almanac up --insecure` lets everybody do everything"
    ))
}

/// Returns whether an authority is an address, or a name that cannot be in the public DNS: one without a dot, or under a private
/// domain.
fn is_private(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host();
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_number = |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit());
    // Browsers take a name whose last label is a number for an address.
    !host.contains('.')
        || host.rsplit('.').next().is_some_and(is_number)
        || PRIVATE.iter().any(|end| host.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_host_names_differ_from_public_dns_names() {
        let own = [
            "localhost",
            "localhost:8787",
            "LOCALHOST.:8787",
            "127.0.0.1:8787",
            "[::1]:8787",
            "laptop:8787",
            "almanac.localhost",
            "laptop.local:80",
            "host.docker.internal:8787",
        ];
        for name in own {
            assert!(is_private(name), "{name}");
        }
        let foreign = [
            "evil.com",
            "evil.com:8787",
            "evil.com.",
            "localhost.evil.com:8787",
            "127.0.0.1.nip.io:8787",
            "local.example",
            "me@evil.com:8787",
            "[evil.com]:8787",
            "",
            "a b",
        ];
        for name in foreign {
            assert!(!is_private(name), "{name}");
        }
    }
}
