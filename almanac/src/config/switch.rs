//! Switches with the values `on` and `off`.

use std::{fmt, str::FromStr};

/// A switch; true for `on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl Switch {
    /// Switched on.
    pub(crate) const ON: Self = Self(true);
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self(true)),
            "off" => Ok(Self(false)),
            _ => Err(format!("`{text}` is neither on nor off")),
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "on" } else { "off" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_read_as_it_is_shown() {
        for switch in [Switch(true), Switch(false)] {
            assert_eq!(switch.to_string().parse(), Ok(switch));
        }
        assert_eq!("yes".parse::<Switch>(), Err("`yes` is neither on nor off".to_owned()));
    }
}
