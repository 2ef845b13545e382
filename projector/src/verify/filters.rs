//! Verification of filters of keys: each must match the keys of the segments that it covers.

use event::Result;
use log::key_filter::{self, At, KINDS};

use super::DayCheck;
use crate::key_filters::filter_of;

impl DayCheck<'_> {
    /// Verifies the filters of a day that has its events.
    pub(super) async fn filters(&mut self) -> Result<()> {
        for kind in KINDS {
            let at = At { workspace: &self.day.workspace, version: self.version, day: self.day.day, kind };
            let Some(head) = key_filter::head(self.table, at).await? else { continue };
            self.report.filters += 1;
            // Without readable keys there are no parts, and every query reads the day.
            if head.parts == 0 {
                continue;
            }
            let (fresh, parts) = filter_of(self.table, at, &head.applied, head.parts, head.made_at).await?;
            let fresh = key_filter::Head {
                ver: head.ver,
                parts: parts.len() as u32,
                digest: key_filter::digest(&parts),
                ..fresh
            };
            let mut is_same = fresh == head;
            for (number, part) in (0..).zip(&parts) {
                is_same =
                    is_same && key_filter::part(self.table, at, &head, number).await?.as_ref() == Some(part);
            }
            if !is_same {
                self.fault(format_args!("the filter of the keys of its {kind} is not that of its segments"));
            }
        }
        Ok(())
    }
}
