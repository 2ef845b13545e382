//! Addresses that a client may connect to. A name given by strangers is resolved once, and the very addresses that were checked
//! are connected to, so a name that resolves differently the next time reaches nothing forbidden.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    task::{Context, Poll},
    vec,
};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// Resolver of names that leaves out forbidden addresses.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    resolver: GaiResolver,
    only_public: bool,
}

impl Names {
    /// Allows all addresses.
    pub(crate) fn any() -> Self {
        Self { resolver: GaiResolver::new(), only_public: false }
    }

    /// Allows public addresses alone.
    pub(crate) fn public() -> Self {
        Self { only_public: true, ..Self::any() }
    }

    /// Refuses a forbidden address.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), String> {
        match self.only_public && !is_public(address) {
            false => Ok(()),
            true => Err(REFUSED.to_owned()),
        }
    }
}

/// Reason of a refusal. It omits the address, which the caller may not know.
const REFUSED: &str =
    "it leads to a private address, and those are refused unless --webhooks-to-private is given";

impl Service<Name> for Names {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Service::<Name>::poll_ready(&mut self.resolver, context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.resolver.call(name);
        let names = self.clone();
        Box::pin(async move {
            let good: Vec<_> = found.await?.filter(|found| names.check(found.ip()).is_ok()).collect();
            match good.is_empty() {
                false => Ok(good.into_iter()),
                true => Err(io::Error::new(io::ErrorKind::PermissionDenied, REFUSED)),
            }
        })
    }
}

/// Address in the host of a URL, if it is no name.
pub(crate) fn address_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Returns whether an address is one of the open internet, by the registries of special addresses of IANA (RFC 6890 and its
/// successors).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_of_protocols = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
    let is_of_benchmarks = a == 198 && (b == 18 || b == 19);
    !(a == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_of_protocols
        || is_of_benchmarks
        // Multicast, reserved and broadcast.
        || a >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // All allocated addresses are in 2000::/3, which excludes loopback, link-local, unique local, multicast, IPv4 as IPv6 and
    // NAT64.
    let is_unicast = a & 0xe000 == 0x2000;
    let is_of_protocols = a == 0x2001 && b < 0x0200;
    let is_of_documents = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    let is_6to4 = a == 0x2002;
    is_unicast && !is_of_protocols && !is_of_documents && !is_6to4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_open_internet_are_public() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "3ffe::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        assert_eq!(address_of("[::1]"), Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(address_of("localhost"), None);
    }

    #[tokio::test]
    async fn a_name_leads_to_public_addresses_or_nowhere() {
        let name = || "localhost".parse::<Name>().unwrap();
        assert!(Names::any().call(name()).await.unwrap().all(|found| found.ip().is_loopback()));
        let refused = Names::public().call(name()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
