//! Roles of principals, and the rights that each gives.

use event::{Error, Result, Right, Rights};

/// Role of a principal on a workspace, on a category with all its workspaces, or on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Reader,
    /// Reads and appends events.
    Writer,
    /// Reads and reviews predictions.
    Reviewer,
    /// Has the rights of readers, writers and reviewers; changes releases, models and settings, and raises alerts.
    Maintainer,
    /// Does everything.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Reader, Self::Writer, Self::Reviewer, Self::Maintainer, Self::Admin];

    /// Name and rights of the role.
    fn declared(self) -> (&'static str, &'static [Right]) {
        match self {
            Self::Reader => ("reader", &[Right::Read]),
            Self::Writer => ("writer", &[Right::Read, Right::Append]),
            Self::Reviewer => ("reviewer", &[Right::Read, Right::Review]),
            Self::Maintainer => ("maintainer", &[Right::Read, Right::Append, Right::Review, Right::Maintain]),
            Self::Admin => ("admin", &Right::ALL),
        }
    }

    /// Name of the role.
    pub fn name(self) -> &'static str {
        self.declared().0
    }

    /// Rights of the role.
    pub fn rights(self) -> Rights {
        self.declared().1.iter().copied().collect()
    }

    /// Finds the role of a name.
    ///
    /// # Errors
    /// `Invalid`, naming the existing ones.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no role; there are {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_reads_and_only_admin_has_all() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()).unwrap(), role);
            assert!(role.rights().has(Right::Read));
            assert_eq!(role.rights() == Rights::all(), role == Role::Admin);
        }
        assert!(Role::parse("root").is_err());
    }
}
