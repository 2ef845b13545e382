//! Manifest of an export: its content, with counts and digests. It is written last, so a folder without one is no export.

use event::{Error, Id, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use table::Item;

/// The version of exports.
pub(super) const VERSION: u32 = 1;

/// Name of the manifest in the folder of an export.
pub(super) const NAME: &str = "manifest.json";

/// Manifest of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Version of the format.
    pub(super) version: u32,
    /// The SHA-256 of the manifest of the export that this one goes on from, whose files may be of keys that are gone; a whole one
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
    /// Exported workspace; `None` for the whole table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workspace: Option<Named>,
    /// Instant of the export.
    pub(super) at: String,
    /// Engine of the table.
    pub(super) engine: String,
    /// Number of items in the table or workspace, including those in the bases of this export.
    pub(super) items: u64,
    /// Number of segments among them.
    pub(super) segments: u64,
    /// Number of events in the segments.
    pub(super) events: u64,
    /// Items that never expire.
    pub(super) lasting: Sum,
    /// Files, in the order of their restore.
    pub(super) files: Vec<FileOf>,
}

/// Exported workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// Id of the workspace.
    pub(super) id: String,
    /// `category/name`.
    pub(super) path: String,
    /// Layout of its items, as a whole.
    pub(super) layout: u32,
}

/// File of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileOf {
    /// Name in the folder.
    pub(super) name: String,
    /// Number of items, one on a line.
    pub(super) items: u64,
    /// Number of bytes.
    pub(super) bytes: u64,
    /// SHA-256 of the bytes.
    pub(super) sha256: String,
}

impl Manifest {
    /// Id of the exported workspace; `None` for the whole table.
    ///
    /// # Errors
    /// `Invalid`, when the text is no id.
    pub(super) fn of_workspace(&self) -> Result<Option<Id>> {
        self.workspace.as_ref().map(|named| Id::parse(&named.id)).transpose()
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// `Invalid`, when it is no manifest, or has an unknown version.
    pub(super) fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let wrong = |error| Error::invalid(format!("{NAME} is not that of an export")).because(error);
        let found: Versioned = serde_json::from_str(text).map_err(wrong)?;
        if found.version != VERSION {
            return Err(Error::invalid(format!(
                "this is an export of version {}, this Almanac reads version {VERSION}; use the one that wrote it, or a newer one",
                found.version
            )));
        }
        let manifest: Self = serde_json::from_str(text).map_err(wrong)?;
        // Names come from a file that anyone may have written: none leads out of the folder.
        match manifest.files.iter().find(|file| !super::files::is_ours(&file.name)) {
            Some(file) => {
                Err(Error::invalid(format!("{NAME} names {:?}, which is no file of an export", file.name)))
            }
            None => Ok(manifest),
        }
    }

    /// Text of the manifest.
    ///
    /// # Errors
    /// None in practice.
    pub(super) fn text(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n")
            .map_err(|error| Error::unavailable("the manifest has no text").because(error))
    }
}

/// Number and digest of items. The digest does not depend on their order: it is the sum of the SHA-256 of their lines, as numbers
/// of 256 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sum {
    /// Number of items.
    pub(super) items: u64,
    /// Digest, in hexadecimal.
    #[serde(with = "hexadecimal")]
    pub(super) digest: [u8; 32],
}

impl Sum {
    /// Counts an item with its line, unless it expires: it may be gone at the next read.
    pub(super) fn add(&mut self, item: &Item, line: &str) {
        if item.attributes.contains_key("expires_at") {
            return;
        }
        self.items += 1;
        let mut carried = 0;
        for (sum, byte) in self.digest.iter_mut().zip(Sha256::digest(line)) {
            let total = u16::from(*sum) + u16::from(byte) + carried;
            *sum = (total & 0xff) as u8;
            carried = total >> 8;
        }
    }
}

/// Formats bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::hex(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let mut bytes = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|letter| letter.is_ascii_hexdigit());
        for (at, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(D::Error::custom)?;
        }
        if is_hex { Ok(bytes) } else { Err(D::Error::custom("a digest has 64 hexadecimal digits")) }
    }
}

#[cfg(test)]
mod tests {
    use table::{Key, text};

    use super::*;

    fn sum(items: &[Item]) -> Sum {
        let mut sum = Sum::default();
        items.iter().for_each(|item| sum.add(item, &text::line(item).unwrap()));
        sum
    }

    /// Exports are kept, so this text is read for ever.
    #[test]
    fn golden_text() {
        let items = [Item::new(Key::new("p", "1")).with("n", 1), Item::new(Key::new("p", "2"))];
        let manifest = Manifest {
            version: VERSION,
            base: None,
            workspace: None,
            at: "2026-06-01T04:30:00Z".into(),
            engine: "sqlite".into(),
            items: 2,
            segments: 0,
            events: 0,
            lasting: sum(&items),
            files: vec![FileOf {
                name: "items-00001.ndjson.zst".into(),
                items: 2,
                bytes: 90,
                sha256: hex(&[7; 32]),
            }],
        };
        insta::assert_snapshot!(manifest.text().unwrap(), @r#"
        {
          "version": 1,
          "at": "2026-06-01T04:30:00Z",
          "engine": "sqlite",
          "items": 2,
          "segments": 0,
          "events": 0,
          "lasting": {
            "items": 2,
            "digest": "12a83fbf663b045b97bb498ef6000fec5395d9f094bfda8cc908458374cfa7b2"
          },
          "files": [
            {
              "name": "items-00001.ndjson.zst",
              "items": 2,
              "bytes": 90,
              "sha256": "0707070707070707070707070707070707070707070707070707070707070707"
            }
          ]
        }
        "#);
        assert_eq!(Manifest::parse(&manifest.text().unwrap()).unwrap(), manifest);
        let newer = manifest.text().unwrap().replace("\"version\": 1", "\"version\": 2");
        assert!(Manifest::parse(&newer).unwrap_err().to_string().contains("an export of version 2"));
        let changes = Manifest { base: Some(hex(&[9; 32])), files: vec![], ..manifest.clone() };
        insta::assert_snapshot!("changes", changes.text().unwrap());
        assert_eq!(Manifest::parse(&changes.text().unwrap()).unwrap(), changes);
        let named = Named { id: "2NBs0sLBnJxEcoDLgVnQdJkhEgV".into(), path: "flights/nyc".into(), layout: 2 };
        let of_one = Manifest { workspace: Some(named), ..changes.clone() };
        insta::assert_snapshot!("of_one", of_one.text().unwrap());
        for one in [of_one.clone(), Manifest { base: None, ..of_one }] {
            assert_eq!(Manifest::parse(&one.text().unwrap()).unwrap(), one);
        }
        let out = manifest.text().unwrap().replace("items-00001", "../items-00001");
        assert!(Manifest::parse(&out).is_err());
    }

    #[test]
    fn checksum_ignores_order_and_expiring_items() {
        let item = |name: &str| Item::new(Key::new("p", name)).with("n", 1);
        let [a, b] = [item("a"), item("b")];
        assert_eq!(sum(&[a.clone(), b.clone()]), sum(&[b.clone(), a.clone()]));
        assert_ne!(sum(&[a.clone(), b.clone()]), sum(&[a.clone(), a.clone()]));
        assert_ne!(sum(std::slice::from_ref(&a)), sum(&[a.clone().with("n", 2)]));
        assert_eq!(sum(&[a.clone(), b.with("expires_at", 1)]), sum(&[a]));
    }
}
