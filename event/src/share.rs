//! Deterministic sampling of keys.

use std::{fmt, str::FromStr};

use crate::{Columns, Error, Kind};

/// Share of all keys, in [0, 1]. It depends only on the key whether it is in the share, and each share contains all
/// smaller ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// All keys.
    pub const ALL: Self = Self(1.0);

    /// Returns whether a key is in the share: its hash, as a share of all hashes, is less. The hash is the finalizer
    /// of MurmurHash3 (Appleby, 2011) over the CRC-32 of the key, so it is independent of the lane.
    pub fn has(self, key: &str) -> bool {
        let mut hash = crc32fast::hash(key.as_bytes());
        for (shift, factor) in [(16, 0x85eb_ca6b_u32), (13, 0xc2b2_ae35)] {
            hash = (hash ^ (hash >> shift)).wrapping_mul(factor);
        }
        f64::from(hash ^ (hash >> 16)) < self.0 * 4_294_967_296.0
    }

    /// Removes the [sketched](Kind::sketched) columns, the features, from events whose keys are not in the share. A
    /// column without values is dropped.
    pub fn thin(self, kind: Kind, columns: &mut Columns) {
        if self == Self::ALL || columns.columns.iter().all(|column| kind.sketched(&column.name).is_none()) {
            return;
        }
        let Some(keys) = columns.column("key") else { return };
        let stays: Vec<bool> =
            (0..columns.rows).map(|row| keys.text(row).is_some_and(|key| self.has(key))).collect();
        for column in columns.columns.iter_mut().filter(|column| kind.sketched(&column.name).is_some()) {
            match &mut column.valid {
                None => column.valid = Some(stays.clone()),
                Some(valid) => valid.iter_mut().zip(&stays).for_each(|(valid, stays)| *valid &= stays),
            }
        }
        let rows = columns.rows;
        columns.columns.retain(|column| kind.sketched(&column.name).is_none() || column.nulls() < rows);
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromStr for Share {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err(Error::invalid(format!("`{text}` is not a share from 0 to 1, such as 0.1"))),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Values, lane::lane_of};

    fn share(text: &str) -> Share {
        text.parse().unwrap()
    }

    #[test]
    fn share_is_between_0_and_1() {
        for text in ["0", "0.1", "1", "0.000001"] {
            assert_eq!(share(text).to_string(), text);
        }
        for wrong in ["", "-0.1", "1.01", "NaN", "inf", "10%"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }

    /// Stored events depend on the keys of a share: they must not change.
    #[test]
    fn keys_in_share_stay_stable() {
        let tenth: Vec<u32> = (0..60).filter(|n| share("0.1").has(&format!("loan-{n}"))).collect();
        assert_eq!(tenth, [1, 8, 9, 12, 15, 27, 34, 53, 56]);
    }

    #[test]
    fn shares_are_even_across_lanes_and_nested() {
        let keys: Vec<String> = (0..40_000).map(|n| format!("flight-{n}")).collect();
        for (text, expected) in [("0", 0.0), ("0.01", 0.01), ("0.3", 0.3), ("1", 1.0)] {
            for lane in 0..4 {
                let of_lane = keys.iter().filter(|key| lane_of(key, 4) == lane);
                let (all, some) = of_lane
                    .fold((0, 0), |(all, some), key| (all + 1, some + usize::from(share(text).has(key))));
                let found = f64::from(some as u32) / f64::from(all as u32);
                assert!((found - expected).abs() < 0.02, "{text} of lane {lane}: {found}");
            }
        }
        assert!(keys.iter().all(|key| !share("0.01").has(key) || share("0.3").has(key)));
    }

    #[test]
    fn events_outside_share_lose_only_their_features() {
        let keys: Vec<String> = (0..100).map(|n| format!("loan-{n}")).collect();
        let numbers = |n: f64| Values::Float(vec![n; 100]);
        let mut valid = vec![true; 100];
        valid[0] = false;
        let all = Columns {
            rows: 100,
            columns: vec![
                Column::new("key", Values::Text(keys.iter().map(String::as_str).collect())),
                Column::new("score", numbers(0.5)),
                Column { valid: Some(valid), ..Column::new("feature.age", numbers(30.0)) },
            ],
        };
        let mut some = all.clone();
        share("0.5").thin(Kind::Predictions, &mut some);
        let ages = some.column("feature.age").unwrap();
        assert!(
            keys.iter()
                .enumerate()
                .all(|(row, key)| ages.is_valid(row) == (share("0.5").has(key) && row > 0))
        );
        assert_eq!((some.columns[1].nulls(), some.rows), (0, 100));
        share("0").thin(Kind::Predictions, &mut some);
        assert_eq!(
            some.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(),
            ["key", "score"]
        );
        let mut same = all.clone();
        Share::ALL.thin(Kind::Predictions, &mut same);
        share("0").thin(Kind::Outcomes, &mut same);
        assert_eq!(same.column("feature.age").unwrap().nulls(), 1);
    }
}
