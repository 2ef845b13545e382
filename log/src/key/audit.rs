//! Keys of the audit logs.

use std::{fmt, str::FromStr};

use event::{Error, Id, Result};
use table::{Key, KeyRange};

use super::MAX_SEQ;

/// Audit log: the ordered list of changes with their authors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuditLog {
    /// Audit log of the server: objects of no workspace, and the creation and deletion of workspaces.
    Server,
    /// Audit log of a workspace.
    Workspace(Id),
}

/// Partition of the audit log of the server.
const SERVER: &str = "sys/audit";

impl AuditLog {
    fn partition(&self) -> String {
        match self {
            Self::Server => SERVER.to_owned(),
            Self::Workspace(id) => format!("w#{id}/audit"),
        }
    }
}

/// Writes it as people see it: `server`, or the id of the workspace.
impl fmt::Display for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("server"),
            Self::Workspace(id) => write!(f, "w_{id}"),
        }
    }
}

impl FromStr for AuditLog {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = |text: &str| Id::parse(text.strip_prefix("w_")?).ok();
        match text {
            "server" => Ok(Self::Server),
            _ => id(text)
                .map(Self::Workspace)
                .ok_or_else(|| Error::invalid(format!("`{text}` is no audit log"))),
        }
    }
}

/// Record `seq` of an audit log; the first is 1.
pub fn audit_record(audit_log: &AuditLog, seq: u64) -> Key {
    Key::new(audit_log.partition(), format!("{seq:010}"))
}

/// Records of an audit log from `first` on.
pub fn audit_records(audit_log: &AuditLog, first: u64) -> KeyRange {
    KeyRange {
        pk: audit_log.partition(),
        from: audit_record(audit_log, first).sk,
        to: audit_record(audit_log, MAX_SEQ).sk,
    }
}

/// Parses the audit log and the number from a record's key. `None`, when the key is not one of a record.
pub fn parse_audit_record(key: &Key) -> Option<(AuditLog, u64)> {
    let audit_log = match key.pk.as_str() {
        SERVER => AuditLog::Server,
        pk => AuditLog::Workspace(Id::parse(pk.strip_prefix("w#")?.strip_suffix("/audit")?).ok()?),
    };
    let seq = key.sk.parse().ok().filter(|seq| *seq <= MAX_SEQ)?;
    (audit_record(&audit_log, seq) == *key).then_some((audit_log, seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let audit_log = AuditLog::Workspace(w.clone());
        assert_eq!(audit_record(&audit_log, 42).to_string(), format!("w#{w}/audit / 0000000042"));
        assert_eq!(audit_record(&AuditLog::Server, 1).to_string(), "sys/audit / 0000000001");
        for audit_log in [audit_log, AuditLog::Server] {
            let key = audit_record(&audit_log, MAX_SEQ);
            assert_eq!(parse_audit_record(&key), Some((audit_log.clone(), MAX_SEQ)));
            let range = audit_records(&audit_log, 2);
            assert!(range.pk == key.pk && range.from > audit_record(&audit_log, 1).sk && range.to >= key.sk);
        }
        for sk in ["1", "00000000001", "+000000001", ""] {
            assert_eq!(parse_audit_record(&Key::new("sys/audit", sk)), None, "{sk}");
        }
        assert_eq!(parse_audit_record(&Key::new(format!("w#{w}"), "0000000001")), None);
    }
}
