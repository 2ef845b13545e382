//! Ranges of addresses, such as `10.0.0.0/8`.

use std::{fmt, net::IpAddr, str::FromStr};

use event::{Error, serde_as_text};

/// All addresses with the same leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Returns whether an address is in the range. An IPv4 address written as an IPv6 one is the same address.
    pub fn has(&self, address: IpAddr) -> bool {
        let unused = |all: u8| u32::from(all - self.bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(unused(32)).unwrap_or_default() == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(unused(128)).unwrap_or_default() == 0
            }
            _ => false,
        }
    }

    /// Returns whether all addresses of another range are in it.
    pub fn holds(&self, other: &Self) -> bool {
        let is_alike = self.address.is_ipv4() == other.address.is_ipv4();
        is_alike && self.bits <= other.bits && self.has(other.address)
    }
}

serde_as_text!(Network);

impl FromStr for Network {
    type Err = Error;

    /// # Errors
    /// `Invalid`, when the text is neither an address nor an address with a number of bits.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::invalid(format!("`{text}` is not a range of addresses such as 10.0.0.0/8"));
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse).map_err(|_| wrong())?;
        if bits > all { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_range_contains_only_its_subranges() {
        for (range, other, holds) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/7", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("2001:db8::/32", "2001:db8:1::/48", true),
            ("0.0.0.0/0", "::/0", false),
            ("0.0.0.0/0", "::ffff:0.0.0.0/9", false),
        ] {
            let [range, other] = [range, other].map(|text| text.parse::<Network>().unwrap());
            assert_eq!(range.holds(&other), holds, "{range} {other}");
        }
    }

    #[test]
    fn network_range_contains_only_its_addresses() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
        ] {
            let network: Network = range.parse().unwrap();
            assert!(network.has(inside.parse().unwrap()), "{range} {inside}");
            assert!(!network.has(outside.parse().unwrap()), "{range} {outside}");
            assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().has("203.0.113.9".parse().unwrap()));
        assert!(!"0.0.0.0/0".parse::<Network>().unwrap().has("::1".parse().unwrap()));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "host"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
