//! What AWS takes: one dated table, of which a file can replace prices.

use std::{collections::BTreeMap, path::Path};

use event::{Error, Result};

/// The region of the prices in the table.
pub(super) const REGION: &str = "us-east-1";
/// When they were last known.
pub(super) const AS_OF: &str = "2025-11";

/// Something that is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Paid {
    /// A million write request units of DynamoDB on demand.
    Write,
    /// A million read request units.
    Read,
    /// A gigabyte (10^9 bytes) that the table holds for a month.
    Storage,
    /// A gigabyte of the table for a month, so that it can be restored to each second of the last 35 days.
    Recovery,
    /// A million calls that read the stream.
    Stream,
    /// An hour of a virtual CPU of Fargate, Linux on x86.
    Cpu,
    /// An hour of a gigabyte of memory of Fargate.
    Memory,
}

/// Each with its name in a file of prices, and its list price in US dollars without tax and free tiers. Amazon gives
/// them at aws.amazon.com/dynamodb/pricing/on-demand and aws.amazon.com/fargate/pricing.
const TABLE: [(Paid, &str, f64); 7] = [
    (Paid::Write, "write_million", 0.625),
    (Paid::Read, "read_million", 0.125),
    (Paid::Storage, "storage_gb_month", 0.25),
    (Paid::Recovery, "recovery_gb_month", 0.20),
    (Paid::Stream, "stream_million", 0.20),
    (Paid::Cpu, "vcpu_hour", 0.04048),
    (Paid::Memory, "memory_gb_hour", 0.004445),
];

/// Prices by which a bill is made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prices {
    usd: BTreeMap<Paid, f64>,
    /// Of which region and date they are.
    pub(super) of: String,
}

impl Prices {
    /// The prices of `region`: those of the table, with what `file` replaces.
    ///
    /// # Errors
    /// `Invalid`, when the file is none, or when a region is not that of the table and the file does not give all.
    pub(super) fn of(region: Option<&str>, file: Option<&Path>) -> Result<Self> {
        let given = file.map(read).transpose()?.unwrap_or_default();
        let region = region.unwrap_or(REGION);
        let missing = |name: &&str| !given.contains_key(*name);
        let missing: Vec<&str> = TABLE.iter().map(|(_, name, _)| *name).filter(missing).collect();
        if region != REGION && !missing.is_empty() {
            return Err(Error::invalid(format!(
                "only the prices of {REGION} are known, not those of {region}; give {} in a file with --prices, or take \
                 --region {REGION}",
                missing.join(", ")
            )));
        }
        let price = |(paid, name, usd): (Paid, &str, f64)| (paid, given.get(name).copied().unwrap_or(usd));
        let of = match (given.len(), file) {
            (0, _) | (_, None) => format!("list prices of {REGION} as of {AS_OF}"),
            (_, Some(file)) if missing.is_empty() => format!("prices of {region}, from {}", file.display()),
            (_, Some(file)) => {
                format!("list prices of {REGION} as of {AS_OF}, but for those in {}", file.display())
            }
        };
        Ok(Self { usd: TABLE.map(price).into(), of })
    }

    /// The price of one, in US dollars.
    pub(super) fn usd(&self, paid: Paid) -> f64 {
        self.usd.get(&paid).copied().unwrap_or_default()
    }

    /// All of them by their names, as a file gives them.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        TABLE.iter().map(|(paid, name, _)| (*name, self.usd(*paid)))
    }
}

/// The prices in a file of TOML: a number for each name.
fn read(path: &Path) -> Result<BTreeMap<String, f64>> {
    let wrong = |why: String| Error::invalid(format!("{} {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let given: toml::Table =
        text.parse().map_err(|error: toml::de::Error| wrong(format!("is not TOML: {}", error.message())))?;
    let names = || TABLE.map(|(_, name, _)| name).join(", ");
    let price = |(name, value): (String, toml::Value)| {
        if !TABLE.iter().any(|(_, known, _)| *known == name) {
            return Err(wrong(format!("has `{name}`, and prices are called {}", names())));
        }
        let usd = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        match usd.filter(|usd| usd.is_finite() && *usd >= 0.0) {
            Some(usd) => Ok((name, usd)),
            None => Err(wrong(format!("gives `{name}` otherwise than as a number of dollars, 0 or more"))),
        }
    };
    given.into_iter().map(price).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `terraform/README.md` works its example out with the same prices.
    #[test]
    fn the_example_of_the_module_has_the_same_prices() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../terraform/README.md")).unwrap();
        let (_, section) = page.split_once("## What it costs").unwrap();
        for (paid, in_words) in [
            (Paid::Write, "units / 1000 x $0.625 / 1 million"),
            (Paid::Read, "units / 1000 x $0.125 / 1 million"),
            (Paid::Storage, "18 bytes x $0.25 / 1000 million bytes"),
            (Paid::Recovery, "18 bytes x $0.20 / 1000 million bytes"),
            (Paid::Stream, "million s x $0.2 / 1 million"),
            (Paid::Cpu, "730 h x $0.04048"),
            (Paid::Memory, "730 h x $0.004445"),
        ] {
            assert!(section.contains(in_words), "{in_words}");
            let usd: f64 = in_words.split('$').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert_eq!(Prices::of(None, None).unwrap().usd(paid), usd, "{paid:?}");
        }
        assert!(section.contains("November 2025") && AS_OF == "2025-11");
    }

    #[test]
    fn a_file_replaces_prices_and_another_region_needs_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let of = |region: Option<&str>, text: &str| {
            std::fs::write(&path, text).unwrap();
            Prices::of(region, Some(&path)).map_err(|error| error.to_string())
        };
        let some = of(None, "write_million = 0.7\nstorage_gb_month = 1\n").unwrap();
        assert_eq!([Paid::Write, Paid::Storage, Paid::Read].map(|paid| some.usd(paid)), [0.7, 1.0, 0.125]);
        assert!(some.of.contains("but for those in"), "{}", some.of);
        let refused = of(Some("eu-west-1"), "write_million = 0.7\n").unwrap_err();
        assert!(refused.contains("not those of eu-west-1; give read_million, storage_gb_month"), "{refused}");
        let all: String = TABLE.iter().map(|(_, name, _)| format!("{name} = 2\n")).collect();
        assert!(of(Some("eu-west-1"), &all).unwrap().of.starts_with("prices of eu-west-1, from "));
        for (text, why) in [
            ("writes = 1", "has `writes`, and prices are called write_million, "),
            ("write_million = -1", "gives `write_million` otherwise than as a number"),
            ("write_million = nan", "gives `write_million` otherwise than as a number"),
            ("write_million = \"1\"", "gives `write_million` otherwise than as a number"),
            ("write_million", "is not TOML"),
        ] {
            let refused = of(None, text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(
            Prices::of(None, Some(&folder.path().join("none")))
                .unwrap_err()
                .to_string()
                .contains("cannot be read")
        );
    }
}
