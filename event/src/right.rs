//! Rights that operations require and roles grant.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A right on a workspace, on a category with its workspaces, or on the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Read data.
    Read,
    /// Append events, and count.
    Append,
    /// Review predictions.
    Review,
    /// Change models, releases and settings, and raise alerts.
    Maintain,
    /// Grant roles and tokens, create and delete workspaces.
    Admin,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 5] = [Self::Read, Self::Append, Self::Review, Self::Maintain, Self::Admin];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Append => "append",
            Self::Review => "review",
            Self::Maintain => "maintain",
            Self::Admin => "admin",
        }
    }

    /// Returns the right of a name.
    ///
    /// # Errors
    /// `Invalid`, with the valid names.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no right; there are {known}"))
        })
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of all rights.
    pub fn all() -> Self {
        Right::ALL.into_iter().collect()
    }

    /// Returns whether `right` is in the set.
    pub fn has(self, right: Right) -> bool {
        self.0 & (1 << right as u8) != 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Iterates over the rights, in the order of [`Right::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Self {
        Self(rights.into_iter().fold(0, |set, right| set | 1 << right as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_it_was_made_of() {
        let set: Rights = [Right::Read, Right::Maintain].into_iter().collect();
        assert!(set.has(Right::Read) && set.has(Right::Maintain) && !set.has(Right::Append));
        assert_eq!(set.iter().map(Right::name).collect::<Vec<_>>(), ["read", "maintain"]);
        assert_eq!(set.and([Right::Read, Right::Admin].into_iter().collect()).iter().count(), 1);
        assert_eq!(set.or(Rights::all()), Rights::all());
        assert!(Rights::NONE.is_empty() && !set.is_empty());
        assert_eq!(Right::parse("append").unwrap(), Right::Append);
        assert!(Right::parse("owner").is_err());
    }
}
