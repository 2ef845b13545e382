//! Limits of a token, besides the roles of its principal.

use std::{collections::BTreeSet, net::IpAddr};

use catalog::Quota;
use event::{Error, Kind, Result, Right, Rights};
use log::key::Scope;
use serde::{Deserialize, Serialize};

use crate::network::Network;

/// Maximum entries in one list of limits.
pub const MAX_LISTED: usize = 100;

/// Limits of a token. `None` stands for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Categories and workspaces.
    pub scopes: Option<BTreeSet<Scope>>,
    /// Rights.
    pub rights: Option<BTreeSet<Right>>,
    /// Kinds of events.
    pub kinds: Option<Vec<Kind>>,
    /// Addresses of the caller.
    pub networks: Option<Vec<Network>>,
    /// Quota of appends.
    #[serde(rename = "limits", default, skip_serializing_if = "Quota::is_empty")]
    pub quota: Quota,
}

impl Limits {
    /// Rights within the limits.
    pub fn rights(&self) -> Rights {
        self.rights.as_ref().map_or_else(Rights::all, |rights| rights.iter().copied().collect())
    }

    /// Returns whether events of a kind may be appended and read.
    pub fn has_kind(&self, kind: Kind) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }

    /// Returns whether it may be used from an address. An unknown address is in no range.
    pub fn has_address(&self, address: Option<IpAddr>) -> bool {
        let Some(networks) = &self.networks else { return true };
        address.is_some_and(|address| networks.iter().any(|network| network.has(address)))
    }

    /// Checks the length of each list.
    ///
    /// # Errors
    /// `Invalid`, naming the list.
    pub fn check(&self) -> Result<()> {
        let lengths = [
            ("scopes", self.scopes.as_ref().map(BTreeSet::len)),
            ("rights", self.rights.as_ref().map(BTreeSet::len)),
            ("kinds", self.kinds.as_ref().map(Vec::len)),
            ("addresses", self.networks.as_ref().map(Vec::len)),
        ];
        match lengths
            .iter()
            .find(|(_, length)| length.is_some_and(|length| !(1..=MAX_LISTED).contains(&length)))
        {
            Some((name, _)) => {
                Err(Error::invalid(format!("a token is limited to 1 to {MAX_LISTED} {name}, or not at all")))
            }
            None => Ok(()),
        }
    }

    /// Limits of a token made with one of the limits `maker`: missing limits are taken from there, and given ones must be within
    /// it.
    ///
    /// # Errors
    /// The limit that is exceeded, in a sentence.
    pub(crate) fn within(self, maker: &Self) -> std::result::Result<Self, String> {
        let scope =
            |scope: &Scope| scope.entity().map_or_else(|| "the server".to_owned(), |at| at.to_string());
        let quota = self.quota.within(&maker.quota);
        Ok(Self {
            scopes: narrowed("workspaces and categories", (self.scopes, &maker.scopes), |asked, own| {
                asked.difference(own).next().map(scope)
            })?,
            rights: narrowed("rights", (self.rights, &maker.rights), |asked, own| {
                asked.difference(own).next().map(ToString::to_string)
            })?,
            kinds: narrowed("kinds", (self.kinds, &maker.kinds), |asked, own| {
                asked.iter().find(|kind| !own.contains(kind)).map(ToString::to_string)
            })?,
            networks: narrowed("addresses", (self.networks, &maker.networks), |asked, own| {
                let is_within = |network: &Network| own.iter().any(|own| own.holds(network));
                asked.iter().find(|network| !is_within(network)).map(ToString::to_string)
            })?,
            quota: quota.map_err(|limit| {
                let most = "is above that of the token that makes it";
                format!("quota: the limit `{}` {most}", limit.name)
            })?,
        })
    }
}

/// List of the limits of a new token: the requested one, else that of its maker. `beyond` finds an entry of the first that is not
/// in the second.
fn narrowed<T: Clone>(
    name: &str,
    (asked, maker): (Option<T>, &Option<T>),
    beyond: impl FnOnce(&T, &T) -> Option<String>,
) -> std::result::Result<Option<T>, String> {
    let Some(maker) = maker else { return Ok(asked) };
    let Some(asked) = asked else { return Ok(Some(maker.clone())) };
    match beyond(&asked, maker) {
        Some(what) => {
            Err(format!("{name}: the token that makes this one is not for {what}, so this one cannot be"))
        }
        None => Ok(Some(asked)),
    }
}

#[cfg(test)]
mod tests {
    use event::Id;

    use super::*;

    fn some<T: Ord, const N: usize>(all: [T; N]) -> Option<BTreeSet<T>> {
        Some(BTreeSet::from(all))
    }

    fn quota(limits: &[(&str, u64)]) -> Quota {
        let mut quota = Quota::default();
        limits.iter().for_each(|(name, most)| quota.set(name, Some(*most)).unwrap());
        quota
    }

    fn networks(texts: &[&str]) -> Option<Vec<Network>> {
        Some(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn who_is_limited_gives_no_more() {
        let [own, other] = [(); 2].map(|()| Scope::Workspace(Id::new(event::Timestamp::default())));
        let maker = Limits {
            scopes: some([own.clone()]),
            rights: some([Right::Read, Right::Admin]),
            kinds: Some(vec![Kind::Metrics, Kind::Outcomes]),
            networks: networks(&["10.0.0.0/8"]),
            quota: quota(&[("rows_per_day", 7)]),
        };
        assert_eq!(
            Limits::default().within(&maker),
            Ok(maker.clone()),
            "what is not named is as the maker's"
        );
        assert_eq!(
            maker.clone().within(&Limits::default()),
            Ok(maker.clone()),
            "who is not limited gives all"
        );
        let less = Limits {
            rights: some([Right::Read]),
            kinds: Some(vec![Kind::Metrics]),
            networks: networks(&["10.1.0.0/16"]),
            quota: quota(&[("rows_per_day", 6), ("rows_per_second", 1)]),
            ..maker.clone()
        };
        assert_eq!(less.clone().within(&maker), Ok(less));
        let none = Limits::default;
        for (name, beyond) in [
            ("workspaces and categories", Limits { scopes: some([own, other]), ..none() }),
            ("rights", Limits { rights: some([Right::Read, Right::Append]), ..none() }),
            ("kinds", Limits { kinds: Some(vec![Kind::Metrics, Kind::Releases]), ..none() }),
            ("addresses", Limits { networks: networks(&["10.1.0.0/16", "0.0.0.0/0"]), ..none() }),
            ("quota", Limits { quota: quota(&[("rows_per_day", 8)]), ..none() }),
        ] {
            let said = beyond.within(&maker).unwrap_err();
            assert!(said.starts_with(&format!("{name}: ")), "{said}");
        }
    }
}
