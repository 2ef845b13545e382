//! Keys of the audit trails.

use std::{fmt, str::FromStr};

use event::{Error, Id, Result};
use table::{Key, KeyRange};

use super::MAX_SEQ;

/// Audit trail: the ordered list of changes with their authors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trail {
    /// Trail of the server: objects of no workspace, and the creation and deletion of workspaces.
    Server,
    /// Trail of a workspace.
    Workspace(Id),
}

/// Partition of the trail of the server.
const SERVER: &str = "sys/audit";

impl Trail {
    fn partition(&self) -> String {
        match self {
            Self::Server => SERVER.to_owned(),
            Self::Workspace(id) => format!("w#{id}/audit"),
        }
    }
}

/// Writes it as people see it: `server`, or the id of the workspace.
impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("server"),
            Self::Workspace(id) => write!(f, "w_{id}"),
        }
    }
}

impl FromStr for Trail {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = |text: &str| Id::parse(text.strip_prefix("w_")?).ok();
        match text {
            "server" => Ok(Self::Server),
            _ => id(text)
                .map(Self::Workspace)
                .ok_or_else(|| Error::invalid(format!("`{text}` is no audit trail"))),
        }
    }
}

/// Record `seq` of a trail; the first is 1.
pub fn audit_record(trail: &Trail, seq: u64) -> Key {
    Key::new(trail.partition(), format!("{seq:010}"))
}

/// Records of a trail from `first` on.
pub fn audit_records(trail: &Trail, first: u64) -> KeyRange {
    KeyRange {
        pk: trail.partition(),
        from: audit_record(trail, first).sk,
        to: audit_record(trail, MAX_SEQ).sk,
    }
}

/// Parses the trail and the number from a record's key. `None`, when the key is not one of a record.
pub fn parse_audit_record(key: &Key) -> Option<(Trail, u64)> {
    let trail = match key.pk.as_str() {
        SERVER => Trail::Server,
        pk => Trail::Workspace(Id::parse(pk.strip_prefix("w#")?.strip_suffix("/audit")?).ok()?),
    };
    let seq = key.sk.parse().ok().filter(|seq| *seq <= MAX_SEQ)?;
    (audit_record(&trail, seq) == *key).then_some((trail, seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let trail = Trail::Workspace(w.clone());
        assert_eq!(audit_record(&trail, 42).to_string(), format!("w#{w}/audit / 0000000042"));
        assert_eq!(audit_record(&Trail::Server, 1).to_string(), "sys/audit / 0000000001");
        for trail in [trail, Trail::Server] {
            let key = audit_record(&trail, MAX_SEQ);
            assert_eq!(parse_audit_record(&key), Some((trail.clone(), MAX_SEQ)));
            let range = audit_records(&trail, 2);
            assert!(range.pk == key.pk && range.from > audit_record(&trail, 1).sk && range.to >= key.sk);
        }
        for sk in ["1", "00000000001", "+000000001", ""] {
            assert_eq!(parse_audit_record(&Key::new("sys/audit", sk)), None, "{sk}");
        }
        assert_eq!(parse_audit_record(&Key::new(format!("w#{w}"), "0000000001")), None);
    }
}
