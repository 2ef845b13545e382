//! Votes in arenas.

use event::{Error, Result};

/// Which of two sides is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// The left one.
    Left,
    /// The right one.
    Right,
    /// Neither.
    Tie,
}

impl Vote {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Left, Self::Right, Self::Tie];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Tie => "tie",
        }
    }

    /// The vote of a name.
    ///
    /// # Errors
    /// `Invalid`, for a name that is none.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|vote| vote.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("vote: `{name}` is none of {known}"))
        })
    }

    /// What the left and the right side get: 1 for a win, 0 for a loss, a half for a tie.
    pub fn points(self) -> [f64; 2] {
        match self {
            Self::Left => [1.0, 0.0],
            Self::Right => [0.0, 1.0],
            Self::Tie => [0.5, 0.5],
        }
    }
}
