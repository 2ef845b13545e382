//! Where a fold has the events of a log from: the table, or what ingest handed over in this process.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use event::{Columns, Kind, Result, lane::Place};
use log::{
    erased,
    handover::{Handed, Handover},
    key::LogId,
    scan,
    segment_item::Segment,
};
use table::Table;

use crate::WorkspaceDay;

/// Reads logs.
pub(crate) struct Events<'a> {
    table: &'a dyn Table,
    /// What may be taken, and how many keys are erased in the workspace.
    handed: Option<(&'a Handover, u64)>,
}

/// A segment that is to be folded.
pub(crate) enum Found {
    /// It was read.
    Stored(Box<Segment>),
    /// It was handed over.
    Handed(Kind, Arc<Handed>),
}

/// Segments of a log, one after the other.
pub(crate) struct Run {
    /// In their order, without holes.
    pub(crate) segments: Vec<Found>,
    /// Whether there may be more behind them, within what was asked for.
    pub(crate) has_more: bool,
}

impl<'a> Events<'a> {
    /// Of the table alone.
    pub(crate) fn stored(table: &'a dyn Table) -> Self {
        Self { table, handed: None }
    }

    /// Of what was handed over, where some of these logs of a day was, and of the table otherwise. To be called after it is known into which version of the
    /// projections is folded: what is found has no key that was erased before that.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub(crate) async fn handed(
        table: &'a dyn Table,
        handover: &'a Handover,
        day: &WorkspaceDay,
        logs: &BTreeSet<LogId>,
    ) -> Result<Self> {
        let handed = match logs.iter().any(|log| handover.has(log)) {
            true => Some((handover, erased::count(table, &day.workspace).await?)),
            false => None,
        };
        Ok(Self { table, handed })
    }

    /// The table.
    pub(crate) fn table(&self) -> &dyn Table {
        self.table
    }

    /// What there is of a log from `first` on, up to `last` at most, as [`scan::grown`] says it.
    ///
    /// # Errors
    /// Those of [`scan::grown`].
    pub(crate) async fn grown(&self, log: &LogId, first: u64, last: u64) -> Result<Run> {
        if let Some((handover, erased)) = self.handed {
            let taken = handover.take(log, (first, last), erased);
            if !taken.is_empty() {
                let has_more = first + (taken.len() as u64) <= last;
                let found = |handed| Found::Handed(log.kind, handed);
                return Ok(Run { segments: taken.into_iter().map(found).collect(), has_more });
            }
        }
        let segments = scan::grown(self.table, log, first, last).await?;
        if let Some((handover, _)) = self.handed {
            handover.missed(segments.len());
        }
        let has_more = segments.len() as u64 == (last + 1).saturating_sub(first);
        Ok(Run { segments: segments.into_iter().map(Box::new).map(Found::Stored).collect(), has_more })
    }
}

impl Found {
    /// Its place among the segments of its day and kind.
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Stored(segment) => segment.place(),
            Self::Handed(_, handed) => handed.place,
        }
    }

    /// The kind of its events.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Stored(segment) => segment.log.kind,
            Self::Handed(kind, _) => *kind,
        }
    }

    /// How many events it has.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Stored(segment) => segment.rows,
            Self::Handed(_, handed) => handed.columns.rows,
        }
    }

    /// How many of its events had keys that were erased. What is handed over has none.
    pub(crate) fn erased(&self) -> u64 {
        match self {
            Self::Stored(segment) => segment.erased,
            Self::Handed(..) => 0,
        }
    }

    /// How many bytes are unpacked to fold it.
    pub(crate) fn packed_bytes(&self) -> usize {
        match self {
            Self::Stored(segment) => segment.data.len(),
            Self::Handed(..) => 0,
        }
    }

    /// Its columns, at least those that are wanted; `wanted` is asked about each. Folds look at no other.
    ///
    /// # Errors
    /// Those of [`Segment::unpack`].
    pub(crate) fn columns(&self, wanted: impl Fn(&str) -> bool) -> Result<Cow<'_, Columns>> {
        match self {
            Self::Stored(segment) => segment.unpack(wanted).map(Cow::Owned),
            Self::Handed(_, handed) => {
                handed.columns.columns.iter().for_each(|column| _ = wanted(&column.name));
                Ok(Cow::Borrowed(&*handed.columns))
            }
        }
    }
}
