//! Votes in arenas.

use event::{Error, Result};

/// Better one of two sides.
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
    /// All votes.
    pub const ALL: [Self; 3] = [Self::Left, Self::Right, Self::Tie];

    /// Name of the vote.
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Tie => "tie",
        }
    }

    /// Finds the vote of a name.
    ///
    /// # Errors
    /// `Invalid`, for an unknown name.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|vote| vote.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("vote: `{name}` is none of {known}"))
        })
    }

    /// Points of the left and the right side: 1 for a win, 0 for a loss, a half for a tie.
    pub fn points(self) -> [f64; 2] {
        match self {
            Self::Left => [1.0, 0.0],
            Self::Right => [0.0, 1.0],
            Self::Tie => [0.5, 0.5],
        }
    }
}
