//! Addresses of clients behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use ::access::Network;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Maximum addresses that are examined.
const MAX_HOPS: usize = 32;

/// Trusted proxies. Each of them appends to `X-Forwarded-For` the address that it was called from; addresses before the last
/// untrusted one may be invented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<Network>);

impl Proxies {
    /// Trusts the proxies of these ranges.
    pub fn new(trusted: Vec<Network>) -> Self {
        Self(trusted)
    }

    /// Address of the client of a request that came from `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if self.0.is_empty() {
            return client;
        }
        let values: Vec<&str> =
            headers.get_all(FORWARDED_FOR).iter().map(|value| value.to_str().unwrap_or_default()).collect();
        let mut hops = values.iter().rev().flat_map(|value| value.rsplit(',')).take(MAX_HOPS);
        while self.is_trusted(client) {
            // An invalid address ends the chain: the proxy after it is the last one known.
            let Some(before) = hops.next().and_then(|hop| address(hop.trim())) else { break };
            client = before;
        }
        client
    }

    /// Returns whether a trusted proxy sent a request that its client encrypted: true unless the proxy states plain HTTP.
    pub(crate) fn is_encrypted(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"http");
        self.is_trusted(peer.to_canonical()) && !headers.get_all(FORWARDED_PROTO).iter().any(is_plain)
    }

    /// Returns whether an address is that of a trusted proxy.
    pub(crate) fn is_trusted(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.has(address))
    }
}

/// Parses an address as proxies write it, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    Some(bare.parse().or_else(|_| with_port()).ok()?.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_last_address_that_is_no_proxy() {
        let proxies = Proxies::new(vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()]);
        let client = |peer: &str, values: &[&str]| {
            let values = values.iter().map(|value| (FORWARDED_FOR, value.parse().unwrap()));
            proxies.client(peer.parse().unwrap(), &values.collect::<HeaderMap>()).to_string()
        };
        for (peer, values, expected) in [
            ("203.0.113.9", &["192.0.2.1"][..], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["127.0.0.1, 192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["192.0.2.1, 10.0.0.2"], "192.0.2.1"),
            ("10.0.0.1", &["127.0.0.1", "192.0.2.1,10.0.0.2"], "192.0.2.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["192.0.2.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[""], "10.0.0.1"),
            ("::ffff:10.0.0.1", &["::ffff:192.0.2.1"], "192.0.2.1"),
            ("::1", &["[2001:db8::7]:443"], "2001:db8::7"),
            ("::1", &["192.0.2.1:8080"], "192.0.2.1"),
        ] {
            assert_eq!(client(peer, values), expected, "{peer} {values:?}");
        }
        let long = vec!["10.0.0.2"; 1_000].join(",");
        assert_eq!(client("10.0.0.1", &[&long]), "10.0.0.2");
        let nobody = Proxies::default();
        let headers: HeaderMap = [(FORWARDED_FOR, "192.0.2.1".parse().unwrap())].into_iter().collect();
        assert_eq!(nobody.client("127.0.0.1".parse().unwrap(), &headers).to_string(), "127.0.0.1");
    }

    #[test]
    fn trusted_proxy_reports_unencrypted_clients() {
        let proxies = Proxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
        let is_encrypted = |peer: &str, said: &[&str]| {
            let said = said.iter().map(|value| (FORWARDED_PROTO, value.parse().unwrap()));
            proxies.is_encrypted(peer.parse().unwrap(), &said.collect::<HeaderMap>())
        };
        assert!(is_encrypted("10.0.0.1", &["https"]) && is_encrypted("::ffff:10.0.0.1", &[]));
        assert!(!is_encrypted("10.0.0.1", &["http"]) && !is_encrypted("10.0.0.1", &["https", "HTTP"]));
        assert!(!is_encrypted("192.0.2.1", &["https"]), "anybody can say so");
    }
}
