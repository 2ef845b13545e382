//! Gains and costs of the predictions of a binary task.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Error, Result};

/// Maximum gain or cost of a prediction.
const MAX_COST: f64 = 1e100;

/// Gain or cost of a prediction of a binary task, by its class and the real one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Gain of a true positive.
    pub tp: f64,
    /// Gain of a true negative.
    pub tn: f64,
    /// Cost of a false positive.
    pub fp: f64,
    /// Cost of a false negative.
    pub fn_: f64,
}

impl Costs {
    /// Names of the four, in the order in which they are written.
    pub const NAMES: [&str; 4] = ["tp", "tn", "fp", "fn"];

    /// Reads `tp=10,fp=2,fn=50`; missing names are 0.
    ///
    /// # Errors
    /// `Invalid` if a name is unknown or repeated, or a number is malformed or out of range.
    pub fn parse(text: &str) -> Result<Self> {
        let mut found = [None; 4];
        for word in text.split(',') {
            let wrong = || Error::invalid(format!("`{word}` is not of the form NAME=NUMBER"));
            let (name, number) = word.split_once('=').ok_or_else(wrong)?;
            let at = Self::NAMES.iter().position(|known| *known == name.trim()).ok_or_else(|| {
                Error::invalid(format!("`{}` is none of {}", name.trim(), Self::NAMES.join(", ")))
            })?;
            let number: f64 = number.trim().parse().map_err(|_| wrong())?;
            if !(-MAX_COST..=MAX_COST).contains(&number) {
                return Err(Error::invalid(format!("`{word}` is not from -{MAX_COST:e} to {MAX_COST:e}")));
            }
            // Adding zero turns negative zero into zero.
            if found[at].replace(number + 0.0).is_some() {
                return Err(Error::invalid(format!("`{}` is named twice", name.trim())));
            }
        }
        let [tp, tn, fp, fn_] = found.map(Option::unwrap_or_default);
        Ok(Self { tp, tn, fp, fn_ })
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tp, tn, fp, fn_ } = self;
        for (at, (name, number)) in Self::NAMES.iter().zip([tp, tn, fp, fn_]).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={}", short(*number))?;
        }
        Ok(())
    }
}

impl Serialize for Costs {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Costs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

/// Returns the shortest text that is read as the same number.
pub(crate) fn short(number: f64) -> String {
    let (plain, scientific) = (number.to_string(), format!("{number:e}"));
    if scientific.len() < plain.len() { scientific } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_written_as_they_are_read() {
        let costs = Costs::parse("fn=50, tp=10.25,fp = 2").unwrap();
        assert_eq!(costs, Costs { tp: 10.25, tn: 0.0, fp: 2.0, fn_: 50.0 });
        assert_eq!(costs.to_string(), "tp=10.25,tn=0,fp=2,fn=50");
        assert_eq!(Costs::parse(&costs.to_string()).unwrap(), costs);
        let extreme = Costs { tp: 1e100, tn: -f64::MIN_POSITIVE, fp: 0.1 + 0.2, fn_: 1e-7 };
        assert_eq!(
            extreme.to_string(),
            "tp=1e100,tn=-2.2250738585072014e-308,fp=0.30000000000000004,fn=1e-7"
        );
        assert_eq!(Costs::parse(&extreme.to_string()).unwrap(), extreme);
        assert_eq!(Costs::parse("tn=-0").unwrap().to_string(), "tp=0,tn=0,fp=0,fn=0");
        let fails = |text: &str| Costs::parse(text).unwrap_err().to_string();
        for (text, why) in [
            ("", "`` is not of the form NAME=NUMBER"),
            ("tp", "`tp` is not of the form NAME=NUMBER"),
            ("tp=much", "`tp=much` is not of the form NAME=NUMBER"),
            ("tp=1,gain=2", "`gain` is none of tp, tn, fp, fn"),
            ("tp=1,tp=2", "`tp` is named twice"),
            ("tp=NaN", "`tp=NaN` is not from -1e100 to 1e100"),
            ("fn=1e101", "`fn=1e101` is not from -1e100 to 1e100"),
        ] {
            assert_eq!(fails(text), why);
        }
    }
}
