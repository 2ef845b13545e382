//! Selection of the predictions of its key that an outcome without a date judges.

/// Selection among the eligible predictions of its key that an outcome without a date judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppliesTo {
    /// Latest prediction.
    #[default]
    Latest,
    /// All predictions.
    All,
}

impl AppliesTo {
    /// Names of both.
    pub const NAMES: [&'static str; 2] = [Self::Latest.name(), Self::All.name()];

    /// Returns its name in events.
    pub const fn name(self) -> &'static str {
        match self {
            AppliesTo::Latest => "latest",
            AppliesTo::All => "all",
        }
    }

    /// Returns the selection of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Latest, Self::All].into_iter().find(|applies_to| applies_to.name() == name)
    }
}
