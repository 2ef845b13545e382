//! Faults of rows: collected in any order, reported in the order of the rows.

use event::RowProblem;

use super::row::FieldError;

/// Maximum messages that an import keeps for a row.
const MAX_ROW_MESSAGES: usize = 16;

/// One fault.
#[derive(Clone, Debug)]
struct Note {
    row: u64,
    stage: usize,
    error: FieldError,
}

/// Number of notes that one source may still keep. A source notes its rows in their order, so the dropped ones come after all
/// that are listed anyway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    /// Budget for no further note.
    pub(crate) fn spent() -> Self {
        Self(0)
    }
}

/// Faults of rows.
#[derive(Clone, Debug)]
pub(crate) struct RowErrors {
    /// Maximum number that an answer lists; `None` when all bad rows are returned.
    listed: Option<usize>,
    notes: Vec<Note>,
    /// True for each bad row of the builder.
    bad: Vec<bool>,
    /// Number of rows that never came into the builder.
    unread: usize,
}

impl RowErrors {
    pub(crate) fn new(listed: Option<usize>) -> Self {
        Self { listed, notes: Vec::new(), bad: Vec::new(), unread: 0 }
    }

    /// Budget of a source.
    pub(crate) fn budget(&self) -> Budget {
        Budget(self.listed.unwrap_or(usize::MAX))
    }

    /// Records a fault of row `at` of the builder, which has the number `row` in the request.
    pub(crate) fn note(
        &mut self,
        budget: &mut Budget,
        (at, row): (usize, u64),
        stage: usize,
        error: impl FnOnce() -> FieldError,
    ) {
        self.mark(at);
        self.list_only(budget, row, stage, error);
    }

    /// Marks row `at` of the builder as bad.
    pub(crate) fn mark(&mut self, at: usize) {
        if self.bad.len() <= at {
            self.bad.resize(at + 1, false);
        }
        self.bad[at] = true;
    }

    /// Records a row that never came into the builder.
    pub(crate) fn note_unread(&mut self, budget: &mut Budget, row: u64, error: FieldError) {
        self.unread += 1;
        self.list_only(budget, row, 0, || error);
    }

    /// Records a fault of a row that will be marked as bad separately.
    pub(crate) fn list_only(
        &mut self,
        budget: &mut Budget,
        row: u64,
        stage: usize,
        error: impl FnOnce() -> FieldError,
    ) {
        if budget.0 > 0 {
            budget.0 -= 1;
            self.notes.push(Note { row, stage, error: error() });
        }
    }

    /// Returns whether row `at` of the builder is bad.
    #[inline]
    pub(crate) fn is_bad(&self, at: usize) -> bool {
        self.bad.get(at).is_some_and(|bad| *bad)
    }

    /// Number of bad rows.
    pub(crate) fn count(&self) -> usize {
        self.unread + self.bad.iter().filter(|bad| **bad).count()
    }

    /// Number of rows that never came into the builder.
    pub(crate) fn count_unread(&self) -> usize {
        self.unread
    }

    /// Returns whether any row of the builder is bad.
    pub(crate) fn any_in_draft(&self) -> bool {
        self.bad.contains(&true)
    }

    /// Lists the faults, in the order of the rows and of the fields in each row.
    pub(crate) fn list(mut self) -> Vec<RowProblem> {
        self.notes.sort_by_key(|note| (note.row, note.stage));
        let listed = self.listed.unwrap_or(usize::MAX);
        let problem =
            |note: Note| RowProblem { row: note.row, field: note.error.field, message: note.error.message };
        self.notes.into_iter().take(listed).map(problem).collect()
    }

    /// Lists the bad rows, each with its faults, at most [`MAX_ROW_MESSAGES`] messages.
    pub(crate) fn rows(self) -> Vec<(u64, Vec<RowProblem>)> {
        let mut rows: Vec<(u64, Vec<RowProblem>)> = Vec::new();
        for problem in self.list() {
            match rows.last_mut() {
                Some((row, problems)) if *row == problem.row => {
                    if problems.len() < MAX_ROW_MESSAGES {
                        problems.push(problem);
                    }
                }
                _ => rows.push((problem.row, vec![problem])),
            }
        }
        rows
    }
}
