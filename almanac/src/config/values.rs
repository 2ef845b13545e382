//! Types of values: sizes in memory, such as `512MiB`, and switches.

use std::{fmt, str::FromStr};

use query::Bounds;

/// Units, the greatest first.
const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Minimum memory for a query, in bytes.
const LEAST: u64 = 1 << 20;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl Default for Size {
    fn default() -> Self {
        Self(Bounds::default().memory)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = UNITS
            .iter()
            .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))
            .unwrap_or((text, 1));
        let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        match bytes {
            Some(bytes) if bytes >= LEAST => Ok(Self(bytes)),
            _ => Err(format!("`{text}` is not a size such as 512MiB or 2GiB, of at least {}", Self(LEAST))),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, bytes) = UNITS.iter().find(|(_, bytes)| self.0.is_multiple_of(*bytes)).unwrap_or(&("", 1));
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

/// A number of bytes, or `0` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeOrNone(pub(crate) u64);

impl Default for SizeOrNone {
    fn default() -> Self {
        Self(log::segment_cache::DEFAULT_BYTES)
    }
}

impl FromStr for SizeOrNone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "0" => Ok(Self(0)),
            _ => text.parse().map(|Size(bytes)| Self(bytes)).map_err(|why: String| format!("{why}, or 0")),
        }
    }
}

impl fmt::Display for SizeOrNone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0") } else { Size(self.0).fmt(f) }
    }
}

/// A switch with the values `on` and `off`; true for `on`.
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
    fn sizes_are_read_as_they_are_written() {
        for text in ["1MiB", "512MiB", "2GiB", "1025KiB", "1048577"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert_eq!("1048576".parse::<Size>().unwrap().to_string(), "1MiB");
        for text in ["0", "64MiB"] {
            assert_eq!(text.parse::<SizeOrNone>().unwrap().to_string(), text);
        }
        let error = "64".parse::<SizeOrNone>().unwrap_err();
        assert_eq!(error, "`64` is not a size such as 512MiB or 2GiB, of at least 1MiB, or 0");
        for wrong in ["", "MiB", "1 TB", "1GB", "-1MiB", "1KiB", "0", "99999999999GiB", "0.5GiB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_switch_is_read_as_it_is_shown() {
        for switch in [Switch(true), Switch(false)] {
            assert_eq!(switch.to_string().parse(), Ok(switch));
        }
        assert_eq!("yes".parse::<Switch>(), Err("`yes` is neither on nor off".to_owned()));
    }
}
