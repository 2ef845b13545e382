//! Which predictions of its key an outcome judges that does not say it.

/// Which of the predictions of its key, of those that may be judged, an outcome without a date judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judges {
    /// The latest one.
    #[default]
    Latest,
    /// All of them.
    All,
}

impl Judges {
    /// The names of both.
    pub const NAMES: [&'static str; 2] = [Self::Latest.name(), Self::All.name()];

    /// Its name in events.
    pub const fn name(self) -> &'static str {
        match self {
            Judges::Latest => "latest",
            Judges::All => "all",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Latest, Self::All].into_iter().find(|judges| judges.name() == name)
    }
}
